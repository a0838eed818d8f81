"""Faults that users of other relays reported, named after what they saw: rows, topics and Kafka.

docs/FIELD_FAULTS.md has the whole list; the numbers in the docstrings are its ids.
"""

import os
import re
import subprocess
import time

import pytest

from support import cleanup
from support.cleanup import wait_until
from support.consumer import Consumer
from support.field_faults import EXACTLY_ONCE, GUARANTEES, LETTERS, arrive, letters, relayed
from support.kafka_broker import KafkaBroker
from support.relay import EXIT_CONFIGURATION, EXIT_DUPLICATES_POSSIBLE, EXIT_FATAL, EXIT_OK
from support.rig import first_appearances

EXIT_FENCED = 76
RANDOM_TEXT = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {}))"


# Rows and topics at fault -----------------------------------------------------------------------


@GUARANTEES
@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_null_routing_column_does_not_stop_its_neighbours(rig, plugin, delivery):
    """83, 127: the row between two good ones leaves with its reason, and no payload is logged."""
    r = rig(plugin=plugin, log_level="debug",
            over={"route": {"topic": "", "by": "aggregate_type"}, **delivery})
    r.pipeline["route"]["replacement"] = r.topic
    r.relay.write_config()
    r.start()
    r.insert("1")
    r.sql("INSERT INTO outbox (aggregate_type, payload) VALUES (NULL, 'Marker-of-Alice')")
    r.insert("3")
    arrive(r, [1, 3])
    ((event_id,),) = r.sql("SELECT id::text FROM outbox WHERE aggregate_type IS NULL")
    ((reason, _code, message, letter_id, attempts),) = letters(r, 1)
    assert (reason, letter_id, attempts) == ("unroutable", event_id, 1)
    assert "aggregate_type" in message and "NULL" in message
    r.wait_confirmed()
    assert event_id in r.relay.log_text()
    assert "Marker-of-Alice" not in r.relay.log_text()
    assert r.relay.stop() == EXIT_OK


@GUARANTEES
def test_only_the_row_that_is_too_big_leaves_and_neighbours_come_once(rig, victim_kafka, delivery):
    """93, 94: a limit of the topic that counts batches, one offender among 200 rows of a key."""
    r = rig(create_topic=False, over={"kafka": {"properties": {"compression.codec": "none"}},
                                      **delivery})
    victim_kafka.create_topics(r.topic, partitions=1, config={"max.message.bytes": 2000})
    r.start()
    r.sql("BEGIN; INSERT INTO outbox (payload) SELECT i::text FROM generate_series(1, 100) AS i;"
          f"INSERT INTO outbox (payload) SELECT {RANDOM_TEXT.format(130)};"
          "INSERT INTO outbox (payload) SELECT i::text FROM generate_series(101, 200) AS i; COMMIT")
    ((reason, _code, message, _event, _attempts),) = letters(r, 1)
    assert reason == "too_large" and "2000" in message
    arrive(r, range(1, 201))
    r.wait_confirmed()


def test_limit_lowered_while_the_relay_runs_takes_no_innocent_with_it(rig, victim_kafka):
    """94: the broker refuses whole batches; only what is refused alone is a dead letter."""
    r = rig(create_topic=False, over={"kafka": {"properties": {"compression.codec": "none"}}})
    victim_kafka.create_topics(r.topic, partitions=1)
    r.start()
    r.insert("0")
    r.records(1)
    victim_kafka.admin.alter_topic(r.topic, {"max.message.bytes": 2000})
    r.sql("BEGIN; INSERT INTO outbox (payload) SELECT i::text FROM generate_series(1, 100) AS i;"
          f"INSERT INTO outbox (payload) SELECT {RANDOM_TEXT.format(130)};"
          "INSERT INTO outbox (payload) SELECT i::text FROM generate_series(101, 200) AS i; COMMIT")
    assert letters(r, 1)[0][0] == "too_large"
    arrive(r, range(0, 201))


