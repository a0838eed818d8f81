"""8: each set-up that cannot work is refused with its own message, the fix and exit code 78.

What can heal (walsenders used up) is not an end: the relay waits, not ready, with the reason. A
synchronous_standby_names that counts the relay does not hang the database's commits, also when it is
set while the relay streams.
"""

import dataclasses
import os
import subprocess
import time

from prove.common import say
from support import cleanup
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_CONFIGURATION, Relay, pipeline

OUTBOX = """CREATE {kind} TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_type text NOT NULL DEFAULT 'order', aggregate_id text NOT NULL,
  event_type text NOT NULL{generated}, payload jsonb NOT NULL); """
PLAIN = OUTBOX.format(kind="", generated="")
COMMIT_S_MAX = 5.0


@dataclasses.dataclass
class Case:
    """One wrong set-up: SQL that makes it, and the words that must be in the log."""

    name: str
    words: tuple
    sql: str = PLAIN
    source: dict = dataclasses.field(default_factory=dict)
    settings: dict = dataclasses.field(default_factory=dict)  # Not empty: a cluster of its own.
    user: str | None = None
    encoding: str | None = None


PGOUTPUT = {"plugin": "pgoutput", "create_publication": False}

CASES = (
    Case("wal_level", ("wal_level", "ALTER SYSTEM SET wal_level = 'logical'"),
         settings={"wal_level": "replica"}),
    Case("slots used up", ("replication slots are in use", "max_replication_slots"),
         sql=PLAIN + "SELECT pg_create_physical_replication_slot('other');",
         settings={"max_replication_slots": "1"}),
    Case("plugin not in output_plugin_libraries", ("is not allowed", "output_plugin_libraries"),
         source={"plugin": "wal2json"}, settings={"output_plugin_libraries": None}),
    Case("role without REPLICATION", ("lacks the REPLICATION attribute", "ALTER ROLE"),
         sql=PLAIN + "CREATE ROLE plain_user LOGIN; GRANT SELECT ON outbox TO plain_user;",
         user="plain_user"),
    Case("physical slot", ("is physical",),
         sql=PLAIN + "SELECT pg_create_physical_replication_slot('physical');",
         source={"slot": "physical"}),
    Case("slot with a foreign plugin", ("test_decoding",),
         sql=PLAIN + "SELECT pg_create_logical_replication_slot('foreign_plugin','test_decoding');",
         source={"slot": "foreign_plugin"}),
    Case("slot with the other plugin", ("was made with output plugin",),
         sql=PLAIN + "SELECT pg_create_logical_replication_slot('other_plugin', 'pgoutput');",
         source={"slot": "other_plugin", "plugin": "wal2json"}),
    Case("slot of another database", ("belongs to database",),
         source={"slot": "elsewhere"}),
    Case("slot missing and not to be created", ("does not exist", "source.create_slot"),
         source={"create_slot": False}),
    Case("table missing", ("outbox", "exist"), sql="SELECT 1;"),
    Case("column missing", ("outbox table", "payload"),
         sql="CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type text, aggregate_id text,"
             " event_type text);"),
    Case("unlogged table", ("unlogged",), sql=OUTBOX.format(kind="UNLOGGED", generated="")),
    Case("publication missing", ("publication", "source.create_publication"), source=PGOUTPUT),
    Case("publication misses the table", ("lacks", "ADD TABLE"),
         sql=PLAIN + "CREATE TABLE t (n int); CREATE PUBLICATION {name} FOR TABLE t;",
         source=PGOUTPUT),
    Case("publication without inserts", ("does not publish inserts",),
         sql=PLAIN + "CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'delete');",
         source=PGOUTPUT),
    Case("publication filters rows", ("row filter",),
         sql=PLAIN + "CREATE PUBLICATION {name} FOR TABLE outbox WHERE (event_type <> 'x')"
                     " WITH (publish = 'insert');", source=PGOUTPUT),
    Case("publication filters columns", ("column list",),
         sql=PLAIN + "CREATE PUBLICATION {name} FOR TABLE outbox (id, aggregate_id, event_type);",
         source=PGOUTPUT),
    Case("generated column under pgoutput", ("generated",),
         sql=OUTBOX.format(kind="", generated=" GENERATED ALWAYS AS ('x') STORED"),
         source={"plugin": "pgoutput"}),
    Case("encoding SQL_ASCII", ("SQL_ASCII",), encoding="SQL_ASCII"),
)


