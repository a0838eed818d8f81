"""List the proofs, or run some: run.py [NAME…|all] [--short].

A proof is tests/prove/<name>.py: the first line of its docstring says what it proves, and
prove(short) prints its figures and raises AssertionError when the line does not hold.
"""

import argparse
import glob
import importlib.util
import os
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

_NOT_PROOFS = ("run", "common", "__init__")


def names():
    """Names of all proofs, in the order of the number that begins their docstring."""
    found = [os.path.basename(path)[:-3] for path in glob.glob(os.path.join(HERE, "*.py"))]
    return sorted((name for name in found if name not in _NOT_PROOFS),
                  key=lambda name: (_number(name), name))


def _number(name):
    first = description(name).partition(":")[0]
    return int(first) if first.isdigit() else 1_000


def load(name):
    """The module of a proof (names have hyphens, so import cannot do it)."""
    path = os.path.join(HERE, name + ".py")
    spec = importlib.util.spec_from_file_location("prove_" + name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def description(name):
    return (load(name).__doc__ or "").strip().splitlines()[0]


def run(name, short):
    """Run one proof; returns whether it holds."""
    began = time.monotonic()
    print(f"\n== proof {name}{' (short form)' if short else ''}: {description(name)}", flush=True)
    try:
        load(name).prove(short)
    except AssertionError as error:
        print(f"-- {name} DOES NOT HOLD: {error}", flush=True)
        return False
    except Exception:
        traceback.print_exc()
        print(f"-- {name} could not be carried out", flush=True)
        return False
    print(f"-- {name} holds ({time.monotonic() - began:.0f} s)", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(prog="./dev prove")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--short", action="store_true", help="the form that ./dev test runs")
    arguments = parser.parse_args()
    known = names()
    if not arguments.names:
        for name in known:
            print(f"{name:<24} {description(name)}")
        return 0
    wanted = known if arguments.names == ["all"] else arguments.names
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"no proof \"{unknown[0]}\"; ./dev prove lists them")
    results = [run(name, arguments.short) for name in wanted]
    print(f"\n{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
