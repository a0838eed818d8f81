"""What becomes a record, and what it looks like: rows through the real servers, both plugins.

Most of these are faults that users of other relays reported; each test carries the name of what
they saw.
"""

import subprocess

import pytest

from support.consumer import Consumer

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])


# What is an event ------------------------------------------------------------------------------


@PLUGINS
def test_rolled_back_savepoint_and_exception_rows_do_not_appear(rig, plugin):
    """72: only committed rows, in order."""
    r = rig(plugin=plugin).start()
    r.sql("""BEGIN; INSERT INTO outbox (payload) VALUES ('keep');
        SAVEPOINT s; INSERT INTO outbox (payload) VALUES ('gone'); ROLLBACK TO s;
        INSERT INTO outbox (payload) VALUES ('keep2'); COMMIT""")
    r.sql("""DO $$ BEGIN INSERT INTO outbox (payload) VALUES ('keep3');
        BEGIN INSERT INTO outbox (payload) VALUES ('gone2'); RAISE EXCEPTION 'no';
        EXCEPTION WHEN OTHERS THEN INSERT INTO outbox (payload) VALUES ('keep4'); END; END $$""")
    r.sql("BEGIN; INSERT INTO outbox (payload) VALUES ('gone3'); ROLLBACK")
    r.insert("end")
    r.expect(["keep", "keep2", "keep3", "keep4", "end"])


@PLUGINS
def test_two_phase_transaction_appears_once_at_commit_prepared(rig, plugin):
    """73, 33: by commit order; none for ROLLBACK PREPARED; the slot advances, no repeats later."""
    r = rig(plugin=plugin).start()
    name = r.slot
    r.sql(f"BEGIN; INSERT INTO outbox (payload) VALUES ('prepared');"
          f" PREPARE TRANSACTION '{name}_1'")
    r.sql(f"BEGIN; INSERT INTO outbox (payload) VALUES ('never'); PREPARE TRANSACTION '{name}_2'")
    r.insert("first")
    r.sql(f"COMMIT PREPARED '{name}_1'")
    r.sql(f"ROLLBACK PREPARED '{name}_2'")
    r.insert("last")
    r.expect(["first", "prepared", "last"])
    r.wait_confirmed()
    assert r.relay.stop() == 0
    r.relay.start()
    r.insert("later")
    r.expect(["first", "prepared", "last", "later"])


@PLUGINS
def test_truncate_of_the_outbox_is_ignored_and_counted_where_it_is_seen(rig, plugin):
    """74: also with CASCADE; wal2json is asked for inserts only and pgoutput publishes only them."""
    r = rig(plugin=plugin)
    if plugin == "pgoutput":
        r.sql(f"CREATE PUBLICATION {r.slot} FOR TABLE outbox")  # By hand: it publishes all.
    r.sql("CREATE TABLE parent (id uuid PRIMARY KEY);"
          "ALTER TABLE outbox ADD parent uuid REFERENCES parent")
    r.start()
    r.insert("one")
    r.sql("TRUNCATE outbox")
    r.insert("two")
    r.sql("TRUNCATE parent, outbox CASCADE")
    r.insert("three")
    r.expect(["one", "two", "three"])
    assert r.relay.metric("outbox_truncates_ignored_total") == (2 if plugin == "pgoutput" else 0)


@PLUGINS
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL", "NOTHING"])
def test_housekeeping_update_does_not_make_a_false_tombstone(rig, plugin, identity):
    """75: an UPDATE beside a toasted payload is no event, whatever the replica identity."""
    r = rig(plugin=plugin)
    r.sql("ALTER TABLE outbox ADD sent bool; ALTER TABLE outbox ALTER payload SET STORAGE EXTERNAL")
    r.sql(f"ALTER TABLE outbox REPLICA IDENTITY {identity}")
    if plugin == "pgoutput" and identity != "NOTHING":
        r.sql(f"CREATE PUBLICATION {r.slot} FOR TABLE outbox")
    r.start()
    r.insert("a" * 20_000)
    r.sql("UPDATE outbox SET sent = true")
    if identity != "NOTHING" or plugin == "wal2json":
        r.sql("DELETE FROM outbox")
    r.insert("b")
    r.expect(["a" * 20_000, "b"])


