"""The relay under test: Outrider, or any other program that a command line starts.

A relay has start, kill, freeze, thaw, stop, is_up, pid and exit_code. Each owns a directory and one
process (or process group) at a time. The audit is also its supervisor: it starts again what ended.
"""

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess

from audit.plan import EXACTLY_ONCE
from support import cleanup
from support.relay import Relay, pipeline

# How the audit shortens what a production default would wait for: a run has to see many faults.
_SOURCE = {"reconnect_first_ms": 20, "reconnect_max_ms": 500, "silence_probe_ms": 1_000,
           "wal_sender_timeout_ms": 3_000}


@dataclasses.dataclass
class RelaySettings:
    """What a relay must do: carry rows of table to topic_prefix + event_type, keyed, with their id.

    The record's key is aggregate_id, its value the payload, its header `id` the row's id.
    """

    dsn: str
    slot: str
    publication: str
    table: str
    bootstrap_servers: str
    topic_prefix: str
    topics: list
    plugin: str
    guarantee: str

    def placeholders(self):
        return {**dataclasses.asdict(self), "topics": ",".join(self.topics)}


class OutriderRelay:
    """`outrider run` of the binary that OUTRIDER_BIN names."""

    def __init__(self, settings):
        extra = {}
        if settings.guarantee == EXACTLY_ONCE:
            extra["delivery"] = {"guarantee": EXACTLY_ONCE}
        one = pipeline(settings.dsn, settings.bootstrap_servers, name="audit", slot=settings.slot,
                       plugin=settings.plugin, tables=[settings.table], source=_SOURCE,
                       route={"replacement": settings.topic_prefix + "${routedByValue}"})
        self._relay = Relay({**one, **extra})

    def start(self):
        self._relay.start(wait_ready=False)

    def kill(self):
        self._relay.kill()

    def freeze(self):
        self._relay.freeze()

    def thaw(self):
        self._relay.thaw()

    def stop(self, timeout_s=60):
        return self._relay.stop(timeout_s=timeout_s)

    def is_up(self):
        return self._relay.running()

    def exit_code(self):
        return self._relay.exit_code()

    def peak_kb(self):
        return _peak_kb([self._relay.pid]) if self._relay.running() else 0

    def log_end(self):
        return self._relay.log_text()[-3000:]

    def close(self):
        self._relay.close()


class CommandRelay:
    """Another relay: a command line with placeholders, in a process group of its own.

    {config} is a JSON file with all settings; each setting is a placeholder too ({dsn}, {slot},
    {bootstrap_servers}, {topic_prefix}, …). SIGTERM must end it, exit code 0 when all is well.
    """

    def __init__(self, command, settings):
        self.directory = cleanup.temporary_directory("outrider-audit-relay-")
        self._log_path = os.path.join(self.directory, "relay.log")
        config = os.path.join(self.directory, "config.json")
        with open(config, "w", encoding="utf-8") as out:
            json.dump(dataclasses.asdict(settings), out, indent=2)
        values = {**settings.placeholders(), "config": config, "directory": self.directory}
        self._words = [_fill(word, values) for word in shlex.split(command)]
        self._process = None
        self._cancel_cleanup = cleanup.at_exit(self._destroy)

    def start(self):
        with open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=cleanup.child_setup())

    def kill(self):
        if self.is_up():
            self._signal(signal.SIGKILL)
            self._process.wait(20)

    def freeze(self):
        self._signal(signal.SIGSTOP)

    def thaw(self):
        self._signal(signal.SIGCONT)

    def stop(self, timeout_s=60):
        if self.is_up():
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the relay did not stop within {timeout_s} s") from None

    def is_up(self):
        return self._process is not None and self._process.poll() is None

    def exit_code(self):
        return None if self._process is None else self._process.poll()

    def peak_kb(self):
        return _peak_kb(_group(self._process.pid)) if self.is_up() else 0

    def log_end(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()[-3000:]

    def close(self):
        self._destroy()
        self._cancel_cleanup()

    def _signal(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def _destroy(self):
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait(20)
        shutil.rmtree(self.directory, ignore_errors=True)


def _fill(word, values):
    for name, value in values.items():
        word = word.replace("{" + name + "}", str(value))
    return word


def _group(leader):
    """Processes of a group."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.getpgid(int(name)) == leader:
                    found.append(int(name))
            except ProcessLookupError:
                pass
    return found


def _peak_kb(pids):
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
                total += sum(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        except OSError:
            pass
    return total
