"""What goes wrong on the PostgreSQL side, named after what users of other relays saw."""

import io
import os
import re
import subprocess
import time

import pytest

from support import cleanup
from support.cleanup import wait_until
from support.postgres_cluster import PostgresCluster
from support.relay import Relay
from support.rig import first_appearances
from support.tcp_proxy import TcpProxy
from support.workload import small_foreign_transactions, write_other_wal

PLUGINS = pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])


@pytest.fixture
def proxy(victim_postgres):
    with TcpProxy(victim_postgres.port) as forwarder:
        yield forwarder


def settled(condition, seconds, what):
    """condition() holds now and at every look for so many seconds."""
    end = time.monotonic() + seconds
    wait_until(lambda: not condition() or time.monotonic() > end, seconds + 5, what)
    assert condition(), what


def numbers_of(relay):
    return relay.metric("outbox_source_losses_total")


# The slot's position ---------------------------------------------------------------------------


@PLUGINS
def test_wal_is_not_kept_by_an_idle_outbox_when_the_sender_has_no_timeout(rig, plugin):
    """4: wal_sender_timeout=0, so the server never asks; status goes by the relay's own timer."""
    r = rig(plugin=plugin, over={"source": {"wal_sender_timeout_ms": 0,
                                            "status_interval_ms": 300}})
    r.cluster.set("wal_sender_timeout", 0)
    r.start()
    write_other_wal(r.cluster, 32, r.dbname)
    r.cluster.query("SELECT pg_switch_wal(); CHECKPOINT")
    r.cluster.query("CREATE TABLE IF NOT EXISTS elsewhere (n int); INSERT INTO elsewhere VALUES (1)")
    r.wait_confirmed(timeout_s=5)


@PLUGINS
def test_confirmed_position_does_not_jump_back_over_restarts(rig, plugin):
    """5: outbox rows and pure noise in turn, restarts between; no sample is lower than before."""
    r = rig(plugin=plugin).start()
    r.sql("CREATE TABLE other (n int)")
    seen = 0
    for turn in range(3):
        for number in range(30):
            r.insert(str(turn * 30 + number))
            r.sql("INSERT INTO other VALUES (1)")
            now = int(r.cluster.scalar("SELECT confirmed_flush_lsn - '0/0' FROM"
                                       " pg_replication_slots WHERE slot_name = %s", (r.slot,)))
            assert now >= seen
            seen = now
        r.wait_confirmed()
        if turn == 1:
            r.relay.kill()
        else:
            assert r.relay.stop() == 0
        r.relay.start()
    r.expect(range(90))


@pytest.mark.slow
def test_short_sender_timeout_does_not_drop_the_stream(rig):
    """8: wal_sender_timeout=2s, idle and busy; the interval follows the server's timeout."""
    r = rig(over={"source": {"wal_sender_timeout_ms": 0}})
    r.cluster.set("wal_sender_timeout", "2s")
    r.start()
    settled(lambda: numbers_of(r.relay) == 0, 7, "no loss while idle")
    r.singles(20_000)
    settled(lambda: numbers_of(r.relay) == 0, 5, "no loss after load")
    r.expect(range(1, 20_001))


@PLUGINS
def test_foreign_transactions_do_not_flood_log_or_processor(rig, plugin):
    """76: 200,000 tiny transactions elsewhere: no line each, little CPU, the position follows."""
    r = rig(plugin=plugin, log_level="debug").start()
    used, lines = r.relay.cpu_seconds(), len(r.relay.log_text().splitlines())
    small_foreign_transactions(r.cluster, 200_000, r.dbname)
    r.wait_confirmed(timeout_s=60)
    assert r.relay.cpu_seconds() - used < 4
    assert len(r.relay.log_text().splitlines()) - lines < 100
    r.insert("1")
    r.expect([1])


