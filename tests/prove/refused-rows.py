"""17: a refused row among neighbours of its key leaves alone; innocents come once, in commit order.

Real broker, several batches in flight on one key, at least once and exactly once: the offender
alone becomes a dead letter; a topic with max.message.bytes=2000 and 1,000 records of 100 bytes make
none; with park_key the followers wait until they are released. The tests are
tests/integration/test_refused_rows.py; ./dev test runs them, so the short form only finds them.
"""

from prove.common import say
from support.named_tests import check, collected, run_pytest

NODES = ["integration/test_refused_rows.py"]
# Three cases under two guarantees, and the kinds of poison.
TESTS_MIN = 7


def prove(short):
    found = collected(NODES)
    assert len(found) >= TESTS_MIN, found
    if short:
        say(f"{len(found)} tests, which ./dev test runs as tests; ./dev prove runs them here")
        return
    check(run_pytest(NODES, say), TESTS_MIN)
