"""8: each set-up that cannot work is refused with its own message, the fix and exit code 78.

What can heal (walsenders used up, a lock) is not an end: the relay waits, not ready, with the
reason. A plugin that the server refuses is replaced where the choice was left to the relay. A
synchronous_standby_names that counts the relay does not hang the database's commits while the
broker is down, whether it is set before the start or while the relay streams.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import textwrap
import threading
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
# Set beforehand, the relay never becomes a standby; set while it streams, it looks once a second.
COMMIT_BEFORE_S_MAX = 1.0
COMMIT_WHILE_S_MAX = 3.0


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
    outbox: dict = dataclasses.field(default_factory=dict)


LEAST = """CREATE ROLE {name} LOGIN REPLICATION; GRANT SELECT ON outbox TO {name}; {more}
  ALTER SYSTEM SET output_plugin_libraries = 'pgoutput', 'test_decoding';
  SELECT pg_reload_conf(), pg_sleep(0.2);"""
PGOUTPUT = {"plugin": "pgoutput", "create_publication": False}

CASES = (
    Case("wal_level", ("wal_level", "ALTER SYSTEM SET wal_level = 'logical'"),
         settings={"wal_level": "replica"}),
    Case("slots used up", ("replication slots are in use", "max_replication_slots"),
         sql=PLAIN + "SELECT pg_create_physical_replication_slot('other');",
         settings={"max_replication_slots": "1"}),
    Case("plugin not in output_plugin_libraries",
         ("is not allowed", "ALTER SYSTEM SET output_plugin_libraries = 'pgoutput', "
          "'test_decoding', 'wal2json'; SELECT pg_reload_conf()"),
         source={"plugin": "wal2json"},
         settings={"output_plugin_libraries": "pgoutput, test_decoding"}),
    Case("the same, list readable by the role", ("is not allowed", "'wal2json'; SELECT"),
         sql=PLAIN + LEAST.replace("{more}", "GRANT pg_read_all_settings TO {name};"),
         source={"plugin": "wal2json"}, settings={"output_plugin_libraries": "pgoutput"},
         user="{name}"),
    Case("the same, list hidden from the role",
         ("is not allowed", "'wal2json'; SELECT", "SHOW output_plugin_libraries"),
         sql=PLAIN + LEAST.replace("{more}", ""), source={"plugin": "wal2json"},
         settings={"output_plugin_libraries": "pgoutput"}, user="{name}"),
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
    Case("unlogged partition", ("outbox_1", "unlogged"),
         sql=OUTBOX.format(kind="", generated="").replace("PRIMARY KEY ", "")
         .replace("); ", ") PARTITION BY LIST (event_type);")
         + "CREATE UNLOGGED TABLE outbox_1 PARTITION OF outbox DEFAULT;"),
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
    Case("float column under wal2json", ("float or numeric", "source.plugin: pgoutput"),
         sql=PLAIN + "ALTER TABLE outbox ADD COLUMN weight float8;",
         source={"plugin": "wal2json"}, outbox={"headers": ["weight"]}),
    Case("encoding SQL_ASCII", ("SQL_ASCII", "ENCODING 'UTF8'"), encoding="SQL_ASCII"),
    Case("encoding LATIN1 under wal2json", ("LATIN1", "source.plugin: pgoutput"),
         source={"plugin": "wal2json"}, encoding="LATIN1"),
)


def prove(short):
    del short  # All cases, always: they take a second each.
    with KafkaBroker() as kafka, PostgresCluster() as shared:
        shared.query("SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')")
        failures = []
        for number, case in enumerate(CASES, 1):
            fault = _run(kafka, shared, number, case)
            if fault:
                failures.append(f"{case.name}: {fault}")
        _senders_used_up(kafka)
        _lock_held(kafka, shared)
        for reads_settings in (True, False):
            _plugin_replaced(kafka, reads_settings)
        for names in ("*", "ANY 1 (*)", "FIRST 1 (outrider_outrider)"):
            _synchronous(names)
        assert not failures, "\n".join(failures)


def _show(name, outcome, error="", hint=""):
    """One row of the table: case, exit code, message and hint."""
    print(f"   | {name} | {outcome}")
    for title, text in (("message", error), ("hint", hint)):
        print(textwrap.indent(textwrap.fill(f"{title}: {text}", 94), "   |   "), flush=True)


def _lines(relay):
    """The log's lines as dicts."""
    return [json.loads(line) for line in relay.log_text().splitlines() if line.startswith("{")]


