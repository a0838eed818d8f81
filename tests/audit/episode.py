"""One episode: load on a fresh database, the plan's faults one after another, then the comparison.

The relay has a supervisor here: one that ends by itself is started again, and its exit code noted.
A fault counts only when records were flowing at the blow.
"""

import collections
import dataclasses
import os
import time

import psycopg2

from audit import faults
from audit.load import AuditLoad
from audit.plan import BULK_ROWS, EXACTLY_ONCE, KINDS
from audit.relays import CommandRelay, OutriderRelay, RelaySettings
from audit.stage import PATIENCE_S, Flow
from audit.verdict import FaultWindow, Ledger, judge
from support.consumer import Consumer

EVENT_TYPES = ("OrderPlaced", "OrderPaid", "OrderShipped")
_PARTITIONS = 2
_QUIET_S = 60
_STARTS_MAX = 100
_FIRST_STARTS_MAX = 5
# Signals and abort codes of a program that broke; our own SIGKILL is never looked at.
_CRASH_CODES = (134, 135, 136, 139)


@dataclasses.dataclass
class Options:
    """What is the same for all episodes of a run."""

    relay_command: str = ""
    rate: int = 1_000
    id_header: str = "id"
    disk: bool = True
    walsender: bool = True
    settle_s: float = 20  # How long to wait for a confirmed position before a blow.


class CannotRun(RuntimeError):
    """The episode could not be carried out; this says nothing about the relay's guarantee."""


def _now_ms():
    return int(time.time() * 1000)


