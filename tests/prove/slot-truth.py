"""21: eight ways in which a slot lies about what was relayed: the verdict and the bounds of each.

Dropped, made anew, advanced, invalidated, server restored from a backup, promoted with and without
the slot, position of another cluster. Two or more runs of each (guarantees, or stopped and
streaming); what the relay said is printed. The tests are in tests/integration/test_field_faults.py;
./dev test runs them, so the short form only finds them. Real failover slots are in failover-slots,
the catalogue in catalogue-truth.
"""

import re

from prove.common import say
from support.named_tests import check, collected, run_pytest

_FILE = "integration/test_field_faults.py"
# Case: test, and the words of the verdict.
CASES = {
    "dropped": ("test_slot_dropped_while_stopped_is_not_quietly_made_anew", "SLOT_MISSING"),
    "made anew": ("test_slot_made_anew_behind_our_back_is_a_gap", "SLOT_RECREATED"),
    "advanced": ("test_slot_advanced_while_stopped_does_not_lose_rows_unnoticed",
                 "SLOT_ADVANCED"),
    "invalidated": ("test_invalidated_slot_is_not_a_passing_network_fault",
                    "wal_status lost|55000"),
    "restored backup": ("test_restored_backup_does_not_look_fine_and_deliver_nothing",
                        "SERVER_RESTORED"),
    "promoted without the slot": (
        "test_promoted_server_with_a_slot_made_at_now_does_not_skip_rows_silently",
        "SLOT_RECREATED"),
    "promoted with the slot": ("test_promoted_server_that_has_the_slot_goes_on_and_says_so",
                               "the server was promoted"),
    "another cluster": ("test_position_of_another_cluster_is_refused", "OTHER_CLUSTER"),
}
# Nothing is missing between two positions where the slot survived or the server is a stranger.
_WITHOUT_BOUNDS = ("promoted with the slot", "another cluster")
_LSN = r"[0-9A-F]+/[0-9A-F]+"


def prove(short):
    nodes = [f"{_FILE}::{test}" for test, _verdict in CASES.values()]
    found = collected(nodes)
    assert len(found) >= len(CASES), found
    if short:
        say(f"{len(CASES)} cases, {len(found)} tests, which ./dev test runs as tests; ./dev prove "
            "runs them here")
        return
    results = check(run_pytest(nodes, say), len(found))
    boundless = []
    for title, (test, verdict) in CASES.items():
        for result in results:
            name = result.name.partition("::")[2]
            if name.partition("[")[0] == test and not _tell(title, name, verdict, result.output):
                boundless.append(name)
    assert not boundless, f"no bounds of the gap: {boundless}"


def _tell(title, name, verdict, output):
    """The verdict's word, the bounds and what the relay said; returns whether it has its bounds."""
    told = [line for line in output.splitlines() if re.search(verdict, line)]
    assert told, f"{title}: {verdict} was not said\n{output[-2000:]}"
    word = re.search(verdict, told[-1]).group()
    variant = re.search(r"\[.*\]", name)
    bounds = re.search(rf"between {_LSN} and {_LSN}", told[-1])
    message = re.search(r'error="((?:[^"\\]|\\.)*)"', told[-1])
    say(f"{title}{' ' + variant.group() if variant else ''}: {word}, "
        f"{bounds.group() if bounds else 'without bounds'}: "
        f"{message.group(1) if message else told[-1]}".replace("\\\"", "\""))
    return bounds is not None or title in _WITHOUT_BOUNDS
