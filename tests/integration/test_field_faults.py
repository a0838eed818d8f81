"""Faults that users of other relays reported, named after what they saw: slot and server.

docs/FIELD_FAULTS.md is the whole list with the proof of each, and the first test keeps it true.
test_field_faults_delivery.py has rows, topics and Kafka. The numbers in the docstrings are the ids
of that table.
"""

import functools
import glob
import os
import re
import shutil
import time

import pytest

from support.cleanup import wait_until
from support.field_faults import GUARANTEES, arrive, relayed
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_FATAL, EXIT_OK, ROOT
from support.rig import first_appearances

PAGE = os.path.join(ROOT, "docs", "FIELD_FAULTS.md")
LSN = r"[0-9A-F]+/[0-9A-F]+"


# The table ------------------------------------------------------------------------------------


@functools.lru_cache
def sources(pattern):
    """All test sources that the pattern finds, as one text."""
    texts = []
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", pattern), recursive=True)):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return "\n".join(texts)


def exists(proof):
    """Is there such a test: `file.py::name`, `Suite.Name` or `prove NAME`?"""
    if proof.startswith("prove "):
        return os.path.exists(os.path.join(ROOT, "tests", "prove", proof[6:] + ".py"))
    if "::" in proof:
        file, name = proof.split("::")
        text = sources(os.path.join("integration", file))
        return re.search(rf"^def {re.escape(name)}\(", text, re.MULTILINE)
    suite, name = proof.split(".")
    return re.search(rf"^TEST(?:_F|_P)?\(\s*{suite},\s*{name}\)", sources("**/*_test.cc"),
                     re.MULTILINE)


def rows():
    """(id, the other columns) of each line of the table."""
    with open(PAGE, encoding="utf-8") as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) == 4 and cells[0].isdigit():
                yield int(cells[0]), " | ".join(cells[1:])


def test_every_row_of_the_table_has_a_proof_that_exists_or_the_issue_that_brings_it():
    seen = dict(rows())
    assert len(seen) > 100 and len(seen) == len(list(rows())), "a row is missing or there twice"
    wrong = {}
    for number, cell in seen.items():
        proofs = re.findall(r"`([^`]+)`", cell.rpartition(" | ")[2])
        absent = [proof for proof in proofs if not exists(proof)]
        if absent or not (proofs or re.search(r"with issue [5-8]", cell)):
            wrong[number] = absent or cell
    assert not wrong


# Slot truth -----------------------------------------------------------------------------------


def refused(r, *words):
    """The next start ends with 69 and says so; returns the bounds that the log names."""
    before = len(r.relay.log_text())
    r.relay.start(wait_ready=False)
    assert r.relay.wait(30) == EXIT_FATAL, r.relay.log_text()[-3000:]
    log = r.relay.log_text()[before:]
    for word in words:
        assert word in log, log[-3000:]
    bounds = re.search(rf"between ({LSN}) and ({LSN})", log)
    assert bounds, log[-3000:]
    arrive(r, [1])
    return bounds.groups()


def noise(r, megabytes=20):
    """Log of nobody's: at least once the witness runs 16 MB ahead and cannot tell less."""
    r.sql("SELECT pg_logical_emit_message(false, 'noise', repeat('x', 1048576))"
          " FROM generate_series(1, %s)", (megabytes,))


def within(r, position, bounds):
    return r.cluster.scalar("SELECT %s::pg_lsn <= %s::pg_lsn AND %s::pg_lsn <= %s::pg_lsn",
                            (bounds[0], position, position, bounds[1]))


def recreate(r):
    """Go on with the gap, as the operator has decided."""
    r.pipeline["delivery"] = {**r.pipeline.get("delivery", {}), "on_slot_lost": "recreate"}
    r.relay.write_config()
    r.relay.start()


@GUARANTEES
def test_slot_dropped_while_stopped_is_not_quietly_made_anew(rig, delivery):
    """14: the stop names the bounds of what is missing; on_slot_lost: recreate goes on."""
    r = rig(over=delivery)
    relayed(r)
    r.drop_slot()
    r.insert("2")
    position = r.cluster.scalar("SELECT pg_current_wal_insert_lsn()::text")
    bounds = refused(r, "SLOT_MISSING", "is missing")
    assert within(r, position, bounds)
    assert r.slot_state() is None, "a new slot hides the gap"
    recreate(r)
    r.insert("3")
    arrive(r, [1, 3])
    assert r.relay.stop() == EXIT_OK


