"""25: the metrics tell the truth, and the age rises in each of the five ways to stand still.

Counts are compared with Kafka's log, the table and the dead-letter table, the lag with the server's
own view, while the broker is down, the database cut off, the relay frozen, only a standby left, and
a row of poison in the way. Values that nobody can know any more are gone meanwhile.
"""

import re
import time

from prove.common import say, stop_cleanly
from support.cleanup import wait_until
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_POISON
from support.rig import Rig
from support.tcp_proxy import TcpProxy

AGE = "outbox_oldest_unconfirmed_age_seconds"
BOUND = "outbox_oldest_age_is_upper_bound"
LIMIT = 20_000
POISON = 3
# Between a commit and the moment it is looked at, on a machine with other work.
SLACK_S = 3


def prove(short):
    with PostgresCluster() as cluster, KafkaBroker() as kafka, TcpProxy(cluster.port) as proxy:
        case = _Case(cluster, kafka, proxy, short)
        try:
            case.load()
            case.dead_letters()
            case.broker_down()
            case.database_cut()
            case.frozen_and_standby_only()
            case.totals()
            case.stopped_on_poison()
        finally:
            case.close()


def value(relay, name, **labels):
    """One sample; None when there is no such line. labels: those it must have."""
    wanted = [f'{label}="{text}"' for label, text in labels.items()]
    found = [number for sample, number in relay.metrics().items()
             if sample.partition("{")[0] == name and all(one in sample for one in wanted)]
    assert len(found) <= 1, f"{name} {labels}: {len(found)} samples"
    return found[0] if found else None


