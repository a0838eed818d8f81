"""6: an idle outbox beside 1 GB of foreign WAL: the slot follows the server, WAL is not retained.

The WAL comes from another table and from another database; with the server's default
wal_sender_timeout and with 0, where the server sends no keepalive by itself.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from prove.common import PLUGINS, say, stop_cleanly
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload, write_other_wal

STATUS_INTERVAL_S = 5
CONFIRMED_BYTES_MAX = 16 * 1024 * 1024
RETAINED_BYTES_MAX = 64 * 1024 * 1024
RETAINED_WITHIN_S = 60


def prove(short):
    megabytes_each = 100 if short else 512
    cases = [(plugin, timeout) for plugin in PLUGINS for timeout in ("60s", "0")]
    # Mostly waiting: the short forms wait together.
    with KafkaBroker() as kafka, ThreadPoolExecutor(len(cases) if short else 1) as pool:
        for done in [pool.submit(_case, kafka, *case, megabytes_each) for case in cases]:
            done.result()


def _case(kafka, plugin, timeout, megabytes_each):
    with PostgresCluster(settings={"wal_sender_timeout": timeout}) as cluster:
        _prove(kafka, cluster, plugin, timeout, megabytes_each)


def _prove(kafka, cluster, plugin, timeout, megabytes_each):
    Workload(cluster)
    cluster.query("CREATE DATABASE other")
    source = {"status_interval_ms": STATUS_INTERVAL_S * 1000}
    if timeout == "0":
        source["wal_sender_timeout_ms"] = 0  # Keeps the server's.
    with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin,
                        topic=f"{plugin}.idle", source=source)) as relay:
        relay.start()
        written = write_other_wal(cluster, megabytes_each)
        written += write_other_wal(cluster, megabytes_each, "other")
        began = time.monotonic()
        confirmed = retained = None
        while time.monotonic() - began < RETAINED_WITHIN_S and not (confirmed and retained):
            slot = cluster.slot("outrider")
            took = time.monotonic() - began
            if confirmed is None and slot["confirmed_distance"] < CONFIRMED_BYTES_MAX:
                confirmed = (took, slot["confirmed_distance"])
            if retained is None and slot["restart_distance"] < RETAINED_BYTES_MAX:
                retained = (took, slot["restart_distance"])
            time.sleep(0.1)
        title = f"{plugin}, wal_sender_timeout {timeout}, {written / 2**20:,.0f} MB of WAL"
        slot = cluster.slot("outrider")
        assert confirmed, f"{title}: confirmed is {slot['confirmed_distance']:,} bytes behind"
        assert retained, f"{title}: {slot['restart_distance']:,} bytes retained"
        say(f"{title}: confirmed {confirmed[1]:,} bytes behind after {confirmed[0]:.1f} s, "
            f"{retained[1]:,} bytes retained after {retained[0]:.1f} s")
        assert confirmed[0] <= 2 * STATUS_INTERVAL_S, "later than two status intervals"
        stop_cleanly(relay)
