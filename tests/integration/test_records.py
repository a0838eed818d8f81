"""What a column value becomes in Kafka, byte for byte, under both plugins.

Each case is a table whose key, payload and header column have one type, and a row with one value in
all three. Both plugins read the same rows; their records must be equal. What was seen is the table
of examples in docs/RECORDS.md: the test compares it, and writes it anew with WRITE_EXAMPLES=1.
"""

import dataclasses
import os
import time

import pytest

from support import relay as relays

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "RECORDS.md")
BEGIN = "<!-- examples: made by tests/integration/test_records.py with WRITE_EXAMPLES=1 -->\n"
END = "<!-- end of examples -->\n"


@dataclasses.dataclass
class Case:
    """One row. expected are the bytes of key and value, None for null."""

    type: str
    sql: str
    expected: bytes | None
    header: bytes | None = None  # Where it differs from key and value.
    wal2json: bool = True  # False: preflight refuses the type under wal2json.
    number: int = 0

    def __post_init__(self):
        if self.header is None:
            self.header = self.expected


DOMAINS = """
CREATE TYPE mood AS ENUM ('glad', 'so, so');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN short_text AS text CHECK (length(value) < 100);
CREATE DOMAIN flag AS boolean;
CREATE DOMAIN blob AS bytea;
CREATE DOMAIN amount AS numeric;
"""

CASES = [
    Case("text", "'plain'", b"plain"),
    Case("text", "'é € 😀'", "é € 😀".encode()),
    Case("text", r"""E'"quoted" back\\slash\ttab\nline\x01'""",
         b'"quoted" back\\slash\ttab\nline\x01'),
    Case("text", "''", b""),
    Case("text", "'NULL'", b"NULL"),
    Case("text", "NULL", None),
    Case("varchar(20)", "'order-1'", b"order-1"),
    Case("char(5)", "'ab'", b"ab   "),
    Case("uuid", "'00000000-0000-4000-8000-00000000ABCD'",
         b"00000000-0000-4000-8000-00000000abcd"),
    Case("smallint", "-32768", b"-32768"),
    Case("integer", "42", b"42"),
    Case("bigint", "9223372036854775807", b"9223372036854775807"),
    Case("bigint", "9007199254740993", b"9007199254740993"),
    Case("numeric", "1.10", b"1.10", wal2json=False),
    Case("numeric", "12345678901234567890.123456789012345678901234567890",
         b"12345678901234567890.123456789012345678901234567890", wal2json=False),
    Case("numeric", "'NaN'", b"NaN", wal2json=False),
    Case("float8", "0.1", b"0.1", wal2json=False),
    Case("float8", "1e300", b"1e+300", wal2json=False),
    Case("float8", "'-Infinity'", b"-Infinity", wal2json=False),
    Case("float4", "0.1", b"0.1", wal2json=False),
    Case("domain over numeric", "'NaN'", b"NaN"),
    Case("boolean", "true", b"t", header=b"true"),
    Case("boolean", "false", b"f", header=b"false"),
    Case("domain over boolean", "true", b"t"),
    Case("bytea", r"'\x01ff0a'", b"\x01\xff\n"),
    Case("bytea", r"'\x'", b""),
    Case("domain over bytea", r"'\x01ff'", rb"\x01ff"),
    Case("json", """'{"b":  1, "a":2 ,"b":1e2}'""", b'{"b":  1, "a":2 ,"b":1e2}'),
    Case("json", r"""'{"nul": "\u0000", "lone": "\ud800"}'""",
         rb'{"nul": "\u0000", "lone": "\ud800"}'),
    Case("jsonb", """'{"b":  1, "a":2 ,"b":1e2}'""", b'{"a": 2, "b": 100}'),
    Case("jsonb", r"""'{"euro": "\u20ac", "n": 1.10}'""", '{"n": 1.10, "euro": "€"}'.encode()),
    Case("jsonb", "'null'", b"null"),
    Case("timestamptz", "'2026-03-29 03:30:00.5+02'", b"2026-03-29 01:30:00.5+00"),
    Case("timestamp", "'2026-03-29 03:30:00.123456'", b"2026-03-29 03:30:00.123456"),
    Case("timestamp", "'infinity'", b"infinity"),
    Case("date", "'2026-12-24'", b"2026-12-24"),
    Case("date", "'0044-03-15 BC'", b"0044-03-15 BC"),
    Case("time", "'23:59:59.9'", b"23:59:59.9"),
    Case("interval", "'1 year 2 months 3 days 04:05:06.7'", b"1 year 2 mons 3 days 04:05:06.7"),
    Case("text[]", """ARRAY['a', NULL, 'say "hi"', 'x,y', '', 'NULL']""",
         rb'{a,NULL,"say \"hi\"","x,y","","NULL"}'),
    Case("bytea[]", r"""ARRAY['\x01ff'::bytea]""", rb'{"\\x01ff"}'),
    Case("float8[]", "ARRAY[0.1, 'NaN']", b"{0.1,NaN}"),
    Case("integer[]", "ARRAY[[1, 2], [3, NULL]]", b"{{1,2},{3,NULL}}"),
    Case("enum", "'so, so'", b"so, so"),
    Case("composite", "ROW(1, 'a \"b\"')", b'(1,"a ""b""")'),
    Case("int4range", "'[1, 5]'", b"[1,6)"),
    Case("domain over text", "'plain'", b"plain"),
    Case("inet", "'10.0.0.1/8'", b"10.0.0.1/8"),
    Case("bit varying", "B'0101'", b"0101"),
    Case("money", "'12.34'", b"$12.34"),
    Case("oid", "4294967295", b"4294967295"),
    Case("regclass", "'pg_class'", b"pg_class"),
]
for _number, _case in enumerate(CASES):
    _case.number = _number

