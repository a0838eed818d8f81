"""24: ten million executions of each fuzzer, with ASan and UBSan, without a finding.

Each starts from a copy of the committed corpus. The short form checks that no corpus is empty; the
corpora themselves are replayed by ctest (label fuzz) each time.
"""

import os
import re
import shutil
import subprocess
import time

from prove.common import Progress, say
from support import cleanup
from support.relay import ROOT

EXECUTIONS = 10_000_000
_TESTS = os.path.join(ROOT, "tests", "fuzz")
_BUILD = os.path.join(ROOT, "build", "fuzz")
# Freed memory of so many runs is kept: an input is a few KB, and a run outlives none of it.
_SANITIZERS = {"ASAN_OPTIONS": "quarantine_size_mb=16:malloc_context_size=3",
               "UBSAN_OPTIONS": "print_stacktrace=1"}
# A configuration costs with its length, and its largest sample has 915 bytes.
_OPTIONS = {"config": ["-max_len=1024"]}


def prove(short):
    targets = _targets()
    for name in targets:
        count = len(os.listdir(_corpus(name)))
        assert count > 0, f"the corpus of {name} is empty"
        say(f"{name}: {count} committed inputs, replayed as test fuzz_{name}")
    if short:
        return
    folder = os.environ.get("OUTRIDER_FUZZERS") or _build()
    for name in targets:
        _run(os.path.join(folder, "fuzz_" + name), name)


def _targets():
    with open(os.path.join(_TESTS, "CMakeLists.txt"), encoding="utf-8") as file:
        names = re.findall(r"^outrider_fuzz\((\w+) ", file.read(), flags=re.M)
    folders = sorted(os.listdir(os.path.join(_TESTS, "corpus")))
    assert names and sorted(names) == folders, f"targets {names}, corpora {folders}"
    return names


def _corpus(name):
    return os.path.join(_TESTS, "corpus", name)


def _build():
    """The fuzz preset; returns the folder of the programs."""
    if shutil.which("clang++") is None:
        raise RuntimeError("clang is missing: run ./dev setup clang")
    for command in (["cmake", "--preset", "fuzz", "-Wno-dev", "--log-level=WARNING"],
                    ["cmake", "--build", _BUILD, "--target", "fuzzers"]):
        say("building: " + " ".join(command))
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-3000:]
    return os.path.join(_BUILD, "tests", "fuzz")


def _run(program, name):
    scratch = cleanup.temporary_directory("outrider-fuzz-")
    corpus = os.path.join(scratch, "corpus")
    shutil.copytree(_corpus(name), corpus)
    os.makedirs(_BUILD, exist_ok=True)
    command = [program, f"-runs={EXECUTIONS}", "-print_final_stats=1", *_OPTIONS.get(name, []),
               f"-artifact_prefix={_BUILD}/{name}-", corpus]
    began, last = time.monotonic(), []
    progress = Progress(f"executions of {name}", EXECUTIONS)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", cwd=scratch,
                          env={**os.environ, **_SANITIZERS},
                          preexec_fn=cleanup.child_setup()) as fuzzer:
        os.setpriority(os.PRIO_PROCESS, fuzzer.pid, 19)
        for line in fuzzer.stderr:
            last = [*last[-60:], line]
            seen = re.match(r"#(\d+)\s.*exec/s: (\d+)", line)
            if seen:
                done, rate = int(seen.group(1)), int(seen.group(2))
                progress(done, f" ({100 * done / EXECUTIONS:.0f} %, {rate:,} a second)")
    shutil.rmtree(scratch, ignore_errors=True)
    text = "".join(last)
    assert fuzzer.returncode == 0, f"{name}: a finding (exit code {fuzzer.returncode})\n{text}"
    found = re.search(r"number_of_executed_units: (\d+)", text)
    executed = int(found.group(1)) if found else 0
    took = time.monotonic() - began
    say(f"{name}: {executed:,} executions in {took:.0f} s ({executed / took:,.0f} a second), "
        "no finding")
    assert executed >= EXECUTIONS, f"{name}: only {executed:,} executions"
