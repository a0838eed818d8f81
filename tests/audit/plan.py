"""From a seed to a list of episodes: which faults, in which order, when, and how long.

Everything random is drawn here, so a seed names a run. Only timing differs between two runs of one
seed: the machine is real.
"""

import dataclasses
import random

PLUGINS = ("pgoutput", "wal2json")
AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE = "exactly_once"
GUARANTEES = (AT_LEAST_ONCE, EXACTLY_ONCE)
BULK_ROWS = 50_000


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of fault. kill: it ends or freezes a process by force, and counts as a kill."""

    weight: int  # How many of a thousand kills; for the others: so many beside a thousand kills.
    kill: bool
    text: str
    hold_s: tuple = (0.0, 0.0)  # How long the outage is held.
    standby: bool = False  # Needs a second relay.
    in_bulk: bool = True  # May come in the middle of a large transaction.
    relay_too: bool = False  # In some of them the relay is killed during the outage.


KINDS = {
    "relay_kill": Kind(640, True, "SIGKILL of the relay"),
    "relay_freeze": Kind(80, True, "SIGSTOP of the relay, SIGCONT a moment later", (0.2, 2.0)),
    "relay_zombie": Kind(30, True, "SIGSTOP of the relay, a standby takes over, SIGCONT",
                         (0.3, 1.0), standby=True),
    "broker_kill": Kind(40, True, "SIGKILL of the broker", (0.0, 1.5), relay_too=True),
    "broker_freeze": Kind(60, True, "SIGSTOP of the broker, SIGCONT later", (0.3, 3.0),
                          relay_too=True),
    "walsender_kill": Kind(50, True, "SIGKILL of the walsender: PostgreSQL crashes and recovers",
                           relay_too=True),
    "walsender_freeze": Kind(50, True, "SIGSTOP of the walsender, SIGCONT later", (0.5, 4.0)),
    "postgres_immediate": Kind(50, True, "immediate stop of PostgreSQL, and start", (0.0, 1.0),
                               relay_too=True),
    "relay_rolling": Kind(40, False, "rolling deploy: SIGTERM, the standby goes on", standby=True),
    "relay_standby": Kind(10, False, "a standby comes, waits, and goes", (6.0, 12.0), standby=True,
                          in_bulk=False),
    "broker_restart": Kind(20, False, "clean restart of the broker"),
    "walsender_terminate": Kind(40, False, "pg_terminate_backend of the walsender"),
    "postgres_restart": Kind(20, False, "fast restart of PostgreSQL"),
    "link_cut": Kind(60, False, "connection to PostgreSQL reset in the middle of a message"),
    "link_half_open": Kind(20, False, "connection to PostgreSQL half open: nobody hears of it",
                           relay_too=True),
    "link_latency": Kind(20, False, "10 to 50 ms of latency to PostgreSQL", (0.5, 2.0),
                         in_bulk=False),
    "disk_full": Kind(10, False, "the broker's disk is full", (0.0, 0.5), in_bulk=False),
}


@dataclasses.dataclass
class Step:
    """One fault to come. bulk_depth: so many records of the large transaction are out before."""

    kind: str
    wait_s: float
    hold_s: float
    aim_s: float = 0.0  # From the look that sees records flow to the blow: no fixed phase.
    bulk_depth: int = 0
    settle: bool = True  # The blow waits until the relay has caught up with the faults before.
    relay_too: bool = False
    quiet: bool = False  # A zombie thaws after the load has ended: its last word stays the last.
    cut_after: int = 0
    latency_s: float = 0.0


@dataclasses.dataclass
class EpisodePlan:
    """One database, one slot, one set of topics; ends with a comparison of everything."""

    index: int
    plugin: str
    guarantee: str
    steps: list

    @property
    def kills(self):
        return sum(KINDS[step.kind].kill for step in self.steps)


def make(seed, kills, plugins=PLUGINS, guarantees=(AT_LEAST_ONCE,), only=(), without=(),
         per_episode=25, bulk_share=None):
    """Episodes with at least `kills` kills in all, shared by the combinations of both lists."""
    kinds = {name: kind for name, kind in KINDS.items()
             if (not only or name in only) and name not in without}
    if not kinds:
        raise ValueError("no kind of fault is left")
    groups = [(plugin, guarantee) for guarantee in guarantees for plugin in plugins]
    episodes = []
    for number, (plugin, guarantee) in enumerate(groups):
        share = kills // len(groups) + (number < kills % len(groups))
        dice = random.Random(f"{seed} {plugin} {guarantee}")
        share_of_bulk = bulk_share
        if share_of_bulk is None:
            share_of_bulk = 0.5 if guarantee == EXACTLY_ONCE else 0.06
        steps = _steps(dice, kinds, share, share_of_bulk, bool(only))
        size = per_episode if share_of_bulk < 0.2 else max(1, per_episode // 2)
        for first in range(0, len(steps), size):
            part = _zombie_last(steps[first:first + size])
            episodes.append(EpisodePlan(len(episodes), plugin, guarantee, part))
    return episodes


def _steps(dice, kinds, kills, bulk_share, named):
    names = _shares(dice, {n: k.weight for n, k in kinds.items() if k.kill}, kills)
    others = {name: kind.weight for name, kind in kinds.items() if not kind.kill}
    count = round(kills * sum(others.values()) / 1000) if names else kills
    # Asked for by name, each comes at least once.
    names += _shares(dice, others, max(count, len(others) if named else 0))
    # Spread evenly over what allows it, kills first: the share of kills must be met.
    able = [i for i, name in enumerate(names) if kinds[name].in_bulk]
    dice.shuffle(able)
    able.sort(key=lambda i: not kinds[names[i]].kill)
    bulk = set(able[:round(bulk_share * len(names) + 0.49)] if bulk_share else [])
    order = list(range(len(names)))
    dice.shuffle(order)
    return [_step(dice, names[i], kinds[names[i]], i in bulk) for i in order]


def _shares(dice, weights, count):
    """`count` names in proportion to their weights; each at least once where count allows it."""
    if not weights or count <= 0:
        return []
    total = sum(weights.values())
    names = []
    for name, weight in weights.items():
        names += [name] * max(1, round(count * weight / total))
    heaviest = max(weights, key=weights.get)
    names += [heaviest] * max(0, count - len(names))
    if len(names) > count:
        # Too many by rounding up: the most frequent gives way first, then chance decides.
        spare = names.count(heaviest) - 1
        for _ in range(min(spare, len(names) - count)):
            names.remove(heaviest)
        dice.shuffle(names)
    return names[:count]


def _step(dice, name, kind, bulk):
    return Step(name, wait_s=round(dice.uniform(0.05, 0.6), 3),
                hold_s=round(dice.uniform(*kind.hold_s), 3),
                aim_s=round(dice.uniform(0.0, 0.05), 4),
                bulk_depth=dice.randrange(500, BULK_ROWS * 8 // 10) if bulk else 0,
                settle=dice.random() < 0.75 or kind.standby,
                relay_too=kind.relay_too and dice.random() < 0.3,
                cut_after=dice.randrange(1, 60_000), latency_s=dice.uniform(0.01, 0.05))


def _zombie_last(steps):
    """One zombie of an episode thaws at the very end, into silence."""
    for at, step in enumerate(steps):
        if step.kind == "relay_zombie":
            steps = steps[:at] + steps[at + 1:] + [step]
            step.quiet = True
            break
    return steps
