"""5: broker gone for 60 s under load and a million foreign transactions: connection and memory hold.

wal_sender_timeout is 5 s, so a relay that is paused by the broker and forgets its status would be
disconnected by the server. Everything arrives afterwards.
"""

import threading
import time

from prove.common import audit_topics, megabytes, say, sleep_with_progress, stop_cleanly, \
    wait_caught_up
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload, small_foreign_transactions

GROWTH_KB_MAX = 8 * 1024


def prove(short):
    outage_s, foreign, settle_s = (14, 50_000, 6) if short else (60, 1_000_000, 15)
    topic = "outage"
    with PostgresCluster(settings={"wal_sender_timeout": "5s"}) as cluster, KafkaBroker() as kafka:
        load = Workload(cluster)
        with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin="wal2json", topic=topic,
                            source={"wal_sender_timeout_ms": 0})) as relay:
            relay.start()
            load.start(10_000_000, writers=3, rate=4_000)
            time.sleep(3)
            walsender = cluster.slot("outrider")["active_pid"]
            say(f"before the outage: RSS {megabytes(relay.rss_kb()[0])}, walsender {walsender}")
            kafka.stop()
            began = time.monotonic()
            strangers = threading.Thread(target=small_foreign_transactions, daemon=True,
                                         args=(cluster, foreign))
            strangers.start()
            time.sleep(settle_s)
            full = relay.rss_kb()[0]
            say(f"limits reached: RSS {megabytes(full)}")
            sleep_with_progress(outage_s - settle_s, "outage",
                                lambda: f"(RSS {megabytes(relay.rss_kb()[0])})")
            strangers.join(300)
            assert not strangers.is_alive(), "the foreign transactions did not end"
            still = cluster.slot("outrider")["active_pid"]
            rss, _peak = relay.rss_kb()
            kafka.start()
            say(f"broker back after {time.monotonic() - began:.0f} s with {foreign:,} foreign "
                f"transactions: RSS {megabytes(rss)}, walsender {still}")
            assert still == walsender, "the server dropped the connection during the outage"
            assert rss - full <= GROWTH_KB_MAX, f"memory grew by {megabytes(rss - full)}"
            load.stop()
            began = time.monotonic()
            wait_caught_up(cluster, "outrider", relay=relay)
            rss, peak = relay.rss_kb()
            say(f"caught up {time.monotonic() - began:.1f} s after the load ended: "
                f"RSS {megabytes(rss)}, peak {megabytes(peak)}")
            assert peak - full <= GROWTH_KB_MAX * 2, f"the peak is {megabytes(peak)}"
            assert cluster.slot("outrider")["active_pid"] == walsender
            # A record in doubt when the broker stopped may be sent again by a new producer.
            rewinds = relay.log_text().count("rewind")
            audit_topics(cluster, kafka.bootstrap_servers, [topic], title="the outage",
                         duplicates_max=0 if rewinds == 0 else 20_000)
            stop_cleanly(relay)