class Episode:
    """Runs one EpisodePlan on a Stage. run() gives the result as a dict."""

    def __init__(self, stage, plan, options, progress=lambda window: None):
        self.stage = stage
        self.plan = plan
        self.options = options
        self.uses_walsender = options.walsender
        self.flowing_by = max(2, options.rate // 50)
        self.name = stage.new_name()
        self.topic_prefix = self.name.replace("_", "-") + "."
        self.topics = [self.topic_prefix + name for name in EVENT_TYPES]
        self.windows = []
        self.exits = collections.Counter()
        self.skipped = collections.Counter()
        self.crashes = 0
        self.load = None
        self.relay = None
        self.spare = None
        self._standby = None
        self._progress = progress
        self._starts = 0
        self._streaming = False
        self._bulk_lsn = None  # End of a large transaction that the slot has not passed yet.
        self._peak_kb = 0
        self._made = []

    def run(self):
        began = time.monotonic()
        self.flow = Flow(self.stage.kafka.bootstrap_servers, self.topics, self._look)
        try:
            self._set_up()
            for step in self.plan.steps:
                self._step(step)
            verdict = self._finish()
        except TimeoutError as error:
            log = self.relay.log_end() if self.relay else ""
            raise TimeoutError(f"{error}\n{log}") from error
        finally:
            for relay in self._made:
                relay.close()
            if self.load is not None:
                self.load.stop()
            self.flow.close()
        self.stage.remove(self.name, self.topics)
        return {
            "index": self.plan.index, "plugin": self.plan.plugin,
            "guarantee": self.plan.guarantee, "seconds": round(time.monotonic() - began, 1),
            **verdict.as_dict(), "crashes": self.crashes, "exits": dict(self.exits),
            "skipped": dict(self.skipped), "peak_kb": self._peak_kb,
            "load_per_core": round(os.getloadavg()[0] / os.cpu_count(), 1),
            "faults": [dataclasses.asdict(window) for window in self.windows],
        }

    # For the faults ---------------------------------------------------------------------------

    def start_standby(self):
        """A second relay with the same settings; the caller makes it the active one."""
        self._standby, self.spare = self.spare or self._new_relay(), None
        self._standby.start()
        return self._standby

    def start_window(self):
        """The blow falls now."""
        self.windows[-1].start_ms = _now_ms()

    def resumed(self):
        if not self.windows[-1].resumed_ms:
            self.windows[-1].resumed_ms = _now_ms()

    def note_exit(self, code, asked=False):
        """Count an exit code; asked: we had told it to end."""
        if code is not None and code != -9:
            self.exits[f"{code} after SIGTERM" if asked else f"{code} by itself"] += 1
            if code < 0 or code in _CRASH_CODES:
                self.crashes += 1

    def wait_drained(self):
        """Until the slot has confirmed all there is, or nothing came for a minute."""
        self.stage.wait_database()
        target = self.stage.cluster.current_lsn()
        held, since = self.flow.now(), time.monotonic()
        next_message = 0
        while True:
            if time.monotonic() > next_message:
                # A transaction behind the last event, for relays that confirm only those.
                self.stage.cluster.query("SELECT pg_logical_emit_message(true, 'audit', 'end')")
                next_message = time.monotonic() + 3
            time.sleep(0.1)
            self._look()
            count = self.flow.now()
            if count != held:
                held, since = count, time.monotonic()
            still = time.monotonic() - since
            if still > _QUIET_S or (still > 0.5 and self._confirmed(target)):
                return

    # Inside -----------------------------------------------------------------------------------

    def _new_relay(self):
        settings = RelaySettings(
            dsn=self.stage.cluster.dsn(self.name).replace(f"port={self.stage.cluster.port}",
                                                          f"port={self.stage.proxy.port}"),
            slot=self.name, publication=self.name, table="public.outbox",
            bootstrap_servers=self.stage.kafka.bootstrap_servers, topic_prefix=self.topic_prefix,
            topics=self.topics, plugin=self.plan.plugin, guarantee=self.plan.guarantee)
        command = self.options.relay_command
        relay = CommandRelay(command, settings) if command else OutriderRelay(settings)
        self._made.append(relay)
        return relay

    def _set_up(self):
        cluster = self.stage.cluster
        cluster.query(f"CREATE DATABASE {self.name}")
        self.load = AuditLoad(cluster, self.name, self.options.rate)
        if self.options.relay_command:
            cluster.query(f"CREATE PUBLICATION {self.name} FOR TABLE public.outbox",
                          dbname=self.name)
        self.stage.kafka.create_topics(*self.topics, partitions=_PARTITIONS)
        self.relay = self._new_relay()
        self.relay.start()
        deadline = time.monotonic() + PATIENCE_S
        while not self._slot_ready():
            self._look()
            if time.monotonic() > deadline:
                raise CannotRun(f"the relay made no slot\n{self.relay.log_end()}")
            time.sleep(0.05)
        self.load.start_load()
        self.flow.wait_more(self.flow.now(), self.flowing_by)
        self._streaming = True

    def _slot_ready(self):
        slot = self.stage.cluster.slot(self.name)
        return bool(slot) and (slot["active"] or not self.uses_walsender)

    def _look(self):
        """Supervise: called while waiting for whatever the relay has to do."""
        self.load.check()
        if self.relay is None or self.relay.is_up():
            return
        self.note_exit(self.relay.exit_code())
        self._starts += 1
        if self._starts > (_STARTS_MAX if self._streaming else _FIRST_STARTS_MAX):
            text = f"the relay ends again and again ({dict(self.exits)})\n{self.relay.log_end()[-700:]}"
            raise TimeoutError(text) if self._streaming else CannotRun(text)
        time.sleep(0.3)
        self.relay.start()

    def _confirmed(self, target):
        try:
            return self.stage.cluster.scalar(
                "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots"
                " WHERE slot_name = %s", (target, self.name))
        except psycopg2.Error:
            return False

    def _step(self, step):
        time.sleep(step.wait_s)
        steady = step.settle and not step.bulk_depth
        if step.settle:
            self._settle()
        self.flow.wait_more(self.flow.now(), self.flowing_by)
        if step.bulk_depth:
            self.load.large(BULK_ROWS)
            self._bulk_lsn = self.stage.cluster.current_lsn()
            self.flow.wait_more(self.flow.now(), step.bulk_depth)
        self._note_peak()
        time.sleep(step.aim_s)
        self.windows.append(FaultWindow(step.kind, _now_ms(), settled=step.settle, steady=steady,
                                        in_bulk=self._in_bulk(), relay_too=step.relay_too))
        window = self.windows[-1]
        try:
            getattr(faults, step.kind)(self, step)
        except faults.NotPossible as reason:
            self.windows.pop()
            self.skipped[f"{step.kind}: {reason}"] += 1
            return
        window.over_ms = _now_ms()
        if not step.quiet:
            self.flow.wait_more(self.flow.now(), self.flowing_by)
            self.resumed()
        window.end_ms = _now_ms()
        self._note_peak()
        self._progress(window)

    def _in_bulk(self):
        if self._bulk_lsn and self._confirmed(self._bulk_lsn):
            self._bulk_lsn = None
        return self._bulk_lsn is not None

    def _settle(self):
        """Until all written before now is confirmed; a relay that confirms lazily has its limit."""
        deadline = time.monotonic() + self.options.settle_s
        target = self.stage.cluster.current_lsn()
        while not self._confirmed(target) and time.monotonic() < deadline:
            self._look()
            time.sleep(0.02)
        self._bulk_lsn = None

    def _note_peak(self):
        self._peak_kb = max([self._peak_kb] + [relay.peak_kb() for relay in self._made])

    def _finish(self):
        self.load.stop()
        self.stage.heal()
        self.wait_drained()
        self._note_peak()
        relay, self.relay = self.relay, None
        self.note_exit(relay.stop(PATIENCE_S), asked=True)
        ledger = Ledger.load(self.stage.cluster, self.name)
        consumer = Consumer(self.stage.kafka.bootstrap_servers,
                            read_committed=self.plan.guarantee == EXACTLY_ONCE)
        return judge(ledger, consumer.stream(self.topics), self.windows, self.topic_prefix,
                     self.options.id_header)


def kills_of(result):
    """Forced ends and freezes in a result, the relay's within an outage of others included."""
    return sum(KINDS[fault["kind"]].kill + fault["relay_too"] for fault in result["faults"])
