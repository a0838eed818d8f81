"""The files in sql/: each runs twice, the relay's role suffices, uninstall leaves no trace."""

import os
import subprocess
import time

import psycopg2
import psycopg2.errors
import psycopg2.extras
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SQL = os.path.join(ROOT, "sql")
TABLE_FILES = ["outbox_table.sql", "outbox_table_simple.sql", "outbox_table_debezium.sql",
               "outbox_table_partitioned.sql"]
ODD = {"schema": "Sho.p", "table": 'Out,Box "q\''}


@pytest.fixture(autouse=True)
def _remove_role(postgres):
    """Roles belong to the postgres; this one goes after the database that grants it something."""
    yield
    postgres.query("DROP ROLE IF EXISTS outrider_relay")


def run_file(postgres, database, file, **variables):
    """Run one file as a user would; returns what psql said."""
    command = [os.path.join(postgres.bin_dir, "psql"), "-X", "-q", "-d", postgres.dsn(database)]
    for name, value in variables.items():
        command += ["-v", f"{name}={value}"]
    done = subprocess.run(command + ["-f", os.path.join(SQL, file)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def snapshot(postgres, database):
    """Everything the scripts could leave behind."""
    return {
        "relations": postgres.query(
            "SELECT n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON"
            " n.oid = c.relnamespace WHERE n.nspname !~ '^pg_' AND n.nspname <>"
            " 'information_schema' ORDER BY 1, 2", dbname=database),
        "functions": postgres.query(
            "SELECT n.nspname, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid ="
            " p.pronamespace WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
            " ORDER BY 1, 2", dbname=database),
        "triggers": postgres.query(
            "SELECT tgrelid::regclass::text, tgname FROM pg_trigger ORDER BY 1, 2",
            dbname=database),
        "publications": postgres.query(
            "SELECT pubname, schemaname, tablename FROM pg_publication_tables ORDER BY 1, 2, 3",
            dbname=database),
        "roles": postgres.query(
            "SELECT rolname, rolcanlogin, rolreplication FROM pg_roles ORDER BY 1"),
        "slots": postgres.query("SELECT slot_name FROM pg_replication_slots WHERE database = %s", (database,)),
        "grants": postgres.query(
            "SELECT a.grantee::regrole::text, a.privilege_type FROM pg_database d,"
            " aclexplode(d.datacl) a WHERE d.datname = %s AND a.grantee <> 0"
            " AND a.grantee <> d.datdba ORDER BY 1, 2", (database,)),
    }


def relay_connection(postgres, database):
    return psycopg2.connect(postgres.dsn(database, user="outrider_relay"),
                            connection_factory=psycopg2.extras.LogicalReplicationConnection)


def read_messages(cursor, wanted, seconds=10):
    """Payloads until one of them contains `wanted`."""
    seen = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = cursor.read_message()
        if message is None:
            time.sleep(0.01)
            continue
        seen.append(message.payload)
        if wanted in message.payload:
            return seen
    raise AssertionError(f"{wanted!r} did not come, but {seen!r}")


@pytest.mark.parametrize("variables", [{}, ODD], ids=["plain", "odd names"])
@pytest.mark.parametrize("file", TABLE_FILES)
def test_table_file_runs_twice_and_changes_nothing_then(postgres, database, file, variables):
    run_file(postgres, database, file, **variables)
    first = snapshot(postgres, database)
    assert any(row[1] == variables.get("table", "outbox") for row in first["relations"])
    run_file(postgres, database, file, **variables)
    assert snapshot(postgres, database) == first


@pytest.mark.parametrize("file, columns", [
    ("outbox_table.sql", ["id", "aggregate_type", "aggregate_id", "event_type", "payload",
                          "created_at", "attempts", "processed_at"]),
    ("outbox_table_simple.sql", ["id", "aggregate_id", "type", "payload", "created_at"]),
    ("outbox_table_debezium.sql", ["id", "aggregatetype", "aggregateid", "type", "payload"]),
    ("outbox_table_partitioned.sql", ["id", "aggregate_type", "aggregate_id", "event_type",
                                      "payload", "created_at", "attempts", "processed_at"]),
])
def test_table_file_has_the_columns_of_its_layout(postgres, database, file, columns):
    run_file(postgres, database, file)
    found = postgres.query("SELECT column_name FROM information_schema.columns WHERE table_name ="
                          " 'outbox' ORDER BY ordinal_position", dbname=database)
    assert [row[0] for row in found] == columns


def test_polling_index_is_made_when_asked_for(postgres, database):
    for _ in range(2):
        run_file(postgres, database, "outbox_table.sql", polling="on")
    assert postgres.scalar("SELECT indexdef FROM pg_indexes WHERE indexname = 'outbox_pending'",
                          dbname=database).endswith("(created_at) WHERE (processed_at IS NULL)")


@pytest.mark.parametrize("variables", [{}, ODD], ids=["plain", "odd names"])
def test_publication_carries_inserts_of_its_tables_only(postgres, database, variables):
    run_file(postgres, database, "outbox_table.sql", **variables)
    for _ in range(2):
        run_file(postgres, database, "publication.sql", **variables)
    run_file(postgres, database, "outbox_table_simple.sql", schema="more")
    for _ in range(2):
        run_file(postgres, database, "publication.sql", schema="more")
    assert postgres.query("SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot,"
                         " puballtables FROM pg_publication", dbname=database) == [
                             (True, False, False, False, True, False)]
    members = postgres.query("SELECT schemaname, tablename FROM pg_publication_tables",
                            dbname=database)
    assert set(members) == {(variables.get("schema", "public"), variables.get("table", "outbox")),
                            ("more", "outbox")}


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_least_privileged_role_can_make_and_read_the_stream(postgres, database, plugin):
    if plugin == "wal2json" and not postgres.has_wal2json:
        pytest.skip("the server has no wal2json")
    for _ in range(2):
        run_file(postgres, database, "least_privilege_role.sql")
        run_file(postgres, database, "outbox_table.sql")
        run_file(postgres, database, "publication.sql")
    connection = relay_connection(postgres, database)
    cursor = connection.cursor()
    cursor.create_replication_slot("outrider", output_plugin=plugin)
    options = {"proto_version": "1", "publication_names": "outrider"}
    if plugin == "wal2json":
        options = {"format-version": "2", "add-tables": "public.outbox"}
    cursor.start_replication(slot_name="outrider", options=options, decode=False)
    postgres.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)"
                  " VALUES ('order', '1', 'order_placed', '{\"n\": 1}')", dbname=database)
    read_messages(cursor, b"order_placed")
    connection.close()