def routed(rig, missing_policy, **more):
    """Rows of type a, b, c go to topics of their own; that of a does not exist."""
    r = rig(create_topic=False,
            over={"route": {"topic": "", "by": "event_type"},
                  "kafka": {"topics": {"create": False}},
                  "dead_letters": {"on_topic_error": missing_policy, **more}})
    r.pipeline["route"]["replacement"] = r.topic + "-${routedByValue}"
    r.relay.write_config()
    r.kafka.create_topics(r.topic + "-b", r.topic + "-c", partitions=1)
    return r.start()


def of_type(r, event_type, payload):
    r.sql("INSERT INTO outbox (event_type, payload) VALUES (%s, %s)", (event_type, payload))


def payloads(r, event_type, count):
    topic = f"{r.topic}-{event_type}"
    r.consumer.wait_for(topic, count, 30)
    return [record.value.decode() for record in r.consumer.read(topic)]


def test_one_bad_route_does_not_halt_the_others_where_that_is_the_policy(rig):
    """91, 95: rows of the missing topic become dead letters, those of B and C flow."""
    r = routed(rig, "dead_letter")
    for number in range(20):
        of_type(r, "abc"[number % 3], str(number))
    assert payloads(r, "b", 7) == ["1", "4", "7", "10", "13", "16", "19"]
    assert payloads(r, "c", 6) == ["2", "5", "8", "11", "14", "17"]
    assert {letter[0] for letter in letters(r, 7)} == {"topic_missing"}
    r.wait_confirmed()
    assert r.relay.stop() == EXIT_OK


def test_one_bad_route_is_not_waited_for_with_green_probes(rig):
    """91, 95: on_topic_error: wait holds everything, says so, goes on when the topic is there."""
    r = routed(rig, "wait")
    of_type(r, "b", "1")
    of_type(r, "a", "2")
    of_type(r, "b", "3")
    wait_until(lambda: r.relay.get("/readyz")[0] == 503, 20, "not ready")
    assert r.topic + "-a" in r.relay.get("/readyz")[1]
    assert r.relay.get("/livez")[0] == 200
    assert payloads(r, "b", 1) == ["1"]
    assert r.sql(LETTERS) == []
    r.kafka.create_topics(r.topic + "-a", partitions=1)
    assert payloads(r, "a", 1) == ["2"]
    assert payloads(r, "b", 2) == ["1", "3"]
    r.wait_confirmed()
    wait_until(r.relay.ready, 10, "ready")


# The dead-letter place at fault -----------------------------------------------------------------


def poison(r):
    """A row whose event id is NULL cannot be sent anywhere."""
    r.sql("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, ALTER id DROP NOT NULL")
    r.sql("INSERT INTO outbox (id, payload) VALUES (NULL, 'poison')")


@GUARANTEES
def test_missing_dead_letter_topic_halts_and_drops_nothing(rig, victim_kafka, delivery):
    """90: not ready, the topic is named; the letter is there when somebody has made the topic."""
    place = f"dead-{os.getpid()}-{len(delivery)}"
    r = rig(over={"kafka": {"topics": {"create": False}}, "dead_letters": {"topic": place},
                  **delivery})
    r.start()
    r.insert("1")
    poison(r)
    r.insert("3")
    wait_until(lambda: place in r.relay.get("/readyz")[1], 20, "not ready")
    assert r.values() == ["1"]
    victim_kafka.create_topics(place, partitions=1)
    arrive(r, [1, 3])
    (letter,) = Consumer(victim_kafka.bootstrap_servers, read_committed=True).read(place)
    assert letter.header("outrider.dead_letter.reason") == b"unroutable"
    r.wait_confirmed()
    assert r.relay.stop() == EXIT_OK


