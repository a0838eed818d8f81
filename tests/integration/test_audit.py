"""The audit of ./dev audit: its judge, its plan, and that it fails when a relay is wrong.

A small relay that makes one mistake on purpose stands in for wrong builds; each mistake has to be
found under its own name. The released relay runs through its proofs (audit in ./dev prove).
"""

import copy
import dataclasses
import hashlib
import os
import re
import shlex
import subprocess
import sys

import pytest

from audit import __main__ as command
from audit import plan, report
from audit.episode import Options
from audit.plan import EpisodePlan, Step
from audit.stage import Stage
from audit.state import State
from audit.verdict import FaultWindow, Ledger, judge
from audit.worker import plan_from, run_episode
from support.consumer import Record

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX = "p."


# The judge, with records made by hand -------------------------------------------------------------


def ledger(count=4):
    """Rows a0, a1, … of one key with rising numbers."""
    rows = Ledger()
    for number in range(1, count + 1):
        body = b"body %d" % number
        rows.add(f"a{number}", "k", number, "T", hashlib.md5(body).hexdigest(), len(body))
    return rows


def record(number, at_ms, **changes):
    usual = {"topic": "p.T", "partition": 0, "offset": at_ms, "timestamp_ms": at_ms, "key": b"k",
             "value": b"body %d" % number, "headers_raw": b"id=a%d" % number}
    return Record(**{**usual, **changes})


def good(count=4):
    return [record(number, 1_000 * number) for number in range(1, count + 1)]


def judged(records, windows=(), count=4):
    return judge(ledger(count), records, list(windows), PREFIX)


def faults_of(result):
    found = {name: value for name, value in result.as_dict().items()
             if name not in ("committed", "records", "examples") and value}
    assert set(found) <= set(result.examples), "each fault has an example"
    return found


def test_a_clean_topic_has_no_fault():
    result = judged(good())
    assert (result.committed, result.records, faults_of(result)) == (4, 4, {})


@pytest.mark.parametrize("name, records", [
    ("lost", good()[:2] + good()[3:]),
    ("phantoms", good() + [record(9, 9_000)]),
    ("wrong_payload", [*good()[:3], record(4, 4_000, value=b"body X")]),
    ("wrong_key", [*good()[:3], record(4, 4_000, key=b"other")]),
    ("wrong_topic", [*good()[:3], record(4, 4_000, topic="p.U")]),
    ("split_keys", [*good()[:3], record(4, 4_000, partition=1)]),
    ("missing_id", good() + [record(4, 9_000, headers_raw=b"")]),
])
def test_each_single_fault_is_found_under_its_name(name, records):
    assert faults_of(judged(records)) == {name: 1}


def test_an_inversion_is_found_although_nothing_is_lost():
    swapped = [good()[0], record(3, 2_000), record(2, 3_000), good()[3]]
    assert faults_of(judged(swapped)) == {"inversions": 1}


def test_an_inversion_at_the_end_leaves_an_old_last_record():
    swapped = [*good()[:2], record(4, 3_000), record(3, 4_000)]
    assert faults_of(judged(swapped)) == {"inversions": 1, "stale": 1}


def test_a_duplicate_belongs_to_the_fault_between_its_copies():
    windows = [FaultWindow("relay_kill", 1_500, resumed_ms=1_600, end_ms=1_600),
               FaultWindow("broker_kill", 4_500, resumed_ms=5_000, end_ms=5_000)]
    records = good() + [record(3, 5_100), record(4, 5_100)]
    result = judged(records, windows)
    assert faults_of(result) == {"duplicates": 2}
    assert [window.duplicates for window in windows] == [0, 2]


@pytest.mark.parametrize("settled, blamed", [(True, [0, 1]), (False, [1, 0])])
def test_a_fault_amid_a_replay_is_not_blamed_for_it(settled, blamed):
    windows = [FaultWindow("relay_kill", 4_500, resumed_ms=4_600, end_ms=4_600),
               FaultWindow("link_cut", 4_700, resumed_ms=4_800, end_ms=4_800, settled=settled)]
    judged(good() + [record(4, 5_000)], windows)
    assert [window.duplicates for window in windows] == blamed