# How a type is declared, where that is not its name in the table of examples.
DECLARED = {"enum": "mood", "composite": "pair", "domain over text": "short_text",
            "domain over boolean": "flag", "domain over bytea": "blob",
            "domain over numeric": "amount"}

OUTBOX = {"headers": ["extra:copy"]}


def table(case_type):
    index = sorted({case.type for case in CASES}).index(case_type)
    return f"public.records_{index}"


def identity(case):
    return f"00000000-0000-4000-8000-{case.number:012d}"


@dataclasses.dataclass
class Seen:
    """What the two plugins made of the cases: {plugin: {number: Record}}."""

    records: dict
    from_ms: int
    to_ms: int


@pytest.fixture(scope="module")
def seen(kafka, postgres):
    """Insert every case, each plugin into a topic of its own, in one run of the relay."""
    name = f"records_{os.getpid()}"
    postgres.query(f"CREATE DATABASE {name}")
    postgres.install_dead_letters(name)
    relay = None
    try:
        postgres.psql(DOMAINS + "".join(
            f"CREATE TABLE {table(kind)} (id uuid PRIMARY KEY, aggregate_id {declared},"
            f" type text NOT NULL DEFAULT 'T', payload {declared}, extra {declared});\n"
            for kind, declared in types()), name)
        relay = relays.Relay(*[
            relays.pipeline(postgres.dsn(name), kafka.bootstrap_servers, name=plugin,
                            slot=f"{name}_{plugin}", plugin=plugin, topic=f"{name}-{plugin}",
                            tables=[table(kind) for kind, _declared in types(plugin)],
                            outbox=OUTBOX)
            for plugin in ("pgoutput", "wal2json")])
        relay.start()
        begun = int(time.time() * 1000)
        postgres.psql("".join(
            f"INSERT INTO {table(case.type)} VALUES ('{identity(case)}', {case.sql}, DEFAULT,"
            f" {case.sql}, {case.sql});\n" for case in CASES), name)
        yield Seen({plugin: read(kafka, f"{name}-{plugin}", len(cases(plugin)))
                    for plugin in ("pgoutput", "wal2json")}, begun, int(time.time() * 1000))
        assert relay.stop() == 0
    finally:
        if relay:
            relay.close()
        postgres.query("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                       " WHERE database = %s AND active", (name,))
        time.sleep(0.3)
        postgres.query("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
                       " WHERE database = %s", (name,))
        postgres.query(f"DROP DATABASE {name} WITH (FORCE)")


def cases(plugin):
    return [case for case in CASES if plugin == "pgoutput" or case.wal2json]


def types(plugin="pgoutput"):
    """(type as in the examples, as declared), each once."""
    return sorted({(case.type, DECLARED.get(case.type, case.type)) for case in cases(plugin)})


def read(kafka, topic, count):
    from support.consumer import Consumer
    records = Consumer(kafka.bootstrap_servers).read_until(topic, count)
    assert len(records) == count
    return {int(record.header("id").decode()[-12:]): record for record in records}


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_each_value_arrives_as_documented(seen, plugin):
    for case in cases(plugin):
        record = seen.records[plugin][case.number]
        assert record.key == case.expected, case
        assert record.value == case.expected, case
        shown = b"NULL" if case.header is None else case.header
        assert record.headers_raw == f"id={identity(case)},copy=".encode() + shown, case


def test_both_plugins_give_identical_records(seen):
    for case in cases("wal2json"):
        one, other = (seen.records[plugin][case.number] for plugin in ("pgoutput", "wal2json"))
        assert (one.key, one.value, one.headers_raw) == (other.key, other.value, other.headers_raw)
        assert one.timestamp_ms == other.timestamp_ms, case
        # A null key goes to any partition.
        assert one.partition == other.partition or one.key is None, case


def test_the_timestamp_is_the_commit(seen):
    for record in seen.records["pgoutput"].values():
        assert seen.from_ms - 1000 <= record.timestamp_ms <= seen.to_ms + 1000


@pytest.mark.parametrize("kind", sorted({case.type for case in CASES if not case.wal2json}))
def test_what_wal2json_cannot_carry_whole_is_refused(kafka, postgres, database, relay_factory,
                                                     unique, kind):
    postgres.query(f"CREATE TABLE outbox (id uuid, aggregate_id text, type text, payload {kind})",
                   dbname=database)
    relay = relay_factory(relays.pipeline(
        postgres.dsn(database), kafka.bootstrap_servers, slot=f"refused_{unique}",
        plugin="wal2json", topic="never-made"))
    relay.start(wait_ready=False)
    assert relay.wait() == relays.EXIT_CONFIGURATION
    assert "is a float or numeric column" in relay.log_text()
    assert "source.plugin: pgoutput" in relay.log_text()


def test_the_examples_in_the_documentation_are_what_was_seen(seen):
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    assert begin and end, "docs/RECORDS.md has lost the marks around its examples"
    fresh = before + BEGIN + "\n" + examples(seen) + "\n" + END + after
    if os.environ.get("WRITE_EXAMPLES"):
        with open(PAGE, "w", encoding="utf-8") as page:
            page.write(fresh)
    assert text == fresh or os.environ.get("WRITE_EXAMPLES"), (
        "docs/RECORDS.md is not what the relay does; look at the difference, then run this test "
        "with WRITE_EXAMPLES=1")


def examples(seen):
    lines = ["| type | SQL value | key and value | bytes | header, if different | wal2json |",
             "|---|---|---|---|---|---|"]
    for case in CASES:
        record = seen.records["pgoutput"][case.number]
        header = record.headers_raw.partition(b",copy=")[2]
        if record.value is None:
            header = None
        plugin = "identical" if case.wal2json else "refused"
        lines.append(
            f"| {case.type} | {code(case.sql)} | {shown(record.value)} |"
            f" {'' if record.value is None else len(record.value)} |"
            f" {'' if header == record.value else shown(header)} | {plugin} |")
    return "\n".join(lines) + "\n"


def shown(value):
    """Bytes as a cell: text where it is printable, hexadecimal otherwise."""
    if value is None:
        return "null"
    if not value:
        return "empty"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "hex " + code(value.hex(" "))
    if not text.isprintable():
        return "hex " + code(value.hex(" "))
    return code(text)


def code(text):
    fence = "``" if "`" in text else "`"
    return fence + text.replace("|", "\\|") + fence
