"""What goes wrong on the Kafka side and with single rows, named after what users saw."""

import time

import pytest

from support.cleanup import wait_until
from support.rig import first_appearances

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
RANDOM_TEXT = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {}))"

STOP = {"dead_letters": {"on_poison": "stop"}}


def losses(relay):
    return relay.metric("outbox_source_losses_total")


def restarts(relay):
    return relay.metric("outbox_producer_restarts_total")


def passes(seconds):
    """So much time, by polling."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 5, "time to pass")


# Brokers away ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_walsender_is_not_killed_while_kafka_takes_nothing(rig, victim_kafka):
    """6, 100, 134, 113: the broker frozen for 20 s with wal_sender_timeout=5s and 100,000 rows
    waiting: reading pauses, the server is answered, processor, memory and log stay small, then
    everything drains without a reconnect."""
    r = rig(plugin="wal2json", partitions=6, over={"source": {"wal_sender_timeout_ms": 0},
                                                   "limits": {"in_flight_bytes_max": 4_000_000}})
    r.cluster.set("wal_sender_timeout", "5s")
    r.start()
    r.insert("0")
    r.records(1)
    victim_kafka.freeze()
    r.numbers(100_000, keys=50, filler=150)
    wait_until(lambda: r.relay.metric("outbox_pauses_total") > 0, 20, "the pause")
    used, lines = r.relay.cpu_seconds(), len(r.relay.log_text().splitlines())
    resident = r.relay.rss_kb()[0]
    passes(20)
    assert r.relay.cpu_seconds() - used < 3
    assert r.relay.rss_kb()[0] - resident < 8 * 1024
    assert len(r.relay.log_text().splitlines()) - lines < 30
    assert losses(r.relay) == 0
    assert r.slot_state()["active"]
    victim_kafka.thaw()
    r.wait_confirmed(timeout_s=60)
    assert losses(r.relay) == 0
    assert not r.cluster.log_contains(f'{r.slot}" terminat')
    assert r.kafka.count(r.topic) == 100_001


def test_brokers_down_is_neither_a_log_flood_nor_an_end(rig, victim_kafka):
    """113, 114, 91: a few lines for the outage, red with the reason, green and complete after."""
    r = rig().start()
    r.insert("1")
    r.records(1)
    lines = len(r.relay.log_text().splitlines())
    victim_kafka.kill()
    r.numbers(1000, start=2)
    wait_until(lambda: not r.relay.ready(), 10, "red")
    passes(6)
    assert "kafka" in r.relay.get("/readyz")[1]
    assert r.relay.running()
    assert len(r.relay.log_text().splitlines()) - lines < 15
    victim_kafka.start()
    r.expect(range(1, 1002))
    r.wait_confirmed()
    assert restarts(r.relay) == 0
    assert len(r.relay.log_text().splitlines()) - lines < 20


def test_idle_connection_closed_by_the_broker_is_no_event(rig, victim_kafka):
    """114: the broker closes connections that were idle for 2 s; no line, no red, no loss."""
    r = rig().start()
    r.insert("1")
    r.records(1)
    lines = len(r.relay.log_text().splitlines())
    end = time.monotonic() + 6
    wait_until(lambda: not r.relay.ready() or time.monotonic() > end, 8, "idle time")
    assert r.relay.ready()
    r.insert("2")
    r.expect([1, 2])
    assert len(r.relay.log_text().splitlines()) - lines <= 1


@PLUGINS
def test_order_within_one_transaction_survives_a_broker_restart(rig, victim_kafka, plugin):
    """88: 5,000 rows of one key in one transaction, the broker killed in the middle of them."""
    r = rig(plugin=plugin, over={"limits": {"in_flight_records_max": 200},
                                 "kafka": {"properties": {"batch.num.messages": "50"}}}).start()
    r.insert("0")
    r.records(1)
    r.numbers(5000, filler=500)
    wait_until(lambda: victim_kafka.count(r.topic) > 300, 10, "the first rows", 0.002)
    victim_kafka.kill()
    victim_kafka.start()
    r.wait_confirmed(timeout_s=40)
    r.expect(range(5001))


def test_small_local_queue_means_waiting_not_dropping(rig):
    """100: queue.buffering.max.messages=100 and 20,000 rows."""
    r = rig(over={"kafka": {"properties": {"queue.buffering.max.messages": "100"}}}).start()
    r.numbers(20_000)
    r.expect(range(1, 20_001))
    assert r.relay.cpu_seconds() < 6


# Topics ----------------------------------------------------------------------------------------


def test_topic_that_is_missing_for_a_while_loses_nothing(rig, victim_kafka):
    """95, 91: no creation: red with the topic's name, delivered when it is made."""
    r = rig(create_topic=False, over={"kafka": {"topics": {"create": False}}}).start()
    r.numbers(300)
    wait_until(lambda: r.topic in r.relay.get("/readyz")[1], 10, "the reason")
    assert r.relay.get("/readyz")[0] == 503
    passes(4)
    assert r.relay.running()
    victim_kafka.create_topics(r.topic, partitions=1)
    r.relay.wait_ready()
    r.expect(range(1, 301))
    r.wait_confirmed()


