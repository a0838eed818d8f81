"""The dead-letter table on a real server: what is stored is durable, whole and never in the way.

The real DeadLetterTable is driven through tests/integration/dead_letter_driver.cc. The program is
looked for in the build tree of OUTRIDER_BIN; OUTRIDER_DEAD_LETTER_DRIVER names another.
"""

import os
import subprocess
import threading
import time

import psycopg2
import pytest

from support import cleanup
from support.postgres_cluster import PostgresCluster
from support.relay import binary, environment
from support.tcp_proxy import TcpProxy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SQL = os.path.join(ROOT, "sql")
ROLE = "outrider_relay"
HOSTILE = b"\x00'\\\xff\xfe \xc3\x28 \xed\xa0\x80\n\"$1"


def driver_path():
    named = os.environ.get("OUTRIDER_DEAD_LETTER_DRIVER")
    if named:
        return named
    tree = os.path.dirname(os.path.dirname(os.path.dirname(binary())))
    return os.path.join(tree, "tests", "integration", "dead_letter_driver")


def encode(value):
    return value if isinstance(value, bytes) else str(value).encode()


class Table:
    """One DeadLetterTable: commands go in, events are kept in the order they came."""

    def __init__(self, dsn, *, retry_first_ms=5000, parked_keys_max=100, own_dsn=False,
                 system_id="7001", slot="outrider", opened=True):
        arguments = [driver_path(), str(retry_first_ms), str(parked_keys_max)]
        self.process = subprocess.Popen(
            arguments + (["own"] if own_dsn else []), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "OUTRIDER_TEST_DSN": dsn},
            preexec_fn=cleanup.child_setup())
        self.events = []
        self._taken = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.send("open", system_id=system_id, slot=slot)
        if opened:
            self.wait("ready")

    def _read(self):
        for line in self.process.stdout:
            word, *fields = line.decode().split()
            pairs = (field.split("=") for field in fields)
            self.events.append((word, {name: bytes.fromhex(text) for name, text in pairs}))
        self.events.append(("end", {}))

    def send(self, word, **fields):
        line = " ".join([word] + [f"{name}={encode(value).hex()}"
                                  for name, value in fields.items() if value is not None])
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, word, seconds=20, **fields):
        """The next event of that word and these fields; others are passed over."""
        wanted = {name: encode(value) for name, value in fields.items()}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            while self._taken < len(self.events):
                event = self.events[self._taken]
                if event[0] == "end" and word != "end":
                    raise AssertionError(f"ended before {word}: {self.events[-5:]!r}"[:2000])
                self._taken += 1
                if event[0] == word and wanted.items() <= event[1].items():
                    return event[1]
            time.sleep(0.005)
        raise AssertionError(f"no {word} {fields} among {self.events!r}"[:3000])

    def store(self, sequence, *, index=None, lsn=0x16B3748, reason="refused", attempts=1,
              table="public.outbox", **more):
        self.send("store", sequence=sequence, lsn=lsn, index=sequence if index is None else index,
                  reason=reason, attempts=attempts, table=table, **more)

    def stored(self, *sequences, seconds=20):
        for sequence in sequences:
            self.wait("stored", seconds, sequence=sequence)

    def fetch(self, after=0, count=100, seconds=20, **conditions):
        first = len(self.events)
        self.send("fetch", after=after, count=count, **conditions)
        self.wait("fetched", seconds)
        return [fields for word, fields in self.events[first:] if word == "letter"]

    def sequences(self):
        return [int(fields["sequence"]) for word, fields in self.events if word == "stored"]

    def status(self):
        self.send("status")
        return {name: text.decode() for name, text in self.wait("status").items()}

    def error(self, seconds=20):
        fields = self.wait("error", seconds)
        return {name: text.decode() for name, text in fields.items()}

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def run_file(postgres, database, file, **variables):
    command = [os.path.join(postgres.bin_dir, "psql"), "-X", "-q", "-d", postgres.dsn(database)]
    for name, value in variables.items():
        command += ["-v", f"{name}={value}"]
    done = subprocess.run(command + ["-f", os.path.join(SQL, file)], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def role(postgres, database):
    """The relay's role; it goes after the grants of the database have gone."""
    run_file(postgres, database, "least_privilege_role.sql")
    yield ROLE
    postgres.query(f"DROP OWNED BY {ROLE}", dbname=database)
    postgres.query(f"REVOKE ALL ON DATABASE {database} FROM {ROLE}")
    postgres.query(f"DROP ROLE {ROLE}")


@pytest.fixture
def prepared(postgres, database, role):
    run_file(postgres, database, "dead_letters.sql")
    return database


@pytest.fixture
def make():
    """Make tables that are closed with the test."""
    made = []

    def one(dsn, **options):
        made.append(Table(dsn, **options))
        return made[-1]

    yield one
    for table in made:
        table.close()


@pytest.fixture
def table(postgres, prepared, make):
    return make(postgres.dsn(prepared, user=ROLE))


def count(postgres, database, where="true"):
    return postgres.scalar(f"SELECT count(*) FROM outrider.dead_letters WHERE {where}",
                           dbname=database)


# Storing -----------------------------------------------------------------------------------------

def test_a_letter_is_reported_once_it_is_durable(postgres, prepared, table):
    table.store(1, topic="orders", key="k", payload="{}", timestamp_ms=1700000000123, xid=4711,
                commit_time=1700000000000001, event_id="e1", code="MSG_SIZE_TOO_LARGE",
                message="larger than the topic allows", h0n="id", h0v="e1", partition=3)
    table.stored(1)
    row = postgres.query(
        "SELECT system_id, slot, commit_lsn::text, index_in_transaction, xid, topic, key, payload,"
        " header_names, header_values, timestamp_ms, reason, code, attempts, partition,"
        " commit_time, bytes, retry_after - last_failure FROM outrider.dead_letters",
        dbname=prepared)[0]
    assert row[:5] == ("7001", "outrider", "0/16B3748", 1, 4711)
    assert (bytes(row[5]), bytes(row[6]), bytes(row[7])) == (b"orders", b"k", b"{}")
    assert row[10:15] == (1700000000123, "refused", "MSG_SIZE_TOO_LARGE", 1, 3)
    assert row[15].timestamp() == pytest.approx(1700000000.000001, abs=1e-6)
    assert row[17].total_seconds() == pytest.approx(5, abs=1)


def test_hostile_bytes_survive_in_every_field(postgres, prepared, table):
    sent = {name: HOSTILE for name in
            ("table", "event_id", "event_type", "aggregate_id", "topic", "key", "payload",
             "raw_row", "parked_key", "code", "message", "h0n", "h0v", "h1n")}
    table.store(1, h2n="", h2v="", **sent)
    table.store(2, key="", payload=None, topic="t")
    table.stored(1, 2)
    first, second = table.fetch()
    for name in set(sent) - {"code", "message"}:
        assert first[name] == HOSTILE, name
    assert first["message"] == HOSTILE and first["waits"] == b"5000000"
    assert "h1v" not in first and first["h2n"] == b"" and first["h2v"] == b""
    assert second["key"] == b"" and "payload" not in second and "parked_key" not in second
    view = postgres.query("SELECT event_id, topic, payload, message, number, age"
                          " FROM outrider.outbox_dead_letters ORDER BY number", dbname=prepared)
    assert view[0][2] is None and r"\000" in view[0][0] and r"\377" in view[0][1]
    assert table.fetch(event_type=HOSTILE, aggregate_id=HOSTILE, parked_key=HOSTILE) == [first]


def test_a_row_without_a_record_keeps_its_raw_row(table):
    table.store(1, raw_row='{"id": "1"}', reason="unroutable")
    table.stored(1)
    letter = table.fetch()[0]
    assert letter["mapped"] == b"0" and letter["raw_row"] == b'{"id": "1"}'
    assert letter["reason"] == b"unroutable" and letter["topic"] == b""


def test_the_same_row_again_changes_nothing_and_is_reported(postgres, prepared, table):
    table.store(1, topic="t", payload="first")
    table.stored(1)
    table.store(2, index=1, topic="t", payload="again")
    table.stored(2)
    assert [bytes(row[0]) for row in postgres.query(
        "SELECT payload FROM outrider.dead_letters", dbname=prepared)] == [b"first"]


def test_the_same_position_on_another_timeline_is_another_row(postgres, prepared, table):
    table.store(1, commit_time=1, topic="t")
    table.store(2, index=1, commit_time=2, topic="t")
    table.stored(1, 2)
    assert count(postgres, prepared) == 2


def test_many_letters_share_a_statement_and_keep_their_order(postgres, prepared, table):
    table.store(0, repeat=900, topic="t", payload="x" * 100)
    table.stored(899)
    assert table.sequences() == list(range(900))
    assert postgres.query("SELECT bool_and(index_in_transaction = place - 1), count(DISTINCT"
                          " first_failure) FROM (SELECT *, row_number() OVER (ORDER BY number) AS"
                          " place FROM outrider.dead_letters) AS l", dbname=prepared)[0] == (
                              True, 15)


def test_what_waits_is_bounded_and_one_letter_is_always_taken(table):
    table.store(0, repeat=2000, topic="t")
    assert table.wait("busy")["sequence"] == b"1000"
    table.stored(999)
    table.store(5000, topic="t", payload_size=9_000_000)
    table.store(5001, topic="t")
    table.wait("busy", sequence=5001)
    table.stored(5000)


def test_forty_megabytes_come_back_whole(table):
    table.store(1, topic="t", payload_size=40_000_000)
    table.store(2, topic="t", payload="small")
    table.wait("busy", sequence=2)
    table.stored(1, seconds=60)
    table.store(3, topic="t", payload="small")
    table.stored(3)
    letters = table.fetch(seconds=60)
    assert [letter["index"] for letter in letters] == [b"1"]
    assert letters[0]["payload_size"] == b"40000000" and letters[0]["payload_is_whole"] == b"1"
    assert [letter["index"] for letter in table.fetch(after=letters[0]["number"])] == [b"3"]


def test_its_session_waits_for_the_disk(postgres, prepared, table):
    postgres.query(f"ALTER ROLE {ROLE} SET synchronous_commit = off")
    again = Table(postgres.dsn(prepared, user=ROLE))
    again.store(1, topic="t")
    again.stored(1)
    postgres.query("CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.code ="
                   " current_setting('synchronous_commit') || current_setting('application_name');"
                   " RETURN NEW; END $$; CREATE TRIGGER say BEFORE INSERT ON outrider.dead_letters"
                   " FOR EACH ROW EXECUTE FUNCTION say()", dbname=prepared)
    again.store(2, topic="t")
    again.stored(2)
    again.close()
    assert count(postgres, prepared, "code = 'onoutrider_dead_letters'") == 1


# A connection that breaks ------------------------------------------------------------------------

def test_a_batch_in_doubt_is_stored_again_and_reported_once(postgres, prepared, make):
    with TcpProxy(postgres.port) as proxy:
        dsn = f"host=127.0.0.1 port={proxy.port} dbname={prepared} user={ROLE}"
        table = make(dsn)
        lock = postgres.connect(prepared, autocommit=False)
        with lock.cursor() as cursor:
            cursor.execute("LOCK TABLE outrider.dead_letters IN SHARE MODE")
            table.store(0, repeat=300, topic="t", payload="p")
            cleanup.wait_until(lambda: postgres.query(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'outrider_dead_letters'"
                " AND wait_event_type = 'Lock'"), 10, "the insert to wait")
            proxy.cut()
            assert table.wait("note")["text"].startswith(b"dead-letter table cannot be used")
            assert table.sequences() == []
        # The server finishes the statement whose client is gone, and the client sends it again.
        lock.rollback()
        lock.close()
        table.stored(299)
        assert table.sequences() == list(range(300))
        assert count(postgres, prepared) == 300
        assert int(table.status()["reconnects"]) >= 1 and table.status()["healthy"] == "1"


def test_killed_sessions_lose_and_repeat_nothing(postgres, prepared, table):
    ends = threading.Event()

    def kill():
        while not ends.wait(0.4):
            postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                           " application_name = 'outrider_dead_letters'")

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for first in range(0, 4000, 100):
            table.store(first, repeat=100, topic="t", payload="x" * 20_000)
            table.stored(first + 99, seconds=60)
    finally:
        ends.set()
        killer.join()
    assert table.sequences() == list(range(4000))
    assert count(postgres, prepared) == 4000
    assert int(table.status()["reconnects"]) > 0


