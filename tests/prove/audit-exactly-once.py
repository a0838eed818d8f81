"""13: crash audit, exactly once: any kill, no duplicate and no old last record when committed.

The reader is read_committed; half of the kills fall into a transaction of 50,000 rows.
"""

from audit import __main__ as audit


def prove(short):
    words = (["--kills", "8", "--per-episode", "50", "--without", "disk_full,broker_restart"]
             if short else ["--kills", "300"])
    code = audit.main(["--seed", "2026", "--guarantee", "exactly_once", *words])
    assert code == audit.HOLDS, f"exit code {code}; see the table"
