"""The one test of ./dev test quick that needs servers: rows of a real PostgreSQL in a real Kafka."""

import pytest

from support.rig import first_appearances


@pytest.mark.smoke
@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_rows_arrive_in_order_also_over_a_kill(rig, plugin):
    r = rig(plugin=plugin).start()
    r.numbers(200)
    r.records(200)
    r.relay.kill()
    r.numbers(100, start=201)
    r.relay.start()
    r.wait_confirmed()
    assert [int(value) for value in first_appearances(r.values(300))] == list(range(1, 301))
    assert r.relay.stop() == 0
