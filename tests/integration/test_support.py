"""The judges are judged first: servers, consumer, load and audit, without the relay."""

import copy
import os
import subprocess
import time

import pytest

from support import summary
from support.audit import Expected, audit, by_event_type, load_oracle, one_topic
from support.consumer import Consumer, Record, Tail
from support.kafka_admin import KafkaAdmin, KafkaError
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.workload import Workload, small_foreign_transactions, write_other_wal


def produce(kafka, topic, data, *options):
    subprocess.run(["kcat", "-P", "-b", kafka.bootstrap_servers, "-t", topic, *options],
                   input=data, check=True)


# PostgreSQL ------------------------------------------------------------------------------------


def test_cluster_is_logical_and_runs_unprivileged(postgres):
    assert postgres.scalar("SHOW wal_level") == "logical"
    with open(f"/proc/{postgres._process.pid}/status", encoding="ascii") as status:
        uid = next(line for line in status if line.startswith("Uid:")).split()[1]
    assert uid != "0"


def test_cluster_allows_wal2json_where_it_is_installed(postgres, database):
    if not postgres.has_wal2json:
        pytest.skip("wal2json is not installed")
    postgres.query("SELECT pg_create_logical_replication_slot('allowed', 'wal2json')",
                   dbname=database)
    assert postgres.slot("allowed")["plugin"] == "wal2json"


def test_cluster_survives_kill_and_leaves_nothing():
    with PostgresCluster(auth="scram-sha-256") as cluster:
        cluster.query("CREATE TABLE t AS SELECT 1 AS n")
        cluster.query("CHECKPOINT")
        cluster.kill()
        assert not cluster.running()
        cluster.start()
        assert cluster.scalar("SELECT n FROM t") == 1
        assert cluster.log_contains("redo")
        cluster.restart("immediate")
        cluster.set("wal_sender_timeout", "5s")
        assert cluster.scalar("SHOW wal_sender_timeout") == "5s"
        assert cluster.psql("SELECT 1; SELECT 2") == "1\n2\n"
        directory, pid = cluster.directory, cluster._process.pid
    assert not os.path.exists(directory)
    assert not os.path.exists(f"/proc/{pid}")


# Kafka -----------------------------------------------------------------------------------------


def test_broker_keeps_data_over_a_kill_and_topics_can_be_changed():
    with KafkaBroker(message_max_bytes=2_000_000) as kafka:
        kafka.create_topics("one", "two", partitions=3, config={"max.message.bytes": 3000})
        with pytest.raises(KafkaError) as refused:
            kafka.create_topics("one")
        assert refused.value.code == KafkaAdmin.TOPIC_EXISTS
        kafka.admin.create_partitions("two", 5)
        kafka.admin.alter_topic("two", {"max.message.bytes": 4000})
        produce(kafka, "one", b"hello\n")
        assert kafka.count("one") == 1
        kafka.kill()
        kafka.start()
        assert kafka.topics() == {"one": 3, "two": 5}
        assert [record.value for record in Consumer(kafka.bootstrap_servers).read("one")] == [
            b"hello"]
        kafka.delete_topics("two")
        assert kafka.topics() == {"one": 3}
        kafka.freeze()
        kafka.thaw()
        directory = kafka.directory
        kafka.stop()
        assert not kafka.running()
    assert not os.path.exists(directory)


# Consumer --------------------------------------------------------------------------------------


def test_consumer_tells_null_from_empty_and_keeps_every_byte(kafka, consumer, topic):
    kafka.create_topics(topic, partitions=1)
    body = bytes(range(1, 256)) * 3500  # About 900 kB with newlines and the end mark's characters.
    body = body.replace(b"\x02", b"")
    produce(kafka, topic, b"key\x02" + body, "-K", "\x02", "-D", "\x03\x03", "-H", "id=1", "-H",
            "trace=a")
    produce(kafka, topic, b"null:\n:no key\n", "-K:", "-Z")
    produce(kafka, topic, b"empty:\n", "-K:")
    records = consumer.read(topic)
    assert [(r.partition, r.offset) for r in records] == [(0, i) for i in range(4)]
    assert records[0].key == b"key" and records[0].value == body
    assert records[0].headers == [("id", b"1"), ("trace", b"a")]
    assert records[0].header("trace") == b"a" and records[0].header("none") is None
    assert (records[1].key, records[1].value) == (b"null", None)
    assert (records[2].key, records[2].value) == (None, b"no key")
    assert (records[3].key, records[3].value) == (b"empty", b"")
    assert abs(records[3].timestamp_ms - time.time() * 1000) < 60_000


