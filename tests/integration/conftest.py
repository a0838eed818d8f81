"""Fixtures of the end-to-end and fault tests: one cluster and one broker that may be hurt."""

import pytest

from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.rig import Rig


@pytest.fixture(scope="session")
def _victim_postgres():
    with PostgresCluster(settings={"max_prepared_transactions": 5}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _victim_kafka():
    # A killed broker may not come back before the session of its last life is over.
    with KafkaBroker(settings={"broker.session.timeout.ms": "1000",
                               "broker.heartbeat.interval.ms": "200",
                               "connections.max.idle.ms": "2000"}) as broker:
        yield broker


@pytest.fixture
def victim_postgres(_victim_postgres):
    """A running cluster that the test may stop, kill and reconfigure (ALTER SYSTEM is reset)."""
    _victim_postgres.start()
    yield _victim_postgres
    _victim_postgres.start()
    _victim_postgres.query("ALTER SYSTEM RESET ALL")
    _victim_postgres.reload()


@pytest.fixture
def victim_kafka(_victim_kafka):
    """A running broker that the test may stop, kill and freeze."""
    _victim_kafka.start()
    yield _victim_kafka
    _victim_kafka.thaw() if _victim_kafka.running() else _victim_kafka.start()


@pytest.fixture
def rig(victim_postgres, victim_kafka):
    """Make rigs that are closed with the test: rig(plugin=…, over={…})."""
    made = []

    def make(**options):
        cluster = options.pop("cluster", victim_postgres)
        kafka = options.pop("kafka", victim_kafka)
        made.append(Rig(cluster, kafka, tell=True, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
