"""19: PostgreSQL's fast shutdown ends within 15 s with the relay attached, whatever Kafka does.

What `pg_ctl stop -m fast` does (SIGINT to the postmaster), with the relay idle; and, while the
broker is down, with rows in flight and with so many that the relay has stopped reading and the
walsender is in the middle of a send. Both plugins; the long form adds exactly once. Afterwards the
same relay process goes on: every row arrives once, in order.
"""

import time

from prove.common import say, stop_cleanly
from support.cleanup import wait_until
from support.field_faults import EXACTLY_ONCE, arrive
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.rig import Rig

STOP_MAX_S = 15
FEW_ROWS = 2_000
# Twice what may be in flight, and more bytes behind it than sockets hold.
MANY_ROWS = 40_000
FILLER = 500


def prove(short):
    cases = [("pgoutput", {}), ("wal2json", {})]
    if not short:
        cases.append(("pgoutput", EXACTLY_ONCE))
    with KafkaBroker() as kafka:
        victims = []
        try:
            for plugin, over in cases:
                victims.append(_Victim(kafka, plugin, over))
            _prove(kafka, victims, short)
        finally:
            for victim in victims:
                victim.close()


def _prove(kafka, victims, short):
    for victim in victims:
        victim.attach()
        victim.stop_server("idle")
        victim.start_server()
        victim.more_rows(1)
    for what, rows in ([("reading stopped", MANY_ROWS)] if short else
                       [("rows in flight", FEW_ROWS), ("reading stopped", MANY_ROWS)]):
        for victim in victims:
            victim.arrived()
        kafka.stop()
        for victim in victims:
            victim.more_rows(rows)
            victim.wait_pending(rows)
            victim.stop_server(f"broker down, {what}")
        # Both are away now, and the relay has nothing but its memory.
        time.sleep(1)
        for victim in victims:
            victim.start_server()
        kafka.start()
    for victim in victims:
        victim.more_rows(1)
        victim.arrived()
        say(f"{victim.title}: {victim.rows:,} rows, all there once, in order, by one relay process")
        stop_cleanly(victim.rig.relay)


class _Victim:
    """A server of its own with a relay attached."""

    def __init__(self, kafka, plugin, over):
        guarantee = over.get("delivery", {}).get("guarantee", "at_least_once")
        self.title = f"{plugin}, {guarantee}"
        self.rows = 0
        self._cluster = PostgresCluster()
        self.rig = Rig(self._cluster, kafka, plugin=plugin, over=over)
        self._pid = None

    def close(self):
        self.rig.close()
        self._cluster.close()

    def attach(self):
        self.rig.start()
        self._pid = self.rig.relay.pid
        self.more_rows(1)
        self.arrived()

    def more_rows(self, count):
        self.rig.numbers(count, start=self.rows + 1, filler=FILLER)
        self.rows += count

    def wait_pending(self, rows):
        """Until the relay has taken what it takes without a broker.

        Exactly once that may be nothing, while a commit is under way whose outcome nobody can tell.
        """
        relay = self.rig.relay
        seen = [0, time.monotonic()]

        def at_rest():
            pending = relay.metric("outbox_events_pending")
            if pending != seen[0]:
                seen[:] = [pending, time.monotonic()]
            return time.monotonic() - seen[1] > 1 and not relay.ready()

        wait_until(at_rest, 30, "the relay to notice that the broker is away")
        say(f"{self.title}: {seen[0]:,.0f} of {rows:,} rows received and not acknowledged: "
            f"{relay.get('/readyz')[1].strip()}")
        assert seen[0] > 0 or "exactly_once" in self.title
        assert rows < MANY_ROWS or seen[0] < rows, "the relay did not stop reading"
        assert self._cluster.slot(self.rig.slot)["confirmed_distance"] > 0

    def stop_server(self, what):
        assert self._cluster.slot(self.rig.slot)["active"], "the relay is not attached"
        began = time.monotonic()
        self._cluster.stop("fast", timeout_s=60)
        seconds = time.monotonic() - began
        say(f"{self.title}: {what}: the server stopped within {seconds:.2f} s (at most "
            f"{STOP_MAX_S} s)")
        assert seconds < STOP_MAX_S

    def start_server(self):
        self._cluster.start()
        self.rig.reconnect()

    def arrived(self):
        """All rows so far, each once and in order, by the process that was there from the start."""
        self.rig.wait_confirmed(60)
        arrive(self.rig, range(1, self.rows + 1))
        assert self.rig.relay.pid == self._pid and self.rig.relay.running()
