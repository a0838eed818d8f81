"""What must not be left behind: processes and directories are ended and removed at exit.

Works on return, exception, Ctrl-C, SIGTERM and SIGHUP. A SIGKILL of Python cannot be caught; for
that case children carry a parent-death signal (see child_setup).
"""

import atexit
import ctypes
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_given_ports = set()
_callbacks = []


def at_exit(callback):
    """Run callback at exit, last registered first, each at most once; returns a cancel function."""
    _callbacks.append(callback)

    def cancel():
        if callback in _callbacks:
            _callbacks.remove(callback)

    return cancel


def _run_callbacks():
    # A second Ctrl-C must not leave half of the servers running.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while _callbacks:
        callback = _callbacks.pop()
        try:
            callback()
        except Exception as error:  # The others must still run.
            print(f"cleanup: {error}", file=sys.stderr)


def _on_signal(number, _frame):
    # Not SystemExit: pytest takes that for a failed test and goes on with the next one.
    raise KeyboardInterrupt(f"signal {number}")


atexit.register(_run_callbacks)
if threading.current_thread() is threading.main_thread():
    for _number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(_number) in (signal.SIG_DFL, None):
            signal.signal(_number, _on_signal)


def child_setup(death_signal=signal.SIGKILL):
    """A preexec_fn that ends the child when Python dies, or None outside the main thread.

    The kernel watches the thread that forked, so a child started by a short-lived thread would be
    ended with that thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    return lambda: _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


def temporary_directory(prefix, owner=None):
    """Make a directory, owned by (uid, gid) when given, that is removed at exit."""
    path = tempfile.mkdtemp(prefix=prefix)
    if owner is not None:
        os.chown(path, *owner)
    at_exit(lambda: shutil.rmtree(path, ignore_errors=True))
    return path


def free_port():
    """A loopback TCP port nobody listens on; never the same twice in one process."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in _given_ports:
            _given_ports.add(port)
            return port


def wait_until(condition, timeout_s, what, interval_s=0.05):
    """Call condition until it returns something true, and return that; TimeoutError after."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout_s} s for {what}")
        time.sleep(interval_s)