def test_slot_that_went_with_its_database_is_a_gap(rig):
    """14: DROP DATABASE takes an inactive slot with it; one of the same name is another one."""
    r = rig()
    relayed(r)
    r.connection.close()
    r.cluster.query(f"DROP DATABASE {r.dbname}")
    r.cluster.query(f"CREATE DATABASE {r.dbname}")
    r.reconnect()
    r.sql("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text,"
          " aggregate_id text, event_type text DEFAULT 'made', payload text)")
    r.insert("2")
    refused(r, "SLOT_MISSING")
    assert r.slot_state() is None


@GUARANTEES
def test_slot_advanced_while_stopped_does_not_lose_rows_unnoticed(rig, delivery):
    """17: the server would stream on from where somebody put the slot."""
    r = rig(over=delivery)
    relayed(r)
    r.insert("2")
    position = r.cluster.scalar("SELECT pg_current_wal_insert_lsn()::text")
    if not delivery:
        noise(r)
    r.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", (r.slot,))
    bounds = refused(r, "SLOT_ADVANCED", "advanced by somebody else")
    assert within(r, position, bounds)
    recreate(r)
    r.insert("4")
    arrive(r, [1, 4])


@pytest.mark.parametrize("how", ["advanced", "made_anew"])
def test_small_gap_after_a_clean_stop_is_noticed(rig, how):
    """14, 17: also a gap of a few bytes: the witness of a clean stop is exact."""
    r = rig()
    relayed(r)
    r.singles(20, start=2)
    if how == "advanced":
        r.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_insert_lsn())", (r.slot,))
    else:
        r.drop_slot()
        r.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (r.slot,))
    r.relay.start(wait_ready=False)
    assert r.relay.wait(20) == 69, r.relay.log_text()
    assert "may be missing in Kafka" in r.relay.log_text()


@GUARANTEES
def test_slot_made_anew_behind_our_back_is_a_gap(rig, delivery):
    """14, 19: dropped and created by hand at the server's end while the relay was away."""
    r = rig(over=delivery)
    relayed(r)
    r.drop_slot()
    r.insert("2")
    position = r.cluster.scalar("SELECT pg_current_wal_insert_lsn()::text")
    if not delivery:
        noise(r)
    r.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (r.slot,))
    bounds = refused(r, "SLOT_RECREATED", "made anew")
    assert within(r, position, bounds)


@pytest.mark.parametrize("streaming", [False, True], ids=["stopped", "streaming"])
def test_invalidated_slot_is_not_a_passing_network_fault(rig, victim_postgres, streaming):
    """16, 135: the server threw the slot's log away (max_slot_wal_keep_size)."""
    r = rig()
    r.start()
    r.insert("1")
    r.records(1)
    r.wait_confirmed()
    if streaming:
        r.relay.freeze()
    else:
        assert r.relay.stop() == EXIT_OK
    victim_postgres.set("max_slot_wal_keep_size", "1MB")

    def lost():
        r.sql("SELECT pg_logical_emit_message(false, 'noise', 'x'), pg_switch_wal()")
        r.sql("CHECKPOINT")
        return r.cluster.scalar("SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s",
                                (r.slot,)) == "lost"

    wait_until(lost, 60, "the slot to be invalidated")
    if streaming:
        r.relay.thaw()
    else:
        r.relay.start(wait_ready=False)
    assert r.relay.wait(30) == EXIT_FATAL, r.relay.log_text()[-3000:]
    assert "(wal_status lost); rows committed between " in r.relay.log_text()


@GUARANTEES
def test_restored_backup_does_not_look_fine_and_deliver_nothing(rig, delivery):
    """18: the data directory is put back to an older copy that has the slot."""
    with PostgresCluster() as cluster:
        r = rig(cluster=cluster, over=delivery)
        relayed(r)
        r.connection.close()
        cluster.stop()
        copy = cluster.data_dir + ".copy"
        shutil.copytree(cluster.data_dir, copy, copy_function=_copy_with_owner)
        _own_like(cluster.data_dir, copy)
        cluster.start()
        r.reconnect()
        r.relay.start()
        r.insert("2")
        for _ in range(2):
            noise(r)
            r.wait_confirmed()
            time.sleep(1.2)  # The witness is written at most once a second.
        assert r.relay.stop() == EXIT_OK
        r.connection.close()
        cluster.stop()
        shutil.rmtree(cluster.data_dir)
        os.rename(copy, cluster.data_dir)
        cluster.start()
        r.reconnect()
        r.relay.start(wait_ready=False)
        assert r.relay.wait(30) == EXIT_FATAL, r.relay.log_text()[-3000:]
        assert "SERVER_RESTORED" in r.relay.log_text()
        r.close()


def _copy_with_owner(source, target):
    shutil.copy2(source, target)
    _own_like(source, target)