def test_a_restart_of_the_server_is_waited_for(make):
    with PostgresCluster() as cluster:
        run_file(cluster, "postgres", "dead_letters.sql")
        table = make(cluster.dsn())
        table.store(1, topic="t")
        table.stored(1)
        cluster.stop("fast")
        table.store(2, topic="t", payload="while it was down")
        cleanup.wait_until(lambda: table.status()["healthy"] == "0", 10, "the outage to be noticed")
        assert "cannot be reached" in table.status()["trouble"]
        assert table.status()["letters"] == "1" and table.status()["ready"] == "1"
        cluster.start()
        table.stored(2, seconds=30)
        cluster.kill()
        table.store(3, topic="t")
        cluster.start()
        table.stored(3, seconds=30)
        assert count(cluster, "postgres") == 3
        assert table.status()["trouble"] == ""


def test_a_disk_that_is_full_is_waited_for(postgres, prepared, table):
    """As the server says it: SQLSTATE 53100, raised by a trigger."""
    postgres.query("CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE"
                   " EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$;"
                   " CREATE TRIGGER full_disk BEFORE INSERT ON outrider.dead_letters FOR EACH ROW"
                   " EXECUTE FUNCTION full_disk()", dbname=prepared)
    table.store(1, topic="t")
    assert b"53100" in table.wait("note")["text"]
    assert "could not extend file" in table.status()["trouble"]
    postgres.query("DROP TRIGGER full_disk ON outrider.dead_letters", dbname=prepared)
    table.stored(1, seconds=30)
    assert table.status()["healthy"] == "1"


