"""The end-to-end case on every PostgreSQL that is supported, and what only some of them have."""

import subprocess
import time

import pytest

from support import postgres_majors
from support.cleanup import wait_until
from support.postgres_majors import MajorCluster, Standby
from support.relay import EXIT_FATAL, binary, check_config, environment
from support.rig import first_appearances

#: The catalogue is looked at every 150 ms.
FAST = {"source": {"watch_interval_ms": 50}}
LOOKS_S = 0.7


@pytest.fixture(scope="module", params=postgres_majors.ALL)
def major(request):
    with MajorCluster(request.param) as cluster:
        assert cluster.version == request.param
        yield cluster


def numbers(r, count):
    return [int(value) for value in first_appearances(r.values(count))]


def test_rows_arrive_in_order_over_kills_and_a_restart_of_the_server(rig, major):
    """Rows come before, during and after; the catalogue watch sees no drift in all of it."""
    r = rig(cluster=major, over=FAST)
    assert check_config(r.relay.config).returncode == 0
    r.start()
    r.numbers(200, keys=3)
    r.singles(50, start=201)
    r.records(250)
    r.relay.kill()
    r.numbers(50, start=251)
    r.relay.start()
    r.records(300)
    major.restart("immediate")
    r.reconnect()
    r.sql("ANALYZE outbox")
    r.singles(20, start=301)
    r.sql("CREATE INDEX ON outbox (aggregate_id)")
    r.sql("VACUUM FULL outbox")
    r.numbers(30, start=321)
    r.wait_confirmed()
    time.sleep(LOOKS_S)
    assert sorted(numbers(r, 350)) == list(range(1, 351))
    by_key = {}
    for record in r.records():
        by_key.setdefault(record.key, []).append(int(record.value))
    for key, seen in by_key.items():
        assert first_appearances(seen) == sorted(set(seen)), key
    assert r.relay.stop() == 0
    assert "drift" not in r.relay.log_text()
    assert major.log_text().count("unrecognized configuration parameter") == 0