@PLUGINS
def test_insert_and_delete_in_one_transaction_give_exactly_one_event(rig, plugin):
    """77: the table stays empty, the record comes once."""
    r = rig(plugin=plugin).start()
    for number in range(3):
        r.sql(f"BEGIN; INSERT INTO outbox (payload) VALUES ('{number}'); DELETE FROM outbox;"
              "COMMIT")
    r.expect([0, 1, 2])
    assert r.sql("SELECT count(*) FROM outbox") == [(0,)]


@PLUGINS
def test_records_come_in_commit_order_not_in_id_order(rig, plugin):
    """87: session 1 takes id 1, session 2 takes id 2 and commits first."""
    r = rig(plugin=plugin).start()
    slow = r.cluster.connect(r.dbname, autocommit=False)
    with slow.cursor() as cursor:
        cursor.execute("INSERT INTO outbox (payload) VALUES ('1')")
        r.insert("2")
        slow.commit()
    slow.close()
    r.expect([2, 1])


@PLUGINS
def test_message_outside_its_transaction_does_not_confuse_the_stream(rig, plugin):
    """47: a non-transactional message comes before its transaction, and even when that is rolled
    back; nothing is confirmed too far."""
    r = rig(plugin=plugin).start()
    emit = "SELECT pg_logical_emit_message({}, 'outrider', 'x')"
    r.sql("BEGIN; INSERT INTO outbox (payload) VALUES ('1');" + emit.format("false") + "; COMMIT")
    r.sql("BEGIN; INSERT INTO outbox (payload) VALUES ('no');" + emit.format("false")
          + "; ROLLBACK")
    r.sql("BEGIN;" + emit.format("true") + "; INSERT INTO outbox (payload) VALUES ('2'); COMMIT")
    r.sql(emit.format("true"))
    r.expect([1, 2])
    r.wait_confirmed()
    r.relay.kill()
    r.relay.start()
    r.insert("3")
    r.expect([1, 2, 3])


