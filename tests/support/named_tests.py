"""Tests run by name from a proof: pytest nodes, and GoogleTest cases of a build.

Each test is told with its result as it comes, and what takes longer is told every five seconds. A
test that was skipped has shown nothing, so it does not count as passed.
"""

import dataclasses
import functools
import glob
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from support import cleanup
from support.relay import ROOT

_TESTS = os.path.join(ROOT, "tests")
_PROGRESS_INTERVAL_S = 5


@dataclasses.dataclass
class Result:
    """One test that ran. output: what it printed, set-up and tear-down included (pytest only)."""

    name: str
    outcome: str  # passed, failed or skipped
    seconds: float
    output: str = ""
    message: str = ""


# pytest -----------------------------------------------------------------------------------------


def collected(nodes):
    """Ids of the tests that pytest finds under these nodes (file or file::name); runs nothing."""
    done = subprocess.run(_pytest("--collect-only", "-q", "-q", "-p", "no:warnings", *nodes),
                          cwd=_TESTS, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"pytest does not find them all\n{done.stdout}{done.stderr}"
    return [line for line in done.stdout.splitlines() if "::" in line or ".py:" in line]


def run_pytest(nodes, say):
    """Run them with the binary of our own environment; returns a Result each, in their order."""
    with tempfile.TemporaryDirectory(prefix="outrider-tests-") as folder:
        report = os.path.join(folder, "report.xml")
        code, text = _told(_pytest("-v", "--junitxml", report, "-o", "junit_logging=system-out",
                                   *nodes), say, "::")
        # 1: some failed. Anything else says that pytest itself could not do it.
        assert code in (0, 1), f"pytest ended with {code}\n{text[-3000:]}"
        return [_of_case(case) for case in ElementTree.parse(report).iter("testcase")]


def _pytest(*arguments):
    return [sys.executable, "-m", "pytest", "-c", os.path.join(_TESTS, "pytest.ini"),
            "--rootdir", _TESTS, "--color=no", *arguments]


def _of_case(case):
    outcome, message = "passed", ""
    for kind, means in (("skipped", "skipped"), ("failure", "failed"), ("error", "failed")):
        found = case.find(kind)
        if found is not None:
            outcome, message = means, (found.text or found.get("message") or "")
    file = case.get("classname").rpartition(".")[2] + ".py"
    return Result(f"{file}::{case.get('name')}", outcome, float(case.get("time")),
                  case.findtext("system-out") or "", message)


# GoogleTest -------------------------------------------------------------------------------------


def build_folder():
    """tests/ of the build that OUTRIDER_BUILD names, that the binary is from, or of preset ci."""
    candidates = [os.environ.get("OUTRIDER_BUILD")]
    binary = os.environ.get("OUTRIDER_BIN")
    if binary:
        candidates.append(os.path.dirname(os.path.dirname(os.path.dirname(
            os.path.abspath(binary)))))
    candidates.append(os.path.join(ROOT, "build", "ci"))
    for build in filter(None, candidates):
        folder = os.path.join(build, "tests")
        if _programs(folder):
            return folder
    return None


def _programs(folder):
    found = glob.glob(os.path.join(folder, "unit_*"))
    found += glob.glob(os.path.join(folder, "fault", "fault_*"))
    return sorted(path for path in found if os.path.isfile(path) and os.access(path, os.X_OK))


def run_googletests(folder, names, say, environment=None):
    """Run the named cases (Suite.Name) of all programs there; returns a Result each."""
    results = []
    for program in _programs(folder):
        cases = [case for case in _cases(program) if _plain(case) in names]
        if cases:
            results += _run_program(program, cases, say, environment or {})
    return results


def _plain(case):
    """Suite.Name of a case that may be Prefix/Suite.Name/0."""
    suite, _, name = case.partition(".")
    return suite.rpartition("/")[2] + "." + name.partition("/")[0]


@functools.lru_cache
def _cases(program):
    done = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                          timeout=30, check=True)
    cases, suite = [], ""
    for line in done.stdout.splitlines():
        word = line.split("#")[0].rstrip()
        if word.startswith("  "):
            cases.append(suite + word.strip())
        elif word.endswith("."):
            suite = word
    return cases


def _run_program(program, cases, say, environment):
    with tempfile.TemporaryDirectory(prefix="outrider-tests-") as folder:
        report = os.path.join(folder, "report.json")
        code, text = _told([program, "--gtest_filter=" + ":".join(cases), "--gtest_color=no",
                            "--gtest_output=json:" + report], say, "ms)",
                           {**os.environ, **environment})
        assert code in (0, 1), f"{program} ended with {code}\n{text[-3000:]}"
        with open(report, encoding="utf-8") as file:
            suites = json.load(file)["testsuites"]
    results = []
    for suite in suites:
        for case in suite["testsuite"]:
            skipped = case.get("result") == "SKIPPED" or case["status"] == "NOTRUN"
            failures = case.get("failures", [])
            results.append(Result(f"{suite['name']}.{case['name']}",
                                  "skipped" if skipped else "failed" if failures else "passed",
                                  float(case["time"].rstrip("s")),
                                  message="\n".join(one["failure"] for one in failures)))
    return results


# Both -------------------------------------------------------------------------------------------


def _told(command, say, mark, environment=None):
    """Run a command and say its lines that hold the mark; returns (exit code, all it printed).

    While nothing comes, the line that it is at is said every five seconds.
    """
    process = subprocess.Popen(command, cwd=_TESTS, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               env=environment, preexec_fn=cleanup.child_setup(15))
    cancel = cleanup.at_exit(process.terminate)
    text, pending, at, began = "", "", "starting", time.monotonic()
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(_PROGRESS_INTERVAL_S):
                    say(f"… {time.monotonic() - began:.0f} s: {pending.strip() or at}")
                    continue
                data = os.read(process.stdout.fileno(), 65536).decode(errors="replace")
                if not data:
                    break
                text += data
                *lines, pending = (pending + data).split("\n")
                for line in lines:
                    at = line.strip() or at
                    if mark in line and not line.startswith(" "):
                        say(line.strip())
        return process.wait(60), text
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        process.stdout.close()
        cancel()


def check(results, wanted_min=1):
    """AssertionError unless so many ran and each passed."""
    bad = [result for result in results if result.outcome != "passed"]
    assert not bad, "; ".join(f"{result.name} {result.outcome}" for result in bad) + (
        "\n" + "\n".join(result.message for result in bad)[-4000:])
    assert len(results) >= wanted_min, f"{len(results)} tests ran, not {wanted_min}"
    return results
