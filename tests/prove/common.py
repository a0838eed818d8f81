"""What the proofs share: progress lines, waiting for the slot, one audit printed as a table."""

import time

from support import audit as audits
from support.cleanup import wait_until
from support.consumer import Consumer
from support.workload import Workload

PLUGINS = ("wal2json", "pgoutput")
PROGRESS_INTERVAL_S = 5
EVENT_TYPES = ("OrderPlaced", "OrderPaid", "OrderShipped")


def say(text):
    print(f"   {text}", flush=True)


class SteadyLoad(Workload):
    """As an application commits: rows come one by one, not in the WAL writer's bursts of 200 ms."""

    SYNCHRONOUS_COMMIT = "on"


class Progress:
    """Prints at most one line every five seconds; call it as often as you like."""

    def __init__(self, what, total=None):
        self._what = what
        self._total = total
        self._next = time.monotonic() + PROGRESS_INTERVAL_S

    def __call__(self, done, extra=""):
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROGRESS_INTERVAL_S
            total = f" of {self._total:,}" if self._total else ""
            say(f"… {self._what}: {done:,}{total}{extra}")


def sleep_with_progress(seconds, what, look=lambda: ""):
    """Sleep, and say every five seconds what look() sees."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(PROGRESS_INTERVAL_S, left))
        if left > PROGRESS_INTERVAL_S:
            say(f"… {what}, {left - PROGRESS_INTERVAL_S:.0f} s left {look()}")


def wait_caught_up(cluster, slot, timeout_s=300, relay=None):
    """Wait until the slot has confirmed everything written up to now.

    A transaction of our own behind the last event gives the server a position to pass.
    """
    cluster.query("SELECT pg_logical_emit_message(true, 'test', 'end')")
    target = cluster.current_lsn()
    progress = Progress(f"bytes that slot {slot} is behind")

    def reached():
        if relay is not None and not relay.running():
            raise AssertionError(f"the relay ended with {relay.exit_code()}\n"
                                 + relay.log_text()[-3000:])
        rows = cluster.query("SELECT %s::pg_lsn - confirmed_flush_lsn FROM pg_replication_slots"
                             " WHERE slot_name = %s", (target, slot))
        if not rows or rows[0][0] is None:
            return False
        progress(max(0, int(rows[0][0])))
        return rows[0][0] <= 0

    wait_until(reached, timeout_s, f"slot {slot} to reach {target}", 0.1)


def audit_topics(cluster, bootstrap_servers, topics, *, title, duplicates_max=0, oracle=None,
                 read_committed=False, **options):
    """Read the topics with kcat, audit, print the table, and insist."""
    began = time.monotonic()
    oracle = audits.load_oracle(cluster) if oracle is None else oracle
    reader = Consumer(bootstrap_servers, read_committed)
    result = audits.audit(oracle, reader.stream(topics), **options)
    say(f"audit of {title} ({time.monotonic() - began:.1f} s)")
    print("\n".join("   " + line for line in result.table().splitlines()), flush=True)
    return result.check(duplicates_max)


def stop_cleanly(relay):
    """SIGTERM; the exit code must be 0, that is: the server has the position."""
    code = relay.stop()
    assert code == 0, f"exit code {code} after SIGTERM\n{relay.log_text()[-3000:]}"


def megabytes(kilobytes):
    return f"{kilobytes / 1024:.1f} MB"