def prove(short):
    del short  # All cases, always: they take a second each.
    with KafkaBroker() as kafka, PostgresCluster() as shared:
        shared.query("SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')")
        failures = []
        for number, case in enumerate(CASES, 1):
            fault = _run(kafka, shared, number, case)
            say(f"{case.name}: {fault or 'refused with its message and exit code 78'}")
            if fault:
                failures.append(f"{case.name}: {fault}")
        _senders_used_up(kafka)
        _synchronous(kafka)
        assert not failures, "\n".join(failures)


def _run(kafka, shared, number, case):
    if case.settings:
        with PostgresCluster(settings=case.settings) as cluster:
            return _refused(kafka, cluster, number, case)
    return _refused(kafka, shared, number, case)


def _refused(kafka, cluster, number, case):
    name = f"preflight_{number}"
    encoding = f" ENCODING '{case.encoding}' TEMPLATE template0" if case.encoding else ""
    cluster.query(f"CREATE DATABASE {name}{encoding}")
    cluster.psql(case.sql.replace("{name}", name), name)
    line = pipeline(cluster.dsn(name, case.user), kafka.bootstrap_servers, slot=name, topic=name,
                    source=case.source)
    with Relay(line) as relay:
        relay.start(wait_ready=False)
        try:
            code = relay.wait(15)
        except TimeoutError:
            return f"runs on; /readyz says {relay.get('/readyz')}\n{relay.log_text()[-1500:]}"
        log = relay.log_text()
        absent = [word for word in case.words if word not in log]
        if absent:
            return f"the log lacks {absent}:\n{log[-1500:]}"
        return None if code == EXIT_CONFIGURATION else f"exit code {code}\n{log[-1500:]}"


def _receiver(cluster, name):
    """pg_receivewal as a standby that confirms at once; returns the process."""
    directory = cleanup.temporary_directory("outrider-wal-")
    process = subprocess.Popen(
        [os.path.join(cluster.bin_dir, "pg_receivewal"), "-D", directory, "--synchronous",
         "--no-loop", "-d", cluster.dsn(application_name=name).replace("dbname=postgres ", "")],
        stderr=subprocess.DEVNULL, preexec_fn=cleanup.child_setup())
    cleanup.at_exit(process.kill)
    cleanup.wait_until(lambda: cluster.query(
        "SELECT 1 FROM pg_stat_replication WHERE application_name = %s AND state = 'streaming'",
        (name,)), 15, "pg_receivewal")
    return process


def _senders_used_up(kafka):
    with PostgresCluster(settings={"max_wal_senders": "1"}) as cluster:
        cluster.psql(PLAIN)
        receiver = _receiver(cluster, "standby1")
        with Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, topic="senders")) as relay:
            relay.start(wait_ready=False)
            relay.wait_for_log("max_wal_senders", 15)
            status, reason = relay.get("/readyz")
            assert relay.running() and status == 503, f"{status} {reason}"
            receiver.kill()
            receiver.wait()
            relay.wait_ready(30)
            assert relay.stop() == 0
        say(f"walsenders used up: waited, not ready ({reason.strip()[:70]}), then healed")


def _synchronous(kafka):
    with PostgresCluster() as cluster:
        cluster.psql(PLAIN)
        receiver = _receiver(cluster, "standby1")
        line = pipeline(cluster.dsn(), kafka.bootstrap_servers, topic="synchronous")
        with Relay(line) as relay:
            relay.start()
            cluster.set("synchronous_standby_names", "*")
            _refuses_and_commits_go_on(cluster, relay, "set while it streams")
            relay.start(wait_ready=False)
            _refuses_and_commits_go_on(cluster, relay, "set before the start")
        receiver.kill()
        receiver.wait()


def _refuses_and_commits_go_on(cluster, relay, title):
    slowest = 0.0
    deadline = time.monotonic() + 20
    connection = cluster.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '15s'")
        while relay.running() and time.monotonic() < deadline:
            began = time.monotonic()
            cursor.execute("INSERT INTO outbox (aggregate_id, event_type, payload)"
                           " VALUES ('k', 'x', '{}')")
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.02)
    connection.close()
    assert relay.exit_code() == EXIT_CONFIGURATION, (
        f"{title}: exit code {relay.exit_code()}\n{relay.log_text()[-2000:]}")
    assert "synchronous_standby_names" in relay.log_text()
    assert slowest <= COMMIT_S_MAX, f"{title}: a commit took {slowest:.1f} s"
    say(f"synchronous_standby_names = '*' {title}: refused, slowest commit {slowest * 1000:.0f} ms")
