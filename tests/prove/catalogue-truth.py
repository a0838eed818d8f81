"""31: rows that the catalogue kept from the stream: each case stops loudly, the bounds hold them all.

While rows are inserted without a pause, the outbox table is taken out of the publication and put
back (between two looks, and for longer), swapped for another one, given a row filter, and, under
wal2json, renamed. Each row's place in the WAL is noted around its insert. The relay must stop with
69, name what changed and give bounds in which every row that did not arrive lies; with what it
prints the table is put back and the rows are sent again, until nothing is missing.
"""

import json
import re
import threading
import time

from prove.common import say, stop_cleanly, wait_caught_up
from support.cleanup import wait_until
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_FATAL, Relay, pipeline

_TABLE = """CREATE TABLE outbox (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL DEFAULT 'order',
  aggregate_id text NOT NULL, event_type text NOT NULL DEFAULT 'made', payload text)"""
_SWAP = ("BEGIN; ALTER TABLE outbox RENAME TO outbox_old;"
         "CREATE TABLE outbox (LIKE outbox_old INCLUDING ALL); COMMIT")
_LSN = r"[0-9A-F]+/[0-9A-F]+"


def prove(short):
    interval_ms = 200 if short else 1_000
    with KafkaBroker() as kafka:
        for case in (_OutAndBack, _OutForLonger, _Swapped, _Filtered, _Renamed):
            with PostgresCluster() as cluster:
                case(kafka, cluster, interval_ms).prove()


def _number(lsn):
    high, low = lsn.split("/")
    return (int(high, 16) << 32) + int(low, 16)


class _Writer(threading.Thread):
    """Inserts a row a transaction, without a pause; notes (id, before, after) of each."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self._connection = cluster.connect(autocommit=False)
        self._end = threading.Event()
        self.rows = []
        self.names = ["outbox"]

    def run(self):
        number = 0
        with self._connection.cursor() as cursor:
            while not self._end.is_set():
                number += 1
                try:
                    cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
                    before = cursor.fetchone()[0]
                    cursor.execute(f"INSERT INTO {self.names[0]} (aggregate_id, payload)"
                                   " VALUES (%s, %s) RETURNING id::text",
                                   (f"k{number % 5}", str(number)))
                    row = cursor.fetchone()[0]
                    cursor.execute("SELECT pg_current_wal_insert_lsn()::text")
                    after = cursor.fetchone()[0]
                    self._connection.commit()
                    self.rows.append((row, _number(before), _number(after)))
                except self._connection.ProgrammingError:
                    self._connection.rollback()
                    self.names.reverse()
                time.sleep(0.001)

    def end(self):
        self._end.set()
        self.join(20)
        self._connection.close()


class _Case:
    plugin = "pgoutput"
    title = ""
    other_name = None
    #: The stop itself has both bounds, because all was well again when the relay looked.
    bounded = False

    def __init__(self, kafka, cluster, interval_ms):
        self._kafka = kafka
        self._cluster = cluster
        self._interval_ms = interval_ms
        self._topic = type(self).__name__.strip("_").lower()
        cluster.query(_TABLE)
        self._relay = Relay(pipeline(cluster.dsn(), kafka.bootstrap_servers, plugin=self.plugin,
                                     topic=self._topic,
                                     source={"watch_interval_ms": interval_ms}),
                            log_format="json")

    def change(self):
        """What happens to the catalogue while the relay streams."""
        raise NotImplementedError

    def prove(self):
        with self._relay as relay:
            relay.start()
            writer = _Writer(self._cluster)
            if self.other_name:
                writer.names.append(self.other_name)
            writer.start()
            time.sleep(6 * self._interval_ms / 1_000)
            self.change()
            changed_at = time.monotonic()
            assert relay.wait(timeout_s=30) == EXIT_FATAL, relay.log_text()[-3000:]
            seconds = time.monotonic() - changed_at
            time.sleep(0.5)
            stop = self._line("pipeline stops")
            say(f"{self.title}: exit {EXIT_FATAL} within {seconds:.1f} s: {stop['error']}")
            say(f"{' ' * len(self.title)}  {stop['hint']}")
            bounds = self._put_back(stop)
            relay.start()
            if not self.bounded:
                gap = wait_until(lambda: self._line("rows may be missing"), 20, "the gap report")
                say(f"{self.title}: at the next start: {gap['what']}; {gap['rows']}")
                bounds.append(_number(re.findall(_LSN, gap["rows"])[1]))
            time.sleep(1)
            writer.end()
            wait_caught_up(self._cluster, "outrider", relay=relay)
            self._check(writer.rows, bounds)
            self._send_again(stop["hint"], writer.rows)
            stop_cleanly(relay)

    def _line(self, message):
        lines = [json.loads(line) for line in self._relay.log_text().splitlines()]
        found = [line for line in lines if line["message"] == message]
        return found[-1] if found else None

    def _put_back(self, stop):
        """Run the printed repair, if one is needed; returns the bounds the stop gave."""
        bounds = [_number(lsn) for lsn in re.findall(_LSN, stop["error"])]
        repair = re.match(r"put it back: (.*); start the relay, then ", stop["hint"])
        assert bool(repair) != self.bounded
        if self.bounded:
            return bounds
        self._cluster.query(repair.group(1))
        return bounds[:1]

    def _arrived(self):
        return {record.header("id").decode()
                for record in Consumer(self._kafka.bootstrap_servers).read(self._topic)}

    def _check(self, rows, bounds):
        lower, upper = bounds
        arrived = self._arrived()
        missing = [row for row in rows if row[0] not in arrived]
        inside = sum(1 for _, before, after in rows if before >= lower and after <= upper)
        outside = [row for row in missing if row[1] < lower or row[2] > upper]
        say(f"{self.title}: {len(rows):,} rows, {len(missing):,} did not arrive, {len(outside)} of "
            f"them outside the bounds ({inside:,} rows inside)")
        assert missing, "the case lost nothing, so it proves nothing"
        assert not outside, outside[:5]

    def _send_again(self, hint, rows):
        sql = re.search(r"(WITH gone AS .* SELECT \* FROM gone) \(docs", hint).group(1)
        self._cluster.query(sql)
        wait_caught_up(self._cluster, "outrider", relay=self._relay)
        left = {row[0] for row in rows} - self._arrived()
        say(f"{self.title}: after the printed statement {len(left)} rows are missing")
        assert not left


class _OutAndBack(_Case):
    title = "out and back between two looks"
    bounded = True

    def change(self):
        self._cluster.query("ALTER PUBLICATION outrider DROP TABLE outbox")
        time.sleep(0.05)
        self._cluster.query("ALTER PUBLICATION outrider ADD TABLE outbox")


class _OutForLonger(_Case):
    title = "out of the publication"

    def change(self):
        self._cluster.query("ALTER PUBLICATION outrider DROP TABLE outbox")


class _Swapped(_Case):
    title = "swapped table"

    def change(self):
        self._cluster.query(_SWAP)


class _Filtered(_Case):
    title = "row filter added"

    def change(self):
        self._cluster.query(
            "ALTER PUBLICATION outrider SET TABLE outbox WHERE (aggregate_id <> 'k1')")


class _Renamed(_Case):
    title = "renamed (wal2json)"
    plugin = "wal2json"
    other_name = "events"

    def change(self):
        self._cluster.query("ALTER TABLE outbox RENAME TO events")