# What somebody has to put right ------------------------------------------------------------------

def test_a_missing_table_is_told_with_the_command(postgres, database, role, make):
    failed = make(postgres.dsn(database, user=ROLE), opened=False).error()
    assert failed["kind"] == "configuration" and failed["code"] == "3F000"
    assert f"psql -d {database} -v role={ROLE} -f sql/dead_letters.sql" in failed["hint"]


def test_a_missing_grant_is_told(postgres, database, role, make):
    run_file(postgres, database, "dead_letters.sql", role="nobody_of_this_name")
    failed = make(postgres.dsn(database, user=ROLE), opened=False).error()
    assert failed["code"] == "42501" and "USAGE on schema outrider" in failed["text"]
    # The role's own file gives it, too.
    run_file(postgres, database, "least_privilege_role.sql")
    make(postgres.dsn(database, user=ROLE))


def test_another_version_and_a_read_only_server_are_told(postgres, prepared, make):
    dsn = postgres.dsn(prepared, user=ROLE)
    postgres.query(f"ALTER ROLE {ROLE} SET default_transaction_read_only = on")
    failed = make(dsn, opened=False, own_dsn=True).error()
    assert failed["code"] == "25006" and "point dead_letters.dsn" in failed["hint"]
    postgres.query(f"ALTER ROLE {ROLE} RESET default_transaction_read_only")
    postgres.query("UPDATE outrider.schema_version SET version = 2", dbname=prepared)
    failed = make(dsn, opened=False).error()
    assert failed["kind"] == "configuration" and "newer release" in failed["hint"]


