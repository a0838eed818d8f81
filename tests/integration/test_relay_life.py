"""Start, health, stop and dry run of the whole process, and its exit codes."""

import json
import os
import signal
import socket
import time

import pytest

from support import cleanup
from support.relay import Relay, check_config, pipeline
from support.rig import first_appearances
from support.tcp_proxy import TcpProxy

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
NOBODY = "127.0.0.1:1"


def printed(relay):
    """The records a dry run has printed so far."""
    return [json.loads(line) for line in relay.log_text().splitlines() if line.startswith("{")]


def start_dry(relay):
    """A dry run has no HTTP that says when it is ready; its log does."""
    relay.start(wait_ready=False).wait_for_log("streaming")


# Dry run ---------------------------------------------------------------------------------------


@PLUGINS
def test_dry_run_moves_neither_kafka_nor_an_existing_slot(rig, plugin):
    """It prints what would be sent, again and again, and the real run still sends it all."""
    r = rig(plugin=plugin, create_topic=False).start()
    r.wait_confirmed()
    assert r.relay.stop() == 0
    r.insert("one", "two\n\u20ac")
    before = r.slot_state()["confirmed_flush_lsn"]
    for _ in range(2):
        with r.another_relay(arguments=["--dry-run"]) as dry:
            start_dry(dry)
            lines = cleanup.wait_until(lambda: len(printed(dry)) == 2 and printed(dry), 10, "rows")
            assert [line["value"] for line in lines] == ["one", "two\n\u20ac"]
            assert lines[0]["topic"] == r.topic and lines[0]["key"] == "k"
            assert lines[0]["headers"][0][0] == "id"
            r.cluster.query("CREATE TABLE IF NOT EXISTS noise (n int); INSERT INTO noise VALUES (1)")
            assert dry.stop() == 0
        assert r.slot_state()["confirmed_flush_lsn"] == before
    assert r.topic not in r.kafka.topics()
    r.relay.start()
    r.expect(["one", "two\n\u20ac".split(" ")[0]])


@PLUGINS
def test_dry_run_without_a_slot_leaves_none_behind(rig, plugin):
    """The missing slot is made as a temporary one; Kafka need not be there."""
    r = rig(plugin=plugin, over={"source": {"create_slot": False},
                                 "kafka": {"bootstrap_servers": NOBODY}})
    if plugin == "pgoutput":
        with r.another_relay(arguments=["--dry-run"]) as dry:
            dry.start(wait_ready=False)
            assert dry.wait() == 78
            assert "dry run makes nothing that stays" in dry.log_text()
            assert "CREATE PUBLICATION" in dry.log_text()
        r.sql(f"CREATE PUBLICATION {r.slot} FOR TABLE outbox")
    r.insert("before")
    with r.another_relay(arguments=["--dry-run"]) as dry:
        start_dry(dry)
        r.insert("after")
        lines = cleanup.wait_until(lambda: printed(dry), 10, "the row")
        assert [line["value"] for line in lines] == ["after"]
        assert dry.stop() == 0
    assert r.slot_state() is None
    with r.another_relay(arguments=["--dry-run"]) as dry:
        start_dry(dry)
        dry.kill()
        cleanup.wait_until(lambda: r.slot_state() is None, 10, "the temporary slot to go")


