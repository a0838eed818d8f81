"""3: kill -9 ten times under load: nothing lost, order kept, at most 20 duplicates per kill.

Duplicates may be only around the kills: a repeated record must have been committed within the three
seconds before one of them, or before the next process was ready.
"""

import random
import time

from prove.common import PLUGINS, SteadyLoad, audit_topics, say, stop_cleanly, wait_caught_up
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline

DUPLICATES_PER_KILL_MAX = 20
NEAR_MS = 3_000


def prove(short):
    with KafkaBroker() as kafka:
        for plugin in PLUGINS:
            _prove(kafka, plugin, kills=3 if short else 10)


def _prove(kafka, plugin, kills):
    topic = f"{plugin}.killed"
    dice = random.Random(20_26)
    with PostgresCluster() as cluster:
        # A kill inside a transaction of many rows repeats what was sent of it: one of those would
        # fill the bound of three kills, but not the average of ten.
        load = SteadyLoad(cluster, huge=0.0002 if kills >= 10 else 0)
        relay = Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=plugin, topic=topic))
        with relay:
            relay.start()
            load.start(10_000_000, writers=4, rate=1_000)
            windows = []
            for number in range(1, kills + 1):
                time.sleep(dice.uniform(1.5, 5))
                killed_ms = time.time() * 1000
                relay.kill()
                relay.start()
                ready_ms = time.time() * 1000
                windows.append((killed_ms - NEAR_MS, ready_ms))
                say(f"… {plugin}: kill {number} of {kills}, ready again after "
                    f"{(ready_ms - killed_ms) / 1000:.2f} s, {load.committed():,} rows so far")
            time.sleep(1)
            load.stop()
            wait_caught_up(cluster, "outrider", relay=relay)
            result = audit_topics(cluster, kafka.bootstrap_servers, [topic],
                                  title=f"{plugin}, {kills} kills",
                                  duplicates_max=kills * DUPLICATES_PER_KILL_MAX)
            say(f"{plugin}: {result.duplicates / kills:.1f} duplicates per kill")
            for event_id, places in result.repeated.items():
                committed_ms = places[0][3]
                assert any(low <= committed_ms <= high for low, high in windows), (
                    f"{event_id} came {len(places)} times, far from any kill")
            stop_cleanly(relay)
