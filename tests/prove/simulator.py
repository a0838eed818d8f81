"""11: 10,000 seeds of the simulator hold every invariant, and each deliberately broken core is caught.

The same simulator is linked with mutants of the core (tests/sim/CMakeLists.txt); one that no seed
catches fails the proof.
"""

import glob
import os
import subprocess
import time

from prove.common import say
from support.relay import ROOT


def prove(short):
    folder = _folder()
    seeds = 500 if short else 10_000
    _run([os.path.join(folder, "sim"), "--seeds", str(seeds)], f"{seeds:,} seeds hold")
    mutants = sorted(path for path in glob.glob(os.path.join(folder, "sim_*"))
                     if os.path.isfile(path) and os.access(path, os.X_OK))
    assert mutants, "no broken core was built"
    for path in mutants:
        name = os.path.basename(path)[len("sim_"):].replace("_", " ")
        _run([path, "--seeds", "3000", "--expect-breach"], f"caught: {name}")
    say(f"{len(mutants)} broken cores, all caught")


def _folder():
    for preset in ("ci", "test", "debug"):
        path = os.path.join(ROOT, "build", preset, "tests", "sim")
        if os.access(os.path.join(path, "sim"), os.X_OK):
            return path
    raise RuntimeError("the simulator is not built: ./dev build ci")


def _run(command, title):
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"NOT {title}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    say(f"{title} ({time.monotonic() - began:.1f} s)")