def test_dry_run_does_not_go_on_with_a_gap_when_its_slot_went_with_the_link(rig):
    """A temporary slot ends with its connection: say so and end, rather than leave rows out."""
    r = rig(plugin="wal2json", over={"source": {"create_slot": False}})
    with r.another_relay(arguments=["--dry-run"]) as dry:
        start_dry(dry)
        r.cluster.query("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                        " WHERE slot_name = %s", (r.slot,))
        assert dry.wait(10) == 69
        assert "start the dry run again" in dry.log_text()
    assert r.slot_state() is None


# Start and health ------------------------------------------------------------------------------


def test_health_is_served_before_the_first_connect(victim_kafka):
    """129: alive, not ready, and it says why; SIGTERM ends the waiting with 0 at once."""
    with Relay(pipeline("host=127.0.0.1 port=1 dbname=x", victim_kafka.bootstrap_servers)) as relay:
        relay.start(wait_ready=False)
        cleanup.wait_until(lambda: relay.get("/livez")[0] == 200, 5, "/livez")
        status, body = cleanup.wait_until(
            lambda: relay.get("/readyz") if "refused" in relay.get("/readyz")[1] else None, 5,
            "the reason")
        assert status == 503 and "test: not ready" in body and "database" in body
        begin = time.monotonic()
        assert relay.stop() == 0
        assert time.monotonic() - begin < 2


def test_probes_are_not_green_while_nothing_is_relayed(rig, victim_kafka):
    """129: the truth table: both links up, broker down, database link dead, standby, stopping."""
    with TcpProxy(rig_port(rig)) as proxy:
        r = rig(port=proxy.port, over={"source": {"connect_timeout_ms": 1000,
                                                  "silence_probe_ms": 500}}).start()
        assert r.relay.get("/readyz")[0] == 200
        with r.another_relay() as standby:
            standby.start(wait_ready=False)
            cleanup.wait_until(lambda: "standby" in standby.get("/readyz")[1], 10, "standby")
            assert standby.get("/readyz")[0] == 200
            assert standby.role() == "standby"
            assert standby.stop() == 0
        victim_kafka.kill()
        cleanup.wait_until(lambda: not r.relay.ready(), 10, "not ready without a broker")
        assert "kafka" in r.relay.get("/readyz")[1]
        assert r.relay.get("/livez")[0] == 200
        victim_kafka.start()
        r.relay.wait_ready()
        proxy.swallow()
        cleanup.wait_until(lambda: not r.relay.ready(), 10, "not ready on a dead link")
        assert "database" in r.relay.get("/readyz")[1]
        assert r.relay.get("/livez")[0] == 200
        proxy.restore()
        r.relay.wait_ready()


def rig_port(rig):
    """The port of the cluster that rigs use."""
    return rig(table=None, create_topic=False).cluster.port


def test_typo_or_broken_guarantee_in_the_configuration_is_refused(rig):
    """125, 111, 27: exit 78 and the nearest key; nothing is connected to."""
    base = pipeline("host=127.0.0.1 dbname=x", NOBODY)

    def refused(change, *words):
        config = json.loads(json.dumps({"version": 1, "pipelines": [base]}))
        change(config, config["pipelines"][0])
        done = check_config(config)
        assert done.returncode == 78, done.stderr
        for word in words:
            assert word in done.stderr, f"{word} is not in {done.stderr}"

    refused(lambda _c, p: p["kafka"].update(bootsrap_servers="x"), "bootstrap_servers")
    refused(lambda c, _p: c.update(pipeline=[]), "pipelines")
    refused(lambda _c, p: p["source"].update(status_interval_ms="soon"), "status_interval_ms")
    refused(lambda _c, p: p["source"].update(slot="My-Slot"), "a-z, 0-9")
    for name, value in (("acks", "1"), ("enable.idempotence", "false"), ("retries", "0"),
                        ("delivery.report.only.error", "true")):
        refused(lambda _c, p, n=name, v=value: p["kafka"].update(properties={n: v}), name)
    refused(lambda _c, p: p["kafka"].update(properties={"compression.codec": "bogus"}),
            "compression.codec")


def test_exit_codes_tell_kinds_apart(rig, victim_kafka, victim_postgres):
    """71 and others: 78 for what has to be changed first, each with the thing to change named."""
    def ends_with(code, *words, **options):
        relay = Relay(options.pop("over"), **options)
        with relay:
            relay.start(wait_ready=False)
            assert relay.wait(20) == code, relay.log_text()
            for word in words:
                assert word in relay.log_text(), f"{word} is not in {relay.log_text()}"

    r = rig()
    r.sql("CREATE UNLOGGED TABLE fast (LIKE outbox)")
    r.sql("CREATE ROLE plain LOGIN")
    try:
        ends_with(78, "unlogged", "SET LOGGED",
                  over={**r.pipeline, "outbox": {"tables": ["fast"]}})
        ends_with(78, "OUTBOX", over={**r.pipeline, "outbox": {"tables": ['public."OUTBOX"']}})
        ends_with(78, "REPLICATION", over=dict(
            r.pipeline, source={**r.pipeline["source"], "dsn": r.cluster.dsn(r.dbname, "plain")}))
        ends_with(78, "does not exist", over=dict(
            r.pipeline, source={**r.pipeline["source"], "dsn": r.cluster.dsn("no_such_db")}))
    finally:
        r.sql("DROP ROLE plain")
    with Relay(r.pipeline, arguments=["--no-such-flag"]) as relay:
        relay.start(wait_ready=False)
        assert relay.wait(10) == 64


def test_json_log_lines_are_json_and_say_nothing_twice(rig):
    """Each line parses, with its keys unique, and names the pipeline."""
    def unique(pairs):
        assert len({name for name, _value in pairs}) == len(pairs), pairs
        return dict(pairs)

    r = rig(log_format="json", log_level="debug").start()
    r.insert("1")
    r.values(1)
    r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
    r.insert("2")
    r.values(2)
    assert r.relay.stop() == 0
    lines = [json.loads(line, object_pairs_hook=unique)
             for line in r.relay.log_text().splitlines()]
    assert len(lines) > 8
    assert all("pipeline" in line or "pipelines" in line for line in lines
               if line["message"] != lines[-2]["message"] and "stopping" not in line["message"])


def test_port_of_health_in_use_is_named(rig):
    """A second relay on the same port does not run blind."""
    with socket.create_server(("127.0.0.1", cleanup.free_port())) as taken:
        port = taken.getsockname()[1]
        r = rig(config={"http": {"listen": f"127.0.0.1:{port}"}})
        r.relay.start(wait_ready=False)
        assert r.relay.wait(10) == 78
        assert str(port) in r.relay.log_text()


def test_rotated_password_is_read_again_at_reconnect(rig, victim_postgres, tmp_path):
    """${file:…} is read at every connect and never printed."""
    secret = tmp_path / "password"
    secret.write_text("first-Secret'1\n")
    r = rig(log_level="debug")
    r.sql("CREATE ROLE rotating LOGIN REPLICATION SUPERUSER PASSWORD %s", ("first-Secret'1",))
    hba = os.path.join(victim_postgres.data_dir, "pg_hba.conf")
    with open(hba, encoding="utf-8") as original:
        lines = original.read()
    try:
        with open(hba, "w", encoding="utf-8") as changed:
            changed.write("host all rotating 127.0.0.1/32 scram-sha-256\n" + lines)
        victim_postgres.reload()
        r.pipeline["source"]["dsn"] = (r.cluster.dsn(r.dbname, "rotating")
                                       + f" password=${{file:{secret}}}")
        r.relay.write_config()
        r.start()
        r.insert("1")
        r.values(1)
        r.sql("ALTER ROLE rotating PASSWORD 'second'")
        secret.write_text("second")
        mark = r.relay.log_text().count("stream resumed")
        r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        cleanup.wait_until(lambda: r.relay.log_text().count("stream resumed") > mark, 10, "resume")
        r.insert("2")
        r.expect([1, 2])
        secret.write_text("wrong")
        r.cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        assert r.relay.wait(10) == 78  # 28: one clear error, no hot loop.
        log = r.relay.log_text()
        assert log.count("28P01") <= 2
        assert "first-Secret" not in log and "second" not in log.replace("seconds", "")
    finally:
        with open(hba, "w", encoding="utf-8") as restored:
            restored.write(lines)
        victim_postgres.reload()


# Stop ------------------------------------------------------------------------------------------


@PLUGINS
def test_nothing_comes_again_after_clean_idle_restarts(rig, plugin):
    """29: 0 repeats after a graceful stop, also of a transaction of many rows."""
    r = rig(plugin=plugin).start()
    r.numbers(1)
    r.numbers(500, start=2)
    r.records(501)
    for number in range(3):
        assert r.relay.stop() == 0
        r.relay.start()
        r.numbers(1, start=502 + number)
        r.records(502 + number)
    assert r.relay.stop() == 0
    r.expect(range(1, 505))


def test_stop_under_load_and_start_again_repeats_nothing(rig):
    """SIGTERM in the middle of transactions and backlog, five times: no loss, no repeat."""
    r = rig().start()
    for turn in range(5):
        r.singles(300, start=1 + turn * 2300)
        r.numbers(2000, start=301 + turn * 2300)
        assert r.relay.stop(signal.SIGINT if turn % 2 else signal.SIGTERM) == 0
        r.relay.start()
    r.expect(range(1, 11501))


def test_second_signal_ends_at_once_with_its_own_code(rig, victim_kafka):
    """75 and nothing lost: what was not confirmed comes at the next start."""
    r = rig().start()
    r.insert("0")
    r.wait_confirmed()
    victim_kafka.freeze()
    r.insert("1")
    cleanup.wait_until(lambda: r.relay.metric("outbox_events_pending") == 1, 10, "the row")
    os.kill(r.relay.pid, signal.SIGTERM)
    r.relay.wait_for_log("stopping", 5)
    begin = time.monotonic()
    assert r.relay.stop() == 75
    assert time.monotonic() - begin < 1
    victim_kafka.thaw()
    r.relay.start()
    assert first_appearances(r.values(2)) == ["0", "1"]


def test_stop_with_the_broker_gone_ends_within_its_limit(rig, victim_kafka):
    """102: shutdown_timeout_ms and two seconds at most, then 75 and "duplicates possible"."""
    r = rig(over={"limits": {"shutdown_timeout_ms": 1500}}).start()
    r.insert("0")
    r.wait_confirmed()
    victim_kafka.kill()
    r.insert("1")
    cleanup.wait_until(lambda: r.relay.metric("outbox_events_pending") == 1, 10, "the row")
    begin = time.monotonic()
    assert r.relay.stop() == 75
    assert 1 < time.monotonic() - begin < 3.5
    assert "duplicates are possible" in r.relay.log_text()
    victim_kafka.start()
    r.relay.start()
    assert first_appearances(r.values(2)) == ["0", "1"]


def test_single_row_then_idle_is_confirmed_and_memory_stays_flat(rig):
    """107, 131: acks are polled while idle, statistics do not pile up, the distance goes to 0."""
    r = rig(over={"kafka": {"properties": {"statistics.interval.ms": "10"}}}).start()
    r.insert("1")
    r.wait_confirmed(timeout_s=2)
    now, _peak = r.relay.rss_kb()
    used = r.relay.cpu_seconds()
    begin = time.monotonic()
    cleanup.wait_until(lambda: time.monotonic() - begin > 3, 5, "idle time")
    assert r.relay.rss_kb()[0] - now < 2048
    assert r.relay.cpu_seconds() - used < 1
    assert r.relay.metric("outbox_events_pending") == 0
    assert r.relay.metric("outbox_oldest_unconfirmed_age_seconds") == 0
