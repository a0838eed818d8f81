"""outrider teardown: asks, refuses while the slot is read, drops, and says what stays."""

import os
import pty
import subprocess

import pytest

from support.cleanup import wait_until
from support.relay import binary, environment

TABLE = ("CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type text, aggregate_id text,"
         " event_type text, payload jsonb)")


def run_teardown(dsn, name, *arguments, answer=None):
    """With an answer: at a terminal, where it is typed."""
    typed, terminal = pty.openpty()
    if answer:
        os.write(typed, answer.encode() + b"\n")
    try:
        return subprocess.run(
            [binary(), "teardown", "--dsn", dsn, "--slot", name, "--publication", name,
             *arguments], capture_output=True, text=True, timeout=60, check=False,
            env=environment(), stdin=terminal if answer else subprocess.DEVNULL)
    finally:
        os.close(typed)
        os.close(terminal)


@pytest.fixture
def made(postgres, database, unique):
    """Name of slot and publication of a database that has them, and its dsn."""
    name = f"teardown_{unique}"
    postgres.psql(f"{TABLE}; CREATE PUBLICATION {name} FOR TABLE outbox;"
                  f" SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')", database)
    return name, postgres.dsn(database)


def there(postgres, database, name):
    """(slot, publication, table)."""
    return (postgres.slot(name) is not None,
            bool(postgres.query("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,),
                                database)),
            bool(postgres.query("SELECT 1 FROM pg_class WHERE relname = 'outbox'", None,
                                database)))


def test_nothing_goes_without_an_agreement(postgres, database, made):
    name, dsn = made
    for answer in (None, "no", "y"):
        asked = run_teardown(dsn, name, answer=answer)
        assert asked.returncode == 78, answer
        assert "nothing was dropped" in asked.stderr and "keeps WAL" in asked.stderr
        assert ("--yes" in asked.stderr) == (answer is None)
        assert name in asked.stdout and "never relayed" in asked.stdout
        assert there(postgres, database, name) == (True, True, True)
    assert run_teardown(dsn, name, answer="yes").returncode == 0
    assert there(postgres, database, name) == (False, False, True)


def test_slot_and_publication_go_and_the_table_stays(postgres, database, made):
    name, dsn = made
    done = run_teardown(dsn, name, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("... dropped") == 2 and "--tables drops them" in done.stdout
    assert there(postgres, database, name) == (False, False, True)
    again = run_teardown(dsn, name, "--yes")
    assert again.returncode == 0 and "nothing to drop" in again.stdout


def test_tables_go_when_asked_for_but_not_letters_that_wait(postgres, database, made):
    name, dsn = made
    postgres.install_dead_letters(database)
    postgres.query(
        "INSERT INTO outrider.dead_letters (system_id, slot, commit_lsn, index_in_transaction,"
        " commit_time, xid, table_name, event_id, event_type, aggregate_id, mapped, topic,"
        " header_names, header_values, timestamp_ms, raw_row, bytes, reason, code, message,"
        " attempts, first_failure, last_failure) VALUES ('1', 's', '0/1', 1, now(), 1, '', '', '',"
        " '', true, '', '{}', '{}', 1, '', 1, 'r', 'c', '', 1, now(), now())", None, database)
    done = run_teardown(dsn, name, "--yes", "--tables")
    assert done.returncode == 0, done.stderr
    assert "holds letters that were never delivered" in done.stdout
    assert there(postgres, database, name) == (False, False, False)
    postgres.query("DELETE FROM outrider.dead_letters", None, database)
    assert run_teardown(dsn, name, "--yes", "--tables").returncode == 0
    assert postgres.query("SELECT 1 FROM pg_namespace WHERE nspname = 'outrider'", None,
                          database) == []


def test_a_slot_that_is_read_is_left_alone(postgres, database, made):
    name, dsn = made
    reader = subprocess.Popen(
        [postgres.bin_dir + "/pg_recvlogical", "--no-loop", "-d", dsn, "-S", name, "--start",
         "-o", "proto_version=1", "-o", f"publication_names={name}", "-f", "/dev/null"],
        stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: postgres.slot(name)["active"], 15, "the slot to be read")
        done = run_teardown(dsn, name, "--yes")
        assert done.returncode == 78
        assert "is in use (process " in done.stderr and "stop every relay" in done.stderr
        assert "keeps WAL" in done.stderr
        assert there(postgres, database, name) == (True, True, True)
    finally:
        reader.kill()
        reader.wait()
        wait_until(lambda: not postgres.slot(name)["active"], 15, "the slot to be free")


def test_a_slot_of_another_database_is_not_dropped(postgres, database, unique):
    name = f"elsewhere_{unique}"
    postgres.query("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
    try:
        done = run_teardown(postgres.dsn(database), name, "--yes")
        assert done.returncode == 78 and "is not a logical slot of database" in done.stderr
        assert postgres.slot(name) is not None
    finally:
        postgres.query("SELECT pg_drop_replication_slot(%s)", (name,))
