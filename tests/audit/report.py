"""Results to verdicts and tables: for people on the terminal, and for docs/AUDIT.md."""

import collections
import datetime
import os
import platform
import re
import subprocess

from audit.episode import kills_of
from audit.plan import EXACTLY_ONCE, KINDS
from audit.verdict import COUNTS, NEVER

DUPLICATES_PER_KILL_MAX = 10.0
# Where a process lives on without knowing what happened meanwhile, its last word may come late.
_MAY_END_STALE = ("relay_zombie", "relay_freeze", "broker_freeze", "link_half_open")


class Group:
    """All episodes of one plugin and one guarantee, summed."""

    def __init__(self, plugin, guarantee, results):
        self.plugin = plugin
        self.guarantee = guarantee
        self.broken = [result for result in results if "error" in result or "stuck" in result]
        self.results = [result for result in results if result not in self.broken]
        self.faults = [fault for result in self.results for fault in result["faults"]]
        self.kills = sum(kills_of(result) for result in self.results)
        self.bulk_kills = sum(KINDS[fault["kind"]].kill and fault["in_bulk"]
                              for fault in self.faults)
        self.crashes = sum(result["crashes"] for result in self.results)
        self.peak_kb = max([result["peak_kb"] for result in self.results] or [0])
        self.silence_ms = max([fault["silence_ms"] for fault in self.faults] or [0])
        self.load = max([result.get("load_per_core", 0) for result in self.results] or [0])
        for name in COUNTS:
            setattr(self, name, sum(result[name] for result in self.results))

    @property
    def title(self):
        return f"{self.guarantee}, {self.plugin}"

    def plain_kills(self):
        """SIGKILLs of the relay under steady load only."""
        return [fault for fault in self.faults
                if fault["kind"] == "relay_kill" and fault["steady"]]

    def per_kill(self):
        """Duplicates per SIGKILL of the relay under steady load, on average; None without one."""
        plain = self.plain_kills()
        return sum(fault["duplicates"] for fault in plain) / len(plain) if plain else None

    def not_carried_out(self):
        """Episodes that say nothing about the relay."""
        return [f"{self.title}: episode {result['index']}: {result['error']}"
                for result in self.broken if "error" in result]

    def failures(self, ignore=(), per_kill_max=DUPLICATES_PER_KILL_MAX):
        """What does not hold, in words."""
        found = [f"{getattr(self, name):,} {name.replace('_', ' ')}, e.g. {self._example(name)}"
                 for name in NEVER if name not in ignore and getattr(self, name)]
        if self.crashes:
            found.append(f"the relay crashed {self.crashes} times")
        found += [f"episode {result['index']}: no records came again: {result['stuck']}"
                  for result in self.broken if "stuck" in result]
        if self.guarantee == EXACTLY_ONCE:
            found += [f"{getattr(self, name):,} {name}, e.g. {self._example(name)}"
                      for name in ("duplicates", "stale") if getattr(self, name)]
            return [f"{self.title}: {text}" for text in found]
        if (self.per_kill() or 0) > per_kill_max and "duplicates" not in ignore:
            found.append(f"{self.per_kill():.1f} duplicates per SIGKILL, at most {per_kill_max:g}"
                         " are allowed")
        after_term = sum(fault["duplicates"] for fault in self.faults
                         if fault["kind"] == "relay_rolling")
        if after_term and "duplicates" not in ignore:
            found.append(f"{after_term} duplicates after SIGTERM")
        for result in self.results:
            kinds = {fault["kind"] for fault in result["faults"]}
            if result["stale"] and not kinds.intersection(_MAY_END_STALE):
                found.append(f"{result['stale']} keys end with an old record, e.g. "
                             f"{result['examples']['stale']}")
        return [f"{self.title}: {text}" for text in found]

    def _example(self, name):
        return next(result["examples"][name] for result in self.results
                    if name in result["examples"])


def groups(results):
    """Groups in order of first appearance."""
    sorted_results = collections.OrderedDict()
    for result in sorted(results, key=lambda result: result["index"]):
        sorted_results.setdefault((result["plugin"], result["guarantee"]), []).append(result)
    return [Group(plugin, guarantee, items)
            for (plugin, guarantee), items in sorted_results.items()]


def _seconds(ms):
    return f"{ms / 1000:.2f} s"