def test_row_too_big_for_the_dead_letter_topic_as_well_is_not_dropped(rig, victim_kafka):
    """90: a loud stop that says what to change; with that done the row is a dead letter."""
    place = f"dead-small-{os.getpid()}"
    r = rig(create_topic=False, over={"dead_letters": {"topic": place},
                                      "kafka": {"properties": {"compression.codec": "none"}}})
    victim_kafka.create_topics(r.topic, place, partitions=1, config={"max.message.bytes": 2000})
    r.start()
    r.insert("1")
    r.sql(f"INSERT INTO outbox (payload) SELECT {RANDOM_TEXT.format(130)}")
    r.insert("3")
    assert r.relay.wait(30) == EXIT_FATAL, r.relay.log_text()[-3000:]
    assert "nothing is dropped" in r.relay.log_text() and place in r.relay.log_text()
    assert r.values() == ["1"]
    victim_kafka.admin.alter_topic(place, {"max.message.bytes": 10_000})
    r.relay.start()
    arrive(r, [1, 3])
    (letter,) = r.consumer.read_until(place, 1, 30)
    assert len(letter.value) == 130 * 32


def test_dead_letter_table_that_goes_away_stops_and_drops_nothing(rig):
    """90: somebody drops the table while the relay runs; the row comes again with the table."""
    r = rig().start()
    r.insert("1")
    r.records(1)
    r.sql("ALTER TABLE outrider.dead_letters RENAME TO elsewhere")
    poison(r)
    r.insert("3")
    assert r.relay.wait(30) in (EXIT_FATAL, EXIT_CONFIGURATION), r.relay.log_text()[-3000:]
    assert "dead_letters" in r.relay.log_text()
    r.sql("ALTER TABLE outrider.elsewhere RENAME TO dead_letters")
    r.relay.start()
    letters(r, 1)
    r.wait_confirmed()
    assert first_appearances(r.values()) == ["1", "3"]


# Exactly once -----------------------------------------------------------------------------------


def exactly_once(rig, over=None, **delivery):
    return rig(over={**(over or {}), "delivery": {"guarantee": "exactly_once", **delivery}})


def test_relay_that_was_frozen_does_not_fight_the_one_that_took_over(rig):
    """116: the first is frozen, the second takes the slot and the transactions; thawed, the first
    sends nothing more and ends fenced or waits as a standby; each row is there once."""
    r = exactly_once(rig, over={"source": {"wal_sender_timeout_ms": 2000}})
    r.start()
    r.numbers(100)
    r.records(100)
    r.wait_confirmed()
    r.relay.freeze()
    with r.another_relay() as second:
        second.start(wait_ready=False)
        r.numbers(100, start=101)
        wait_until(second.ready, 30, "the second to take over")
        arrive(r, range(1, 201))
        r.relay.thaw()
        r.numbers(100, start=201)
        arrive(r, range(1, 301))
        wait_until(lambda: r.relay.exit_code() == EXIT_FENCED
                   or r.relay.role() == "standby", 30, "the first to give up")
        assert second.running() and second.ready()
        r.numbers(10, start=301)
        arrive(r, range(1, 311))
        assert second.stop() == EXIT_OK


def test_standby_that_waits_does_not_fence_the_active_relay(rig):
    """116: no epoch war: a waiting relay has not touched the transactions."""
    r = exactly_once(rig).start()
    with r.another_relay() as standby:
        standby.start()
        for number in range(1, 21):
            r.insert(str(number))
            time.sleep(0.05)
        arrive(r, range(1, 21))
        assert r.relay.running() and standby.role() == "standby"
        assert r.relay.stop() == EXIT_OK
        r.insert("21")
        arrive(r, range(1, 22))


def test_killed_relay_does_not_block_readers_until_its_transaction_times_out(rig):
    """117, 34: kill -9 amid a transaction of 50,000 rows; the next start ends the old one at once,
    far within its timeout of 60 s, and every row is there once."""
    r = exactly_once(rig).start()
    r.insert("0")
    r.wait_confirmed()
    r.numbers(50_000, start=1, filler=100)
    wait_until(lambda: r.kafka.count(r.topic) > 5_000, 20, "the transaction to be under way")
    r.relay.kill()
    began = time.monotonic()
    r.relay.start()
    arrive(r, range(50_001), timeout_s=40)
    assert time.monotonic() - began < 30
    r.wait_confirmed()


