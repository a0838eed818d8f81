"""14: seven kinds of poison among 10,000 good rows, a kill -9 between dead letter and position.

Some are refused when the row is read, some by what the topic is known to take, some by the broker
alone. All seven are dead letters with reasons of their own; the kill falls when all are in the
table and the slot's position is still before each of them, and no letter comes twice. The good rows
arrive in order, twice only what was sent before the kill. When the causes are gone, a retry
delivers six of them; the seventh was damaged on its way from PostgreSQL and can never be read: it
stays, with that text.
"""

import dataclasses
import time

from prove.common import PLUGINS, Progress, audit_topics, say, stop_cleanly
from support import audit as audits
from support.cleanup import wait_until
from support.control import command, obeyed, socket_in
from support.damaging_proxy import MARK, DamagingProxy
from support.guarded_kafka import GuardedKafka
from support.postgres_cluster import PostgresCluster
from support.rig import Rig
from support.workload import Workload

ORDERS, LEDGER, LATE, FORBIDDEN, MISSING, RESCUED = (
    "orders", "ledger", "late", "forbidden", "missing", "rescued")
LIMIT = 100_000
LATE_MS = 1_000


@dataclasses.dataclass
class Poison:
    """One kind. topic None is NULL; goes_to is where a retry brings it, None if nothing can."""

    reason: str
    topic: str | None
    key: str | None = "key-1"
    payload: str = "poison"
    goes_to: str | None = None


KINDS = (
    Poison("unroutable", None, goes_to=RESCUED),
    Poison("undecodable", ORDERS, payload=MARK.decode()),
    Poison("too_large", ORDERS, payload="x" * (3 * LIMIT), goes_to=ORDERS),
    Poison("bad_timestamp", LATE, goes_to=LATE),
    # A compacted topic takes no record without a key.
    Poison("refused", LEDGER, key=None, goes_to=LEDGER),
    Poison("topic_missing", MISSING, goes_to=MISSING),
    Poison("not_authorised", FORBIDDEN, goes_to=FORBIDDEN),
)


def prove(short):
    with PostgresCluster() as cluster, GuardedKafka() as kafka:
        for plugin in PLUGINS[1:] if short else PLUGINS:
            with DamagingProxy(cluster.port, plugin) as proxy:
                _Case(cluster, kafka, proxy, plugin, 1_000 if short else 10_000).run()


