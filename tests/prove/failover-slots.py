"""32: failover on PostgreSQL 17: with a synced failover slot the relay goes on, else says why not.

The relay has both servers in its connection string and streams from a failover slot while rows are
inserted. The primary dies by SIGKILL and its hot standby is promoted, in three ways: with the slot
synced and the primary made to wait for the standby (nothing is lost, nothing is a phantom); with
the slot synced and the standby behind the relay (what the old primary alone had is told as a
phantom, and no row of the new one is lost, also when its WAL has grown past the relay's position;
at least once and exactly once, a relay that lives on and one that was killed); and with a slot that
was `synced` and still `temporary`, which is gone after the promotion (exit 69, the gap has
bounds).
"""

import re
import time

from prove.common import say, stop_cleanly
from support.cleanup import wait_until
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_majors import MajorCluster, Standby
from support.relay import EXIT_FATAL, Relay, pipeline

_MAJOR = 17
_PHYSICAL = "standby"
_TABLE = """CREATE TABLE outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL DEFAULT 'order',
  aggregate_id text NOT NULL DEFAULT 'k', event_type text NOT NULL DEFAULT 'made', payload text);
  CREATE PUBLICATION events FOR TABLE outbox"""
_SYNC = {"sync_replication_slots": "on"}


def prove(short):
    rows = 2_000 if short else 5_000
    cases = [_Synced, _StillTemporary, _BehindTheRelay, _BehindOnceAndRestarted]
    if not short:
        cases += [_BehindAndRestarted, _BehindOnce]
    with KafkaBroker() as kafka:
        for case in cases:
            with MajorCluster(_MAJOR) as primary:
                case(kafka, primary, rows).prove()


class _Case:
    title = ""
    delivery = {}

    def __init__(self, kafka, primary, rows):
        self._primary = primary
        self._standby = None
        self._rows = rows
        self._topic = self._slot = type(self).__name__.strip("_").lower()
        self._consumer = Consumer(kafka.bootstrap_servers, read_committed=True)
        self._kafka = kafka
        primary.query(_TABLE)
        primary.query("SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, false,"
                      " true)", (self._slot,))

    def steps(self, relay):
        raise NotImplementedError

    def prove(self):
        self._prepare()
        with self._standby as standby:
            hosts = (f"host={self._primary.host},{standby.host}"
                     f" port={self._primary.port},{standby.port} dbname=postgres user=postgres")
            config = pipeline(hosts, self._kafka.bootstrap_servers, topic=self._topic,
                              slot=self._slot, plugin="pgoutput",
                              source={"publication": "events", "create_publication": False,
                                      "reconnect_first_ms": 20, "reconnect_max_ms": 200},
                              kafka={"topics": {"create": True, "partitions": 1,
                                                "replication_factor": 1}})
            with Relay({**config, "delivery": self.delivery}) as relay:
                self.steps(relay)

    def _prepare(self):
        self._standby = Standby(self._primary, slot=_PHYSICAL, settings=_SYNC)

    def _insert(self, cluster, first, last):
        """A row a transaction."""
        cluster.query(f"DO $body$ BEGIN FOR i IN {first}..{last} LOOP"
                      " INSERT INTO outbox (payload) VALUES (i::text); COMMIT;"
                      " END LOOP; END $body$")

    def _seen(self, count):
        """Payloads, after at least so many records are there."""
        self._consumer.wait_for(self._topic, count, 60)
        return [int(record.value) for record in self._consumer.read(self._topic)]

    def _slot_on_standby(self):
        rows = self._standby.query("SELECT synced, temporary, confirmed_flush_lsn::text"
                                   " FROM pg_replication_slots WHERE slot_name = %s", (self._slot,))
        return rows[0] if rows else (False, False, None)

    def _wait_synced(self):
        """The worker sleeps longer the less there is to do: rows of no outbox keep it busy."""
        def synced():
            self._primary.query("SELECT pg_log_standby_snapshot(), pg_switch_wal()")
            state = self._slot_on_standby()
            return state[0] and not state[1]

        wait_until(synced, 60, "the slot to be synced", 0.3)

    def _stop_line(self, relay):
        lines = relay.log_text().splitlines()
        return ([line for line in lines if "pipeline stops" in line] or lines[-5:])[-1]

    def _fail_over(self):
        self._primary.kill()
        began = time.monotonic()
        self._standby.promote()
        say(f"{self.title}: primary killed, standby promoted within "
            f"{time.monotonic() - began:.1f} s")