def test_a_duplicate_without_a_fault_between_its_copies_is_never_right():
    windows = [FaultWindow("relay_kill", 1_500, resumed_ms=1_600, end_ms=1_600)]
    result = judged([*good()[:3], record(3, 3_200), good()[3]], windows)
    assert faults_of(result) == {"duplicates": 1, "unprovoked": 1}


def test_a_stale_copy_at_the_end_is_found():
    windows = [FaultWindow("relay_zombie", 2_500, resumed_ms=3_000, end_ms=6_000)]
    result = judged(good() + [record(2, 5_000)], windows)
    assert faults_of(result) == {"duplicates": 1, "stale": 1}


def test_recovery_is_the_longest_silence_from_the_blow_on():
    windows = [FaultWindow("relay_kill", 2_200, resumed_ms=3_000, end_ms=3_000)]
    judged(good(), windows)
    assert windows[0].silence_ms == 800


# The plan -----------------------------------------------------------------------------------------


def test_a_seed_names_a_plan():
    assert plan.make(7, 60) == plan.make(7, 60) != plan.make(8, 60)


@pytest.mark.parametrize("kills", [1, 7, 60, 1_000])
def test_a_plan_has_the_kills_that_were_asked_for(kills):
    episodes = plan.make(1, kills, guarantees=plan.GUARANTEES)
    assert sum(one.kills for one in episodes) == kills
    assert all(len(one.steps) <= 25 for one in episodes)


def test_a_long_plan_has_every_kind_of_fault_for_both_plugins():
    for plugin in plan.PLUGINS:
        kinds = {step.kind for one in plan.make(1, 1_000) for step in one.steps
                 if one.plugin == plugin}
        assert kinds == set(plan.KINDS)


def test_half_of_the_exactly_once_kills_fall_into_a_large_transaction():
    episodes = plan.make(1, 300, guarantees=(plan.EXACTLY_ONCE,))
    kills = [step for one in episodes for step in one.steps if plan.KINDS[step.kind].kill]
    assert sum(step.bulk_depth > 0 for step in kills) >= len(kills) / 2


def test_a_plan_survives_the_way_to_a_worker():
    for one in plan.make(3, 40):
        assert plan_from(copy.deepcopy(dataclasses.asdict(one))) == one


# State, verdict, command --------------------------------------------------------------------------


def result_of(index=0, guarantee=plan.AT_LEAST_ONCE, faults=(), **counts):
    zero = {name: 0 for name in report.COUNTS}
    examples = {name: "somewhere" for name in counts}
    return {"index": index, "plugin": "pgoutput", "guarantee": guarantee, "seconds": 1.0, **zero,
            "crashes": 0, "exits": {}, "skipped": {}, "peak_kb": 1024, "faults": list(faults),
            "examples": examples, **counts}


def fault(kind, duplicates=0, **more):
    return dataclasses.asdict(FaultWindow(kind, 1, 1, 1, 1, duplicates=duplicates, **more))


def failures(*results):
    return [text for group in report.groups(results) for text in group.failures()]


def test_at_least_once_allows_few_duplicates_per_kill():
    few = result_of(faults=[fault("relay_kill", 9, steady=True)], duplicates=9)
    many = result_of(faults=[fault("relay_kill", 11, steady=True)], duplicates=11)
    replay = result_of(faults=[fault("relay_kill", 40_000, in_bulk=True)], duplicates=40_000)
    assert failures(few) == failures(replay) == []
    assert "11.0 duplicates per SIGKILL" in failures(many)[0]


def test_after_sigterm_no_duplicate_is_allowed():
    assert "after SIGTERM" in failures(result_of(faults=[fault("relay_rolling", 1)]))[0]


def test_exactly_once_allows_no_duplicate_and_no_old_last_record():
    for name in ("duplicates", "stale"):
        assert failures(result_of(guarantee=plan.EXACTLY_ONCE, **{name: 1}))


def test_only_what_was_frozen_may_have_a_late_last_word():
    assert failures(result_of(faults=[fault("relay_zombie")], stale=1)) == []
    assert failures(result_of(faults=[fault("relay_kill")], stale=1))