def test_a_grant_taken_away_while_running_ends_the_place(postgres, prepared, table):
    postgres.query(f"REVOKE INSERT ON outrider.dead_letters FROM {ROLE}", dbname=prepared)
    table.store(1, topic="t")
    failed = table.error()
    assert failed["kind"] == "configuration" and failed["code"] == "42501"
    assert "sql/dead_letters.sql" in failed["hint"]


def test_a_table_changed_by_hand_is_an_error_and_not_a_loop(postgres, prepared, table):
    postgres.query("ALTER TABLE outrider.dead_letters ADD COLUMN mine text NOT NULL",
                   dbname=prepared)
    table.store(1, topic="t")
    assert table.error()["kind"] == "configuration"


# Reading and resolving ---------------------------------------------------------------------------

def letters(table):
    for number, (kind, key, reason) in enumerate(
            [("placed", "a", "refused"), ("placed", "b", "too_large"), ("paid", "a", "too_large"),
             ("paid", "c", "unroutable"), ("placed", "a", "key_parked")]):
        table.store(number, topic="t", event_id=f"e{number}", event_type=kind, aggregate_id=key,
                    reason=reason, parked_key=key if key == "a" else None)
    table.stored(4)


def ids(found):
    return [letter["event_id"].decode() for letter in found]


