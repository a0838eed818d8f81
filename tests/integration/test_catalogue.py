"""Rows that the catalogue keeps from the stream, named after what users of other relays saw."""

import re
import threading
import time

import pytest

from support.cleanup import wait_until
from support.relay import EXIT_CONFIGURATION, EXIT_FATAL

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
#: Looks at the catalogue every 150 ms.
FAST = {"source": {"watch_interval_ms": 50}}
LOOK_S = 0.15
SWAP = """ALTER TABLE outbox RENAME TO outbox_old;
          CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL);"""


def stopped_for(relay, *words):
    assert relay.wait(timeout_s=15) == EXIT_FATAL, relay.log_text()[-3000:]
    stop = relay.log_text().splitlines()
    stop = [line for line in stop if "the catalogue drifted" in line][-1]
    for word in words:
        assert word in stop, stop
    return stop


def looked(r):
    """At least one look at the catalogue has been taken since."""
    time.sleep(4 * LOOK_S)
    assert r.relay.running(), r.relay.log_text()[-3000:]


# What stops -----------------------------------------------------------------------------------


def test_table_taken_out_of_the_publication_and_added_again_is_not_passed_over(rig):
    """Both bounds are named, and the next start says it again until the slot has passed it."""
    r = rig(over=FAST).start()
    r.insert("1")
    r.expect([1])
    looked(r)
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox")
    r.insert("lost")
    r.sql(f"ALTER PUBLICATION {r.slot} ADD TABLE outbox")
    stop = stopped_for(r.relay, "taken out of publication", "and before", "DELETE FROM public.outbox")
    lower, upper = re.search(r"after (\S+) and before (\S+) may", stop).groups()
    assert r.sql("SELECT %s::pg_lsn < %s::pg_lsn", (lower, upper)) == [(True,)]
    r.relay.start()
    r.relay.wait_for_log("rows may be missing")
    r.insert("2")
    r.expect([1, 2])


def test_dropped_membership_stops_and_the_next_start_is_refused_until_it_is_back(rig):
    r = rig(over=FAST).start()
    looked(r)
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox")
    stopped_for(r.relay, "is not in publication", "it lasts",
                f"ALTER PUBLICATION {r.slot} ADD TABLE public.outbox")
    r.relay.start(wait_ready=False)
    assert r.relay.wait() == EXIT_CONFIGURATION
    assert "never arrive" in r.relay.log_text().splitlines()[-1] + r.relay.log_text()


@pytest.mark.parametrize("statement, words", [
    ("ALTER PUBLICATION {slot} SET TABLE outbox WHERE (aggregate_id <> 'k')", "row filter"),
    ("ALTER PUBLICATION {slot} SET TABLE outbox"
     " (id, aggregate_type, aggregate_id, event_type, payload)", "with columns id, aggregate_type"),
    ("ALTER PUBLICATION {slot} SET (publish = 'update')", "does not publish inserts"),
    ("DROP PUBLICATION {slot}", "does not exist any more"),
    (SWAP, "is not in publication"),
    (SWAP + "COMMIT; BEGIN; ALTER PUBLICATION {slot} ADD TABLE outbox",
     "replaced by another table"),
    ("ALTER TABLE outbox RENAME TO events", "(public.outbox -> public.events)"),
    ("DROP TABLE outbox", "does not exist any more"),
    ("ALTER TABLE outbox RENAME TO events; COMMIT; BEGIN; ALTER TABLE events RENAME TO outbox",
     "had another name"),
], ids=["filter", "columns", "publish", "publication", "swap", "late", "rename", "drop", "back"])
def test_catalogue_drift_under_pgoutput_is_loud(rig, statement, words):
    r = rig(over=FAST).start()
    looked(r)
    r.sql("BEGIN; " + statement.format(slot=r.slot) + "; COMMIT")
    stopped_for(r.relay, words, "may never arrive")


@pytest.mark.parametrize("statement, words", [
    ("ALTER TABLE outbox RENAME TO events", "(public.outbox -> public.events)"),
    ("CREATE SCHEMA attic; ALTER TABLE outbox SET SCHEMA attic", "-> attic.outbox"),
    ("ALTER TABLE outbox SET UNLOGGED", "became unlogged"),
    ("ALTER TABLE outbox RENAME TO events; COMMIT; BEGIN; ALTER TABLE events RENAME TO outbox",
     "had another name"),
], ids=["rename", "schema", "unlogged", "back"])
def test_outbox_table_renamed_or_unlogged_under_wal2json_is_loud(rig, statement, words):
    """70, 71: the plugin goes by the name, and an unlogged table is not in the WAL."""
    r = rig(plugin="wal2json", over=FAST).start()
    looked(r)
    r.sql("BEGIN; " + statement + "; COMMIT")
    stopped_for(r.relay, words)


