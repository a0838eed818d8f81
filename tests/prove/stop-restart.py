"""4: SIGTERM, lost connections and server restarts under load: nothing lost, not one duplicate.

Twenty stops and starts of the relay, with transactions of 10,000 rows among the load and a backlog
at each start; then, in a relay that lives on, twenty pg_terminate_backend on its connection and
five clean restarts of the server.
"""

import time

import psycopg2

from prove.common import PLUGINS, audit_topics, say, stop_cleanly, wait_caught_up
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload

BULK_ROWS = 10_000


def prove(short):
    stops, cuts, restarts = (4, 4, 2) if short else (20, 20, 5)
    with KafkaBroker() as kafka:
        for plugin in PLUGINS:
            with PostgresCluster() as cluster:
                _prove(kafka, cluster, plugin, stops, cuts, restarts)


def _prove(kafka, cluster, plugin, stops, cuts, restarts):
    topic = f"{plugin}.restarted"
    load = Workload(cluster)
    with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin,
                        topic=topic)) as relay:
        relay.start()
        load.start(10_000_000, writers=4, rate=1_500)

        def audit(title):
            # The writers pause, so that oracle and topic can be compared.
            load.stop()
            wait_caught_up(cluster, "outrider", relay=relay)
            audit_topics(cluster, kafka.bootstrap_servers, [topic], title=f"{plugin}, {title}")
            load.start(10_000_000, writers=4, rate=1_500)

        for number in range(1, stops + 1):
            if number % 2 == 0:
                load.bulk(BULK_ROWS)
            time.sleep(0.3 + 0.07 * number)
            began = time.monotonic()
            stop_cleanly(relay)
            took = time.monotonic() - began
            time.sleep(0.5)  # A backlog for the next one.
            if number % 3 == 0:
                load.bulk(BULK_ROWS)
            relay.start()
            say(f"… {plugin}: stop {number} of {stops} took {took:.2f} s")
        audit(f"{stops} stops")
        for number in range(1, cuts + 1):
            _cut(cluster)
            time.sleep(0.4 + 0.05 * number)
            if number % 5 == 0:
                load.bulk(BULK_ROWS)
                say(f"… {plugin}: connection cut {number} of {cuts} times")
        audit(f"{cuts} lost connections")
        for number in range(1, restarts + 1):
            time.sleep(1)
            began = time.monotonic()
            cluster.restart()
            say(f"… {plugin}: server restart {number} of {restarts} took "
                f"{time.monotonic() - began:.2f} s")
            time.sleep(1)
        audit(f"{restarts} server restarts")
        load.stop()
        wait_caught_up(cluster, "outrider", relay=relay)
        stop_cleanly(relay)


def _cut(cluster):
    try:
        cluster.query("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                      " WHERE active_pid IS NOT NULL")
    except psycopg2.Error as error:
        raise AssertionError(f"cannot end the walsender: {error}") from error
