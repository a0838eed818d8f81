"""10: a backlog of 500,000 one-row transactions drains at 0.8 of pg_recvlogical's rate, in 60 MB.

Both read the same WAL with the same plugin in the same run: pg_recvlogical to a pipe, the relay to
the real broker with acks=all. The relay's rate is taken from the broker's append times.
"""

import os
import platform
import subprocess
import time

from prove.common import PLUGINS, megabytes, say, stop_cleanly, wait_caught_up
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline

RATIO_MIN = 0.8
PEAK_KB_MAX = 60 * 1024

OUTBOX = """
CREATE TABLE outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL DEFAULT 'order',
  aggregate_id text NOT NULL, event_type text NOT NULL, payload jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), attempts int NOT NULL DEFAULT 0,
  processed_at timestamptz);
"""
_ROWS = """
DO $body$ BEGIN FOR i IN {first}..{last} LOOP
  INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (
    'order-' || i % 1000, 'OrderPlaced', jsonb_build_object('order', i, 'customer', i % 977,
      'note', repeat('n', 140)));
  COMMIT; END LOOP; END $body$
"""
# What the relay asks for as well: the same plugin has to print the same bytes for both.
_OPTIONS = {
    "wal2json": ["-o", "format-version=2", "-o", "include-lsn=true", "-o",
                 "include-timestamp=true", "-o", "include-types=false", "-o",
                 "include-type-oids=true", "-o", "actions=insert", "-o",
                 "add-tables=public.outbox", "-o", "add-msg-prefixes=outrider"],
    "pgoutput": ["-o", "proto_version=1", "-o", "publication_names=outrider"],
}


def prove(short):
    rows = 50_000 if short else 500_000
    say(f"{os.cpu_count()} cores, {platform.platform()}")
    failures = []
    with KafkaBroker(log_append_time=True, heap="768m") as kafka:
        for plugin in PLUGINS:
            with PostgresCluster() as cluster:
                ratio, peak = _measure(kafka, cluster, plugin, rows)
                # A short run is mostly starting up: it shows that the bench works, not how fast.
                if not short and ratio < RATIO_MIN:
                    failures.append(f"{plugin}: {ratio:.2f} of pg_recvlogical's rate")
                if peak > PEAK_KB_MAX:
                    failures.append(f"{plugin}: peak RSS {megabytes(peak)}")
    assert not failures, "; ".join(failures)


def _measure(kafka, cluster, plugin, rows):
    topic = f"{plugin}.drain"
    cluster.query(OUTBOX)
    relay = Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin, topic=topic))
    with relay:
        relay.start()
        stop_cleanly(relay)
        cluster.query("SELECT pg_create_logical_replication_slot('reference', %s)", (plugin,))
        write_backlog(cluster, rows)
        reference = _recvlogical(cluster, plugin, rows)
        cpu_before = relay.cpu_seconds()
        began = time.monotonic()
        relay.start(wait_ready=False)
        wait_caught_up(cluster, "outrider", relay=relay)
        wall = time.monotonic() - began
        peak = relay.rss_kb()[1]
        cpu = relay.cpu_seconds() - cpu_before
        stop_cleanly(relay)
    times, ids = [], set()
    for record in Consumer(kafka.bootstrap_servers).stream([topic]):
        times.append(record.timestamp_ms)
        ids.add(record.header("id"))
    assert len(times) == len(ids) == rows, f"{len(times)} records, {len(ids)} ids, {rows} rows"
    rate = rows / max(0.001, (max(times) - min(times)) / 1000)
    say(f"{plugin}: relay {rate:,.0f} rows/s by append times ({rows / wall:,.0f} with start), "
        f"pg_recvlogical {reference:,.0f} rows/s, ratio {rate / reference:.2f}, "
        f"peak RSS {megabytes(peak)}, {cpu / rows * 1e6:.1f} CPU s per million rows")
    return rate / reference, peak


def write_backlog(cluster, rows):
    step = 50_000
    for first in range(1, rows + 1, step):
        cluster.query(_ROWS.format(first=first, last=min(rows, first + step - 1)))
        say(f"… {min(rows, first + step - 1):,} of {rows:,} rows written")


def _recvlogical(cluster, plugin, rows):
    """Rows a second of pg_recvlogical into a pipe that is read and thrown away."""
    command = [os.path.join(cluster.bin_dir, "pg_recvlogical"), "-d", cluster.dsn(), "--slot",
               "reference", "--start", "--no-loop", "-f", "-", "--endpos", cluster.current_lsn(),
               *_OPTIONS[plugin]]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while process.stdout.read(1 << 20):
            pass
    took = time.monotonic() - began
    assert process.returncode == 0, "pg_recvlogical failed"
    cluster.query("SELECT pg_drop_replication_slot('reference')")
    return rows / took