def test_partitions_under_their_own_names_are_loud(rig):
    r = rig(over=FAST, table=None)
    r.sql("CREATE TABLE outbox (id uuid DEFAULT gen_random_uuid(), aggregate_type text DEFAULT 'o',"
          " aggregate_id text, event_type text DEFAULT 'made', payload text, day int DEFAULT 1)"
          " PARTITION BY LIST (day);"
          "CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES IN (1)")
    r.start()
    r.insert("1")
    r.expect([1])
    r.sql("CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES IN (2)")
    r.relay.wait_for_log("the catalogue changed")
    assert r.relay.running()
    r.sql(f"ALTER PUBLICATION {r.slot} SET (publish_via_partition_root = false)")
    stopped_for(r.relay, "under their own names", "publish_via_partition_root = true")


def test_row_of_a_renamed_table_asks_for_a_look_at_once(rig):
    """The next regular look is a minute away; the row itself gives the rename away."""
    r = rig(over={"source": {"watch_interval_ms": 20_000}}).start()
    r.insert("1")
    r.expect([1])
    time.sleep(0.5)
    r.sql("ALTER TABLE outbox RENAME TO events")
    r.sql("INSERT INTO events (aggregate_id, payload) VALUES ('k', '2')")
    began = time.monotonic()
    stopped_for(r.relay, "-> public.events")
    assert time.monotonic() - began < 10


# The links ------------------------------------------------------------------------------------


def test_lost_control_connection_neither_disturbs_the_stream_nor_hides_drift(rig):
    r = rig(over=FAST).start()
    looked(r)
    for _ in range(3):
        r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name = 'outrider_control'")
        time.sleep(0.1)
    r.insert("1")
    r.expect([1])
    assert r.relay.metric("outbox_source_losses_total") == 0
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox;"
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
          " WHERE application_name = 'outrider_control'")
    stopped_for(r.relay, "is not in publication")


def test_drift_while_the_stream_was_away_is_found_at_the_reconnect(rig):
    r = rig(over={"source": {"watch_interval_ms": 50, "reconnect_first_ms": 1_000,
                             "reconnect_max_ms": 1_000}}).start()
    looked(r)
    r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox")
    r.insert("lost")
    r.sql(f"ALTER PUBLICATION {r.slot} ADD TABLE outbox")
    stopped_for(r.relay, "taken out of publication")


def test_refusal_at_a_reconnect_names_the_last_good_position(rig):
    r = rig(over={"source": {"watch_interval_ms": 50, "reconnect_first_ms": 1_000,
                             "reconnect_max_ms": 1_000}}).start()
    looked(r)
    r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox")
    assert r.relay.wait() in (EXIT_CONFIGURATION, EXIT_FATAL)
    assert "last seen good at" in r.relay.log_text() or "drifted" in r.relay.log_text()


def test_look_waits_for_no_lock(rig):
    """A migration holds the table for a while: the stream goes on and the looks do too."""
    r = rig(over=FAST).start()
    holder = r.cluster.connect(r.dbname, autocommit=False)
    with holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE")
        looked(r)
        asked = r.cluster.query("SELECT wait_event_type, state FROM pg_stat_activity"
                                " WHERE application_name = 'outrider_control'"
                                " AND wait_event_type = 'Lock'")
        assert asked == []
    holder.close()
    r.insert("1")
    r.expect([1])


# The start ------------------------------------------------------------------------------------


@PLUGINS
def test_no_false_alarm_over_restarts_or_ordinary_changes(rig, plugin):
    r = rig(plugin=plugin, over=FAST).start()
    for turn in range(2):
        r.insert(str(2 * turn))
        r.sql(f"ALTER TABLE outbox ADD COLUMN more_{turn} text;"
              f"CREATE INDEX ON outbox (more_{turn}); GRANT SELECT ON outbox TO PUBLIC;"
              "ANALYZE outbox")
        r.insert(str(2 * turn + 1))
        r.sql("TRUNCATE outbox")
        looked(r)
        r.wait_confirmed()
        assert r.relay.stop() == 0
        r.relay.start()
    r.expect(range(4))
    looked(r)
    assert "rows may be missing" not in r.relay.log_text()


