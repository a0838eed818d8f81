"""The Kafka sink alone against a real broker: sessions, witnesses, transactions, fencing."""

import os
import subprocess

import pytest

from support.kafka_broker import KafkaBroker


def _program():
    relay = os.environ.get("OUTRIDER_BIN", "")
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(relay))))
    return os.path.join(build, "tests", "fault", "fault_kafka")


@pytest.mark.skipif(not os.path.exists(_program()), reason="fault_kafka is not built")
def test_sink_keeps_its_contract_against_a_real_broker():
    with KafkaBroker(settings={"log.retention.ms": "604800000"}) as broker:
        done = subprocess.run(
            [_program(), "--gtest_filter=KafkaReal.*"], capture_output=True, text=True,
            timeout=180, check=False,
            env=dict(os.environ, OUTRIDER_TEST_KAFKA=broker.bootstrap_servers))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout
