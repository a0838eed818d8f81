"""The relay under test: one `outrider run` process with a configuration of its own.

The binary is build/release/src/app/outrider or what OUTRIDER_BIN names. The configuration is
written as JSON, which is YAML too. Standard error goes to a file that the tests may search.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

from support import cleanup

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

EXIT_OK = 0
EXIT_USAGE = 64
EXIT_POISON = 65
EXIT_FATAL = 69
EXIT_DUPLICATES_POSSIBLE = 75
EXIT_CONFIGURATION = 78


def binary():
    """Path of the outrider binary; the newest preset that was built, unless OUTRIDER_BIN says."""
    override = os.environ.get("OUTRIDER_BIN")
    if override:
        return override
    for preset in ("ci", "test", "release", "debug"):
        path = os.path.join(ROOT, "build", preset, "src", "app", "outrider")
        if os.access(path, os.X_OK):
            return path
    raise RuntimeError("no outrider binary: run ./dev build first")


def pipeline(dsn, bootstrap_servers, *, name="test", slot="outrider", plugin="auto", topic=None,
             tables=("public.outbox",), source=None, route=None, kafka=None, outbox=None,
             limits=None):
    """A pipeline as the configuration wants it, with everything created on request.

    The dicts at the end are laid over the defaults, key by key. Clusters that come and go share a
    broker: under the default slot name each has a position topic of its own, or the next one would
    rightly be refused as another cluster.
    """
    port = re.search(r"port=(\d+)", dsn)
    own = {"delivery": {"position_topic": f"outrider.positions.{port.group(1)}"}} if port else {}
    return {
        "name": name,
        "source": {"dsn": dsn, "slot": slot, "create_slot": True, "publication": slot,
                   "create_publication": True, "plugin": plugin, **(source or {})},
        "outbox": {"tables": list(tables), **(outbox or {})},
        "route": {**({"topic": topic} if topic else {}), **(route or {})},
        "kafka": {"bootstrap_servers": bootstrap_servers,
                  "topics": {"create": True, "partitions": 6, "replication_factor": 1},
                  **(kafka or {})},
        **({"limits": limits} if limits else {}),
        **(own if slot == "outrider" else {}),
    }


def environment():
    """Ours without the OUTRIDER_ variables of the tests: the relay reads each as an option."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("OUTRIDER_")}