@PLUGINS
def test_long_silence_of_a_huge_foreign_transaction_is_not_called_dead(rig, plugin):
    """36: the server decodes for longer than the relay's patience and says nothing."""
    r = rig(plugin=plugin, over={"source": {"silence_probe_ms": 300}}).start()
    r.sql("CREATE TABLE big AS SELECT i AS n FROM generate_series(1, 400000) AS i")
    r.sql("BEGIN; UPDATE big SET n = n + 1; UPDATE big SET n = n + 1; COMMIT")
    r.insert("1")
    r.expect([1])
    r.wait_confirmed()
    assert numbers_of(r.relay) == 0


@PLUGINS
def test_stall_watchdog_leaves_a_healthy_idle_stream_alone(rig, plugin):
    """9: no writes for five watchdog periods: a probe each, no reconnect."""
    r = rig(plugin=plugin, over={"source": {"silence_probe_ms": 400,
                                            "status_interval_ms": 60_000}}).start()
    settled(lambda: numbers_of(r.relay) == 0, 4, "no loss while idle")
    assert r.relay.log_text().count("stream resumed") == 0


# The link --------------------------------------------------------------------------------------


def test_half_open_link_is_found_and_nothing_is_lost(rig, proxy):
    """10: both directions swallowed without a word; rows go on; red meanwhile, all arrive."""
    r = rig(port=proxy.port, over={"source": {"silence_probe_ms": 500,
                                              "connect_timeout_ms": 1000}}).start()
    r.numbers(100)
    r.records(100)
    proxy.swallow()
    r.numbers(100, start=101)
    begin = time.monotonic()
    wait_until(lambda: not r.relay.ready(), 10, "readiness to go red")
    assert time.monotonic() - begin < 5
    r.numbers(100, start=201)
    proxy.restore()
    r.expect(range(1, 301))
    r.relay.wait_ready()
    r.wait_confirmed()


@PLUGINS
def test_link_cut_in_the_middle_of_a_big_message_twenty_times(rig, proxy, plugin):
    """Nothing lost, nothing twice: a living process knows what it has sent."""
    r = rig(port=proxy.port, plugin=plugin, partitions=6).start()
    for cut in range(20):
        proxy.cut_after(90_000 + cut * 7919)
        r.numbers(12, start=1 + cut * 22, keys=3, filler=20_000)
        r.singles(10, start=13 + cut * 22, keys=3)
        wait_until(lambda: not proxy.waits_to_cut(), 10, "the cut")
    assert proxy.cuts == 20
    values = r.values(440)
    assert sorted(map(int, values)) == list(range(1, 441))
    assert numbers_of(r.relay) >= 15
    by_partition = {}
    for record in r.records():
        by_partition.setdefault(record.key, []).append(int(record.value.split(b" ")[0]))
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_killed_backends_are_reconnected_without_leaks(rig):
    """11, 24: an administrator ends it 30 times while rows come: no loss, no repeat, descriptors
    and walsenders stay flat though max_wal_senders is 4, each loss is counted."""
    with PostgresCluster(settings={"max_wal_senders": 4, "max_replication_slots": 4}) as cluster:
        r = rig(cluster=cluster).start()
        r.insert("1")
        r.records(1)
        open_files = len(os.listdir(f"/proc/{r.relay.pid}/fd"))
        for kill in range(30):
            r.singles(10, start=2 + kill * 10)
            (pid,) = wait_until(cluster.walsender_pids, 10, "a walsender")
            cluster.query("SELECT pg_terminate_backend(%s)", (pid,))
            wait_until(lambda: pid not in cluster.walsender_pids(), 10, "its end")
        r.expect(range(1, 302))
        r.wait_confirmed()
        assert len(cluster.walsender_pids()) == 1
        assert len(os.listdir(f"/proc/{r.relay.pid}/fd")) <= open_files + 2
        assert numbers_of(r.relay) >= 30
        assert r.relay.log_text().count("57P01") <= 62
        r.close()


