"""outrider init on a real server: who may run it, what it says, and that it does not stop halfway."""

import os
import subprocess

import pytest

from support.postgres_cluster import PostgresCluster
from support.relay import binary


def outrider(*arguments, environment=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=60,
                          env={**kept, **(environment or {})}, check=False)


def init(*arguments):
    return outrider("init", *arguments)


@pytest.fixture
def role(postgres, database, unique):
    """Name of a role that is removed with the test, before its database."""
    name = f"relay_{unique}"
    yield name
    if postgres.query("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)):
        postgres.query(f"DROP OWNED BY {name}", dbname=database)
        postgres.query(f"REVOKE CONNECT ON DATABASE {database} FROM {name}")
        postgres.query(f"DROP ROLE {name}")


@pytest.fixture
def fresh(role, unique):
    """Flags for names that no other test has."""
    return ["--role", role, "--slot", f"init_{unique}"]


def test_prepares_once_and_says_what_was_there(postgres, database, fresh, role):
    done = init("--dsn", postgres.dsn(database), "--apply", "--table", "shop.outbox", *fresh)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("... done") == 9 and "already there" not in done.stdout
    assert rf"\password {role}" in done.stdout and "outrider run -c" in done.stdout
    assert "source.slot: init_" in done.stdout
    again = init("--dsn", postgres.dsn(database), "--apply", "--table", "shop.outbox", *fresh)
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("... already there") == 9 and "... done" not in again.stdout


def test_the_relays_own_role_is_told_to_let_an_administrator_do_it(postgres, database, fresh, role):
    postgres.query(f"CREATE ROLE {role} LOGIN REPLICATION")
    dsn = postgres.dsn(database, user=role)
    # Printing needs no right at all, and reads settings that are hidden from such a role.
    shown = init("--dsn", dsn, *fresh)
    assert shown.returncode == 0, shown.stderr
    assert "'pgoutput')" in shown.stdout
    refused = init("--set", f"pipelines.0.source.dsn={dsn}", "--apply", *fresh)
    assert refused.returncode == 78
    assert "CREATE on database" in refused.stderr and "--dsn" in refused.stderr
    assert postgres.query("SELECT 1 FROM pg_replication_slots WHERE database = %s",
                          (database,)) == []


def test_an_owner_who_may_replicate_makes_what_needs_no_superuser(postgres, database, fresh, role,
                                                                  unique):
    owner = f"owner_{unique}"
    postgres.query(f"CREATE ROLE {role} LOGIN REPLICATION")
    postgres.query(f"CREATE ROLE {owner} LOGIN REPLICATION")
    try:
        postgres.query(f"ALTER DATABASE {database} OWNER TO {owner}")
        done = init("--dsn", postgres.dsn(database, user=owner), "--apply", "--table",
                    "shop.outbox", *fresh)
        assert done.returncode == 0, done.stderr
    finally:
        postgres.query(f"ALTER DATABASE {database} OWNER TO {postgres.superuser}")
        postgres.query(f"DROP OWNED BY {owner} CASCADE", dbname=database)
        postgres.query(f"DROP ROLE {owner}")


def test_a_slot_of_another_database_is_not_taken_for_ours(postgres, database, fresh, unique):
    postgres.query(f"SELECT pg_create_logical_replication_slot('init_{unique}', 'pgoutput')")
    try:
        done = init("--dsn", postgres.dsn(database), "--apply", *fresh)
        assert done.returncode == 78
        assert done.stdout.rstrip().endswith("... failed")
        assert "another database" in done.stderr
    finally:
        postgres.query(f"SELECT pg_drop_replication_slot('init_{unique}')")


def test_nothing_is_done_without_logical_decoding():
    with PostgresCluster(settings={"wal_level": "replica"}) as cluster:
        done = init("--dsn", cluster.dsn(), "--apply")
        assert done.returncode == 78
        assert "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL" in done.stderr
        assert done.stdout == ""
        assert cluster.query("SELECT 1 FROM pg_roles WHERE rolname = 'outrider_relay'") == []
        assert "wal_level is 'replica'" in init("--dsn", cluster.dsn()).stdout


def test_init_needs_no_kafka_in_the_configuration(tmp_path):
    file = tmp_path / "o.yaml"
    file.write_text("version: 1\npipelines:\n  - source: {slot: mine}\n"
                    "    outbox: {tables: [shop.events]}\n")
    done = init("-c", str(file))
    assert done.returncode == 0, done.stderr
    assert "'mine'" in done.stdout and "shop.events" in done.stdout
    assert outrider("check-config", "-c", str(file)).returncode == 78


def test_check_config_tells_all_pipelines_and_only_warns_of_secrets(tmp_path):
    file = tmp_path / "o.yaml"
    file.write_text(
        "version: 1\npipelines:\n"
        "  - {name: a, source: {dsn: 'host=h password=${env:NOT_THERE}', slot: a},"
        " kafka: {bootstrap_servers: 'k:1'}}\n"
        "  - {name: b, source: {dsn: 'host=h', slot: b}, kafka: {bootstrap_servers: 'k:1'}}\n")
    right = outrider("check-config", "-c", str(file))
    assert right.returncode == 0 and "NOT_THERE" in right.stderr, right.stderr
    assert outrider("run", "-c", str(file)).returncode == 78
    wrong = outrider("check-config", "-c", str(file), "--set", "pipelines.a.route.pattern=([",
                     "--set", "pipelines.b.source.dsn=nonsense")
    assert wrong.returncode == 78
    assert "2 problems" in wrong.stderr
    assert 'pipeline "a": route.pattern' in wrong.stderr
    assert 'pipeline "b": "source.dsn"' in wrong.stderr
    assert wrong.stderr.count("outrider: pipeline") == 0


@pytest.mark.parametrize("arguments, told", [
    (["rnu"], 'unknown command "rnu"; did you mean "run"?'),
    (["check-config", "o.yaml"], "outrider check-config -c o.yaml"),
    (["run", "--nonsense"], "--nonsense"),
])
def test_a_wrong_command_line_is_told_what_was_meant(arguments, told):
    done = outrider(*arguments)
    assert done.returncode == 64
    assert told in done.stderr
