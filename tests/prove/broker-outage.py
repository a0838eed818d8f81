"""5: broker gone for 60 s under load, a million foreign transactions: link and memory hold.

wal_sender_timeout is 5 s, so a relay that is paused by the broker and forgets its status would be
disconnected by the server. A second outage finds little in flight, so that the relay reads the
foreign transactions while nothing is acknowledged: they must not grow its memory. Everything
arrives afterwards; twice only what was in flight when a producer had to be replaced.
"""

import threading
import time

from prove.common import audit_topics, megabytes, say, sleep_with_progress, stop_cleanly, \
    wait_caught_up
from support.cleanup import wait_until
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload, small_foreign_transactions

# Between the moment the limits are reached and the end of the outage; the allocator's noise.
GROWTH_KB_MAX = 4 * 1024
PEAK_GROWTH_KB_MAX = 10 * 1024
TOPIC = "outage"
FEW_EVENTS = 200


def prove(short):
    outage_s, foreign, settle_s = (14, 50_000, 6) if short else (60, 1_000_000, 15)
    with PostgresCluster(settings={"wal_sender_timeout": "5s"}) as cluster, KafkaBroker() as kafka:
        load = Workload(cluster)
        with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin="wal2json", topic=TOPIC,
                            source={"wal_sender_timeout_ms": 0})) as relay:
            relay.start()
            load.start(10_000_000, writers=3, rate=4_000)
            time.sleep(3)
            walsender = cluster.slot("outrider")["active_pid"]
            _figures(cluster, relay, "before the outage")
            _under_load(cluster, kafka, relay, load, (outage_s, foreign, settle_s))
            _with_little_in_flight(cluster, kafka, relay, load, foreign)
            assert cluster.slot("outrider")["active_pid"] == walsender, (
                "the server dropped the connection")
            assert relay.metric("outbox_source_losses_total") == 0
            restarts = int(relay.metric("outbox_producer_restarts_total"))
            in_doubt = int(restarts * relay.metric("outbox_in_flight_records_limit"))
            audit = audit_topics(cluster, kafka.bootstrap_servers, [TOPIC], title="both outages",
                                 duplicates_max=in_doubt)
            say(f"duplicates: {audit.duplicates:,}; producers replaced: {restarts}, so at most "
                f"{in_doubt:,} could be in doubt; database links lost: 0, walsender {walsender} "
                "from the first to the last moment")
            stop_cleanly(relay)


def _figures(cluster, relay, title):
    """One line of facts; returns RSS in KiB."""
    rss, peak = relay.rss_kb()
    slot = cluster.slot("outrider")
    say(f"{title}: RSS {megabytes(rss)}, peak {megabytes(peak)}, "
        f"{relay.metric('outbox_events_pending'):,.0f} records in flight, slot "
        f"{slot['confirmed_distance'] / 2**20:,.0f} MB behind, walsender {slot['active_pid']}")
    return rss


def _under_load(cluster, kafka, relay, load, sizes):
    """The limits are reached and reading stops, for most of the outage."""
    outage_s, foreign, settle_s = sizes
    kafka.stop()
    began = time.monotonic()
    strangers = threading.Thread(target=small_foreign_transactions, daemon=True,
                                 args=(cluster, foreign))
    strangers.start()
    time.sleep(settle_s)
    full = _figures(cluster, relay, "limits reached")
    sleep_with_progress(outage_s - settle_s, "outage",
                        lambda: f"(RSS {megabytes(relay.rss_kb()[0])})")
    strangers.join(300)
    assert not strangers.is_alive(), "the foreign transactions did not end"
    rss = _figures(cluster, relay, "end of the outage")
    kafka.start()
    say(f"broker back after {time.monotonic() - began:.0f} s with {foreign:,} foreign transactions")
    assert rss - full <= GROWTH_KB_MAX, f"memory grew by {megabytes(rss - full)} in the outage"
    time.sleep(1)
    load.stop()
    began = time.monotonic()
    wait_caught_up(cluster, "outrider", relay=relay)
    _figures(cluster, relay, f"caught up {time.monotonic() - began:.1f} s after the load ended")
    peak = relay.rss_kb()[1]
    assert peak - full <= PEAK_GROWTH_KB_MAX, f"the peak is {megabytes(peak)}"


def _with_little_in_flight(cluster, kafka, relay, load, foreign):
    """Nothing is acknowledged, everything is read: empty transactions must merge."""
    kafka.stop()
    load.bulk(FEW_EVENTS)
    wait_until(lambda: relay.metric("outbox_events_pending") == FEW_EVENTS, 20, "events in flight")
    before = _figures(cluster, relay, "second outage, little in flight")
    empty = relay.metric("outbox_empty_transactions_total")
    relay.reset_peak()
    small_foreign_transactions(cluster, foreign)

    def read():
        return relay.metric("outbox_empty_transactions_total") - empty

    wait_until(lambda: read() >= foreign, 300, "the foreign transactions to be read", 0.5)
    _figures(cluster, relay, f"{read():,.0f} foreign transactions read meanwhile")
    grown = relay.rss_kb()[1] - before
    say(f"memory grew by {megabytes(grown)} over them")
    assert grown <= GROWTH_KB_MAX
    kafka.start()
    wait_caught_up(cluster, "outrider", relay=relay)
    _figures(cluster, relay, "caught up")