def test_database_down_at_start_and_for_a_while_in_mid_run(rig, victim_postgres):
    """12: tries until it is up, refused or starting up; SIGTERM is honoured within seconds."""
    r = rig()
    victim_postgres.stop("immediate")
    r.relay.start(wait_ready=False)
    r.relay.wait_for_log("refused", 5)
    assert not r.relay.ready()
    victim_postgres.start()
    r.relay.wait_ready()
    r.reconnect()
    r.insert("1")
    r.records(1)
    victim_postgres.stop("immediate")
    wait_until(lambda: not r.relay.ready(), 5, "not ready")
    settled(lambda: r.relay.running(), 2, "it waits")
    victim_postgres.start()
    r.relay.wait_ready()
    r.reconnect()
    r.insert("2")
    r.expect([1, 2])
    r.wait_confirmed()
    victim_postgres.stop("immediate")
    wait_until(lambda: not r.relay.ready(), 5, "not ready")
    begin = time.monotonic()
    assert r.relay.stop() in (0, 75)
    assert time.monotonic() - begin < 3


def test_quick_restart_waits_for_the_slot_of_a_frozen_relay(rig):
    """13: the second waits with a clear line and takes over when the first is gone; the slot and
    the other backend are left alone."""
    r = rig().start()
    r.insert("1")
    r.records(1)
    holder = r.slot_state()["active_pid"]
    r.relay.freeze()
    with r.another_relay() as standby:
        standby.start(wait_ready=False)
        standby.wait_for_log("slot is held by another process", 10)
        r.insert("2")
        settled(lambda: standby.role() == "standby", 1.5, "it waits")
        assert r.slot_state()["active_pid"] == holder
        assert standby.log_text().count("held by another") == 1
        r.relay.kill()
        assert first_appearances(r.values(2, timeout_s=10)) == ["1", "2"]
        assert standby.role() != "standby"
        assert standby.stop() == 0


def test_standby_evicts_a_frozen_relay_when_told_to(rig):
    """Long before the server itself gives the silent one up; a healthy one is left alone."""
    over = {"source": {"status_interval_ms": 200, "evict_holder_after_ms": 1_000}}
    r = rig(over=over).start()
    r.insert("1")
    r.records(1)
    holder = r.slot_state()["active_pid"]
    with r.another_relay() as standby:
        standby.start()
        standby.wait_for_log("held by another")
        settled(lambda: r.slot_state()["active_pid"] == holder, 2, "a healthy holder stays")
        r.relay.freeze()
        began = time.monotonic()
        r.insert("2")
        assert first_appearances(r.values(2, timeout_s=10)) == ["1", "2"]
        assert time.monotonic() - began < 5
        assert standby.log_text().count("it was ended") == 1
        assert str(holder) in standby.log_text()
        r.relay.thaw()
        r.relay.wait_for_log("held by another")
        assert standby.stop() == 0
        r.insert("3")
        # What lay in the frozen one's socket may have come again when it thawed.
        wait_until(lambda: first_appearances(r.values()) == ["1", "2", "3"], 10, "the third row")


@pytest.mark.parametrize("create", [True, False])
def test_slot_dropped_while_streaming_is_not_a_passing_fault(rig, create):
    """16: the verdict is permanent, and no new slot hides the gap."""
    # The relay must not be back before the slot is dropped: the server takes up to 100 ms to say
    # that the backend is gone.
    r = rig(over={"source": {"create_slot": create, "reconnect_first_ms": 2_000,
                             "reconnect_max_ms": 2_000}})
    r.cluster.query("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (r.slot,),
                    r.dbname)
    r.start()
    r.insert("1")
    r.records(1)
    r.wait_confirmed()
    state = r.slot_state()
    # In one call: whether the relay is back before the drop is a race, so try until it is gone.
    r.sql(f"""DO $$ BEGIN LOOP
        PERFORM pg_terminate_backend(active_pid, 1000) FROM pg_replication_slots
          WHERE slot_name = '{r.slot}' AND active;
        BEGIN PERFORM pg_drop_replication_slot('{r.slot}'); EXIT;
        EXCEPTION WHEN object_in_use THEN NULL; END; END LOOP; END $$""")
    assert state["active"]
    assert r.relay.wait(15) == 69
    bounds = re.search(r"is gone while the relay runs; rows committed between (\S+) and (\S+) may",
                       r.relay.log_text())
    assert bounds and "SLOT_MISSING" in r.relay.log_text()
    assert r.cluster.query("SELECT %s::pg_lsn <= %s::pg_lsn", bounds.groups()) == [(True,)]
    assert r.slot_state() is None


