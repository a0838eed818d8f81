"""9: partitions come and go, under both plugins: every row arrives, or the stop is loud.

While the relay streams, leaves are attached and filled in one transaction, on two levels and in a
schema it has never seen, and one is detached concurrently. While it is stopped, leaves that hold
rows not yet relayed are detached or dropped (one in a schema of its own) and the table changes its
columns. A stop must name table, position and fix; with the printed fix everything arrives, once and
in order.
"""

import json
import re
import threading
import time

from prove.common import PLUGINS, say, stop_cleanly, wait_caught_up
from support.cleanup import wait_until
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_FATAL, Relay, pipeline

_COLUMNS = """id uuid NOT NULL DEFAULT gen_random_uuid(),
  aggregate_type text NOT NULL DEFAULT 'order', aggregate_id text NOT NULL,
  event_type text NOT NULL DEFAULT 'OrderPlaced', payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), day int NOT NULL, PRIMARY KEY (id, day)"""
_TABLE = f"""
CREATE TABLE outbox ({_COLUMNS}) PARTITION BY LIST (day);
CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN (1);
CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN (2);
CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES IN (3);
CREATE SCHEMA tenant;
CREATE TABLE tenant.outbox ({_COLUMNS});
CREATE TABLE tenant.noise (n int, payload text);
"""
_ROWS = ("INSERT INTO outbox (aggregate_id, payload, day) SELECT 'k' || i %% 7,"
         " jsonb_build_object('n', i + %s), %s FROM generate_series(1, %s) i RETURNING id::text")
_STOPS_MAX = 4


def prove(short):
    rows = 50 if short else 2_000
    with KafkaBroker() as kafka:
        for plugin in PLUGINS:
            for change in ("DETACH", "DROP"):
                with PostgresCluster() as cluster:
                    _Run(kafka, cluster, plugin, change, rows).prove()


