"""Rows that Kafka refuses, on a real broker: who leaves, who stays, in which order."""

import pytest

from support.cleanup import wait_until
from support.control import command, socket_in
from support.field_faults import arrive
from support.rig import first_appearances

GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
RANDOM_TEXT = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {}))"


def letters(r):
    """What the view says: reason and event id, in the order of the rows."""
    return r.sql("SELECT reason, event_id FROM outrider.outbox_dead_letters ORDER BY number")


def wait_for_letters(r, count):
    wait_until(lambda: len(letters(r)) >= count, 60, f"{count} dead letters")
    return letters(r)


def with_socket(r):
    socket_in(r.relay)
    return r


@GUARANTEES
def test_one_oversize_row_among_neighbours_of_its_key_leaves_alone(rig, victim_kafka, guarantee):
    """94: several batches in flight on one key; the topic's limit is lowered after it was read, so
    only the broker can tell. The innocents arrive once each, in commit order."""
    r = rig(create_topic=False,
            over={"delivery": {"guarantee": guarantee}, "kafka": {"properties": {
                "compression.codec": "none", "batch.num.messages": "50"}}})
    victim_kafka.create_topics(r.topic, partitions=1)
    r.start()
    r.numbers(10)
    r.expect(range(1, 11))
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 20_000})
    r.sql("INSERT INTO outbox (payload) SELECT CASE WHEN i = 700 THEN i || ' ' || "
          + RANDOM_TEXT.format(1000) + " ELSE i::text END FROM generate_series(11, 2000) AS i")
    ((event_id,),) = r.sql("SELECT id::text FROM outbox WHERE length(payload) > 100")
    assert wait_for_letters(r, 1) == [("too_large", event_id)]
    r.wait_confirmed(60)
    arrive(r, [i for i in range(1, 2001) if i != 700])
    assert len(letters(r)) == 1
    assert r.relay.stop() == 0


@GUARANTEES
def test_a_topic_for_small_batches_makes_no_dead_letter(rig, victim_kafka, guarantee):
    """1,000 records of 100 bytes into max.message.bytes=2000."""
    r = rig(create_topic=False, over={"delivery": {"guarantee": guarantee}})
    victim_kafka.create_topics(r.topic, partitions=1, config={"max.message.bytes": 2000})
    r.start()
    r.numbers(1000, filler=95)
    r.wait_confirmed(60)
    arrive(r, range(1, 1001))
    assert letters(r) == []


@GUARANTEES
def test_with_park_key_the_followers_wait_and_a_release_brings_all_back(rig, victim_kafka,
                                                                       guarantee):
    """The key's later rows follow it, another key's do not; after the cause is fixed a release
    delivers them in order and the key flows again."""
    r = with_socket(rig(create_topic=False, over={
        "delivery": {"guarantee": guarantee},
        "kafka": {"properties": {"compression.codec": "none"}},
        "dead_letters": {"on_poison": "park_key", "automatic_retry": "off"}}))
    victim_kafka.create_topics(r.topic, partitions=1, config={"max.message.bytes": 5_000})
    r.start()
    r.insert("1", key="a")
    r.sql("INSERT INTO outbox (aggregate_id, payload) VALUES ('a', '2 ' || "
          + RANDOM_TEXT.format(300) + ")")
    r.insert("3", key="a")
    r.insert("4", key="b")
    r.insert("5", key="a")
    reasons = [reason for reason, _ in wait_for_letters(r, 3)]
    assert reasons == ["too_large", "key_parked", "key_parked"]
    r.wait_confirmed()
    arrive(r, [1, 4])
    r.relay.stop()
    r.relay.start()  # Parked keys are read again at the start.
    r.insert("6", key="a")
    wait_for_letters(r, 4)
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 1_000_000})
    r.relay.stop()
    r.relay.start()  # The topic's limit is read again.
    code, lines, errors = command(r.relay, "dead-letters", "release", "a")
    assert code == 0, (lines, errors)
    r.insert("7", key="a")
    arrive(r, [1, 4, 2, 3, 5, 6, 7])
    assert letters(r) == []


def test_five_kinds_of_poison_among_good_rows_are_kept_with_their_reasons(rig, victim_kafka):
    """All are in the table, also after a kill -9; a retry delivers those whose cause is fixed."""
    r = with_socket(rig(create_topic=False, over={
        "kafka": {"properties": {"compression.codec": "none"}},
        "outbox": {"headers": ["note:note"]},
        "route": {"topic": "", "replacement": "${routedByValue}"},
        "dead_letters": {"burst": 1000}}))
    victim_kafka.create_topics(r.topic, partitions=1, config={"max.message.bytes": 5_000})
    r.sql("ALTER TABLE outbox ADD note text")
    r.sql(f"ALTER TABLE outbox ALTER event_type SET DEFAULT '{r.topic}'")
    r.start()
    r.numbers(2000)
    r.sql("INSERT INTO outbox (event_type, payload) VALUES (NULL, 'no type')")
    r.sql("INSERT INTO outbox (event_type, payload) VALUES ('no topic name!', 'bad topic')")
    r.sql("INSERT INTO outbox (event_type, payload) VALUES ('', 'empty topic')")
    r.sql("INSERT INTO outbox (event_type, payload) VALUES (repeat('x', 300), 'long topic')")
    r.sql("INSERT INTO outbox (payload) VALUES (" + RANDOM_TEXT.format(300) + ")")
    r.numbers(2000, start=2001)
    found = wait_for_letters(r, 5)
    r.relay.kill()
    r.relay.start()
    r.wait_confirmed(60)
    assert letters(r) == found, "the same five, each once"
    assert sorted(reason for reason, _ in found) == ["too_large"] + ["unroutable"] * 4
    assert first_appearances(r.values()) == [str(i) for i in range(1, 4001)]
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 1_000_000})
    r.relay.stop()
    r.relay.start()
    code, lines, errors = command(r.relay, "dead-letters", "retry", "--reason", "too_large")
    assert code == 0, (lines, errors)
    left = letters(r)
    assert [reason for reason, _ in left] == ["unroutable"] * 4
    code, lines, errors = command(r.relay, "dead-letters", "discard", "--all")
    assert code == 0, (lines, errors)
    assert letters(r) == [], left