class Relay:
    """Owns the process and its files. start() may be called again after any end."""

    def __init__(self, *pipelines, log_level="info", log_format="text", config=None, env=None,
                 arguments=()):
        self.directory = cleanup.temporary_directory("outrider-relay-")
        self.config_path = os.path.join(self.directory, "outrider.yaml")
        self.log_path = os.path.join(self.directory, "relay.log")
        self.http_port = cleanup.free_port()
        self._env = env or {}
        self._arguments = list(arguments)
        self._process = None
        self._cpu_seconds = 0.0
        self._cancel_cleanup = cleanup.at_exit(self._destroy)
        self.config = {
            "version": 1,
            "log": {"level": log_level, "format": log_format},
            "http": {"listen": f"127.0.0.1:{self.http_port}"},
            "pipelines": list(pipelines),
            **(config or {}),
        }
        self.write_config()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    def write_config(self):
        with open(self.config_path, "w", encoding="utf-8") as out:
            json.dump(self.config, out, indent=2)

    # Life of the process ----------------------------------------------------------------------

    def start(self, wait_ready=True, timeout_s=30):
        if self.running():
            raise RuntimeError("the relay runs already")
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                [binary(), "run", "-c", self.config_path, *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                start_new_session=True, env={**environment(), **self._env},
                preexec_fn=cleanup.child_setup())
        if wait_ready:
            self.wait_ready(timeout_s)
        return self

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process is not None and self._process.poll() is None

    def exit_code(self):
        """Exit code of the last process, or None while it runs; negative after a signal."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout_s=30):
        """Wait for the process to end by itself; returns the exit code."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the relay still runs after {timeout_s} s\n"
                               + self._log_end()) from None

    def stop(self, number=signal.SIGTERM, timeout_s=40):
        """Ask for a clean stop and return the exit code; killed and TimeoutError past the limit."""
        if not self.running():
            return self.exit_code()
        self._note_cpu()
        self._process.send_signal(number)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the relay did not stop within {timeout_s} s\n"
                               + self._log_end()) from None

    def kill(self):
        """SIGKILL."""
        if self.running():
            self._note_cpu()
            self._process.kill()
            self._process.wait(20)

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def close(self):
        self._destroy()
        self._cancel_cleanup()

    # Looking at it ----------------------------------------------------------------------------

    def get(self, path, timeout_s=2):
        """(status, body) of a GET; (0, reason) when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}",
                                        timeout=timeout_s) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def ready(self):
        return self.get("/readyz")[0] == 200

    def wait_ready(self, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        while not self.ready():
            if not self.running():
                raise RuntimeError(f"the relay ended with {self.exit_code()}\n" + self._log_end())
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {timeout_s} s: {self.get('/readyz')}\n"
                                   + self._log_end())
            time.sleep(0.03)

    def metrics(self):
        """{sample name with labels as printed: value} of /metrics."""
        status, body = self.get("/metrics")
        if status != 200:
            raise RuntimeError(f"/metrics answered {status}: {body[:200]}")
        result = {}
        for line in body.splitlines():
            if line and not line.startswith("#"):
                name, _space, value = line.rpartition(" ")
                result[name] = float(value)
        return result

    def metric(self, name):
        """Sum of a metric over all its label sets; 0 when there is none."""
        return sum(value for sample, value in self.metrics().items()
                   if sample == name or sample.startswith(name + "{"))

    def role(self):
        """active, standby or none."""
        (role,) = [re.search(r'role="(\w+)"', sample).group(1)
                   for sample, value in self.metrics().items()
                   if sample.startswith("outbox_role{") and value == 1]
        return role

    def rss_kb(self):
        """(resident now, peak) in KiB."""
        return self._status("VmRSS"), self._status("VmHWM")

    def reset_peak(self):
        """Begin a new peak at the present size."""
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as out:
            out.write("5")

    def cpu_seconds(self):
        """User and system time of all processes this relay has had."""
        self._note_cpu()
        return self._cpu_seconds

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for_log(self, text, timeout_s=30, after=0):
        """Wait for text in the log beyond character `after`; returns the log's length then."""
        def found():
            log = self.log_text()
            return len(log) if text in log[after:] else 0

        try:
            return cleanup.wait_until(found, timeout_s, f"{text!r} in the relay's log")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self._log_end()}") from None

    # Inside -----------------------------------------------------------------------------------

    def _status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith(name + ":"):
                    return int(line.split()[1])
        return 0

    def _note_cpu(self):
        """Add what the present process has used since the last look."""
        if not self.running():
            return
        with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        seen_pid, seen = getattr(self, "_cpu_seen", (None, 0.0))
        self._cpu_seconds += used - (seen if seen_pid == self.pid else 0.0)
        self._cpu_seen = (self.pid, used)

    def _log_end(self):
        return "--- end of the relay's log\n" + self.log_text()[-3000:]

    def _destroy(self):
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(20)
        shutil.rmtree(self.directory, ignore_errors=True)


def check_config(text_or_dict, *arguments):
    """Run `outrider check-config` on a configuration; returns the CompletedProcess."""
    directory = cleanup.temporary_directory("outrider-config-")
    path = os.path.join(directory, "outrider.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text_or_dict if isinstance(text_or_dict, str) else json.dumps(text_or_dict))
    try:
        return subprocess.run([binary(), "check-config", "-c", path, *arguments],
                              capture_output=True, text=True, timeout=30, check=False,
                              env=environment())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
