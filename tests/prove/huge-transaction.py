"""7: one transaction of 2,000,000 rows with wal_sender_timeout=5s: constant memory, one pass."""

import time

from prove.common import PLUGINS, Progress, audit_topics, megabytes, say, stop_cleanly, \
    wait_caught_up
from support.cleanup import wait_until
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload

PEAK_KB_MAX = 96 * 1024


def prove(short):
    rows = 100_000 if short else 2_000_000
    with KafkaBroker() as kafka:
        for plugin in PLUGINS:
            with PostgresCluster(settings={"wal_sender_timeout": "5s"}) as cluster:
                _prove(kafka, cluster, plugin, rows)


def _prove(kafka, cluster, plugin, rows):
    topic = f"{plugin}.huge"
    load = Workload(cluster, bytes=100)
    with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin, topic=topic,
                        source={"wal_sender_timeout_ms": 0})) as relay:
        relay.start()
        walsender = cluster.slot("outrider")["active_pid"]
        idle = relay.rss_kb()[0]
        began = time.monotonic()
        load.bulk(rows)
        say(f"{plugin}: committed {rows:,} rows in one transaction, "
            f"{time.monotonic() - began:.0f} s")
        began = time.monotonic()
        progress = Progress("records", rows)

        def all_there():
            held = kafka.count(topic) if topic in kafka.topics() else 0
            progress(held, f", RSS {megabytes(relay.rss_kb()[0])}")
            assert relay.running(), relay.log_text()[-3000:]
            return held >= rows

        wait_until(all_there, 900, "the records", 0.5)
        wait_caught_up(cluster, "outrider", relay=relay)
        peak = relay.rss_kb()[1]
        say(f"{plugin}: relayed in {time.monotonic() - began:.0f} s, RSS {megabytes(idle)} idle, "
            f"{megabytes(peak)} at most, {relay.cpu_seconds():.1f} s of CPU")
        assert cluster.slot("outrider")["active_pid"] == walsender, "it took more than one pass"
        assert peak <= PEAK_KB_MAX, f"the peak is {megabytes(peak)}"
        audit_topics(cluster, kafka.bootstrap_servers, [topic], title=f"{plugin}, {rows:,} rows")
        stop_cleanly(relay)
