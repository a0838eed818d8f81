"""2: every committed row arrives, once, in order per topic and key, byte for byte; plugins agree.

Four concurrent writers, payloads up to 900 kB, three event types, rows deleted in their own
transaction, transactions and savepoints rolled back. Two relays (wal2json, pgoutput) route to three
topics while the load runs; two more drain the same load to one topic afterwards.
"""

import time

from prove.common import EVENT_TYPES, Progress, audit_topics, say, stop_cleanly, wait_caught_up
from support.audit import load_oracle, one_topic
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline
from support.workload import Workload


def prove(short):
    events = 10_000 if short else 200_000
    with PostgresCluster() as cluster, KafkaBroker() as kafka:
        load = Workload(cluster, huge=20 / events)
        relays = {}
        for plugin in ("wal2json", "pgoutput"):
            for kind in ("three", "one"):
                name = f"{plugin}_{kind}"
                relays[name] = _relay(cluster, kafka, name, plugin, kind)
        for relay in relays.values():
            relay.start()
        for name, relay in relays.items():
            if name.endswith("_one"):  # Its slot stays and keeps the backlog.
                stop_cleanly(relay)
        began = time.monotonic()
        load.run(events, writers=4, progress=Progress("rows committed", events))
        say(f"{load.events():,} rows committed in {time.monotonic() - began:.1f} s, "
            f"{load.rolled_back():,} transactions rolled back")
        oracle = load_oracle(cluster)
        sizes = sorted(row.payload_bytes for row in oracle.values())
        say(f"payload bytes: median {sizes[len(sizes) // 2]:,}, largest {sizes[-1]:,}")
        assert sizes[-1] > 800_000
        digests = {}
        for name, relay in relays.items():
            if not relay.running():
                relay.start()
            wait_caught_up(cluster, name, relay=relay)
            digests[name] = _audit(cluster, kafka, name, oracle)
            say(f"{name}: RSS {relay.rss_kb()[1] / 1024:.1f} MB at most, "
                f"{relay.cpu_seconds():.1f} s of CPU")
            stop_cleanly(relay)
        for kind in ("three", "one"):
            assert digests[f"wal2json_{kind}"] == digests[f"pgoutput_{kind}"], (
                f"the plugins' records differ ({kind})")
        say("both plugins' records are identical: partition, order, key, value, headers, timestamp")


def _relay(cluster, kafka, name, plugin, kind):
    route = ({"topic": f"{name}.all"} if kind == "one"
             else {"replacement": name + ".${routedByValue}"})
    return Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, name=name, slot=name,
                          plugin=plugin, route=route))


def _audit(cluster, kafka, name, oracle):
    if name.endswith("_one"):
        topics, rule = [f"{name}.all"], one_topic(f"{name}.all")
    else:
        topics = [f"{name}.{event}" for event in EVENT_TYPES]
        rule = lambda expected: f"{name}.{expected.event_type}"  # noqa: E731
    return audit_topics(cluster, kafka.bootstrap_servers, topics, title=name, oracle=oracle,
                        topic_of=rule,
                        logical_topic=lambda topic: topic.partition(".")[2]).digest
