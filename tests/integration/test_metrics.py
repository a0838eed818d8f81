"""The metrics that need a server to be wrong: slot health by role and state, errors by class."""

import re

import pytest

from support.cleanup import wait_until
from support.relay import Relay

SERVER = re.compile(r"^outbox_(slot|server)_(?!seen_age)")


def lines(relay, pattern):
    return sorted(name for name in relay.metrics() if re.search(pattern, name))


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_slot_health_needs_no_monitoring_role(rig, victim_postgres, plugin):
    """A role with REPLICATION and the grants of the outbox alone sees every figure of the slot."""
    r = rig(plugin=plugin)
    role = f"plain_{plugin}"  # One a plugin: a role that owns something cannot be dropped.
    r.sql(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'plain'")
    r.sql(f"GRANT CREATE ON DATABASE {r.dbname} TO {role}; ALTER TABLE outbox OWNER TO {role}")
    victim_postgres.install_dead_letters(r.dbname, role)
    r.pipeline["source"]["dsn"] = victim_postgres.dsn(r.dbname, user=role, password="plain")
    r.relay.write_config()
    r.start()
    r.insert("1")
    r.records(1)
    wait_until(lambda: r.relay.metric("outbox_slot_retained_bytes") > 0, 10, "slot health")
    seen = {re.split("[{]", name)[0] for name in lines(r.relay, SERVER)}
    assert seen >= {"outbox_slot_exists", "outbox_slot_active", "outbox_slot_backlog_bytes",
                    "outbox_slot_retained_bytes", "outbox_slot_confirmed_lsn_bytes",
                    "outbox_slot_restart_lsn_bytes", "outbox_slot_wal_status",
                    "outbox_slot_catalog_xmin_age_transactions", "outbox_server_wal_end_bytes",
                    "outbox_slot_spilled_bytes", "outbox_slot_decoded_transactions"}, seen
    assert "outbox_slot_safe_wal_bytes" not in seen, "no limit is set"
    assert r.relay.metric("outbox_slot_seen_age_seconds") < 5
    assert r.relay.stop() == 0


def test_a_limit_on_wal_shows_what_is_left(rig, victim_postgres):
    victim_postgres.set("max_slot_wal_keep_size", "64MB")
    victim_postgres.reload()
    r = rig().start()
    wait_until(lambda: 0 < r.relay.metric("outbox_slot_safe_wal_bytes") < 2**28, 10,
               "safe_wal_size")
    assert r.relay.metric("outbox_slot_exists") == 1


def test_a_lost_connection_takes_the_figures_along_and_is_counted_by_class(rig, victim_postgres):
    r = rig().start()
    wait_until(lambda: lines(r.relay, SERVER), 10, "slot health")
    victim_postgres.stop("immediate")
    wait_until(lambda: not lines(r.relay, SERVER), 10, "the figures to disappear")
    assert r.relay.metric("outbox_slot_seen_age_seconds") >= 0
    wait_until(lambda: lines(r.relay, r'outbox_errors_total.*side="database"'), 10, "an error")
    victim_postgres.start()
    r.reconnect()
    wait_until(lambda: lines(r.relay, SERVER), 20, "the figures to come back")
    name = 'outbox_reconnects_total{link="stream",pipeline="test"}'
    assert r.relay.metrics()[name] > 0


def test_a_standby_sees_the_slot_and_has_a_role_of_its_own(rig):
    r = rig().start()
    with r.another_relay() as standby:
        standby.start()
        wait_until(lambda: standby.metric("outbox_slot_active") == 1, 10, "slot health")
        shown = standby.metrics()
        assert shown['outbox_role{pipeline="test",role="standby"}'] == 1
        assert shown['outbox_role{pipeline="test",role="active"}'] == 0
        assert shown['outbox_oldest_unconfirmed_age_seconds{pipeline="test"}'] < 5


def test_the_clients_statistics_are_shown_and_named_by_broker(rig):
    r = rig(over={"kafka": {"properties": {"statistics.interval.ms": "200"}}}).start()
    r.insert("1", "2")
    r.records(2)
    wait_until(lambda: r.relay.metric("outbox_kafka_brokers_connected") == 1, 10, "statistics")
    wait_until(lambda: lines(r.relay, "outbox_kafka_broker_rtt_p99_seconds"), 10, "a broker")
    assert r.relay.metric("outbox_kafka_statistics_age_seconds") < 5
    assert r.relay.metric("outbox_kafka_network_sent_bytes_total") > 0


def test_metrics_answer_before_anything_is_connected():
    """No family is shown with a value that nobody has measured."""
    pipeline = {"name": "test", "source": {"dsn": "host=127.0.0.1 port=1 dbname=x user=x"},
                "outbox": {"tables": ["public.outbox"]}, "route": {"topic": "t"},
                "kafka": {"bootstrap_servers": "127.0.0.1:1"}}
    with Relay(pipeline) as relay:
        relay.start(wait_ready=False)
        wait_until(lambda: relay.get("/metrics")[0] == 200, 10, "an answer")
        shown = relay.metrics()
        assert not lines(relay, SERVER)
        assert not lines(relay, "outbox_dead_letters_stored")
        assert shown['outbox_role{pipeline="test",role="none"}'] == 1
        assert shown['outbox_kafka_healthy{pipeline="test"}'] == 0