def test_a_run_is_taken_up_where_it_was(tmp_path):
    path = str(tmp_path / "state.json")
    state = State(path, {"seed": 1})
    state.add(result_of(0))
    state.add({"index": 1, "plugin": "pgoutput", "guarantee": plan.AT_LEAST_ONCE, "error": "no"})
    again = State.load(path)
    episodes = [EpisodePlan(index, "pgoutput", plan.AT_LEAST_ONCE, []) for index in range(3)]
    assert [one.index for one in again.open_episodes(episodes)] == [1, 2]


def test_the_command_to_repeat_a_run_names_what_was_asked():
    words = ["--kills", "5", "--seed", "9", "--only", "relay_kill,link_cut", "--no-standby"]
    asked = {name: getattr(command.parser().parse_args(words), name) for name in command._ASKED}
    assert command.command_of(asked) == (
        "./dev audit --seed 9 --kills 5 --guarantee at_least_once --only relay_kill,link_cut"
        " --no-standby")


# Wrong relays on real servers ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage():
    with Stage(disk=False) as servers:
        yield servers


def fake_relay(wrong):
    script = os.path.join(TESTS, "audit", "fake_relay.py")
    return f"{shlex.quote(sys.executable)} {shlex.quote(script)} {{config}} --wrong {wrong}"


def audited(stage, relay_command, kills=2, walsender=False, rate=300):
    """(result, exit code, report) of one small episode."""
    options = Options(relay_command=relay_command, rate=rate, walsender=walsender, settle_s=20)
    # Long enough between the blows for a process to come to the row it gets wrong.
    steps = [Step("relay_kill", wait_s=0.8, hold_s=0.0, aim_s=0.01) for _ in range(kills)]
    result, _good = run_episode(
        stage, EpisodePlan(0, "wal2json", plan.AT_LEAST_ONCE, steps), options)
    assert "faults" in result, result.get("stuck") or result.get("error")
    state = State(None, {**vars(command.parser().parse_args([])), "duplicates_per_kill": 300})
    state.add(result)
    return result, command.finish([state], write=False)


@pytest.mark.slow
def test_a_right_relay_of_another_kind_holds(stage, capsys):
    result, code = audited(stage, fake_relay("none"))
    assert code == command.HOLDS, capsys.readouterr().out
    assert result["committed"] > 300
    assert len(result["faults"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("wrong, name", [
    ("drop", "lost"), ("repeat", "unprovoked"), ("reverse", "inversions"),
    ("corrupt", "wrong_payload"), ("phantom", "phantoms"), ("key", "wrong_key"),
    ("early", "lost")])
def test_a_wrong_relay_is_caught(stage, wrong, name, capsys):
    result, code = audited(stage, fake_relay(wrong), kills=3 if wrong == "early" else 1)
    assert code == command.DOES_NOT_HOLD
    assert result[name] > 0
    assert name.replace("_", " ") in capsys.readouterr().out


@pytest.mark.slow
def test_our_own_binary_runs_by_a_command_line_too(stage, monkeypatch, capsys):
    from support.relay import binary
    monkeypatch.setenv("OUTRIDER_BIN", binary())
    wrapper = os.path.join(TESTS, "audit", "outrider_wrapper.py")
    _result, code = audited(stage, f"{sys.executable} {wrapper} {{config}}", walsender=True)
    assert code == command.HOLDS, capsys.readouterr().out


@pytest.mark.slow
def test_the_whole_command_fails_for_a_wrong_relay(tmp_path):
    state = str(tmp_path / "state.json")
    done = subprocess.run(
        [sys.executable, "-m", "audit", "--kills", "1", "--plugin", "wal2json", "--only",
         "relay_kill", "--bulk-share", "0", "--rate", "300", "--no-standby", "--no-walsender",
         "--no-disk-full", "--resume", state, "--relay-command", fake_relay("drop")],
        cwd=TESTS, env={**os.environ, "PYTHONPATH": TESTS}, capture_output=True, text=True,
        timeout=600, check=False)
    assert done.returncode == command.DOES_NOT_HOLD, done.stdout + done.stderr
    assert re.search(r"DOES NOT HOLD .*\d lost, e\.g\.", done.stdout), done.stdout
    assert len(State.load(state).results) == 1