class _Case:
    """One plugin; its topics are named after it."""

    def __init__(self, cluster, kafka, proxy, plugin, rows):
        self.kafka, self.proxy, self.plugin, self.rows = kafka, proxy, plugin, rows
        self.r = Rig(cluster, kafka, plugin=plugin, table=None, create_topic=False,
                     port=proxy.port, over={
                         "route": {"topic": "", "replacement": plugin + ".${routedByValue}"},
                         "kafka": {**kafka.client(), "topics": {"create": False}},
                         "dead_letters": {"on_topic_error": "dead_letter"}})
        self.r.pipeline["kafka"]["properties"]["compression.codec"] = "none"
        socket_in(self.r.relay)
        self.load = Workload(cluster, self.r.dbname, payload="text", event_types=[ORDERS, LEDGER])
        self.r.sql("ALTER TABLE outbox ALTER event_type DROP NOT NULL,"
                   " ALTER aggregate_id DROP NOT NULL")
        kafka.create_topics(*map(self._topic, (LATE, FORBIDDEN)), partitions=2)
        kafka.create_topics(self._topic(ORDERS), config={"max.message.bytes": LIMIT})
        kafka.create_topics(self._topic(LEDGER), config={"cleanup.policy": "compact"})
        self.goods = list(map(self._topic, (ORDERS, LEDGER, LATE, FORBIDDEN)))
        self.event_ids = {}

    def run(self):
        try:
            self._fill()
            letters, sent = self._kill()
            self._again(letters, sent)
            self._cure()
        finally:
            self.load.stop()
            self.r.close()

    def _topic(self, name):
        return f"{self.plugin}.{name}"

    def _letters(self):
        """[(number, reason, code, message, event id, position)], oldest first."""
        return self.r.sql("SELECT number, reason, code, message, event_id, commit_lsn::text"
                          " FROM outrider.outbox_dead_letters ORDER BY number")

    def _good(self, cursor, event_type):
        cursor.execute("SELECT workload.emit('key-1', 200, 'single', ARRAY[%s])", (event_type,))

    def _fill(self):
        """All topics are in use, then the causes are made; the rows are written while the relay is
        paused, each poison between two good rows of its transaction."""
        self.r.start()
        with self.r.connection.cursor() as cursor:
            for event_type in (ORDERS, LEDGER, LATE, FORBIDDEN):
                self._good(cursor, event_type)
        self.r.consumer.wait_for(self.goods, 4)
        self.r.wait_confirmed()
        obeyed(self.r.relay, "pause")
        self.kafka.admin.alter_topic(self._topic(LATE), {
            "message.timestamp.before.max.ms": LATE_MS, "message.timestamp.type": "CreateTime"})
        self.kafka.forbid(self._topic(FORBIDDEN))
        good = self.rows - 4 - 2 * len(KINDS)
        self.load.start(good, writers=3)
        for number, kind in enumerate(KINDS, 1):
            wait_until(lambda: self.load.committed() >= good * number // (len(KINDS) + 1), 120,
                       "good rows")
            with self.r.connection.cursor() as cursor:
                cursor.execute("BEGIN")
                self._good(cursor, kind.topic if kind.topic == LEDGER else ORDERS)
                cursor.execute("INSERT INTO outbox (event_type, aggregate_id, payload)"
                               " VALUES (%s, %s, %s) RETURNING id::text",
                               (kind.topic, kind.key, kind.payload))
                self.event_ids[kind.reason] = cursor.fetchone()[0]
                self._good(cursor, kind.topic if kind.topic == LEDGER else ORDERS)
                cursor.execute("COMMIT")
        self.load.join()
        assert self.load.events() == self.rows, self.load.events()
        time.sleep(2 * LATE_MS / 1000)
        say(f"{self.plugin}: {self.rows:,} good rows and {len(KINDS)} bad ones in the log")

    def _kill(self):
        """Returns the letters, and the end offsets of the topics at the kill."""
        r, progress = self.r, Progress("dead letters", len(KINDS))
        began = time.monotonic()
        before = sum(self.kafka.count(topic) for topic in self.goods)
        self.proxy.keep_statuses = True
        obeyed(r.relay, "resume")

        def complete():
            found = self._letters()
            progress(len(found))
            assert r.relay.running(), r.relay.log_text()[-3000:]
            return len(found) >= len(KINDS)

        wait_until(complete, 90, f"{len(KINDS)} dead letters", 0.01)
        r.relay.kill()
        self.proxy.keep_statuses = False
        took = time.monotonic() - began
        letters = self._letters()
        behind = r.sql("SELECT count(*) FROM outrider.dead_letters, pg_replication_slots s"
                       " WHERE s.slot_name = %s AND commit_lsn >= s.confirmed_flush_lsn", (r.slot,))
        for letter in letters:
            say("  {1:<15}{2:<27}{3}".format(*letter))
        sent = {topic: self.kafka.end_offsets(topic) for topic in self.goods}
        say(f"{self.plugin}: kill -9 {took:.1f} s after the start, slot confirmed to "
            f"{r.cluster.slot(r.slot)['confirmed_flush_lsn']}, first letter at {letters[0][5]}: "
            f"{behind[0][0]} of {len(letters)} letters lie beyond the slot's position; "
            f"{sum(sum(ends.values()) for ends in sent.values()) - before:,} records were sent "
            f"beyond it, {self.proxy.kept_back} status messages did not reach the server")
        assert behind[0][0] == len(KINDS), "the kill did not fall between letter and position"
        assert sorted(letter[1] for letter in letters) == sorted(k.reason for k in KINDS)
        ids = {letter[1]: letter[4] for letter in letters}
        for kind in KINDS:
            wanted = "" if kind.reason == "undecodable" else self.event_ids[kind.reason]
            assert ids[kind.reason] == wanted, f"{kind.reason}: {ids[kind.reason]}, not {wanted}"
        ((mapped, topic, raw),) = r.sql("SELECT mapped, topic, raw_row FROM outrider.dead_letters"
                                        " WHERE reason = 'undecodable'")
        assert not mapped and b"on-the-way" in bytes(raw), (
            "the letter of the row that cannot be decoded holds another row's record, for topic "
            f"\"{bytes(topic).decode()}\": a retry would send that one and forget this one")
        return letters, sent

    def _again(self, letters, sent):
        r = self.r
        r.relay.start()
        r.wait_confirmed(120)
        assert self._letters() == letters, f"after the kill: {self._letters()}"
        say(f"{self.plugin}: after the kill the same {len(letters)} letters, each once; the rows "
            f"were damaged {self.proxy.damaged} times")
        result = audit_topics(
            r.cluster, self.kafka.bootstrap_servers, self.goods, title="the good rows",
            oracle=audits.load_oracle(r.cluster, r.dbname), duplicates_max=self.rows,
            topic_of=audits.by_event_type(self.plugin + "."))
        for places in result.repeated.values():
            topic, partition, offset, _time = places[0]
            assert len(places) == 2 and offset < sent[topic][partition], (
                f"a repeat that the kill does not explain: {places}")
        say(f"{self.plugin}: all {result.duplicates:,} repeats are of records sent before the kill")

    def _cure(self):
        """Every cause goes, then one retry of all."""
        r, admin = self.r, self.kafka.admin
        stop_cleanly(r.relay)
        for name, config in ((ORDERS, {"max.message.bytes": 10 * LIMIT}), (LATE, {}),
                             (LEDGER, {"cleanup.policy": "delete"})):
            admin.alter_topic(self._topic(name), config)
        self.kafka.create_topics(*map(self._topic, (MISSING, RESCUED)), partitions=2)
        self.kafka.allow(self._topic(FORBIDDEN))
        # Rows that were mapped keep their topics; the one without event type gets this one.
        r.pipeline["route"] = {"topic": self._topic(RESCUED)}
        r.relay.write_config()
        r.relay.start()
        code, lines, errors = command(r.relay, "dead-letters", "retry", "--all")
        say(f"{self.plugin}: retry of all: exit code {code}, {lines}{errors}")
        left = self._letters()
        for letter in left:
            say("  stays: {1}, {3}".format(*letter))
        assert [letter[1] for letter in left] == ["undecodable"], left
        assert "cannot be read" in left[0][3], left
        assert lines[-1]["delivered"] == len(KINDS) - 1 and lines[-1]["refused"] == 1, lines
        for kind in KINDS:
            if kind.goes_to:
                self._delivered(kind)
        say(f"{self.plugin}: {len(KINDS) - 1} delivered once each, byte for byte")
        stop_cleanly(r.relay)

    def _delivered(self, kind):
        found = [record for record in self.r.consumer.stream(self._topic(kind.goes_to))
                 if record.header("id").decode() == self.event_ids[kind.reason]]
        key = None if kind.key is None else kind.key.encode()
        assert [(record.key, record.value) for record in found] == [
            (key, kind.payload.encode())], f"{kind.reason}: {len(found)} records"
