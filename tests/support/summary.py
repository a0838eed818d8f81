"""Sum up ctest's and pytest's JUnit files; the last line printed is "N passed, N failed".

A ctest entry that is a GoogleTest program counts by its cases, which are read from its output.
Exit code 1 when something failed or nothing ran.
"""

import glob
import os
import re
import sys
import xml.etree.ElementTree as xml

_RAN = re.compile(r"^\[=+\] (\d+) tests? from \d+ test suites? ran", re.M)
_OK = re.compile(r"^\[       OK \] ", re.M)
_SKIPPED = re.compile(r"^\[  SKIPPED \] \S+ \(", re.M)
_FAILED_CASE = re.compile(r"^\[  FAILED  \] \S+.* \(\d+ ms\)", re.M)


def count_ctest(case):
    """(passed, failed, skipped) of one ctest entry."""
    output = case.findtext("system-out") or ""
    failed_entry = case.get("status") not in ("run",) or case.find("failure") is not None
    if case.get("status") in ("disabled", "notrun") or case.find("skipped") is not None:
        return (0, 1, 0) if case.get("status") == "notrun" else (0, 0, 1)
    if "[==========] Running" not in output:
        return (0, 1, 0) if failed_entry else (1, 0, 0)
    passed, failed = len(_OK.findall(output)), len(_FAILED_CASE.findall(output))
    if failed_entry and failed == 0:
        failed = 1  # Crashed or timed out in the middle of a case.
    return passed, failed, len(_SKIPPED.findall(output))


def count_pytest(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return 0, 1, 0
    return (0, 0, 1) if case.find("skipped") is not None else (1, 0, 0)


def main(directory):
    total = [0, 0, 0]
    for path in sorted(glob.glob(os.path.join(directory, "*.xml"))):
        name = os.path.basename(path)[:-len(".xml")]
        count = count_pytest if name.startswith("pytest") else count_ctest
        sums = [0, 0, 0]
        seconds = 0.0
        for case in xml.parse(path).getroot().iter("testcase"):
            seconds += float(case.get("time") or 0)
            for index, value in enumerate(count(case)):
                sums[index] += value
            if count(case)[1]:
                print(f"   failed: {name}: {case.get('name')}")
        print(f"   {name:<40} {sums[0]:>5} passed {sums[1]:>3} failed {sums[2]:>3} skipped"
              f" {seconds:>7.1f} s")
        total = [left + right for left, right in zip(total, sums)]
    if total[0] + total[1] == 0:
        print("   no test ran")
    if total[2]:
        print(f"   {total[2]} skipped")
    print(f"{total[0]} passed, {total[1]} failed")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
