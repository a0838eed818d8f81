"""Fixtures shared by all Python tests: one broker and one cluster a session, topics by test.

A test that stops or kills a server makes its own with PostgresCluster or KafkaBroker.
"""

import itertools
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support.consumer import Consumer  # noqa: E402
from support.kafka_broker import KafkaBroker  # noqa: E402
from support.postgres_cluster import PostgresCluster  # noqa: E402
from support.relay import Relay  # noqa: E402

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka():
    """A broker that lives as long as the session; use topics of your own."""
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres():
    """A cluster that lives as long as the session; use the fixture database."""
    with PostgresCluster(dead_letters=False) as cluster:
        yield cluster


@pytest.fixture
def database(postgres):
    """Name of a fresh database of the session's cluster; slots in it are dropped afterwards."""
    name = f"test_{next(_numbers)}"
    postgres.query(f"CREATE DATABASE {name}")
    yield name
    postgres.query("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                   " WHERE database = %s AND active", (name,))
    for (slot,) in postgres.query(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", (name,)):
        _drop_slot(postgres, slot)
    postgres.query(f"DROP DATABASE {name} WITH (FORCE)")


def _drop_slot(postgres, slot):
    from support.cleanup import wait_until
    wait_until(lambda: not postgres.slot(slot)["active"], 10, f"slot {slot} to be free")
    postgres.query("SELECT pg_drop_replication_slot(%s)", (slot,))


@pytest.fixture
def topic():
    """A topic name no other test has."""
    return f"topic-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def unique():
    """A small number no other test of this run has, for slot and other names."""
    return next(_numbers)


@pytest.fixture
def consumer(kafka):
    return Consumer(kafka.bootstrap_servers)


@pytest.fixture
def relay_factory():
    """Make relays that are ended with the test: relay_factory(pipeline(...), …)."""
    made = []

    def make(*pipelines, **options):
        relay = Relay(*pipelines, **options)
        made.append(relay)
        return relay

    yield make
    for relay in made:
        relay.close()
