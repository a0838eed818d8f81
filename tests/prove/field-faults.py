"""22: every row of docs/FIELD_FAULTS.md: its id, the tests that prove it, and their results.

All tests that the page names: pytest, GoogleTest (the programs of OUTRIDER_BUILD, of the build the
binary is from, or of build/ci) and the short forms of proofs. The short form only looks whether
each exists, which test_field_faults.py does as well.
"""

import re

from integration.test_field_faults import exists, rows
from prove import run as proofs
from prove.common import say
from support.kafka_broker import KafkaBroker
from support.named_tests import build_folder, run_googletests, run_pytest


def prove(short):
    table = {number: re.findall(r"`([^`]+)`", cells.rpartition(" | ")[2])
             for number, cells in rows()}
    later = [number for number, names in table.items() if not names]
    named = {name for names in table.values() for name in names}
    absent = sorted(name for name in named if not exists(name))
    say(f"{len(table)} faults, {len(named)} tests; without a test, since the feature comes with a "
        f"later issue: {later or 'none'}")
    assert not absent, f"named and not there: {absent}"
    assert len(table) > 100
    if short:
        say("each named test exists; ./dev test runs them as tests, ./dev prove runs them here")
        return
    folder = build_folder()
    assert folder, ("no build with its C++ tests: ./dev build ci, or set OUTRIDER_BUILD to the "
                    "folder of one")
    outcomes = _run(named, folder)
    failed = _tell(table, outcomes)
    assert not failed, f"not passed: {failed}"


def _run(named, folder):
    """{name on the page: [outcome of each of its cases]}."""
    outcomes = {name: [] for name in named}
    pytests = sorted(name for name in named if "::" in name)
    for result in run_pytest(["integration/" + name for name in pytests], say):
        outcomes[result.name.partition("[")[0]].append(result.outcome)
    cases = {name for name in named if "::" not in name and not name.startswith("prove ")}
    # Some of them are for a real broker, and are skipped without one.
    with KafkaBroker(settings={"log.retention.ms": "604800000"}) as broker:
        for result in run_googletests(folder, cases, say,
                                      {"OUTRIDER_TEST_KAFKA": broker.bootstrap_servers}):
            suite, name = result.name.split(".")
            outcomes[suite.rpartition("/")[2] + "." + name.partition("/")[0]].append(result.outcome)
    for name in sorted(named):
        if name.startswith("prove "):
            outcomes[name].append("passed" if proofs.run(name[6:], short=True) else "failed")
    return outcomes


def _tell(table, outcomes):
    """Print a line for each fault and test; returns the tests that did not pass."""
    failed = []
    print("   id  | test | result", flush=True)
    for number, names in table.items():
        for name in names:
            seen = outcomes[name]
            passed = seen.count("passed")
            verdict = ("NOT RUN" if not seen else
                       "passed" if passed == len(seen) else "FAILED")
            if verdict != "passed" and name not in failed:
                failed.append(name)
            print(f"   {number:<3} | {name} | {verdict} ({passed} of {len(seen)} cases)",
                  flush=True)
        if not names:
            print(f"   {number:<3} | - | comes with a later issue", flush=True)
    return failed
