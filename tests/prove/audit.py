"""12: crash audit, at least once: any kill, nothing lost, order kept, few duplicates.

./dev audit has the long form, with its seed, its length and its table in docs/AUDIT.md.
"""

from audit import __main__ as audit


def prove(short):
    words = (["--kills", "8", "--per-episode", "50", "--without", "disk_full,broker_restart",
              # A machine full of other tests schedules late; the long form has the goal.
              "--duplicates-per-kill", "200"] if short else ["--kills", "1000"])
    code = audit.main(["--seed", "2026", "--guarantee", "at_least_once", *words])
    assert code == audit.HOLDS, f"exit code {code}; see the table"