def test_consumer_waits_for_records_and_reads_no_missing_topic(kafka, consumer, topic):
    assert consumer.read(topic) == []
    kafka.create_topics(topic)
    assert consumer.read(topic) == []
    with pytest.raises(TimeoutError):
        consumer.wait_for(topic, 1, timeout_s=0.3)
    with Tail(kafka.bootstrap_servers, topic) as tail:
        time.sleep(0.7)  # kcat must stand at the end before the record comes.
        produce(kafka, topic, b"a\n")
        assert consumer.wait_for(topic, 1) == 1
        deadline = time.monotonic() + 10
        while not tail.arrivals() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [record.value for record, _at in tail.arrivals()] == [b"a"]


# Load ------------------------------------------------------------------------------------------


def test_load_keeps_a_true_oracle_also_over_a_crash():
    with PostgresCluster() as cluster:
        load = Workload(cluster, huge=0.0005, keys=50, rolled_back=0.2, deleted=0.2)
        load.run(3_000, writers=4)
        assert load.events() == load.committed() == 3_000
        assert load.rolled_back() > 100
        _assert_numbers_without_gap(cluster)
        in_table = cluster.scalar("SELECT count(*) FROM outbox")
        deleted = cluster.scalar("SELECT count(*) FROM workload.oracle WHERE kind = 'deleted'")
        assert deleted > 100 and in_table == 3_000 - deleted
        assert cluster.scalar("SELECT count(*) FROM outbox JOIN workload.oracle USING (id) WHERE"
                              " md5(payload::text) <> payload_md5 OR aggregate_id <> key"
                              " OR (payload->>'number')::bigint <> number") == 0
        load.bulk(1_003)
        assert load.events() == 4_003
        load.start(1_000_000, writers=3, rate=900)
        time.sleep(0.5)
        cluster.kill()
        cluster.start()
        time.sleep(1)
        load.bulk(500)
        load.stop()
        assert load.reconnects >= 3
        _assert_numbers_without_gap(cluster)


def _assert_numbers_without_gap(cluster):
    assert cluster.query(
        "SELECT key FROM workload.oracle GROUP BY key HAVING count(*) <> max(number)"
        " OR count(DISTINCT number) <> count(*)") == []


def test_load_keeps_its_rate():
    with PostgresCluster() as cluster:
        load = Workload(cluster)
        load.start(1_000_000, writers=4, rate=400)
        time.sleep(3)
        load.stop()
        assert 900 <= load.committed() <= 1_500


def test_foreign_wal_is_written(postgres):
    assert write_other_wal(postgres, 20) >= 20 * 2**20
    small_foreign_transactions(postgres, 100)
    assert postgres.scalar("SELECT count(*) FROM foreign_rows") == 100


# Audit -----------------------------------------------------------------------------------------


def _world():
    """Three keys with four events each, and the records a perfect relay would have made."""
    import hashlib
    oracle, records = {}, []
    for key in range(3):
        for number in range(1, 5):
            event_id = f"id-{key}-{number}"
            value = b'{"key": %d, "number": %d}' % (key, number)
            oracle[event_id] = Expected(f"key-{key}", number, "OrderPaid",
                                        hashlib.md5(value).hexdigest(), len(value))
            records.append(Record("outbox.event.OrderPaid", key % 2, len(records), 1_700_000_000_000,
                                  b"key-%d" % key, value, b"id=" + event_id.encode()))
    return oracle, records


def test_audit_finds_nothing_wrong_with_a_perfect_relay():
    oracle, records = _world()
    result = audit(oracle, records, by_event_type())
    assert result.ok() and result.records == result.committed == 12
    assert "lost" in result.table()


def _lose(records):
    del records[5]


def _double(records):
    records.append(copy.copy(records[2]))


def _swap(records):
    records[1], records[2] = records[2], records[1]