def test_filters_are_joined_by_and(postgres, prepared, table):
    letters(table)
    everything = table.fetch()
    assert ids(everything) == ["e0", "e1", "e2", "e3", "e4"]
    assert ids(table.fetch(reason="too_large")) == ["e1", "e2"]
    assert ids(table.fetch(reason="too_large", event_type="paid")) == ["e2"]
    assert ids(table.fetch(aggregate_id="c")) == ["e3"]
    assert ids(table.fetch(parked_key="a")) == ["e0", "e2", "e4"]
    assert ids(table.fetch(event_ids="e4,e1")) == ["e1", "e4"]
    numbers = [letter["number"].decode() for letter in everything]
    assert ids(table.fetch(numbers=f"{numbers[3]},{numbers[0]}")) == ["e0", "e3"]
    assert ids(table.fetch(after=numbers[2])) == ["e3", "e4"]
    assert ids(table.fetch(count=2)) == ["e0", "e1"]
    assert ids(table.fetch(older_than=3600)) == []
    postgres.query("UPDATE outrider.dead_letters SET last_failure = now() - interval '2 hours'"
                   " WHERE event_id = 'e3'", dbname=prepared)
    assert ids(table.fetch(older_than=3600)) == ["e3"]


def test_letters_of_another_slot_or_server_are_not_seen_or_touched(postgres, prepared, table, make):
    dsn = postgres.dsn(prepared, user=ROLE)
    letters(table)
    others = [make(dsn, slot="other"), make(dsn, system_id="7002")]
    number = table.fetch()[0]["number"]
    for other in others:
        assert other.fetch() == []
        other.send("discard", number=number)
        other.wait("unresolved", count=0)
        letters(other)
    assert count(postgres, prepared) == 15


def test_a_fetch_is_bounded_by_bytes_and_gives_one_at_least(table):
    for index, size in enumerate([5_000_000, 1_500_000, 1_500_000, 1_500_000]):
        table.store(index, topic="t", payload_size=size)
        table.stored(index)
    first = table.fetch()
    assert [letter["index"] for letter in first] == [b"0"]
    second = table.fetch(after=first[0]["number"])
    assert [letter["index"] for letter in second] == [b"1", b"2"]
    assert len(table.fetch(after=second[-1]["number"])) == 1


def test_outcomes_are_durable_before_a_later_fetch_is_answered(postgres, prepared, table):
    letters(table)
    numbers = [letter["number"].decode() for letter in table.fetch()]
    table.send("resolve", number=numbers[0], delivered=1, after=0)
    table.send("resolve", number=numbers[1], delivered=0, code="TOO_BIG", message=HOSTILE,
               after=60000)
    table.send("discard", number=numbers[2])
    left = table.fetch()
    assert ids(left) == ["e1", "e3", "e4"] and left[0]["attempts"] == b"2"
    assert table.status()["unresolved"] == "0"
    row = postgres.query("SELECT code, message, extract(epoch FROM retry_after - last_failure)::int"
                         " FROM outrider.dead_letters WHERE number = %s", (numbers[1],),
                         dbname=prepared)[0]
    assert (row[0], bytes(row[1]), row[2]) == ("TOO_BIG", HOSTILE, 60)