class _Case:
    def __init__(self, cluster, kafka, proxy, short):
        self.cluster, self.kafka, self.proxy, self.short = cluster, kafka, proxy, short
        self.watch_s = 2 if short else 8
        self.r = Rig(cluster, kafka, port=proxy.port, create_topic=False, over={
            "kafka": {"properties": {"compression.codec": "none"}},
            "dead_letters": {"automatic_retry": "off"}})
        self.slot = self.r.slot
        kafka.create_topics(self.r.topic, partitions=3, config={"max.message.bytes": LIMIT})
        self.active = self.r.relay.start()
        self.standby = self.r.another_relay().start()
        self.rows = 0

    def close(self):
        self.standby.close()
        self.r.close()

    # What is so -------------------------------------------------------------------------------

    def commit(self, count):
        self.r.singles(count, start=self.rows + 1, keys=7)
        self.rows += count
        return time.time()

    def published(self):
        return sum(relay.metric("outbox_events_published_total")
                   for relay in (self.active, self.standby) if relay.running())

    def in_kafka(self):
        return self.kafka.count(self.r.topic)

    def wait_published(self):
        wait_until(lambda: self.published() == self.rows, 60,
                   f"{self.rows} rows published, {self.published():.0f} are")

    def same_lag(self, relay, what):
        """The metric equals what the server answers before and after it was read."""
        sql = ("SELECT pg_current_wal_lsn() - confirmed_flush_lsn,"
               " pg_current_wal_lsn() - restart_lsn, wal_status FROM pg_replication_slots"
               " WHERE slot_name = %s")
        seen = []

        def equal():
            (before,) = self.cluster.query(sql, (self.slot,))
            shown = (value(relay, "outbox_slot_backlog_bytes"),
                     value(relay, "outbox_slot_retained_bytes"))
            status = value(relay, "outbox_slot_wal_status", status=before[2])
            (after,) = self.cluster.query(sql, (self.slot,))
            seen[:] = [before, shown, status, after]
            return before == after and shown == before[:2] and status == 1

        wait_until(equal, 20, f"the server's view in the metrics, seen: {seen}", 0.2)
        say(f"{what}: backlog {seen[1][0]:,.0f} bytes, retained {seen[1][1]:,.0f} bytes, "
            f"{seen[0][2]}: the server says the same")

    def rising(self, relay, what, since, bound):
        """The age grows with the clock; exact, or an upper bound of the time since `since`."""
        wait_until(lambda: value(relay, AGE) > 1 and value(relay, BOUND) == bound, 20,
                   f"an age in case {what}")
        first, began = value(relay, AGE), time.monotonic()
        time.sleep(self.watch_s)
        last, true_age, took = value(relay, AGE), time.time() - since, time.monotonic() - began
        assert first + 0.7 * took < last < first + took + SLACK_S, f"{what}: {first} to {last}"
        assert last > true_age - SLACK_S, f"{what}: {last}, but the row waits for {true_age:.1f} s"
        assert bound or last < true_age + SLACK_S, f"{what}: {last} is not {true_age:.1f} s"
        say(f"{what}: age {first:.1f} s, {took:.1f} s later {last:.1f} s "
            f"({'upper bound' if bound else 'exact'}; the row was committed {true_age:.1f} s ago)")

    # The cases --------------------------------------------------------------------------------

    def load(self):
        self.commit(500 if self.short else 20_000)
        self.wait_published()
        self.r.wait_confirmed(30)
        active = self.active
        assert self.in_kafka() == self.rows, f"{self.in_kafka()} records"
        assert value(active, "outbox_received_records_total", table="public.outbox") == self.rows
        assert value(active, "outbox_sent_records_total", topic=self.r.topic) == self.rows
        assert value(active, "outbox_transactions_total") == self.rows
        assert value(active, "outbox_events_pending") == 0
        for name in ("outbox_commit_to_ack_seconds", "outbox_produce_latency_seconds"):
            assert value(active, name + "_count") == self.rows, name
        batches = value(active, "outbox_batch_duration_seconds_count")
        assert 0 < batches <= self.rows, batches
        assert value(active, "outbox_role", role="active") == 1
        assert value(self.standby, "outbox_role", role="standby") == 1
        say(f"load: {self.rows:,} rows committed = received = published = records in Kafka = values "
            f"of both latencies; {batches:,.0f} batches")
        self.same_lag(active, "idle, asked by the active one")
        self.same_lag(self.standby, "idle, asked by the standby")
        assert value(active, AGE) == 0 and value(active, BOUND) == 0
        self._saturation()

    def _saturation(self):
        stages = {stage: value(self.active, "outbox_stage_seconds_total", stage=stage)
                  for stage in ("receive", "decode", "produce")}
        busy = value(self.active, "outbox_loop_busy_seconds_total")
        say("time of the loop: " + ", ".join(f"{stage} {took:.3f} s"
                                             for stage, took in stages.items())
            + f" of {busy:.3f} s busy")
        assert 0 < sum(stages.values()) and all(took >= 0 for took in stages.values())
        # An estimate from one call in 16: a short run may see one long call.
        assert self.short or sum(stages.values()) < 1.5 * busy, (stages, busy)

    def dead_letters(self):
        self.r.sql("INSERT INTO outbox (event_type, payload)"
                   " SELECT 'huge', repeat('x', %s) FROM generate_series(1, %s)",
                   (2 * LIMIT, POISON))
        wait_until(lambda: value(self.active, "outbox_dead_letters_stored") == POISON, 30,
                   "the letters to be counted")
        ((rows, age),) = self.r.sql(
            "SELECT count(*), extract(epoch FROM clock_timestamp() - min(first_failure))::float8"
            " FROM outrider.dead_letters WHERE slot = %s", (self.slot,))
        shown = value(self.active, "outbox_dead_letter_oldest_age_seconds")
        assert rows == POISON and abs(shown - age) < SLACK_S, (rows, shown, age)
        assert value(self.active, "outbox_dead_letters_total") == POISON
        assert value(self.active, "outbox_events_failed_total", event_type="huge") == POISON
        say(f"dead letters: {rows} rows in the table = stored = failed{{event_type=huge}}, oldest "
            f"{shown:.1f} s old (table: {age:.1f} s)")

    def broker_down(self):
        before = self.published()
        self.kafka.freeze() if self.short else self.kafka.stop()
        first = self.rows + 1
        since = self.commit(200)
        wait_until(lambda: value(self.active, "outbox_events_pending") == self.rows - before, 20,
                   "the rows to be received")
        say(f"broker down: pending {self.rows - before:.0f} = {self.rows:,} committed - "
            f"{before:,.0f} published")
        self.rising(self.active, "broker down", since, 0)
        front = self._front()
        self.same_lag(self.active, "broker down")
        self.kafka.thaw() if self.short else self.kafka.start()
        self.wait_published()
        (partition,) = [record.partition for record in self.r.consumer.stream(self.r.topic)
                        if record.value == str(first).encode()]
        assert front == partition, f"front in partition {front}, its record is in {partition}"
        say(f"the front was row {first}: its record is in partition {partition}, as the metric said")
        wait_until(lambda: value(self.active, AGE) == 0, 30, "the age to be 0 again")

    def _front(self):
        """The partition of the one record that holds the front."""
        def named():
            names = [name for name in self.active.metrics()
                     if name.startswith("outbox_front_record_age_seconds")]
            assert len(names) == 1 and f'topic="{self.r.topic}"' in names[0], names
            return re.search('partition="([0-9]+)"', names[0])

        return int(wait_until(named, 20, "the partition of the front")[1])

    def database_cut(self):
        """Nobody can ask the server: what only it knows disappears, the age becomes a bound."""
        self.proxy.swallow()
        self.proxy.cut()
        since = self.commit(50)
        wait_until(lambda: value(self.active, "outbox_slot_backlog_bytes") is None, 20,
                   "the slot's figures to disappear")
        self.rising(self.active, "database cut", since, 1)
        gone = [name for name in ("outbox_slot_retained_bytes", "outbox_slot_wal_status",
                                  "outbox_server_wal_end_bytes", "outbox_dead_letters_stored")
                if value(self.active, name) is None]
        assert len(gone) == 4, gone
        say(f"database cut: no line of {', '.join(gone)}; last seen "
            f"{value(self.active, 'outbox_slot_seen_age_seconds'):.1f} s ago")
        self.proxy.restore()
        self.wait_published()
        self._name_the_roles()

    def _name_the_roles(self):
        """Whoever was first after the cut is the active one now."""
        def one_each():
            return [value(relay, "outbox_role", role="active")
                    for relay in (self.active, self.standby)] in ([1, 0], [0, 1])

        wait_until(one_each, 30, "one active relay")
        if value(self.active, "outbox_role", role="active") == 0:
            self.active, self.standby = self.standby, self.active
        wait_until(lambda: value(self.standby, "outbox_role", role="standby") == 1, 30,
                   "one standby")

    def frozen_and_standby_only(self):
        """The frozen one holds the slot and cannot be scraped; the standby sees it all."""
        wait_until(lambda: value(self.standby, AGE) == 0, 20, "an age of 0 at the standby")
        before = self.published()
        self.active.freeze()
        since = self.commit(50)
        status, reason = self.active.get("/metrics", timeout_s=1)
        assert status == 0, "a frozen relay was scraped"
        say(f"SIGSTOP: the scrape fails ({reason}), so Prometheus shows up = 0")
        self.rising(self.standby, "standby only", since, 1)
        self.same_lag(self.standby, "standby only")
        assert value(self.standby, "outbox_slot_backlog_bytes") > 0
        self.active.thaw()
        wait_until(lambda: self.published() == before + 50, 60, "the rows to be published")
        self._name_the_roles()
        wait_until(lambda: value(self.active, AGE) == 0, 30, "the age to be 0 again")

    def totals(self):
        self.r.wait_confirmed(30)
        committed = self.r.sql("SELECT count(*) FROM outbox WHERE event_type <> 'huge'")[0][0]
        records = self.in_kafka()
        assert committed == self.rows == self.published() == records, (
            f"{committed} committed, {self.published():.0f} published, {records} records")
        say(f"in the end: {committed:,} rows committed = {self.published():,.0f} published by both "
            f"relays = {records:,} records in Kafka")

    def stopped_on_poison(self):
        """A row that has to wait is live; a relay that stopped is not there any more."""
        stop_cleanly(self.standby)
        stop_cleanly(self.active)
        relay = self.r.relay
        self.r.pipeline["dead_letters"].update({"burst": 1, "per_minute": 1})
        relay.write_config()
        relay.start()
        self.r.sql("INSERT INTO outbox (event_type, payload)"
                   " SELECT 'huge', repeat('x', %s) FROM generate_series(1, 2)", (2 * LIMIT,))
        since = time.time()
        wait_until(lambda: value(relay, "outbox_dead_letters_total") == 1, 20, "the first letter")
        wait_until(lambda: value(relay, "outbox_events_pending") == 1, 20, "the second row to wait")
        self.rising(relay, "rows wait behind poison", since, 0)
        relay.kill()
        self.r.pipeline["dead_letters"].update({"on_poison": "stop"})
        relay.write_config()
        relay.start(wait_ready=False)
        code = relay.wait(60)
        assert code == EXIT_POISON, f"exit code {code}"
        status, reason = relay.get("/metrics", timeout_s=1)
        assert status == 0, "a stopped relay was scraped"
        say(f"stopped on poison: exit code {code}, the scrape fails ({reason}): up = 0")