def _stop_reason(relay):
    """(message, hint) of what ended the relay."""
    for line in reversed(_lines(relay)):
        if line["message"] == "pipeline stops":
            return line["error"], line["hint"]
    return "", ""


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
    user = case.user and case.user.replace("{name}", name)
    line = pipeline(cluster.dsn(name, user), kafka.bootstrap_servers, slot=name, topic=name,
                    source=case.source, outbox=case.outbox)
    with Relay(line, log_format="json") as relay:
        relay.start(wait_ready=False)
        try:
            code = relay.wait(15)
        except TimeoutError:
            return f"runs on; /readyz says {relay.get('/readyz')}\n{relay.log_text()[-1500:]}"
        error, hint = _stop_reason(relay)
        _show(case.name, code, error, hint)
        absent = [word for word in case.words if word not in error + " " + hint]
        if absent:
            return f"message and hint lack {absent}:\n{relay.log_text()[-1500:]}"
        if not hint:
            return "no hint"
        return None if code == EXIT_CONFIGURATION else f"exit code {code}"


def _receiver(cluster, name):
    """An honest standby: pg_receivewal through a slot, confirms what it has flushed at once."""
    directory = cleanup.temporary_directory("outrider-wal-")
    cluster.query("SELECT pg_create_physical_replication_slot(%s, true)", (name,))
    process = subprocess.Popen(
        [os.path.join(cluster.bin_dir, "pg_receivewal"), "-D", directory, "--synchronous",
         "--no-loop", "--slot", name,
         "-d", cluster.dsn(application_name=name).replace("dbname=postgres ", "")],
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
        line = pipeline(cluster.dsn(), kafka.bootstrap_servers, topic="senders")
        with Relay(line, log_format="json") as relay:
            relay.start(wait_ready=False)
            relay.wait_for_log("max_wal_senders", 15)
            reason = _not_ready(relay, "max_wal_senders")
            receiver.kill()
            receiver.wait()
            relay.wait_ready(30)
            assert relay.stop() == 0
        _show("walsenders used up", "waits, then healed", reason)


def _lock_held(kafka, cluster):
    """An open transaction with writes keeps a slot from being made."""
    cluster.query("CREATE DATABASE locked")
    cluster.psql(PLAIN, "locked")
    writer = cluster.connect("locked", autocommit=False)
    writer.cursor().execute("INSERT INTO outbox (aggregate_id, event_type, payload)"
                            " VALUES ('k', 'x', '{}')")
    line = pipeline(cluster.dsn("locked"), kafka.bootstrap_servers, slot="locked", topic="locked",
                    source={"lock_timeout_ms": 1_000})
    with Relay(line, log_format="json") as relay:
        relay.start(wait_ready=False)
        relay.wait_for_log("open transaction", 15)
        reason = _not_ready(relay, "open transaction")
        writer.rollback()
        writer.close()
        relay.wait_ready(30)
        assert relay.stop() == 0
    _show("lock timeout while the slot is made", "waits, then healed", reason)


def _not_ready(relay, word):
    """/readyz must say no, and why; returns what it says."""
    status, reason = relay.get("/readyz")
    assert relay.running() and status == 503 and word in reason, f"{status} {reason}"
    return reason.strip()


def _plugin_replaced(kafka, reads_settings):
    """auto takes pgoutput where wal2json is refused, also when the role cannot see the list."""
    with PostgresCluster(settings={"output_plugin_libraries": "pgoutput"}) as cluster:
        if not cluster.knows_plugin_list:
            return
        cluster.psql(PLAIN + "CREATE ROLE relay LOGIN REPLICATION; GRANT SELECT ON outbox TO relay;"
                     " CREATE PUBLICATION outrider FOR TABLE outbox WITH (publish = 'insert');")
        cluster.install_dead_letters("postgres", "relay")
        if reads_settings:
            cluster.query("GRANT pg_read_all_settings TO relay")
        title = f"plugin_{reads_settings}".lower()
        line = pipeline(cluster.dsn(user="relay"), kafka.bootstrap_servers, topic=title)
        with Relay(line, log_format="json") as relay:
            relay.start()
            plugin = cluster.slot("outrider")["plugin"]
            assert plugin == "pgoutput", plugin
            why = [line["why"] for line in _lines(relay) if line["message"] == "slot created"]
            assert relay.stop() == 0
        _show("plugin: auto, wal2json not allowed, list "
              + ("readable" if reads_settings else "hidden"), "streams with pgoutput", why[0])


def _synchronous(names):
    """The relay is the first of the standbys, so it is the one that commits would wait for.

    Where the list names nobody else, commits hang by that list until it is changed as the hint
    says; the relay's part is to leave.
    """
    alone = "outrider" in names
    with PostgresCluster() as cluster, KafkaBroker() as kafka:
        cluster.psql(PLAIN)
        line = pipeline(cluster.dsn(), kafka.bootstrap_servers, topic="synchronous")
        with Relay(line, log_format="json") as relay:
            relay.start()
            # The topic is known; from here on nothing is acknowledged and no position moves.
            cluster.query(_INSERT)
            cleanup.wait_until(lambda: kafka.topics() and kafka.count("synchronous"), 20,
                               "a record")
            kafka.stop()
            receiver = _receiver(cluster, "standby1")
            with _Commits(cluster) as commits:
                took = _set_and_wait(cluster, relay, names, alone)
            _judge(commits, relay, f"synchronous_standby_names = {names}, set while it streams",
                   None if alone else COMMIT_WHILE_S_MAX, f", {took:.1f} s after the reload")
            cluster.set("synchronous_standby_names", names)
            with contextlib.nullcontext() if alone else _Commits(cluster) as commits:
                relay.start(wait_ready=False)
                assert relay.wait(10) == EXIT_CONFIGURATION, relay.log_text()[-2000:]
                time.sleep(0.5)
            _judge(commits, relay, f"synchronous_standby_names = {names}, set before the start",
                   COMMIT_BEFORE_S_MAX)
        receiver.kill()
        receiver.wait()


def _set_and_wait(cluster, relay, names, alone):
    """Set the list while commits go on; seconds until the relay has ended."""
    time.sleep(0.3)
    cluster.query(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    began = time.monotonic()
    cluster.reload()
    assert relay.wait(10) == EXIT_CONFIGURATION, relay.log_text()[-2000:]
    took = time.monotonic() - began
    if alone:
        cluster.set("synchronous_standby_names", "")
    time.sleep(1.5)
    return took


def _judge(commits, relay, title, limit_s, more=""):
    figures = ""
    if commits:
        figures = f"; {commits.done} commits, slowest {commits.slowest_s * 1000:.0f} ms"
    _show(f"{title}, broker down", f"{EXIT_CONFIGURATION}{more}{figures}", *_stop_reason(relay))
    assert "synchronous_standby_names" in _stop_reason(relay)[0]
    assert not (commits and limit_s) or commits.slowest_s <= limit_s, (
        f"{title}: a commit took {commits.slowest_s:.1f} s")


_INSERT = "INSERT INTO outbox (aggregate_id, event_type, payload) VALUES ('k', 'x', '{}')"


class _Commits:
    """One writer, one commit after the other; remembers the slowest."""

    def __init__(self, cluster):
        self._connection = cluster.connect()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slowest_s = 0.0
        self.done = 0

    def _run(self):
        with self._connection.cursor() as cursor:
            while not self._ending.is_set():
                began = time.monotonic()
                cursor.execute(_INSERT)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.done += 1
                time.sleep(0.02)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_unused):
        self._ending.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a commit hangs"
        self._connection.close()
