"""9: partitions come and go, under both plugins: every row arrives, or the stop is loud.

A leaf is attached and filled in one transaction while the relay streams; a leaf that holds rows not
yet relayed is detached, and another dropped, while the relay is stopped.
"""

import time

from prove.common import PLUGINS, say, stop_cleanly, wait_caught_up
from support.cleanup import wait_until
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_FATAL, Relay, pipeline

_TABLE = """
CREATE TABLE outbox (
  id uuid NOT NULL DEFAULT gen_random_uuid(), aggregate_type text NOT NULL DEFAULT 'order',
  aggregate_id text NOT NULL, event_type text NOT NULL DEFAULT 'OrderPlaced', payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), day int NOT NULL, PRIMARY KEY (id, day)
) PARTITION BY LIST (day);
CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN (1);
CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN (2);
CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES IN (3);
"""


def prove(short):
    rows = 50 if short else 2_000
    with KafkaBroker() as kafka:
        for plugin in PLUGINS:
            for change in ("DETACH PARTITION", "DROP"):
                with PostgresCluster() as cluster:
                    _prove(kafka, cluster, plugin, change, rows)


_ROWS = ("INSERT INTO outbox (aggregate_id, payload, day) SELECT 'k' || i %% 7,"
         " jsonb_build_object('n', i), %s FROM generate_series(1, %s) i RETURNING id::text")


def _insert(cluster, day, rows):
    """Insert rows for a day and return their ids as text."""
    return {row[0] for row in cluster.query(_ROWS, (day, rows))}


def _prove(kafka, cluster, plugin, change, rows):
    topic = f"{plugin}.{change.split()[0].lower()}"
    cluster.query(_TABLE)
    expected = set()
    with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin,
                        topic=topic)) as relay:
        relay.start()
        expected |= _insert(cluster, 1, rows)
        expected |= _attach_and_insert(cluster, rows)
        wait_caught_up(cluster, "outrider", relay=relay)
        _check(kafka, topic, expected, f"{plugin}: leaf attached while streaming")
        stop_cleanly(relay)
        at_stop = set(expected)
        expected |= _insert(cluster, 2, rows)
        expected |= _insert(cluster, 4, rows)
        if change == "DROP":
            cluster.query("DROP TABLE outbox_2")
        else:
            cluster.query("ALTER TABLE outbox DETACH PARTITION outbox_2")
        relay.start(wait_ready=False)
        loud = _outcome(kafka, relay, topic, len(expected))
        if loud is None:
            _check(kafka, topic, expected, f"{plugin}: {change} of a leaf with unrelayed rows")
            stop_cleanly(relay)
            return
        assert loud == EXIT_FATAL, f"exit code {loud}\n{relay.log_text()[-3000:]}"
        assert "outbox_2" in relay.log_text() or "partition" in relay.log_text(), (
            "the stop does not name the leaf\n" + relay.log_text()[-3000:])
        got = _ids(kafka, topic)
        assert at_stop <= got, "rows from before the stop are missing"
        say(f"{plugin}: {change} of a leaf with unrelayed rows: loud stop, exit code {loud}; "
            "naming the leaf to the relay")
        relay.config["pipelines"][0]["source"]["former_partitions"] = ["public.outbox_2"]
        relay.write_config()
        relay.start()
        wait_caught_up(cluster, "outrider", relay=relay)
        _check(kafka, topic, expected, f"{plugin}: after the leaf was named")
        stop_cleanly(relay)


def _attach_and_insert(cluster, rows):
    """A new leaf, attached and filled in the same transaction; another made by PARTITION OF."""
    connection = cluster.connect(autocommit=False)
    ids = set()
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE outbox_4 (LIKE outbox INCLUDING ALL)")
        cursor.execute("ALTER TABLE outbox ATTACH PARTITION outbox_4 FOR VALUES IN (4)")
        cursor.execute("CREATE TABLE outbox_5 PARTITION OF outbox FOR VALUES IN (5)")
        for day in (4, 5):
            cursor.execute(_ROWS, (day, rows))
            ids |= {row[0] for row in cursor.fetchall()}
    connection.close()
    return ids


def _outcome(kafka, relay, topic, count):
    """None when all rows are there, else the exit code of the relay."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not relay.running():
            return relay.exit_code()
        if kafka.count(topic) >= count:
            return None
        time.sleep(0.1)
    raise AssertionError(f"neither all rows nor a stop: {kafka.count(topic)} of {count}, "
                         f"{relay.get('/readyz')}\n{relay.log_text()[-3000:]}")


def _ids(kafka, topic):
    return {record.header("id").decode() for record in Consumer(kafka.bootstrap_servers).read(topic)}


def _check(kafka, topic, expected, title):
    wait_until(lambda: kafka.count(topic) >= len(expected), 30, title)
    records = kafka.count(topic)
    got = _ids(kafka, topic)
    say(f"{title}: {len(expected):,} rows, {records:,} records, {len(expected - got)} missing")
    assert got == expected and records == len(expected), title