def test_transaction_over_the_limits_does_not_abort_for_ever(rig):
    """119, 31: 20,000 rows against 1,000 in one Kafka transaction, killed twice on the way: it
    goes on behind what is committed, and nothing comes twice."""
    r = exactly_once(rig, transaction_records_max=1_000, transaction_ms=10).start()
    r.numbers(20_000, filler=50)
    for enough in (2_000, 9_000):
        wait_until(lambda: r.kafka.count(r.topic) > enough, 20, "some to be there")
        r.relay.kill()
        r.relay.start()
    arrive(r, range(1, 20_001))
    r.wait_confirmed()


def test_transaction_over_the_limits_is_refused_with_the_limit_where_that_is_the_policy(rig):
    """119: readers have seen nothing of it, and the stop names the option."""
    r = exactly_once(rig, transaction_records_max=1_000, on_large_transaction="stop").start()
    r.insert("0")
    r.wait_confirmed()
    r.numbers(5_000)
    assert r.relay.wait(30) not in (EXIT_OK, None)
    assert "transaction_records_max" in r.relay.log_text()
    arrive(r, [0])


def test_transaction_timeout_above_the_brokers_is_refused_with_both_numbers(rig):
    """120: not an obscure failure of the client."""
    r = exactly_once(rig, transaction_timeout_ms=3_600_000)
    r.relay.start(wait_ready=False)
    assert r.relay.wait(30) == EXIT_CONFIGURATION, r.relay.log_text()[-3000:]
    assert "3600000" in r.relay.log_text() and "900000" in r.relay.log_text()
    assert "transaction.max.timeout.ms" in r.relay.log_text()


def test_coordinator_down_at_the_start_does_not_swallow_sigterm(rig, victim_kafka):
    """121: not ready, alive, goes on when the broker is there, and stops when asked to."""
    r = exactly_once(rig)
    relayed(r)
    victim_kafka.stop()
    r.insert("2")
    r.relay.start(wait_ready=False)
    wait_until(lambda: r.relay.get("/livez")[0] == 200, 10, "the probes")
    time.sleep(3)
    assert r.relay.get("/readyz")[0] == 503
    began = time.monotonic()
    assert r.relay.stop() in (EXIT_OK, EXIT_DUPLICATES_POSSIBLE)
    assert time.monotonic() - began < 5
    r.relay.start(wait_ready=False)
    victim_kafka.start()
    arrive(r, [1, 2], timeout_s=60)


@pytest.mark.parametrize("place", ["table", "topic"])
def test_poison_does_not_abort_its_transaction_each_time(rig, victim_kafka, place):
    """124: one row for a topic that is missing among 99 good ones: they and the letter, once."""
    over = {"route": {"topic": "", "by": "event_type"},
            "kafka": {"topics": {"create": False}},
            "dead_letters": {"on_topic_error": "dead_letter"}}
    dead = f"dead-eos-{os.getpid()}"
    if place == "topic":
        over["dead_letters"]["topic"] = dead
        victim_kafka.create_topics(dead, partitions=1)
    r = exactly_once(rig, over=over)
    r.pipeline["route"]["replacement"] = r.topic + "${routedByValue}"
    r.relay.write_config()
    r.start()
    r.sql("INSERT INTO outbox (event_type, payload) SELECT CASE i WHEN 50 THEN '-none' ELSE '' END,"
          " i::text FROM generate_series(1, 100) AS i")
    arrive(r, [number for number in range(1, 101) if number != 50])
    if place == "table":
        assert letters(r, 1)[0][0] == "topic_missing"
    r.wait_confirmed()
    if place == "topic":
        (letter,) = Consumer(victim_kafka.bootstrap_servers, read_committed=True).read(dead)
        assert letter.value == b"50"
    assert r.relay.stop() == EXIT_OK