def test_least_privileged_role_can_do_nothing_else(postgres, database):
    run_file(postgres, database, "least_privilege_role.sql")
    run_file(postgres, database, "outbox_table.sql")
    assert postgres.query(
        "SELECT rolsuper, rolcreatedb, rolcreaterole, rolbypassrls, rolcanlogin, rolreplication"
        " FROM pg_roles WHERE rolname = 'outrider_relay'") == [
            (False, False, False, False, True, True)]
    connection = postgres.connect(database, user="outrider_relay")
    for statement in ("SELECT FROM outbox", "DELETE FROM outbox", "DROP TABLE outbox",
                      "INSERT INTO outbox (payload) VALUES ('{}')", "CREATE SCHEMA mine",
                      "CREATE PUBLICATION p FOR TABLE outbox"):
        with connection.cursor() as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)
    connection.close()


def test_partition_key_must_not_change(postgres, database):
    run_file(postgres, database, "outbox_table_partitioned.sql")
    postgres.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES"
                  " ('order', '1', 'order_placed')", dbname=database)
    with pytest.raises(psycopg2.errors.IntegrityConstraintViolation, match="must not change"):
        postgres.query("UPDATE outbox SET created_at = created_at + interval '1 day'",
                      dbname=database)
    postgres.query("UPDATE outbox SET processed_at = now(), created_at = created_at",
                  dbname=database)
    assert postgres.scalar("SELECT count(*) FROM outbox WHERE processed_at IS NOT NULL",
                          dbname=database) == 1


def test_partitions_ahead_are_added_and_a_day_in_use_is_left_out(postgres, database):
    count = ("SELECT count(*) FROM pg_partition_tree('outbox') WHERE isleaf")
    run_file(postgres, database, "outbox_table_partitioned.sql", days_ahead=1)
    assert postgres.scalar(count, dbname=database) == 3
    postgres.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at)"
                  " VALUES ('order', '1', 'order_placed', now() + interval '3 days'),"
                  " ('order', '1', 'order_placed', now() + interval '900 days')", dbname=database)
    run_file(postgres, database, "outbox_table_partitioned.sql", days_ahead=4)
    assert postgres.scalar(count, dbname=database) == 5
    assert postgres.scalar("SELECT count(*) FROM outbox_default", dbname=database) == 2


@pytest.mark.parametrize("file", TABLE_FILES)
def test_uninstall_leaves_no_trace(postgres, database, file):
    before = snapshot(postgres, database)
    run_file(postgres, database, file)
    run_file(postgres, database, "least_privilege_role.sql")
    run_file(postgres, database, "dead_letters.sql")
    run_file(postgres, database, "publication.sql")
    postgres.query("SELECT pg_create_logical_replication_slot('outrider', 'pgoutput')",
                  dbname=database)
    assert snapshot(postgres, database) != before
    for _ in range(2):
        run_file(postgres, database, "uninstall.sql", drop_table="on")
    assert snapshot(postgres, database) == before


def test_uninstall_keeps_the_rows_unless_told_otherwise(postgres, database):
    run_file(postgres, database, "outbox_table.sql")
    postgres.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type) VALUES"
                  " ('order', '1', 'order_placed')", dbname=database)
    run_file(postgres, database, "uninstall.sql")
    assert postgres.scalar("SELECT count(*) FROM outbox", dbname=database) == 1


def test_uninstall_stops_at_a_slot_in_use(postgres, database):
    run_file(postgres, database, "least_privilege_role.sql")
    run_file(postgres, database, "outbox_table.sql")
    run_file(postgres, database, "publication.sql")
    connection = relay_connection(postgres, database)
    cursor = connection.cursor()
    cursor.create_replication_slot("outrider", output_plugin="pgoutput")
    cursor.start_replication(slot_name="outrider", decode=False, options={
        "proto_version": "1", "publication_names": "outrider"})
    with pytest.raises(AssertionError, match="is active"):
        run_file(postgres, database, "uninstall.sql")
    assert snapshot(postgres, database)["publications"]
    connection.close()


def test_every_file_says_who_runs_it_how_and_what_it_costs():
    files = sorted(name for name in os.listdir(SQL) if name.endswith(".sql"))
    assert len(files) >= 7
    for name in files:
        with open(os.path.join(SQL, name), encoding="utf-8") as text:
            head = text.read().split("\\set", 1)[0]
        for label in ("-- Who:", "-- How:", "-- Again:", "-- Cost:"):
            assert label in head, f"{name} lacks {label}"