class _Synced(_Case):
    title = "slot synced, primary waits for the standby"

    def _prepare(self):
        super()._prepare()
        self._primary.set("synchronized_standby_slots", _PHYSICAL)

    def steps(self, relay):
        rows = self._rows
        relay.start()
        self._insert(self._primary, 1, rows)
        self._seen(rows)
        self._wait_synced()
        self._insert(self._primary, rows + 1, 2 * rows)
        self._seen(2 * rows)
        self._fail_over()
        promoted = time.monotonic()
        self._insert(self._standby, 2 * rows + 1, 3 * rows)
        seen = self._seen(3 * rows)
        say(f"{self.title}: rows of the new primary arrived {time.monotonic() - promoted:.1f} s "
            f"after the promotion")
        stop_cleanly(relay)
        relay.start()
        self._insert(self._standby, 3 * rows + 1, 3 * rows + 10)
        seen = self._seen(len(seen) + 10)
        stop_cleanly(relay)
        wanted = list(range(1, 3 * rows + 11))
        assert list(dict.fromkeys(seen)) == wanted, seen[:20]
        say(f"{self.title}: {len(wanted):,} rows, 0 lost, in order, "
            f"{len(seen) - len(wanted)} duplicates")


class _BehindTheRelay(_Case):
    """What the relay has acknowledged lies past the fork of the two histories."""

    title = "slot synced, standby behind the relay"

    def steps(self, relay):
        rows = self._rows
        relay.start()
        self._insert(self._primary, 1, rows)
        self._seen(rows)
        self._wait_synced()
        self._standby.wait_replayed()
        self._standby.set("primary_conninfo", "host=127.0.0.1 port=1")
        wait_until(lambda: not self._standby.query("SELECT 1 FROM pg_stat_wal_receiver"
                                                   " WHERE status = 'streaming'"), 20,
                   "the standby to be cut off")
        self._insert(self._primary, rows + 1, 2 * rows)
        self._seen(2 * rows)
        position = self._primary.current_lsn()
        self._leave(relay)
        self._fail_over()
        last = 2 * rows
        # Past the relay's position, which belongs to the history that was given up.
        while not self._standby.scalar("SELECT pg_current_wal_lsn() > %s::pg_lsn", (position,)):
            self._insert(self._standby, last + 1, last + rows)
            last += rows
        self._insert(self._standby, last + 1, last + rows)
        last += rows
        self._come_back(relay)
        wait_until(lambda: last in self._seen(2 * rows) or not relay.running(), 60,
                   "the last row, or a stop")
        if not relay.running():
            say(f"{self.title}: exit {relay.exit_code()}: {self._stop_line(relay)}")
            assert relay.exit_code() == EXIT_FATAL and "SERVER_PROMOTED" in relay.log_text()
            relay.start()
        seen = self._seen(last)
        stop_cleanly(relay)
        lost = sorted(set(range(1, last + 1)) - set(seen))
        say(f"{self.title}: {rows:,} phantoms, {last - 2 * rows:,} rows of the new primary, "
            f"{len(lost):,} lost, {len(seen) - len(set(seen)):,} duplicates")
        assert not lost, f"{len(lost):,} rows lost: {lost[0]} to {lost[-1]}"
        told = [line for line in relay.log_text().splitlines() if "phantom" in line]
        assert told, "nothing was said of the phantoms"
        say(f"{self.title}: {told[-1]}")

    def _leave(self, relay):
        relay.freeze()

    def _come_back(self, relay):
        relay.thaw()


class _BehindAndRestarted(_BehindTheRelay):
    title = "the same, relay killed"

    def _leave(self, relay):
        relay.kill()

    def _come_back(self, relay):
        relay.start(wait_ready=False)


class _BehindOnce(_BehindTheRelay):
    title = "the same, exactly once"
    delivery = {"guarantee": "exactly_once"}


class _BehindOnceAndRestarted(_BehindAndRestarted):
    title = "the same, exactly once, relay killed"
    delivery = {"guarantee": "exactly_once"}


class _StillTemporary(_Case):
    title = "slot still temporary"

    def _prepare(self):
        """The slot's position is older than what a standby made now can keep."""
        self._insert(self._primary, 1, self._rows)
        self._primary.query("CHECKPOINT")
        super()._prepare()

    def steps(self, relay):
        wait_until(lambda: self._slot_on_standby()[:2] == (True, True), 40,
                   "the temporary copy of the slot", 0.2)
        relay.start()
        self._seen(self._rows)
        synced, temporary, _ = self._slot_on_standby()
        say(f"{self.title}: on the standby synced = {synced}, temporary = {temporary}")
        self._standby.wait_replayed()
        self._fail_over()
        first = self._standby.current_lsn()
        self._insert(self._standby, self._rows + 1, self._rows + 10)
        last = self._standby.current_lsn()
        assert relay.wait(60) == EXIT_FATAL
        say(f"{self.title}: exit {EXIT_FATAL}: {self._stop_line(relay)}")
        relay.start(wait_ready=False)
        assert relay.wait(60) == EXIT_FATAL
        stop = self._stop_line(relay)
        say(f"{self.title}: exit {EXIT_FATAL}: {stop}")
        assert "code=SLOT_MISSING" in stop
        lower, upper = re.search(r"between (\S+) and (\S+) may be missing", stop).groups()
        assert self._standby.scalar("SELECT %s::pg_lsn <= %s::pg_lsn AND %s::pg_lsn >= %s::pg_lsn",
                                    (lower, first, upper, last)), (lower, first, last, upper)