def test_init_makes_the_slot_with_pgoutput_where_wal2json_is_allowed_and_not_there():
    with MajorCluster(17, settings={"output_plugin_libraries": "pgoutput, wal2json"},
                      dead_letters=False) as cluster:
        done = subprocess.run([binary(), "init", "--apply", "--dsn", cluster.dsn("postgres")],
                              env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the slot is made with pgoutput" in done.stdout
        assert cluster.query("SELECT plugin FROM pg_replication_slots") == [("pgoutput",)]


def test_what_init_prepares_is_enough_for_rows_and_dead_letters(rig, major):
    r = rig(cluster=major, over={"source": {"create_slot": False, "create_publication": False}})
    r.sql("DROP SCHEMA outrider CASCADE")
    r.sql("ALTER TABLE outbox DROP CONSTRAINT outbox_pkey")
    r.sql("ALTER TABLE outbox ALTER COLUMN id DROP NOT NULL")
    done = subprocess.run([binary(), "init", "-c", r.relay.config_path, "--apply"],
                          env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    r.start()
    r.insert("1")
    r.sql("INSERT INTO outbox (id, payload) VALUES (NULL, 'poison')")
    r.insert("2")
    r.expect([1, 2])
    letters = wait_until(
        lambda: r.sql("SELECT * FROM outrider.outbox_dead_letters"), 10, "a dead letter")
    assert len(letters) == 1
    assert r.relay.stop() == 0


# Standbys, from 16 on ---------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[16, 18])
def pair(request):
    with MajorCluster(request.param) as primary, Standby(primary) as standby:
        yield primary, standby


def relay_on_standby(rig, primary, standby):
    """A rig whose tables are the primary's and whose relay streams from the standby."""
    r = rig(cluster=primary, over=FAST)
    r.sql(f"CREATE PUBLICATION {r.slot} FOR TABLE outbox")
    standby.wait_replayed()
    r.pipeline["source"].update(dsn=standby.dsn(r.dbname), create_publication=False)
    r.pipeline["dead_letters"] = {"dsn": primary.dsn(r.dbname)}
    r.relay = r.another_relay()
    r.relay.start(wait_ready=False)
    # A slot on a standby is made when the primary has told which transactions run there.
    wait_until(lambda: primary.query("SELECT pg_log_standby_snapshot()") and r.relay.ready(), 20,
               "the slot on the standby", 0.2)
    return r


def test_slot_on_a_standby_that_conflicts_with_recovery_is_a_loud_stop(rig, pair):
    """The primary has vacuumed catalogue rows away that the slot still needed."""
    primary, standby = pair
    r = relay_on_standby(rig, primary, standby)
    r.numbers(10)
    r.records(10)
    standby.set("hot_standby_feedback", "off")
    time.sleep(0.3)
    r.sql("CREATE TABLE gone (x int)")
    r.sql("DROP TABLE gone")
    r.sql("VACUUM pg_class")
    assert r.relay.wait(20) == EXIT_FATAL, r.relay.log_text()[-3000:]
    stop = [line for line in r.relay.log_text().splitlines() if "pipeline stops" in line][-1]
    assert "was invalidated by the server" in stop and "hot_standby_feedback = on" in stop
    standby.query("SELECT pg_drop_replication_slot(%s)", (r.slot,))
    standby.set("hot_standby_feedback", "on")


def promote_under(r, primary, standby):
    """Rows before and after the promotion; the stream is not even interrupted by it."""
    r.numbers(100)
    r.records(100)
    time.sleep(LOOKS_S)
    standby.wait_replayed()
    primary.stop()
    standby.promote()
    insert(r, standby, 101, 150)
    assert numbers(r, 150) == list(range(1, 151))
    assert "drift" not in r.relay.log_text()


def insert(r, cluster, first, last):
    cluster.query("INSERT INTO outbox (payload) SELECT i::text FROM generate_series(%s, %s) AS i",
                  (first, last), r.dbname)


def test_a_standby_is_decoded_and_goes_on_after_its_promotion(rig, pair):
    primary, standby = pair
    r = relay_on_standby(rig, primary, standby)
    promote_under(r, primary, standby)
    assert r.relay.stop() == 0


def test_a_relay_that_saw_its_standby_promoted_can_be_restarted(rig):
    """What was stored after the promotion is of the new timeline, so that nothing seems a gap."""
    with MajorCluster(18) as primary, Standby(primary) as standby:
        r = relay_on_standby(rig, primary, standby)
        promote_under(r, primary, standby)
        time.sleep(LOOKS_S)
        assert r.relay.stop() == 0
        r.pipeline["dead_letters"] = {"dsn": standby.dsn(r.dbname)}
        r.relay.write_config()
        r.relay.start()
        insert(r, standby, 151, 200)
        assert numbers(r, 200) == list(range(1, 201))
        assert r.relay.stop() == 0


# 18 ---------------------------------------------------------------------------------------------


def test_18_a_slot_invalidated_for_idling_is_a_loud_stop(rig):
    with MajorCluster(18, settings={"idle_replication_slot_timeout": "1s"}) as cluster:
        r = rig(cluster=cluster).start()
        r.insert("1")
        r.expect([1])
        assert "idle_replication_slot_timeout is set" in r.relay.log_text()
        assert r.relay.stop() == 0
        r.insert("lost")
        time.sleep(1.2)
        cluster.query("CHECKPOINT")
        assert cluster.query("SELECT invalidation_reason FROM pg_replication_slots"
                             " WHERE slot_name = %s", (r.slot,)) == [("idle_timeout",)]
        r.relay.start(wait_ready=False)
        assert r.relay.wait() == EXIT_FATAL
        assert "was invalidated by the server (idle_timeout)" in r.relay.log_text()
        assert "raise idle_replication_slot_timeout" in r.relay.log_text()
