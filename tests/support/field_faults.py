"""What the tests of the field faults share: two guarantees, and reading as a careful consumer does.
"""

import pytest

from support.cleanup import wait_until
from support.consumer import Consumer
from support.rig import difference

EXACTLY_ONCE = {"delivery": {"guarantee": "exactly_once"}}
GUARANTEES = pytest.mark.parametrize("delivery", [{}, EXACTLY_ONCE],
                                     ids=["at_least_once", "exactly_once"])
LETTERS = ("SELECT reason, code, message, event_id, attempts FROM outrider.outbox_dead_letters"
           " ORDER BY number")


def arrive(r, values, timeout_s=30):
    """Exactly these payloads, in this order, for one who reads what is committed; then no more."""
    reader = Consumer(r.kafka.bootstrap_servers, read_committed=True)
    values = [str(value) for value in values]

    def seen():
        return [record.value.split(b" ")[0].decode() for record in reader.read(r.topic)]

    try:
        wait_until(lambda: len(seen()) >= len(values), timeout_s, f"{len(values)} records")
    except TimeoutError as error:
        raise TimeoutError(f"{error}, not {len(seen())}\n{r.relay.log_text()[-3000:]}") from None
    found = seen()
    assert found == values, f"{len(found)} of {len(values)}: {difference(found, values)}"


def relayed(r):
    """One row relayed and confirmed, the relay stopped."""
    r.start()
    r.insert("1")
    r.records(1)
    r.wait_confirmed()
    assert r.relay.stop() == 0


def letters(r, count):
    """Dead letters of the table, once there are so many."""
    wait_until(lambda: len(r.sql(LETTERS)) >= count, 20, f"{count} dead letters")
    seen = r.sql(LETTERS)
    assert len(seen) == count, seen
    return seen