def summary_rows(all_groups):
    """The table everybody looks at first: [[cell]] with a head."""
    head = ["", *[group.title for group in all_groups]]

    def row(name, cell):
        return [name, *[cell(group) for group in all_groups]]

    def per_kill(group):
        value = group.per_kill()
        return "none" if value is None else f"{value:.2f} ({len(group.plain_kills())} kills)"

    def count(name):
        return lambda group: f"{getattr(group, name):,}"

    return [
        head, row("kills", count("kills")),
        row("of them in a transaction of 50,000 rows", count("bulk_kills")),
        row("other faults", lambda g: f"{sum(not KINDS[f['kind']].kill for f in g.faults):,}"),
        row("rows committed", count("committed")), row("records read", count("records")),
        row("lost", count("lost")), row("duplicates", count("duplicates")),
        row("duplicates per SIGKILL under steady load", per_kill),
        row("duplicates without a fault", count("unprovoked")),
        row("inversions of first appearances", count("inversions")),
        row("keys whose last record is not the newest", count("stale")),
        row("records of no committed row", count("phantoms")),
        row("wrong payload, key, topic, partition or id",
            lambda g: f"{sum(getattr(g, name) for name in NEVER[4:]):,}"),
        row("crashes of the relay", count("crashes")),
        row("longest recovery", lambda g: _seconds(g.silence_ms)),
        row("memory peak of the relay", lambda g: f"{g.peak_kb / 1024:.0f} MB"),
        row("busiest moment of the machine: load per core", lambda g: f"{g.load:.1f}"),
    ]


def kind_rows(group):
    """Per kind of fault: how often, in a large transaction, duplicates, recovery."""
    rows = [["fault", "times", "in 50,000 rows", "duplicates, steady load",
             "duplicates, else", "recovery, median", "longest", "longest after its end"]]
    for kind, about in KINDS.items():
        faults = [fault for fault in group.faults if fault["kind"] == kind]
        if not faults:
            continue
        silences = sorted(fault["silence_ms"] for fault in faults)
        steady = sum(fault["duplicates"] for fault in faults if fault["steady"])
        others = sum(fault["duplicates"] for fault in faults) - steady
        after = max(max(0, fault["resumed_ms"] - fault["over_ms"]) for fault in faults)
        rows.append([about.text, str(len(faults)), str(sum(f["in_bulk"] for f in faults)),
                     f"{steady:,}", f"{others:,}", _seconds(silences[len(silences) // 2]),
                     _seconds(silences[-1]), _seconds(after)])
    extra = sum(fault["relay_too"] for fault in group.faults)
    if extra:
        rows.append(["SIGKILL of the relay during one of these", str(extra), *[""] * 6])
    return rows


def plain(rows):
    """Rows as aligned text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  " + "  ".join(
        cell.ljust(width) if i == 0 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def markdown(rows):
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(rows[0]) + " |",
             "|---|" + "---:|" * (len(rows[0]) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    return "\n".join(lines)


def terminal(results):
    """The whole report as text."""
    all_groups = groups(results)
    parts = [plain(summary_rows(all_groups))]
    for group in all_groups:
        parts.append(f"{group.title}\n{plain(kind_rows(group))}")
        notes = collections.Counter()
        for result in group.results:
            notes.update({f"exit code {code}": n for code, n in result["exits"].items()})
            notes.update({f"not done: {why}": n for why, n in result["skipped"].items()})
        parts[-1] += "".join(f"\n  {text}: {n}" for text, n in sorted(notes.items()))
    return "\n\n".join(parts)


def machine():
    """One line about where it ran."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), flags=re.M)
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(re.search(r"MemTotal:\s+(\d+)", file.read()).group(1)) / 1024 / 1024
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    return (f"{os.cpu_count()} cores ({names[0] if names else platform.machine()}), "
            f"{memory:.0f} GiB, {system}, Linux {platform.release()}")


def versions(binary):
    """What was tested against what."""
    def first_line(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=20,
                                  check=True).stdout.splitlines()[0].strip()
        except (OSError, subprocess.SubprocessError, IndexError):
            return ""

    from support.kafka_broker import fetch_libs
    from support.postgres_cluster import find_binaries
    kafka = [name for name in os.listdir(fetch_libs()) if name.startswith("kafka_2.13-")]
    broker = "Apache Kafka " + (kafka[0][len("kafka_2.13-"):-len(".jar")] if kafka else "?")
    server = first_line(os.path.join(find_binaries(), "postgres"), "--version")
    return ", ".join(part for part in (
        first_line(binary, "--version") if binary else "another relay",
        server.replace("postgres (PostgreSQL) ", "PostgreSQL "), broker) if part)


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