def test_slot_recreated_ahead_of_the_relay_is_a_gap_not_progress(rig):
    """17, 19: somebody advanced or re-made the slot while the process lived."""
    r = rig(over={"source": {"reconnect_first_ms": 1000, "reconnect_max_ms": 1000}}).start()
    r.insert("1")
    r.records(1)
    r.wait_confirmed()
    (pid,) = [r.slot_state()["active_pid"]]
    r.cluster.query("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    r.insert("2")
    r.sql("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", (r.slot,))
    assert r.relay.wait(15) == 69
    assert "ahead of this relay" in r.relay.log_text()


@pytest.mark.parametrize("pending", [False, True])
def test_shutting_down_primary_is_not_blocked_by_the_relay(rig, victim_postgres, victim_kafka,
                                                           pending):
    """20: fast stop with the relay attached, idle or with rows that the broker cannot take, ends
    soon; then the living process goes on where it was."""
    r = rig().start()
    r.insert("1")
    r.records(1)
    r.wait_confirmed()
    if pending:
        victim_kafka.freeze()
        r.numbers(2000, start=2)
        wait_until(lambda: r.relay.metric("outbox_events_pending") > 0, 10, "rows in flight")
    begin = time.monotonic()
    victim_postgres.stop("fast", timeout_s=30)
    assert time.monotonic() - begin < 15
    victim_kafka.thaw()
    victim_postgres.start()
    r.relay.wait_ready()
    r.reconnect()
    r.insert("end")
    values = r.values(2002 if pending else 2)
    assert values == [str(n) for n in range(1, 2002 if pending else 2)] + ["end"]


def test_slot_creation_behind_an_open_transaction_leaves_no_orphan(rig):
    """22: it says what it waits for, gives up in bounded time and tries again, SIGTERM and SIGKILL
    leave no half-made slot."""
    r = rig(over={"source": {"lock_timeout_ms": 3000}})
    blocker = r.cluster.connect(r.dbname, autocommit=False)
    with blocker.cursor() as cursor:
        cursor.execute("SELECT txid_current()")
        r.relay.start(wait_ready=False)
        r.relay.wait_for_log("waits for a transaction to end", 10)
        r.relay.wait_for_log("55P03", 10)
        begin = time.monotonic()
        assert r.relay.stop() == 0
        assert time.monotonic() - begin < 2
        r.relay.start(wait_ready=False)
        wait_until(r.slot_state, 10, "the half-made slot")
        r.relay.kill()
        wait_until(lambda: r.slot_state() is None, 10, "the half-made slot to go")
        r.relay.start(wait_ready=False)
        wait_until(r.slot_state, 10, "the half-made slot")
        blocker.rollback()
    blocker.close()
    r.relay.wait_ready()
    r.insert("1")
    r.expect([1])


def make_certificate(directory, name, host):
    """A self-signed certificate that is its own CA; returns its path (the key beside it)."""
    path = os.path.join(directory, name + ".crt")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}", "-keyout",
                    os.path.join(directory, name + ".key"), "-out", path],
                   check=True, capture_output=True)
    return path