def test_an_outcome_in_doubt_counts_as_one_attempt(postgres, prepared, make):
    with TcpProxy(postgres.port) as proxy:
        table = make(f"host=127.0.0.1 port={proxy.port} dbname={prepared} user={ROLE}")
        letters(table)
        number = table.fetch()[0]["number"].decode()
        lock = postgres.connect(prepared, autocommit=False)
        with lock.cursor() as cursor:
            cursor.execute("SELECT FROM outrider.dead_letters FOR UPDATE")
            table.send("resolve", number=number, delivered=0, code="C", message="m", after=0)
            cleanup.wait_until(lambda: postgres.query(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'outrider_dead_letters'"
                " AND wait_event_type = 'Lock'"), 10, "the update to wait")
            # The answer is lost, the statement is not.
            proxy.swallow_present()
            lock.rollback()
        lock.close()
        cleanup.wait_until(lambda: postgres.scalar(
            "SELECT max(attempts) FROM outrider.dead_letters", dbname=prepared) == 2, 10,
                           "the update")
        proxy.cut()
        table.wait("unresolved", count=0)
        assert table.fetch()[0]["attempts"] == b"2"


def test_due_letters_keep_the_order_of_a_parked_key(postgres, prepared, make):
    table = make(postgres.dsn(prepared, user=ROLE), retry_first_ms=0)
    letters(table)
    for sequence in (10, 11):
        table.store(sequence, topic="t", event_id=f"f{sequence}", reason="key_parked", attempts=0,
                    parked_key="a")
    table.stored(11)
    assert len(table.fetch(due_only=1)) == 7
    first = table.fetch()[0]["number"].decode()
    table.send("resolve", number=first, delivered=0, code="C", message="m", after=3600000)
    assert ids(table.fetch(due_only=1)) == ["e1", "e3"]
    table.send("resolve", number=first, delivered=1, after=0)
    assert ids(table.fetch(due_only=1)) == ["e1", "e2", "e3", "e4", "f10", "f11"]
    postgres.query("UPDATE outrider.dead_letters SET attempts = 5 WHERE event_id = 'e4'",
                   dbname=prepared)
    assert ids(table.fetch(due_only=1)) == ["e1", "e2", "e3"]


def test_parked_keys_are_read_at_the_start_and_bounded(postgres, prepared, make):
    dsn = postgres.dsn(prepared, user=ROLE)
    table = make(dsn)
    long_key = b"\x00\xff" * 100_000
    for sequence, key in enumerate([b"a", b"a", long_key, b"", b"b"]):
        table.store(sequence, index=7 - sequence, topic="t", parked_key=key)
    table.store(9, topic="t")
    table.stored(9)
    again = make(dsn, parked_keys_max=4)
    found = [fields["key"] for word, fields in again.events if word == "parked"]
    assert sorted(found) == sorted([b"a", long_key, b"", b"b"])
    assert again.events[0][0] == "parked"
    firsts = {fields["key"]: fields["index"] for word, fields in again.events if word == "parked"}
    assert firsts[b"a"] == b"6" and firsts[b"b"] == b"3"
    assert len(again.fetch(parked_key=long_key)) == 1
    failed = make(dsn, parked_keys_max=3, opened=False).error()
    assert failed["kind"] == "configuration" and "parked_keys_max" in failed["hint"]


# The SQL -----------------------------------------------------------------------------------------