def test_membership_made_anew_while_stopped_is_reported_at_the_start(rig):
    r = rig(over=FAST).start()
    r.insert("1")
    r.wait_confirmed()
    assert r.relay.stop() == 0
    r.sql(f"ALTER PUBLICATION {r.slot} DROP TABLE outbox")
    r.insert("lost")
    r.sql(f"ALTER PUBLICATION {r.slot} ADD TABLE outbox")
    place = r.sql("SELECT pg_current_wal_insert_lsn()::text")[0][0]
    r.relay.start()
    r.relay.wait_for_log("rows may be missing")
    text = r.relay.log_text()
    assert "was added to publication" in text
    lower, upper = re.search(r"after (\S+) and before (\S+) may", text).groups()
    assert r.sql("SELECT %s::pg_lsn < %s::pg_lsn AND %s::pg_lsn <= %s::pg_lsn",
                 (lower, place, place, upper)) == [(True,)]
    # Sent again with the printed statement.
    sql = re.search(r"(WITH gone AS .*? SELECT \* FROM gone)", text).group(1)
    r.sql(sql)
    wait_until(lambda: "lost" in r.values(), 15, "the lost row")


# How to do it right (docs/OPERATIONS.md, "Change an outbox table safely") ---------------------


@PLUGINS
def test_swap_in_one_transaction_loses_nothing_and_stops_nothing(rig, plugin):
    r = rig(plugin=plugin, over=FAST).start()
    r.numbers(50)
    looked(r)
    add = f"ALTER PUBLICATION {r.slot} ADD TABLE outbox;" if plugin == "pgoutput" else ""
    r.sql("BEGIN; SET LOCAL lock_timeout = '2s'; LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE;"
          + SWAP + add + "COMMIT")
    r.numbers(50, start=51)
    looked(r)
    r.numbers(50, start=101)
    r.expect(range(1, 151))
    r.relay.wait_for_log("the catalogue changed")
    assert r.relay.stop() == 0
    r.relay.start()
    looked(r)
    if plugin == "pgoutput":
        assert "rows may be missing" not in r.relay.log_text()


def test_membership_changed_in_one_transaction_while_stopped_loses_nothing(rig):
    r = rig(over=FAST).start()
    r.numbers(10)
    assert r.relay.stop() == 0
    r.numbers(10, start=11)
    r.sql(f"BEGIN; ALTER PUBLICATION {r.slot} DROP TABLE outbox;"
          f"ALTER PUBLICATION {r.slot} ADD TABLE outbox; COMMIT")
    r.numbers(10, start=21)
    r.relay.start()
    r.relay.wait_for_log("rows may be missing")
    r.expect(range(1, 31))
    looked(r)


@PLUGINS
def test_rename_that_waits_for_the_slot_loses_nothing(rig, plugin):
    r = rig(plugin=plugin, over=FAST).start()
    r.numbers(1_000)
    migration = r.cluster.connect(r.dbname, autocommit=False)
    with migration.cursor() as cursor:
        cursor.execute("ALTER TABLE outbox RENAME TO events")
        looked(r)
        r.wait_confirmed()
        assert r.relay.stop() == 0
    migration.commit()
    migration.close()
    r.sql("INSERT INTO events (aggregate_id, payload) VALUES ('k', '1001')")
    r.relay.config["pipelines"][0]["outbox"]["tables"] = ["public.events"]
    r.relay.write_config()
    r.relay.start()
    r.expect(range(1, 1_002))
    looked(r)


def test_lower_bound_holds_while_the_change_waits_for_a_standby(rig):
    """The commit is in the WAL and rows miss the publication, but no look can see it yet."""
    r = rig(over=FAST).start()
    looked(r)
    r.cluster.set("synchronous_standby_names", "nobody")
    r.sql("SET synchronous_commit = local")
    drop = threading.Thread(target=r.cluster.query, daemon=True, args=(
        f"ALTER PUBLICATION {r.slot} DROP TABLE outbox",), kwargs={"dbname": r.dbname})
    drop.start()
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    wait_until(lambda: r.cluster.query(waiting), 10, "the commit to wait")
    place = r.sql("SELECT pg_current_wal_insert_lsn()::text")[0][0]
    r.insert("lost")
    looked(r)
    looked(r)
    r.cluster.query(f"SELECT pg_cancel_backend(pid) FROM ({waiting}) w")
    drop.join(10)
    stop = stopped_for(r.relay, "is not in publication")
    lower = re.search(r"after (\S+) may", stop).group(1)
    assert r.sql("SELECT %s::pg_lsn <= %s::pg_lsn", (lower, place)) == [(True,)]
    assert r.values() == []
