"""Spreads episodes over worker processes, gathers their results, and says how far it is.

Each worker has servers of its own, so two of them cannot disturb each other but for the processor.
"""

import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import time

from audit.episode import kills_of
from audit.plan import KINDS
from support import cleanup

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRESS_S = 5
_END_S = 60
_ERRORS_MAX = 3  # So many episodes in a row that could not be carried out end the run.


class WorkerDied(RuntimeError):
    """A worker ended in the middle of an episode."""


class _Worker:
    def __init__(self, options):
        environment = {**os.environ, "PYTHONPATH": TESTS}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "audit.worker", json.dumps(dataclasses.asdict(options))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TESTS, env=environment,
            start_new_session=True, preexec_fn=cleanup.child_setup(signal.SIGTERM))
        self._cancel = cleanup.at_exit(self.end)
        self._buffer = b""
        self.busy = False

    def give(self, plan):
        self.busy = True
        self.process.stdin.write(json.dumps(dataclasses.asdict(plan)).encode() + b"\n")
        self.process.stdin.flush()

    def lines(self):
        """Complete lines that have come; WorkerDied at the end of the output."""
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            raise WorkerDied(f"a worker ended with {self.process.wait()}")
        *whole, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in whole]

    def finish(self):
        """Let it take down its servers."""
        self.process.stdin.close()
        self._cancel()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class _Progress:
    """Kills done and to do, and the time they take."""

    def __init__(self, state, plans, say):
        self._say = say
        self._state = state
        self._total = sum(plan.kills + sum(step.relay_too for step in plan.steps)
                          for plan in plans)
        self._running = {}
        self._began = time.monotonic()
        self._next = self._began + _PROGRESS_S
        self._at_start = self._done()

    def _done(self):
        done = sum(kills_of(result) for result in self._state.results.values()
                   if "faults" in result)
        return done + sum(self._running.values())

    def fault(self, fault):
        kills = KINDS[fault["kind"]].kill + fault["relay_too"]
        self._running[fault["index"]] = self._running.get(fault["index"], 0) + kills
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PROGRESS_S
        done = self._done()
        pace = (now - self._began) / max(1, done - self._at_start)
        left = max(0, self._total - done) * pace
        self._say(f"… {done:,} of {self._total:,} kills, about {_duration(left)} left; last: "
                  f"{KINDS[fault['kind']].text}, records again after "
                  f"{(fault['resumed_ms'] or fault['end_ms']) - fault['start_ms']:,} ms")

    def result(self, result):
        self._running.pop(result["index"], None)
        name = f"episode {result['index']} ({result['guarantee']}, {result['plugin']})"
        if "faults" not in result:
            self._say(f"{name}: {result.get('stuck') or result.get('error')}")
            return
        counts = ", ".join(f"{result[word]:,} {text}" for word, text in (
            ("committed", "rows"), ("lost", "lost"), ("duplicates", "duplicates"),
            ("inversions", "inversions"), ("stale", "stale")))
        self._say(f"{name}: {kills_of(result)} kills in {result['seconds']:.0f} s, {counts}")


def _duration(seconds):
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def run(plans, state, options, parallel=1, say=print):
    """Carry out the plans that the state has no result for; results go into the state."""
    todo = state.open_episodes(plans)
    progress = _Progress(state, plans, say)
    selector = selectors.DefaultSelector()
    workers = []
    for _ in range(min(parallel, len(todo))):
        worker = _Worker(options)
        workers.append(worker)
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        worker.give(todo.pop(0))
    errors = 0
    while any(worker.busy for worker in workers):
        for key, _events in selector.select():
            worker = key.data
            for message in worker.lines():
                if "progress" in message:
                    progress.fault(message["progress"])
                    continue
                state.add(message["result"])
                progress.result(message["result"])
                worker.busy = False
                errors = errors + 1 if "error" in message["result"] else 0
                if todo and errors < _ERRORS_MAX:
                    worker.give(todo.pop(0))
            if not worker.busy:
                selector.unregister(worker.process.stdout)
                worker.finish()
    return state