def test_tls_misconfiguration_is_neither_swallowed_nor_downgraded(rig, victim_postgres, tmp_path):
    """28: a server without TLS and sslmode=require; then with TLS the wrong CA, the wrong host, no
    CA file: each one clear error and exit 78. With the right CA it streams."""
    r = rig()
    own = make_certificate(victim_postgres.directory, "server", "db.example")
    wrong = make_certificate(tmp_path, "wrong", "db.example")
    for name in ("server.crt", "server.key"):
        path = os.path.join(victim_postgres.directory, name)
        owner = os.stat(victim_postgres.data_dir)
        os.chown(path, owner.st_uid, owner.st_gid)
        os.chmod(path, 0o600)
        victim_postgres.query(f"ALTER SYSTEM SET ssl_{name[-3:].replace('crt', 'cert')}_file"
                              f" = '{path}'")
    cases = [("sslmode=require", "SSL"), ("sslmode=verify-full sslrootcert=/no/such/file", "SSL"),
             (None, None), (f"sslmode=verify-ca sslrootcert={wrong}", "certificate verify failed"),
             (f"sslmode=verify-full sslrootcert={own}", "does not match host name"),
             ("sslmode=verify-full sslrootcert=/no/such/file", "root certificate")]
    for more, word in cases:
        if more is None:
            victim_postgres.set("ssl", "on")
            continue
        source = {**r.pipeline["source"], "dsn": r.cluster.dsn(r.dbname) + " " + more}
        with Relay({**r.pipeline, "source": source}) as relay:
            relay.start(wait_ready=False)
            assert relay.wait(10) == 78, relay.log_text()
            assert word in relay.log_text()
            assert len(relay.log_text().splitlines()) < 8
    r.pipeline["source"]["dsn"] += f" sslmode=verify-ca sslrootcert={own}"
    r.relay.write_config()
    r.start()
    r.numbers(200, filler=9_000)
    r.expect(range(1, 201))
    assert r.cluster.scalar("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_replication"
                            " USING (pid)")


# Crash of the relay ----------------------------------------------------------------------------


@PLUGINS
def test_copy_of_many_rows_and_a_kill_half_way_loses_none(rig, plugin, victim_kafka):
    """31, 34: rows of one LSN, one transaction; nothing is confirmed before its last ack."""
    r = rig(plugin=plugin, over={"limits": {"in_flight_records_max": 500}}).start()
    r.insert("0")
    r.records(1)
    r.wait_confirmed()
    with r.connection.cursor() as cursor:
        rows = io.StringIO("".join(f"k\t{n}\n" for n in range(1, 10_001)))
        cursor.copy_expert("COPY outbox (aggregate_id, payload) FROM STDIN", rows)
        end = r.cluster.scalar("SELECT pg_current_wal_lsn()::text")
    wait_until(lambda: r.kafka.count(r.topic) > 1500, 20, "the first rows", 0.005)
    r.relay.kill()
    if r.kafka.count(r.topic) < 10_001:
        assert r.cluster.scalar("SELECT confirmed_flush_lsn < %s::pg_lsn FROM pg_replication_slots"
                                " WHERE slot_name = %s", (end, r.slot))
    r.relay.start()
    r.wait_confirmed()
    values = r.values()
    assert first_appearances(values) == [str(n) for n in range(10_001)]
    ids = [record.header("id") for record in r.records()]
    assert len(set(ids)) == 10_001


def test_overlapping_transaction_is_not_skipped_after_a_crash(rig):
    """32: A begins first and commits last; crash after B was acknowledged."""
    r = rig().start()
    slow = r.cluster.connect(r.dbname, autocommit=False)
    with slow.cursor() as cursor:
        cursor.execute("INSERT INTO outbox (payload) VALUES ('A')")
        r.insert("B")
        r.records(1)
        r.wait_confirmed()
        r.relay.kill()
        cursor.execute("INSERT INTO outbox (payload) VALUES ('A2')")
        slow.commit()
    slow.close()
    r.relay.start()
    r.expect(["B", "A", "A2"])


def test_crashed_database_comes_back_and_nothing_is_missed(rig, victim_postgres):
    """12, 131: power cut of the server under load (with synchronous commits), five restarts."""
    r = rig().start()
    number = 0
    for turn in range(3):
        for _ in range(50):
            number += 1
            r.insert(str(number))
        victim_postgres.kill() if turn % 2 else victim_postgres.restart("immediate")
        victim_postgres.start()
        r.reconnect()
    r.relay.wait_ready()
    r.insert("end")
    r.expect([*range(1, number + 1), "end"])
    wait_until(lambda: r.slot_state()["confirmed_distance"] < 65536, 10, "the lag to go")