def _invent(records):
    records[3] = copy.copy(records[3])
    records[3].headers_raw = b"id=rolled-back"


def _change_payload(records):
    records[4].value = records[4].value.replace(b": ", b":")


def _change_key(records):
    records[4].key = b"key-9"


def _no_key(records):
    records[4].key = None


def _move_topic(records):
    records[4].topic = "outbox.event.Other"


def _move_partition(records):
    records[6].partition = 5


def _drop_header(records):
    records[0].headers_raw = b""


@pytest.mark.parametrize("fault, what", [
    (_lose, "lost"), (_double, "duplicates"), (_swap, "inversions"), (_invent, "unknown"),
    (_change_payload, "wrong_payload"), (_change_key, "wrong_key"), (_no_key, "wrong_key"),
    (_move_topic, "wrong_topic"), (_move_partition, "split_keys"), (_drop_header, "missing_id")])
def test_audit_detects(fault, what):
    oracle, records = _world()
    good = audit(oracle, records, by_event_type()).digest
    fault(records)
    result = audit(oracle, records, by_event_type())
    assert getattr(result, what) == 1
    assert not result.ok()
    assert result.digest != good
    with pytest.raises(AssertionError, match="audit failed"):
        result.check()


def test_audit_allows_as_many_duplicates_as_it_is_told_and_no_more():
    oracle, records = _world()
    _double(records)
    _double(records)
    result = audit(oracle, records, by_event_type())
    assert result.ok(duplicates_max=2) and not result.ok(duplicates_max=1)
    assert list(result.repeated) == ["id-0-3"] and len(result.repeated["id-0-3"]) == 3


def test_audit_of_a_repeated_tail_sees_no_inversion():
    """A relay that rewinds sends 3, 4 again after 4: first appearances are still in order."""
    oracle, records = _world()
    replay = [copy.copy(record) for record in records[2:4]]
    result = audit(oracle, records + replay, by_event_type())
    assert result.inversions == 0 and result.duplicates == 2


def test_audit_judges_real_records_of_a_real_load(postgres, kafka, consumer, database, topic):
    """A tiny relay of shell tools sends what the table holds: all found; one left out: found too."""
    load = Workload(postgres, dbname=database, keys=10, deleted=0, rolled_back=0.1)
    load.run(40, writers=2)
    kafka.create_topics(topic)
    rows = postgres.query("SELECT o.id::text, key, o.payload::text FROM outbox o"
                          " JOIN workload.oracle USING (id) ORDER BY key, number", dbname=database)
    for event_id, key, payload in rows[:-1]:
        produce(kafka, topic, f"{key}\x02{payload}".encode(), "-K", "\x02", "-D", "\x03", "-H",
                f"id={event_id}", "-X", "partitioner=murmur2_random")
    result = audit(load_oracle(postgres, database), consumer.stream(topic), one_topic(topic))
    assert (result.lost, result.records) == (1, 39)
    assert result.wrong_payload == result.inversions == result.unknown == 0


# Summary ---------------------------------------------------------------------------------------

_CTEST = """<testsuite>
<testcase name="unit_a" time="1" status="run"><system-out>[==========] Running 3 tests
[       OK ] A.x (0 ms)
[       OK ] A.y (0 ms)
[  FAILED  ] A.z (0 ms)
[==========] 3 tests from 1 test suite ran.
[  FAILED  ] A.z
</system-out>{failure}</testcase>
<testcase name="replay" time="1" status="run"><system-out>fine</system-out></testcase>
</testsuite>"""


def test_summary_counts_cases_and_fails_on_nothing(tmp_path, capsys):
    assert summary.main(str(tmp_path)) == 1
    assert capsys.readouterr().out.endswith("0 passed, 0 failed\n")
    (tmp_path / "ctest-a.xml").write_text(_CTEST.format(failure="<failure/>"))
    (tmp_path / "pytest-b.xml").write_text(
        '<testsuites><testsuite><testcase name="t" time="1"/><testcase name="s">'
        "<skipped/></testcase></testsuite></testsuites>")
    assert summary.main(str(tmp_path)) == 1
    assert capsys.readouterr().out.endswith("   1 skipped\n4 passed, 1 failed\n")