class _Run:
    """One plugin, one way to lose a leaf."""

    def __init__(self, kafka, cluster, plugin, change, rows):
        self._kafka = kafka
        self._cluster = cluster
        self._change = change
        self._rows = rows
        self._title = f"{plugin}, {change}"
        self._topic = f"{plugin}.{change}".lower()
        self._expected = set()
        self._number = 0
        cluster.query(_TABLE)
        # Another service's outbox looks like a leaf that is gone; wal2json has to be told.
        self._relay = Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin,
                                     topic=self._topic,
                                     source={"foreign_tables": ["tenant.outbox"]}),
                            log_format="json")

    def prove(self):
        with self._relay as relay:
            relay.start()
            self._insert(1)
            self._attach_while_streaming()
            self._detach_concurrently()
            wait_caught_up(self._cluster, "outrider", relay=relay)
            self._check("attached and detached while streaming")
            stop_cleanly(relay)
            self._lose_leaves()
            relay.start(wait_ready=False)
            stops = self._follow_the_hints()
            wait_caught_up(self._cluster, "outrider", relay=relay)
            self._check(f"leaves gone while stopped ({stops} loud stops)")
            stop_cleanly(relay)

    # What happens to the tables ---------------------------------------------------------------

    def _insert(self, day, cursor=None):
        parameters = (self._number, day, self._rows)
        self._number += self._rows
        if cursor is None:
            ids = self._cluster.query(_ROWS, parameters)
        else:
            cursor.execute(_ROWS, parameters)
            ids = cursor.fetchall()
        self._expected |= {row[0] for row in ids}

    def _attach_while_streaming(self):
        """In one transaction with the rows: attached, PARTITION OF, two levels, a new schema."""
        connection = self._cluster.connect(autocommit=False)
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE outbox_4 (LIKE outbox INCLUDING ALL);"
                           "ALTER TABLE outbox ATTACH PARTITION outbox_4 FOR VALUES IN (4);"
                           "CREATE TABLE outbox_5 PARTITION OF outbox FOR VALUES IN (5);"
                           "CREATE TABLE outbox_6 PARTITION OF outbox FOR VALUES IN (6)"
                           " PARTITION BY HASH (id);"
                           "CREATE TABLE outbox_6_a PARTITION OF outbox_6"
                           " FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
                           "CREATE TABLE outbox_6_b PARTITION OF outbox_6"
                           " FOR VALUES WITH (MODULUS 2, REMAINDER 1);"
                           "CREATE SCHEMA fresh;"
                           "CREATE TABLE fresh.outbox_7 PARTITION OF outbox FOR VALUES IN (7);")
            for day in (4, 5, 6, 7):
                self._insert(day, cursor)
        connection.close()
        self._cluster.query("INSERT INTO tenant.noise SELECT i, 'x' FROM generate_series(1,100) i;"
                            "INSERT INTO tenant.outbox (aggregate_id, payload, day)"
                            " VALUES ('k1', '{}', 1)")
        self._insert(7)

    def _detach_concurrently(self):
        """DETACH CONCURRENTLY waits for the open transaction, whose rows come after it began."""
        writer = self._cluster.connect(autocommit=False)
        with writer, writer.cursor() as cursor:
            self._insert(3, cursor)
            detach = threading.Thread(target=self._cluster.query, args=(
                "ALTER TABLE outbox DETACH PARTITION outbox_3 CONCURRENTLY",))
            detach.start()
            time.sleep(0.5)
        writer.close()
        detach.join(30)
        assert not detach.is_alive(), "the detach does not end"
        self._cluster.query("DROP TABLE outbox_3")

    def _lose_leaves(self):
        """While the relay is stopped: rows, then their leaves go, then the table changes."""
        self._cluster.query("CREATE SCHEMA attic;"
                            "CREATE TABLE attic.outbox_8 PARTITION OF outbox FOR VALUES IN (8)")
        for day in (1, 2, 8, 4):
            self._insert(day)
        if self._change == "DROP":
            self._cluster.query("DROP TABLE outbox_2; DROP SCHEMA attic CASCADE;"
                                "ALTER TABLE outbox ADD COLUMN trace text")
        else:
            self._cluster.query("ALTER TABLE outbox DETACH PARTITION outbox_2;"
                                "ALTER TABLE outbox DETACH PARTITION attic.outbox_8;"
                                "ALTER TABLE outbox ADD COLUMN trace text")
        self._insert(1)

    # What the relay makes of it ---------------------------------------------------------------

    def _follow_the_hints(self):
        """Apply each printed fix until the relay runs through; returns how often it stopped."""
        for stops in range(_STOPS_MAX):
            if self._all_or_stopped():
                return stops
            code = self._relay.exit_code()
            assert code == EXIT_FATAL, f"exit code {code}\n{self._relay.log_text()[-3000:]}"
            error, hint = self._stop_reason()
            say(f"{self._title}: exit {code}: {error}")
            say(f"{' ' * len(self._title)}  {hint}")
            assert re.search(r"transaction at [0-9A-F]+/[0-9A-F]+ ", error), "no position"
            leaf = re.search(r"add (\S+) to source.former_partitions", hint).group(1)
            source = self._relay.config["pipelines"][0]["source"]
            source.setdefault("former_partitions", []).append(leaf)
            self._relay.write_config()
            self._relay.start(wait_ready=False)
        raise AssertionError(f"still stops after {_STOPS_MAX} fixes")

    def _all_or_stopped(self):
        """True when all rows are there, False when the relay has ended."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if not self._relay.running():
                return False
            if self._kafka.count(self._topic) >= len(self._expected):
                return True
            time.sleep(0.1)
        raise AssertionError(f"neither all rows nor a stop: {self._kafka.count(self._topic)} of "
                             f"{len(self._expected)}\n{self._relay.log_text()[-3000:]}")

    def _stop_reason(self):
        lines = [json.loads(line) for line in self._relay.log_text().splitlines()]
        stop = [line for line in lines if line["message"] == "pipeline stops"][-1]
        return stop["error"], stop["hint"]

    def _check(self, title):
        wait_until(lambda: self._kafka.count(self._topic) >= len(self._expected), 30, title)
        records = list(Consumer(self._kafka.bootstrap_servers).read(self._topic))
        ids = [record.header("id").decode() for record in records]
        last = {}
        inversions = 0
        for record in records:
            number = json.loads(record.value)["n"]
            inversions += number <= last.get(record.key, 0)
            last[record.key] = max(number, last.get(record.key, 0))
        say(f"{self._title}: {title}: {len(self._expected):,} rows, {len(records):,} records, "
            f"{len(self._expected - set(ids))} missing, {len(ids) - len(set(ids))} twice, "
            f"{len(set(ids) - self._expected)} unknown, {inversions} out of order")
        assert set(ids) == self._expected and len(ids) == len(self._expected) and not inversions
