"""./dev audit: faults from a seed, then every committed row against every record in Kafka.

Exit codes: 0 everything holds, 1 it does not, 2 the audit could not be carried out.
"""

import argparse
import os
import shlex
import sys

from audit import plan, report, runner
from audit.docs import write_docs
from audit.episode import Options
from audit.state import State
from support.relay import binary

HOLDS, DOES_NOT_HOLD, NOT_CARRIED_OUT = 0, 1, 2
# What shapes the plan; the rest may differ when a run is taken up again.
_ASKED = ("seed", "kills", "guarantee", "plugin", "only", "without", "per_episode", "bulk_share",
          "rate", "id_header", "relay_command", "ignore", "no_standby", "no_walsender",
          "duplicates_per_kill")


def _names(text):
    return [name for name in text.split(",") if name]


def parser():
    made = argparse.ArgumentParser(
        prog="./dev audit", description=__doc__.splitlines()[0],
        epilog="kinds of fault: " + ", ".join(plan.KINDS))
    add = made.add_argument
    add("--kills", type=int, default=60, metavar="N",
        help="kills for each guarantee, shared by the plugins (default 60)")
    add("--seed", type=int, default=1)
    add("--guarantee", choices=[*plan.GUARANTEES, "both"], default=plan.AT_LEAST_ONCE)
    add("--plugin", choices=[*plan.PLUGINS, "both"], default="both")
    add("--rate", type=int, default=1_000, help="committed events a second (default 1000)")
    add("--only", type=_names, default=[], metavar="KIND,…", help="only these kinds of fault")
    add("--without", type=_names, default=[], metavar="KIND,…")
    add("--bulk-share", type=float, metavar="0…1",
        help="share of faults in the middle of a transaction of 50,000 rows")
    add("--per-episode", type=int, default=25, metavar="N", help="faults between two comparisons")
    add("--parallel", type=int, default=1, metavar="N",
        help="workers, each with servers of its own")
    add("--resume", metavar="FILE", help="state file: made when missing, else taken up again")
    add("--binary", metavar="PATH",
        help="the outrider binary (default: OUTRIDER_BIN, or the build)")
    add("--duplicates-per-kill", type=float, default=report.DUPLICATES_PER_KILL_MAX, metavar="N",
        help="at most so many duplicates per SIGKILL, at least once (default 10)")
    add("--no-disk-full", action="store_true", help="do not mount a small disk for the broker")
    add("--write-docs", action="store_true", help="write docs/AUDIT.md")
    add("--report", nargs="+", metavar="FILE", help="no run: the report of these state files")
    other = made.add_argument_group("another relay")
    other.add_argument("--relay-command", default="", metavar="CMD",
                       help="command line with placeholders, see docs/AUDIT.md")
    other.add_argument("--id-header", default="id", metavar="NAME")
    other.add_argument("--ignore", type=_names, default=[], metavar="COUNT,…",
                       help="counts that do not fail the audit, e.g. wrong_payload,wrong_key")
    other.add_argument("--no-standby", action="store_true", help="never start a second relay")
    other.add_argument("--no-walsender", action="store_true",
                       help="the relay holds no replication connection")
    return made


def _plans(asked):
    without = list(asked["without"])
    if asked["no_standby"]:
        without += [name for name, kind in plan.KINDS.items() if kind.standby]
    if asked["no_walsender"]:
        without += [name for name in plan.KINDS if name.startswith(("walsender", "link"))]
    plugins = plan.PLUGINS if asked["plugin"] == "both" else (asked["plugin"],)
    both = asked["guarantee"] == "both"
    guarantees = plan.GUARANTEES if both else (asked["guarantee"],)
    return plan.make(asked["seed"], asked["kills"] * len(guarantees), plugins, guarantees,
                     asked["only"], without, asked["per_episode"], asked["bulk_share"])


def _state(arguments, made):
    asked = {name: getattr(arguments, name) for name in _ASKED}
    if arguments.resume and os.path.exists(arguments.resume):
        state = State.load(arguments.resume)
        different = [name for name in _ASKED if state.asked.get(name) != asked[name]]
        if different:
            made.error(f"{arguments.resume} is of a run with other "
                       f"{', '.join('--' + name.replace('_', '-') for name in different)}; "
                       "give the same options or another file")
        return state
    return State(arguments.resume, asked)


def command_of(asked):
    """The command that repeats a run."""
    defaults = vars(parser().parse_args([]))
    words = ["./dev", "audit"]
    for name in _ASKED:
        value = asked[name]
        if name in ("kills", "seed", "guarantee") or value != defaults[name]:
            option = "--" + name.replace("_", "-")
            if value is True:
                words.append(option)
            elif isinstance(value, list):
                words += [option, ",".join(value)]
            else:
                words += [option, str(value)]
    return shlex.join(words)


def finish(states, write):
    """Print the report; the exit code."""
    failures, undone = [], []
    for state in states:
        results = list(state.results.values())
        print(f"\n{command_of(state.asked)}\n{state.facts.get('versions', '')}\n")
        print(report.terminal(results) + "\n")
        if not results:
            undone.append("no episode is done")
        for group in report.groups(results):
            undone += group.not_carried_out()
            failures += group.failures(state.asked["ignore"],
                                       state.asked["duplicates_per_kill"])
    for text in undone:
        print(f"NOT CARRIED OUT  {text}")
    for text in failures:
        print(f"DOES NOT HOLD  {text}")
    if write:
        print(f"{write_docs(states, command_of)} is written")
    if undone and not failures:
        return NOT_CARRIED_OUT
    print("the audit does not hold" if failures else "the audit holds")
    return DOES_NOT_HOLD if failures else HOLDS


def main(words=None):
    made = parser()
    arguments = made.parse_args(words)
    if arguments.report:
        states = [State.load(path) for path in arguments.report]
        for state in states:
            state.facts["episodes"] = len(_plans(state.asked))
        code = finish(states, arguments.write_docs)
        missing = sum(state.facts["episodes"] - len(state.results) for state in states)
        if missing > 0:
            print(f"NOT CARRIED OUT  {missing} episodes are not done yet")
        return NOT_CARRIED_OUT if missing > 0 and code == HOLDS else code
    for name in arguments.only + arguments.without:
        if name not in plan.KINDS:
            made.error(f'no kind of fault "{name}"; there are {", ".join(plan.KINDS)}')
    if arguments.binary:
        os.environ["OUTRIDER_BIN"] = os.path.abspath(arguments.binary)
    state = _state(arguments, made)
    tested = "" if arguments.relay_command else binary()
    state.facts = {"machine": report.machine(), "versions": report.versions(tested),
                   "date": report.today(), "parallel": arguments.parallel,
                   "episodes": len(_plans(state.asked))}
    options = Options(relay_command=arguments.relay_command, rate=arguments.rate,
                      id_header=arguments.id_header, disk=not arguments.no_disk_full,
                      walsender=not arguments.no_walsender,
                      settle_s=3 if arguments.relay_command else 20)
    plans = _plans(state.asked)
    kills, steps = sum(one.kills for one in plans), sum(len(one.steps) for one in plans)
    print(f"{kills:,} kills among {steps:,} faults in {len(plans)} episodes, "
          f"seed {arguments.seed}", flush=True)
    state.save()
    try:
        runner.run(plans, state, options, arguments.parallel, lambda text: print(text, flush=True))
    except KeyboardInterrupt:
        print(f"ended with {len(state.results)} of {len(plans)} episodes done"
              + (f"; {arguments.resume} has them" if arguments.resume else ""))
        return 130
    return finish([state], arguments.write_docs)


if __name__ == "__main__":
    sys.exit(main())
