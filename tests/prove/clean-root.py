"""1: a clean Debian 12 root with git and bash only: ./dev demo within 4 minutes, again within 20 s.

Makes the root with debootstrap in a throw-away directory (so it needs root rights and the package
mirror of this machine), clones the repository into it, and runs the demo twice and ./dev test once.
Without them, and in the short form, only this machine's second run of the demo is measured.
OUTRIDER_CLEAN_ROOT_BASE may name a directory with a root made before, which is copied instead;
OUTRIDER_CLEAN_ROOT_DEMO_ONLY=1 leaves ./dev test out.
"""

import os
import resource
import subprocess
import time

from prove.common import say
from support import clean_root, cleanup
from support.relay import ROOT

FIRST_RUN_S_MAX = 240
SECOND_RUN_S_MAX = 20
FIRST_LINE_S_MAX = 1.0
TESTS_S_MAX = 5_400


def prove(short):
    if short or not clean_root.possible():
        if not short:
            say("no clean root without root rights and debootstrap: measuring this machine only")
        _timed("second run here", [os.path.join(ROOT, "dev"), "demo"], SECOND_RUN_S_MAX,
               warm_up=True)
        return
    root = _make_root()
    inside = ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
              "HOME=/tmp", "bash", "/src/dev"]
    _timed("demo, first run", inside + ["demo"], FIRST_RUN_S_MAX)
    _timed("demo, second run", inside + ["demo"], SECOND_RUN_S_MAX)
    if os.environ.get("OUTRIDER_CLEAN_ROOT_DEMO_ONLY") != "1":
        _timed("all tests", inside + ["test"], TESTS_S_MAX)


def _make_root():
    root = clean_root.make(include=("git", "ca-certificates"))
    clean_root.clone_into(root)
    commit = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%h %s"], check=True,
                            capture_output=True, text=True).stdout.strip()
    say(f"commit {commit}; changes that are not committed do not count")
    return root


def _cpu_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _timed(title, command, limit_s, warm_up=False):
    if warm_up:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    began = time.monotonic()
    cpu_before = _cpu_s()
    first_line = None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          preexec_fn=cleanup.child_setup()) as process:
        tail = []
        for line in process.stdout:
            if first_line is None:
                first_line = time.monotonic() - began
            tail = (tail + [line.rstrip()])[-30:]
            if line.startswith("==") or "== " in line[:12]:
                say(f"… {time.monotonic() - began:5.0f} s {line.strip()}")
    took = time.monotonic() - began
    assert process.returncode == 0, f"{title} ended with {process.returncode}\n" + "\n".join(tail)
    # On a machine that others use too, the time alone says little.
    say(f"{title}: {took:.1f} s (CPU {_cpu_s() - cpu_before:.0f} s, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}), first line after {first_line:.2f} s; last line: {tail[-1]}")
    assert first_line <= FIRST_LINE_S_MAX, f"{title}: first line after {first_line:.2f} s"
    assert took <= limit_s, f"{title}: {took:.0f} s, at most {limit_s}"