# Rights and logins ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded_kafka():
    """A broker with a second port for user "relay", who may do what no ACL takes from him."""
    broker = KafkaBroker(start=False)
    port = cleanup.free_port()
    guarded = f"SASL_PLAINTEXT://127.0.0.1:{port}"
    path = os.path.join(broker.directory, "server.properties")
    with open(path, encoding="utf-8") as file:
        lines = [re.sub(r"^((?:advertised\.)?listeners=.*)$", rf"\1,{guarded}", line.rstrip("\n"))
                 for line in file]
    lines += [
        "listener.security.protocol.map="
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_relay=\"right\";",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS", "allow.everyone.if.no.acl.found=true"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    broker.start()
    broker.guarded = f"127.0.0.1:{port}"
    yield broker
    broker.close()


def acl(broker, action, *resource, operation="Write"):
    """Take an operation away from the relay, or give it back."""
    done = subprocess.run(
        broker._java("org.apache.kafka.tools.AclCommand", "--bootstrap-server",
                     broker.bootstrap_servers, action, "--deny-principal", "User:relay",
                     "--operation", operation, "--force", *resource),
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def guarded_rig(rig, broker, password="right", **over):
    r = rig(kafka=broker, over=over)
    r.pipeline["kafka"].update(bootstrap_servers=broker.guarded, properties={
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": "relay", "sasl.password": password})
    r.relay.write_config()
    return r


def test_wrong_password_of_kafka_is_not_an_endless_silent_retry(rig, guarded_kafka):
    """110: told at once, an end of its own kind, and no password in the log."""
    r = guarded_rig(rig, guarded_kafka, password="Wrong-Secret")
    r.relay.start(wait_ready=False)
    assert r.relay.wait(30) == EXIT_CONFIGURATION, r.relay.log_text()[-3000:]
    assert "uthentication" in r.relay.log_text() and "sasl." in r.relay.log_text()
    assert "Wrong-Secret" not in r.relay.log_text()
    r.pipeline["kafka"]["properties"]["sasl.password"] = "right"
    r.relay.write_config()
    r.relay.start()
    r.insert("1")
    arrive(r, [1])


def test_missing_right_on_a_topic_is_visible_and_burns_no_row(rig, guarded_kafka):
    """97, 91: the topic is named in log and readiness; with the right back all rows are there."""
    r = guarded_rig(rig, guarded_kafka).start()
    r.insert("1")
    arrive(r, [1])
    acl(guarded_kafka, "--add", "--topic", r.topic)
    r.numbers(500, start=2)
    wait_until(lambda: r.relay.get("/readyz")[0] == 503, 20, "not ready")
    wait_until(lambda: r.topic in r.relay.get("/readyz")[1], 20, "the topic's name")
    assert r.topic in r.relay.log_text() and "uthori" in r.relay.log_text()
    assert r.relay.get("/livez")[0] == 200
    acl(guarded_kafka, "--remove", "--topic", r.topic)
    arrive(r, range(1, 502), timeout_s=60)
    assert r.sql(LETTERS) == []
    wait_until(r.relay.ready, 20, "ready")


def test_missing_right_of_a_transactional_id_is_named(rig, guarded_kafka):
    """98: the like of it for exactly once: a bounded start that says which right is missing."""
    acl(guarded_kafka, "--add", "--transactional-id", "*")
    try:
        r = guarded_rig(rig, guarded_kafka, **EXACTLY_ONCE)
        r.relay.start(wait_ready=False)
        assert r.relay.wait(40) == EXIT_CONFIGURATION, r.relay.log_text()[-3000:]
        assert "ransactional" in r.relay.log_text()
    finally:
        acl(guarded_kafka, "--remove", "--transactional-id", "*")
