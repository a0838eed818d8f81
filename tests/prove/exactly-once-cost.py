"""20: what exactly once costs: at least 0.6 of the throughput, its latency, and flat memory.

One backlog of 200,000 one-row transactions is drained three times under each guarantee, in turn, by
a slot each; throughput is from the first record's append to the acknowledgement (exactly once: the
proved commit) of the last. Then 1,000 events a second, from the commit's time to a consumer of
committed records.
"""

import statistics
import threading
import time

from prove.common import SteadyLoad, megabytes, say, sleep_with_progress, stop_cleanly, \
    wait_caught_up
from prove.drain import OUTBOX, write_backlog
from support.cleanup import wait_until
from support.consumer import Consumer, Tail
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, pipeline

GUARANTEES = ("at_least_once", "exactly_once")
RATIO_MIN = 0.6
RATE = 1_000
# From the end of the first quarter to the end of a run. A drain fills and empties what may be in
# flight (limits.in_flight_bytes_max) all the time; at a steady rate there is hardly anything.
DRAIN_GROWTH_KB_MAX = 16 * 1024
STEADY_GROWTH_KB_MAX = 4 * 1024
PEAK_KB_MAX = 60 * 1024


def prove(short):
    rows, rounds, seconds = (20_000, 1, 4) if short else (200_000, 3, 20)
    with KafkaBroker(log_append_time=True, heap="768m") as kafka, PostgresCluster() as cluster:
        cluster.query(OUTBOX)
        # All slots are older than the backlog, so each relay reads the same WAL.
        drains = [_Run(kafka, cluster, guarantee, number)
                  for number in range(1, rounds + 1) for guarantee in GUARANTEES]
        steady = [_Run(kafka, cluster, guarantee, 0) for guarantee in GUARANTEES]
        try:
            _drain(kafka, cluster, drains, rows, short)
            load = SteadyLoad(cluster, create_outbox=False)
            for run in steady:
                _latency(kafka, cluster, load, run, seconds)
        finally:
            for run in drains + steady:
                run.relay.close()


class _Run:
    """A relay with slot and topics of its own; it has been started once, so that the slot is."""

    def __init__(self, kafka, cluster, guarantee, number):
        self.guarantee = guarantee
        self.title = f"{guarantee}, round {number}" if number else f"{guarantee}, steady"
        self.slot = f"{guarantee}_{number}"
        self.topic = f"cost.{self.slot}"
        self.position_topic = f"{self.topic}.position"
        kafka.create_topics(self.topic, config={} if number else
                            {"message.timestamp.type": "CreateTime"})
        config = pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin="pgoutput", slot=self.slot,
                          topic=self.topic, source={"publication": "outrider"})
        self.relay = Relay({**config, "delivery": {"guarantee": guarantee,
                                                   "position_topic": self.position_topic}})
        self.relay.start()
        stop_cleanly(self.relay)


class _Memory(threading.Thread):
    """Resident size of a relay, five times a second."""

    def __init__(self, relay):
        super().__init__(daemon=True)
        self._relay = relay
        self._end = threading.Event()
        self._sizes = []
        self.start()

    def run(self):
        while not self._end.wait(0.2):
            self._sizes.append(self._relay.rss_kb()[0])

    def end(self):
        """Text of the figures, and growth in KiB from the end of the first quarter."""
        self._end.set()
        self.join()
        sizes = self._sizes or [self._relay.rss_kb()[0]]
        quarter = statistics.median(sizes[len(sizes) // 4:len(sizes) // 4 + 3])
        growth = statistics.median(sizes[-3:]) - quarter
        peak = self._relay.rss_kb()[1]
        assert peak <= PEAK_KB_MAX, f"peak RSS {megabytes(peak)}"
        return (f"RSS start {megabytes(sizes[0])}, first quarter {megabytes(quarter)}, peak "
                f"{megabytes(peak)}, end {megabytes(sizes[-1])}"), growth


# Throughput -------------------------------------------------------------------------------------


def _drain(kafka, cluster, runs, rows, short):
    write_backlog(cluster, rows)
    rates = {guarantee: [] for guarantee in GUARANTEES}
    for run in runs:
        rates[run.guarantee].append(_rate(kafka, run, rows))
    for guarantee, values in rates.items():
        say(f"{guarantee}: {', '.join(f'{value:,.0f}' for value in values)} rows/s, median "
            f"{statistics.median(values):,.0f}")
    ratio = (statistics.median(rates["exactly_once"])
             / statistics.median(rates["at_least_once"]))
    say(f"exactly once has {ratio:.2f} of at least once's throughput (at least {RATIO_MIN})")
    # A short run is mostly starting up: it shows that the bench works, not how fast.
    assert short or ratio >= RATIO_MIN, f"ratio {ratio:.2f}"


def _rate(kafka, run, rows):
    cpu_before = run.relay.cpu_seconds()
    run.relay.start(wait_ready=False)
    memory = _Memory(run.relay)
    wait_until(run.relay.ready, 30, "the relay to be ready", 0.02)
    wait_until(lambda: run.relay.metric("outbox_events_published_total") >= rows, 120,
               f"{rows:,} acknowledgements", 0.02)
    end_ms = time.time() * 1000
    figures, growth = memory.end()
    cpu = run.relay.cpu_seconds() - cpu_before
    stop_cleanly(run.relay)
    first_ms, ids, count = end_ms, set(), 0
    reader = Consumer(kafka.bootstrap_servers, read_committed=True)
    for record in reader.stream([run.topic]):
        first_ms = min(first_ms, record.timestamp_ms)
        ids.add(record.header("id"))
        count += 1
    assert count == len(ids) == rows, f"{count} records, {len(ids)} ids, {rows} rows"
    seconds = (end_ms - first_ms) / 1000
    positions = len(reader.read(run.position_topic))
    say(f"{run.title}: {rows / seconds:,.0f} rows/s ({seconds:.2f} s), {cpu:.2f} CPU s, "
        f"{positions} positions written; {figures}")
    assert growth <= DRAIN_GROWTH_KB_MAX, f"{run.title}: memory grew by {megabytes(growth)}"
    return rows / seconds


# Latency ----------------------------------------------------------------------------------------


def _latency(kafka, cluster, load, run, seconds):
    run.relay.start()
    # What was written since the slot was made is read first.
    wait_caught_up(cluster, run.slot, relay=run.relay)
    with Tail(kafka.bootstrap_servers, run.topic) as tail:
        load.start(10_000_000, writers=4, rate=RATE)
        wait_until(tail.arrivals, 20, "the first record")
        memory = _Memory(run.relay)
        began = time.monotonic()
        sleep_with_progress(seconds, f"{run.guarantee}: {RATE:,} events a second")
        ended = time.monotonic()
        figures, growth = memory.end()
        load.stop()
        wall_minus_monotonic = time.time() - time.monotonic()
        arrivals = [(at, record.timestamp_ms) for record, at in tail.arrivals()
                    if began <= at <= ended]
    stop_cleanly(run.relay)
    delays = sorted((at + wall_minus_monotonic) * 1000 - committed_ms
                    for at, committed_ms in arrivals)
    assert len(delays) > seconds * RATE / 4, f"only {len(delays):,} records in {seconds} s"
    p50, p95, p99 = (delays[int(len(delays) * share)] for share in (0.50, 0.95, 0.99))
    say(f"{run.guarantee}: commit to consumer p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} "
        f"ms, {len(delays) / seconds:,.0f} events/s for {seconds} s; {figures}")
    assert growth <= STEADY_GROWTH_KB_MAX, f"{run.guarantee}: memory grew by {megabytes(growth)}"