@PLUGINS
def test_noise_of_other_schemas_does_not_pass_the_filter(rig, plugin):
    """60: schemas of one letter, tables of the same name and columns."""
    r = rig(plugin=plugin, table=None, over={"outbox": {"tables": ["b.o"]}})
    for schema in "abc":
        r.sql(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.o (id uuid PRIMARY KEY DEFAULT"
              " gen_random_uuid(), aggregate_id text, type text, payload text)")
    r.start()
    for schema in "abcab":
        r.sql(f"INSERT INTO {schema}.o (aggregate_id, type, payload) VALUES ('k','t','{schema}')")
    r.expect(["b", "b"])


@PLUGINS
def test_odd_identifiers_are_not_silently_empty(rig, plugin):
    """58: dot, comma, star, space and quotes in schema, table and column names."""
    table = '"a.b"."Out,Box*Q ""q\'"'
    r = rig(plugin=plugin, table=None,
            over={"outbox": {"tables": [table], "columns": {"payload": 'Pay "load'},
                             "headers": ["Kind, of", "x y:z"]}})
    r.sql(f"""CREATE SCHEMA "a.b"; CREATE TABLE {table} (id bigint PRIMARY KEY,
        aggregate_id text, type text, "Pay ""load" text, "Kind, of" text, "x y" text)""")
    r.start()
    r.sql(f"INSERT INTO {table} VALUES (1, 'k', 't', 'one', 'h', NULL)")
    (record,) = r.records(1)
    assert (record.key, record.value) == (b"k", b"one")
    assert record.headers_raw == b"id=1,Kind, of=h,z=NULL"


@PLUGINS
def test_column_dropped_or_renamed_while_the_relay_is_behind(rig, plugin):
    """69: old rows with the column and new rows without both flow."""
    r = rig(plugin=plugin)
    r.sql("ALTER TABLE outbox ADD extra text DEFAULT 'e', ADD other int")
    r.start()
    r.insert("1")
    r.values(1)
    assert r.relay.stop() == 0
    r.insert("2")
    r.sql("ALTER TABLE outbox DROP extra")
    r.insert("3")
    r.sql("ALTER TABLE outbox RENAME other TO another; ALTER TABLE outbox ADD more jsonb")
    r.insert("4")
    r.relay.start()
    r.insert("5")
    r.expect([1, 2, 3, 4, 5])


# What the record holds -------------------------------------------------------------------------


@PLUGINS
def test_json_null_sql_null_and_empty_text_are_three_values(rig, plugin):
    """80, 79: four bytes, a null value, a value of no bytes; no log line per record."""
    r = rig(plugin=plugin)
    r.sql("CREATE TABLE j (LIKE outbox INCLUDING ALL); ALTER TABLE j ALTER payload TYPE jsonb"
          " USING payload::jsonb")
    r.pipeline["outbox"]["tables"].append("public.j")
    r.relay.write_config()
    r.start()
    lines = len(r.relay.log_text().splitlines())
    r.sql("INSERT INTO j (payload) VALUES ('null')")
    r.sql("INSERT INTO outbox (payload) VALUES (NULL)")
    r.sql("INSERT INTO outbox (payload) VALUES ('')")
    r.sql("INSERT INTO outbox (payload) SELECT NULL FROM generate_series(1, 1000)")
    values = [record.value for record in r.records(1003)]
    assert values[:3] == [b"null", None, b""]
    assert values[3:] == [None] * 1000
    assert len(r.relay.log_text().splitlines()) - lines < 5


@PLUGINS
def test_keys_find_the_partition_that_java_clients_find(rig, plugin, victim_kafka):
    """81: NULL is keyless and spread, '' is a real key of no bytes, text goes where kcat's
    murmur2_random sends it."""
    r = rig(plugin=plugin, partitions=6).start()
    keys = ["", "a", "order-17", "ключ", "0", "x" * 300]
    for key in keys:
        r.insert(*[key] * 3, key=key)
    for _ in range(40):
        # The client keeps to one partition for 10 ms (sticky.partitioning.linger.ms).
        r.sql("SELECT pg_sleep(0.015)")
        r.insert("n", key=None)
    records = r.records(len(keys) * 3 + 40)
    reference = f"{r.topic}-reference"
    victim_kafka.create_topics(reference, partitions=6)
    for key in keys:
        subprocess.run(["kcat", "-P", "-b", victim_kafka.bootstrap_servers, "-t", reference, "-X",
                        "topic.partitioner=murmur2_random", "-k", key, "-Z"],
                       input=b"v", check=True)
    wanted = {record.key or b"": record.partition
              for record in Consumer(victim_kafka.bootstrap_servers).read(reference)}
    found = {}
    for record in records:
        found.setdefault(record.key, set()).add(record.partition)
    for key in keys[1:]:
        assert found[key.encode()] == {wanted[key.encode()]}, key
    assert len(found[b""]) == 1
    # Java: (murmur2("") & 0x7fffffff) % 6. kcat -Z turns an empty key into a null one.
    assert found[b""] == {(275646681 & 0x7FFFFFFF) % 6}
    assert len(found[None]) > 1


@PLUGINS
def test_values_keep_their_text_whatever_server_role_and_process_prefer(rig, plugin):
    """43, 136: DateStyle, TimeZone, IntervalStyle, float digits, bytea_output of database and
    role, TZ and LC_ALL of the relay; also 51: digits above 2^53."""
    # wal2json refuses such columns: it would send NaN and Infinity as null.
    floats = ["f8", "f4", "num"] if plugin == "pgoutput" else []
    r = rig(plugin=plugin, env={"TZ": "Asia/Kolkata", "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR"},
            over={"outbox": {"headers": ["at", "day", "span", "big", "cash", "list", *floats]}})
    r.sql("""ALTER TABLE outbox ADD at timestamptz, ADD day date, ADD span interval, ADD f8 float8,
        ADD f4 float4, ADD num numeric, ADD big bigint, ADD cash money, ADD list text[]""")
    for setting in ("DateStyle = 'German, DMY'", "TimeZone = 'Asia/Kolkata'",
                    "IntervalStyle = 'iso_8601'", "extra_float_digits = 0",
                    "bytea_output = 'escape'", "statement_timeout = '2h'"):
        r.sql(f"ALTER DATABASE {r.dbname} SET {setting}")
    r.sql("ALTER ROLE postgres SET DateStyle = 'SQL, DMY'")
    try:
        r.start()
        r.sql("""INSERT INTO outbox (payload, at, day, span, f8, f4, num, big, cash, list)
            VALUES ('p', '2024-02-29 23:59:59.5+00', '2024-03-01', '1 year 2 days 03:04:05.6',
            0.1::float8 + 0.2, 0.3, 12345678901234567890.1230, 9223372036854775807, 1234.5,
            ARRAY['a,b', 'c"d', NULL, ''])""")
        (record,) = r.records(1)
    finally:
        r.sql("ALTER ROLE postgres RESET DateStyle")
    text = record.headers_raw.decode()
    wanted = ("at=2024-02-29 23:59:59.5+00,day=2024-03-01,span=1 year 2 days 03:04:05.6,"
              'big=9223372036854775807,cash=$1,234.50,list={"a,b","c\\"d",NULL,""}')
    if floats:
        wanted += ",f8=0.30000000000000004,f4=0.3,num=12345678901234567890.1230"
    assert text.partition(",")[2] == wanted


@PLUGINS
def test_zero_escapes_surrogates_and_control_characters_pass_unchanged(rig, plugin):
    """54: json (not jsonb) keeps its text; a C string would end at the first of them."""
    r = rig(plugin=plugin, payload="json")
    r.sql("CREATE TABLE t (LIKE outbox INCLUDING ALL);"
          "ALTER TABLE t ALTER payload TYPE text USING payload::text")
    r.sql("CREATE TABLE b (LIKE outbox INCLUDING ALL);"
          "ALTER TABLE b ALTER payload TYPE bytea USING NULL")
    r.pipeline["outbox"]["tables"] += ["public.t", "public.b"]
    r.relay.write_config()
    r.start()
    texts = ['{"a":"\\u0000\\ud800"}', '  { "b" : 1.0e+2 , "b":\t2 }\n', '"\\u0001"']
    r.insert(*texts)
    odd = "\x01\x1f\x7f\u2028\ufeff\U0001f680\\x41 \\u0041 \"'\t\r\n"
    r.sql("INSERT INTO t (payload) VALUES (%s)", (odd,))
    raw = bytes(range(256))
    r.sql("INSERT INTO b (payload) VALUES (%s)", (raw,))
    values = [record.value for record in r.records(5)]
    assert values == [text.encode() for text in texts] + [odd.encode(), raw]


@PLUGINS
def test_null_header_is_null_and_an_empty_one_is_empty(rig, plugin):
    """86: neither crashes nor becomes the text of the other."""
    r = rig(plugin=plugin, over={"outbox": {"headers": ["h:trace"]}})
    r.sql("ALTER TABLE outbox ADD h text")
    r.start()
    for value in (None, "", "v"):
        r.sql("INSERT INTO outbox (payload, h) VALUES ('p', %s)", (value,))
    ends = [record.headers_raw.rsplit(b",", 1)[1] for record in r.records(3)]
    assert ends == [b"trace=NULL", b"trace=", b"trace=v"]


@PLUGINS
def test_record_carries_the_commit_time_and_the_id(rig, plugin):
    """The timestamp is the transaction's commit, the same for all its rows."""
    r = rig(plugin=plugin).start()
    r.sql("BEGIN; INSERT INTO outbox (payload) VALUES ('1'); SELECT pg_sleep(0.3);"
          "INSERT INTO outbox (payload) VALUES ('2'); COMMIT")
    after = r.sql("SELECT extract(epoch FROM clock_timestamp()) * 1000")[0][0]
    one, two = r.records(2)
    assert one.timestamp_ms == two.timestamp_ms
    assert 0 <= after - one.timestamp_ms < 250
    ids = [row[0] for row in r.sql("SELECT id::text FROM outbox ORDER BY payload")]
    assert [one.header("id").decode(), two.header("id").decode()] == ids


# Where it goes ---------------------------------------------------------------------------------


@PLUGINS
def test_topics_by_event_type_by_aggregate_type_and_by_pattern(rig, plugin):
    """The default route, the one-line presets and Debezium's pattern and replacement; topics are
    made on request with the partitions asked for."""
    r = rig(plugin=plugin, create_topic=False, over={"kafka": {"topics": {"partitions": 2}}})
    base = r.topic
    routes = {
        f"outbox.event.{base}": {},
        f"outbox.event.{base}-order": {"by": "aggregate_type"},
        f"out.{base}": {"pattern": f"(.*)-v[0-9]+", "replacement": "out.$1"},
        f"col-{base}": {"by": "region", "replacement": "col-${routedByValue}"},
    }
    r.sql("ALTER TABLE outbox ADD region text")
    for topic, route in routes.items():
        r.pipeline["route"] = route
        r.relay.write_config()
        r.relay.start()
        event = f"{base}-v3" if "pattern" in route else base
        r.sql("INSERT INTO outbox (aggregate_type, event_type, region, payload)"
              " VALUES (%s, %s, %s, %s)", (f"{base}-order", event, base, topic))
        r.topic = topic
        r.expect([topic])
        assert r.kafka.topics()[topic] == 2
        assert r.relay.stop() == 0


@PLUGINS
def test_several_tables_share_a_slot_and_keep_commit_order(rig, plugin):
    """Tables of different layouts, one topic, one order; a table that is none is left out."""
    r = rig(plugin=plugin)
    r.sql("CREATE TABLE simple (id bigint PRIMARY KEY, aggregate_id bigint, type text,"
          " payload jsonb, created_at timestamptz); CREATE TABLE dbz (id uuid PRIMARY KEY,"
          " aggregatetype text, aggregateid text, type text, payload bytea);"
          " CREATE TABLE foreign_one (LIKE outbox INCLUDING ALL)")
    r.pipeline["outbox"]["tables"] = ["public.outbox", "simple", "public.dbz"]
    r.relay.write_config()
    r.start()
    r.sql("BEGIN; INSERT INTO simple VALUES (7, 9007199254740993, 't', '{\"a\": 1}', now());"
          " INSERT INTO outbox (payload) VALUES ('x'); INSERT INTO foreign_one (payload)"
          " VALUES ('no'); INSERT INTO dbz VALUES (gen_random_uuid(), 'a', 'k', 't', '\\x00ff');"
          " INSERT INTO simple VALUES (8, 5, 't', '[]', now()); COMMIT")
    records = r.records(4)
    assert [record.value for record in records] == [b'{"a": 1}', b"x", b"\x00\xff", b"[]"]
    assert [record.key for record in records] == [b"9007199254740993", b"k", b"k", b"5"]


def test_several_pipelines_in_one_process(rig):
    """Each has its database, slot and topic; one that has to stop takes the process with it."""
    first = rig()
    second = rig(plugin="wal2json", over={"dead_letters": {"on_poison": "stop"}})
    first.pipeline["name"], second.pipeline["name"] = "first", "second"
    both = first.relay
    both.config["pipelines"].append(second.pipeline)
    both.write_config()
    both.start()
    first.insert("1")
    second.insert("2")
    first.expect([1])
    second.expect([2])
    status, body = both.get("/readyz")
    assert status == 200 and "first: ready" in body and "second: ready" in body
    assert both.metrics()['outbox_events_produced_total{pipeline="second"}'] == 1
    second.sql("ALTER TABLE outbox RENAME payload TO body")
    second.sql("INSERT INTO outbox (body) VALUES ('x')")
    assert both.wait(20) == 65
    assert first.cluster.slot(first.slot)["active"] is False