def _own_like(source, target):
    """shutil keeps everything but the owner, who has to be the server's user."""
    seen = os.stat(source)
    os.chown(target, seen.st_uid, seen.st_gid)
    if os.path.isdir(source):
        for folder, _folders, _files in os.walk(source):
            there = os.stat(folder)
            os.chown(target + folder[len(source):], there.st_uid, there.st_gid)


def test_position_of_another_cluster_is_refused(rig, victim_postgres):
    """18: the same names on a server that was built anew."""
    r = rig()
    relayed(r)
    with PostgresCluster() as other:
        other.query(f"CREATE DATABASE {r.dbname}")
        other.query("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),"
                    " aggregate_type text, aggregate_id text, event_type text, payload text)",
                    dbname=r.dbname)
        r.pipeline["source"]["dsn"] = other.dsn(r.dbname)
        r.relay.write_config()
        r.relay.start(wait_ready=False)
        assert r.relay.wait(30) == EXIT_FATAL, r.relay.log_text()[-3000:]
        assert "OTHER_CLUSTER" in r.relay.log_text()
        assert other.slot(r.slot) is None


def promote(cluster, r):
    """The cluster starts as a standby and becomes a primary on a timeline of its own."""
    r.connection.close()
    cluster.stop()
    path = os.path.join(cluster.data_dir, "standby.signal")
    with open(path, "w", encoding="ascii"):
        pass
    _own_like(os.path.join(cluster.data_dir, "PG_VERSION"), path)
    cluster.start()
    cluster.query("SELECT pg_promote()")
    r.reconnect()


@GUARANTEES
def test_promoted_server_with_a_slot_made_at_now_does_not_skip_rows_silently(rig, delivery):
    """19: rows between the last position and the new slot are named as missing."""
    with PostgresCluster() as cluster:
        r = rig(cluster=cluster, over=delivery)
        relayed(r)
        promote(cluster, r)
        r.drop_slot()
        r.insert("2")
        position = r.cluster.scalar("SELECT pg_current_wal_insert_lsn()::text")
        if not delivery:
            noise(r)
        r.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (r.slot,))
        assert within(r, position, refused(r, "younger than the promotion"))
        r.close()


@GUARANTEES
def test_promoted_server_that_has_the_slot_goes_on_and_says_so(rig, delivery):
    """19: the timeline is new and nothing is missing: a warning, not a stop."""
    with PostgresCluster() as cluster:
        r = rig(cluster=cluster, over=delivery)
        relayed(r)
        promote(cluster, r)
        r.insert("2")
        r.relay.start()
        r.wait_confirmed()
        # Before 17 a restarted server may hand out an older position: then row 1 comes again.
        assert first_appearances(r.values()) == ["1", "2"]
        assert "the server was promoted" in r.relay.log_text()
        r.close()


# What the server cannot do ----------------------------------------------------------------------


@pytest.mark.slow
def test_row_that_the_server_cannot_decode_ends_the_hot_loop(rig):
    """41: a bytea of 540 MB becomes more than 1 GB of text: the same error at the same place five
    times is an end, nothing is skipped, and what was before it is there."""
    r = rig(payload="bytea").start()
    r.sql("INSERT INTO outbox (payload) VALUES ('1')")
    r.records(1)
    r.wait_confirmed()
    r.sql("INSERT INTO outbox (payload) SELECT convert_to(repeat('x', 540000000), 'UTF8')")
    for _ in range(2):  # The position has not moved past it.
        assert r.relay.wait(120) == EXIT_FATAL, r.relay.log_text()[-3000:]
        assert "times at the same place" in r.relay.log_text()
        assert "invalid memory alloc request size" in r.relay.log_text()
        r.relay.start(wait_ready=False)
    r.relay.kill()
    assert r.values() == ["1"]


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_array_of_a_quoted_type_is_not_misread(rig, plugin):
    """57: the text of the array is the header, whatever its type is called."""
    r = rig(plugin=plugin, over={"outbox": {"headers": ["kinds", "words"]}})
    r.sql('CREATE TYPE "My, Type" AS ENUM (\'a\', \'b c\');'
          'ALTER TABLE outbox ADD kinds "My, Type"[], ADD words text[]')
    r.start()
    r.sql("""INSERT INTO outbox (payload, kinds, words)
        VALUES ('1', ARRAY['a', 'b c']::"My, Type"[], ARRAY['a,b', 'c"d', NULL, ''])""")
    (record,) = r.records(1)
    assert record.header("kinds") == b'{a,"b c"}'
    assert record.header("words") == b'{"a,b","c\\"d",NULL,""}'