def catalogue(postgres, database):
    return {
        "columns": postgres.query(
            "SELECT table_name, column_name, data_type, is_nullable, is_identity, udt_name"
            " FROM information_schema.columns WHERE table_schema = 'outrider' ORDER BY 1,"
            " ordinal_position", dbname=database),
        "indexes": postgres.query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'outrider'"
                                  " ORDER BY 1", dbname=database),
        "view": postgres.query("SELECT pg_get_viewdef('outrider.outbox_dead_letters'::regclass)",
                               dbname=database),
        "function": postgres.query("SELECT pg_get_functiondef('outrider.utf8_or_null'::regproc)",
                                   dbname=database),
        "version": postgres.query("TABLE outrider.schema_version", dbname=database),
        "grants": postgres.query(
            "SELECT c.relname, a.grantee::regrole::text, a.privilege_type FROM pg_class c,"
            " aclexplode(c.relacl) a WHERE c.relnamespace = 'outrider'::regnamespace"
            " ORDER BY 1, 2, 3", dbname=database),
        "column grants": postgres.query(
            "SELECT a.attname, a.attacl::text FROM pg_attribute a WHERE a.attrelid ="
            " 'outrider.dead_letters'::regclass AND a.attacl IS NOT NULL ORDER BY 1",
            dbname=database),
    }


def test_the_file_and_init_make_the_same_and_can_be_run_again(postgres, database, role, unique):
    for _ in range(2):
        run_file(postgres, database, "dead_letters.sql")
    by_file = catalogue(postgres, database)
    run_file(postgres, database, "uninstall.sql")
    postgres.query(f"CREATE ROLE {ROLE} LOGIN REPLICATION")
    for _ in range(2):
        done = subprocess.run([binary(), "init", "--dsn", postgres.dsn(database), "--apply",
                               "--slot", f"dead_{unique}"], capture_output=True, text=True,
                              check=False, env=environment())
        assert done.returncode == 0, done.stderr
    assert "the role may write, read and delete dead letters ... already there" in done.stdout
    assert catalogue(postgres, database) == by_file
    shown = subprocess.run([binary(), "init", "--dsn", postgres.dsn(database)],
                           capture_output=True, text=True, check=True, env=environment()).stdout
    assert "CREATE TABLE IF NOT EXISTS outrider.dead_letters" in shown
    postgres.psql(shown.split("pg_create_logical_replication_slot")[0].rsplit("-- slot", 1)[0],
                  database)
    assert catalogue(postgres, database) == by_file


def test_uninstall_keeps_letters_unless_told_otherwise(postgres, prepared, table):
    table.store(1, topic="t")
    table.stored(1)
    table.close()
    assert "never delivered" in run_file(postgres, prepared, "uninstall.sql")
    assert count(postgres, prepared) == 1
    run_file(postgres, prepared, "uninstall.sql", drop_dead_letters="on")
    assert postgres.query("SELECT 1 FROM pg_namespace WHERE nspname = 'outrider'",
                          dbname=prepared) == []
    run_file(postgres, prepared, "uninstall.sql")
    postgres.query(f"CREATE ROLE {ROLE}")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_takes_every_letter(postgres, make, unique, encoding):
    name = f"letters_{unique}"
    postgres.query(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}'"
                   " LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        run_file(postgres, name, "dead_letters.sql")
        table = make(postgres.dsn(name))
        table.store(1, topic="t", event_id="\u4e2d\u6587", message="\u4e2d", event_type=HOSTILE,
                    payload="\u4e2d")
        table.stored(1)
        assert table.fetch()[0]["event_id"] == "\u4e2d\u6587".encode()
        assert postgres.scalar("SELECT count(event_id) FROM outrider.outbox_dead_letters",
                               dbname=name) == 1
        table.close()
    finally:
        postgres.query(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_relays_role_may_do_nothing_else_there(postgres, prepared):
    connection = postgres.connect(prepared, user=ROLE)
    for statement in ("UPDATE outrider.dead_letters SET payload = NULL",
                      "TRUNCATE outrider.dead_letters", "SELECT FROM outrider.outbox_dead_letters",
                      "UPDATE outrider.schema_version SET version = 0",
                      "CREATE TABLE outrider.mine ()"):
        with connection.cursor() as cursor, pytest.raises(
                psycopg2.errors.InsufficientPrivilege):
            cursor.execute(statement)
    connection.close()