@pytest.mark.parametrize("create", [True, False])
def test_topic_deleted_and_made_again_while_producing(rig, victim_kafka, create):
    """112: it recovers with order kept; what was in the deleted topic is gone with it."""
    r = rig(over={"kafka": {"topics": {"create": create, "partitions": 1}}}).start()
    r.numbers(500)
    r.records(500)
    victim_kafka.delete_topics(r.topic)
    r.singles(200, start=501)
    if not create:
        wait_until(lambda: r.topic not in victim_kafka.topics(), 10, "the end of the topic")
        victim_kafka.create_topics(r.topic, partitions=1)
    r.singles(200, start=701)
    r.wait_confirmed(timeout_s=40)
    values = first_appearances(r.values())
    tail = [str(number) for number in range(int(values[0]), 901)]
    assert values == tail
    assert int(values[0]) <= 701


def test_flood_of_event_types_does_not_make_a_flood_of_topics(rig, victim_kafka):
    """85: routes from data are bounded; the row beyond the limit stops the relay with 65."""
    r = rig(create_topic=False, over={"route": {"topic": "", "topics_max": 5}, **STOP})
    r.start()
    r.sql(f"INSERT INTO outbox (event_type, payload) SELECT '{r.topic}-' || i, i::text"
          " FROM generate_series(1, 1000) AS i")
    assert r.relay.wait(20) == 65
    made = [name for name in victim_kafka.topics() if r.topic in name]
    assert sorted(made) == [f"outbox.event.{r.topic}-{i}" for i in range(1, 6)]
    assert "topics_max" in r.relay.log_text()


# Rows that cannot be sent, with on_poison: stop (dead letters: test_refused_rows.py) -------------


def assert_stopped_at(r, good, event_id):
    """Exit 65; what came before is there and confirmed, nothing after is; again at each start."""
    assert r.relay.wait(30) == 65, r.relay.log_text()
    assert r.values() == [str(value) for value in good]
    assert event_id in r.relay.log_text()
    before = r.slot_state()["confirmed_flush_lsn"]
    r.relay.start(wait_ready=False)
    assert r.relay.wait(30) == 65
    assert r.values() == [str(value) for value in good]
    assert r.slot_state()["confirmed_flush_lsn"] == before


@PLUGINS
def test_null_routing_column_stops_before_anything_passes_it(rig, plugin):
    """83, 127: good, bad, good; the payload is in no log line at any level."""
    r = rig(plugin=plugin, log_level="debug", over={"route": {"topic": "", "by": "aggregate_type",
                                                              "replacement": "rig-by-type"},
                                                    **STOP})
    r.topic = "rig-by-type-" + plugin
    r.pipeline["route"]["replacement"] = r.topic
    r.relay.write_config()
    r.start()
    r.insert("1")
    r.records(1)
    r.sql("INSERT INTO outbox (aggregate_type, payload) VALUES (NULL, 'Marker-of-Alice')")
    r.insert("3")
    ((event_id,),) = r.sql("SELECT id::text FROM outbox WHERE aggregate_type IS NULL")
    assert_stopped_at(r, [1], event_id)
    log = r.relay.log_text()
    assert "aggregate_type" in log and "NULL" in log
    assert "Marker-of-Alice" not in log


def test_message_over_the_client_limit_is_not_forgotten(rig, victim_kafka):
    """93: 2 MB against message.max.bytes=1000000 (lz4 helps nothing: the client counts before)."""
    r = rig(over={"kafka": {"properties": {"message.max.bytes": "1000000"}}, **STOP})
    r.start()
    r.insert("1")
    r.sql("INSERT INTO outbox (payload) VALUES (repeat('Marker', 350000))")
    r.insert("3")
    ((event_id,),) = r.sql("SELECT id::text FROM outbox WHERE length(payload) > 10")
    assert_stopped_at(r, [1], event_id)
    assert "message.max.bytes" in r.relay.log_text()
    assert "MarkerMarker" not in r.relay.log_text()
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 3_000_000})
    r.pipeline["kafka"]["properties"] = {"message.max.bytes": "3000000"}
    r.relay.write_config()
    r.relay.start()
    records = r.records(3)
    assert [len(record.value) for record in records] == [1, 2_100_000, 1]


@pytest.mark.parametrize("codec", ["lz4", "none"])
def test_small_neighbours_of_a_big_row_are_not_refused_with_it(rig, victim_kafka, codec):
    """94: a topic of 2,000 bytes: a row of 1.7 kB among tiny ones passes with them; one of 4 kB
    stops the relay, and nothing after it is sent; raising the limit lets all through in order."""
    r = rig(create_topic=False,
            over={"kafka": {"properties": {"compression.codec": codec}}, **STOP})
    victim_kafka.create_topics(r.topic, partitions=1, config={"max.message.bytes": 2000})
    r.start()
    r.numbers(50)
    r.sql(f"INSERT INTO outbox (payload) SELECT '51 ' || {RANDOM_TEXT.format(53)}")
    r.numbers(49, start=52)
    r.expect(range(1, 101))
    r.sql(f"INSERT INTO outbox (payload) SELECT '101 ' || {RANDOM_TEXT.format(130)}")
    r.numbers(50, start=102)
    assert r.relay.wait(30) == 65, r.relay.log_text()
    assert r.values() == [str(value) for value in range(1, 101)]
    assert "max.message.bytes" in r.relay.log_text()
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 10_000})
    r.relay.start()
    r.expect(range(1, 152))
