"""What most end-to-end tests need: a database with an outbox, a topic and a relay between them.

Rig keeps the names together and gives the verbs of a test: insert rows, wait for records, read them
back, look at the slot. Each rig has a database, a slot and a topic of its own; close() ends the
relay and drops the slot (the database stays for the end of the cluster).
"""

import itertools
import os
import re

import psycopg2

from support.cleanup import wait_until
from support.consumer import Consumer
from support.relay import Relay, pipeline

_numbers = itertools.count(1)

OUTBOX = """
CREATE TABLE {table} (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text DEFAULT 'order',
  aggregate_id text DEFAULT 'k', event_type text DEFAULT 'made', payload {payload})
"""


def merged(base, over):
    """over laid over base, key by key and level by level."""
    result = dict(base)
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(result.get(name), dict):
            value = merged(result[name], value)
        result[name] = value
    return result


class Rig:
    """`over` is laid over the pipeline's configuration, `relay` goes to Relay.

    With `tell` close() prints what the relay complained of: pytest shows it when the test fails.
    """

    def __init__(self, cluster, kafka, *, plugin="pgoutput", payload="text", partitions=1,
                 table="public.outbox", port=None, create_topic=True, over=None, tell=False,
                 **relay):
        number = next(_numbers)
        self.cluster = cluster
        self.kafka = kafka
        self.dbname = f"rig_{number}"
        self.slot = f"rig_{number}"
        self.topic = f"rig-{os.getpid()}-{number}"
        self.consumer = Consumer(kafka.bootstrap_servers)
        cluster.query(f"CREATE DATABASE {self.dbname}")
        self.connection = cluster.connect(self.dbname)
        if table:
            self.sql(OUTBOX.format(table=table, payload=payload))
        if create_topic:
            kafka.create_topics(self.topic, partitions=partitions)
        dsn = cluster.dsn(self.dbname)
        if port:
            dsn = dsn.replace(f"port={cluster.port}", f"port={port}")
        self.pipeline = merged(
            pipeline(dsn, kafka.bootstrap_servers, slot=self.slot, plugin=plugin,
                     topic=self.topic, tables=[table or "public.outbox"],
                     source={"reconnect_first_ms": 20, "reconnect_max_ms": 400}),
            over or {})
        self._relay_options = relay
        self._tell = tell
        self.relay = self.another_relay()

    def another_relay(self, **options):
        """A second process of the same configuration: a standby."""
        return Relay(self.pipeline, **{**self._relay_options, **options})

    def start(self, **options):
        self.relay.start(**options)
        return self

    def close(self):
        if self._tell and os.path.exists(self.relay.log_path):
            print("\n".join(line for line in self.relay.log_text().splitlines()
                            if re.search(r" (warn|error) ", line)))
        self.relay.close()
        try:
            self.connection.close()
            if self.cluster.running():
                self.drop_slot()
        except psycopg2.Error:
            pass

    # The database -----------------------------------------------------------------------------

    def sql(self, text, parameters=None):
        """One statement (or several) in its own transaction; rows if there are any."""
        with self.connection.cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall() if cursor.description else []

    def reconnect(self):
        """After the server was away."""
        self.connection.close()
        self.connection = self.cluster.connect(self.dbname)

    def insert(self, *payloads, key="k"):
        """One row and one transaction for each."""
        for payload in payloads:
            self.sql("INSERT INTO outbox (aggregate_id, payload) VALUES (%s, %s)", (key, payload))

    def numbers(self, count, start=1, keys=1, filler=0):
        """One transaction of so many rows with payload "number" (and filler behind a blank)."""
        tail = f" || ' ' || repeat('x', {filler})" if filler else ""
        self.sql(f"INSERT INTO outbox (aggregate_id, payload) SELECT 'k' || (i %% {keys}),"
                 f" i::text{tail} FROM generate_series(%s, %s) AS i", (start, start + count - 1))

    def singles(self, count, start=1, keys=1, filler=0):
        """So many transactions of one row."""
        tail = f" || ' ' || repeat('x', {filler})" if filler else ""
        self.sql(f"DO $body$ BEGIN FOR i IN {start}..{start + count - 1} LOOP"
                 f" INSERT INTO outbox (aggregate_id, payload) VALUES ('k' || (i % {keys}),"
                 f" i::text{tail}); COMMIT; END LOOP; END $body$")

    def slot_state(self):
        return self.cluster.slot(self.slot)

    def wait_confirmed(self, timeout_s=15):
        """Until the slot's confirmed position has passed everything written so far."""
        target = self.cluster.scalar("SELECT pg_current_wal_insert_lsn()::text")

        def reached():
            if self.relay.exit_code() is not None:
                raise RuntimeError(f"the relay ended\n{self.relay.log_text()[-3000:]}")
            return self.cluster.scalar(
                "SELECT confirmed_flush_lsn::text FROM pg_replication_slots"
                " WHERE slot_name = %s AND confirmed_flush_lsn >= %s::pg_lsn",
                (self.slot, target))

        return wait_until(reached, timeout_s, f"slot {self.slot} to reach {target}")

    def drop_slot(self):
        def dropped():
            state = self.slot_state()
            if state is None:
                return True
            if not state["active"]:
                self.cluster.query("SELECT pg_drop_replication_slot(%s)", (self.slot,))
            else:
                self.cluster.query("SELECT pg_terminate_backend(%s)", (state["active_pid"],))
            return False

        wait_until(dropped, 10, f"slot {self.slot} to be free")

    # The topic --------------------------------------------------------------------------------

    def records(self, count=None, timeout_s=30):
        """All records there are, after at least `count` are."""
        if count is not None:
            try:
                self.consumer.wait_for(self.topic, count, timeout_s)
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{self.relay.log_text()[-3000:]}") from None
        return self.consumer.read(self.topic)

    def values(self, count=None, timeout_s=30):
        """Payloads as text (None for null), up to a blank."""
        return [None if record.value is None else record.value.split(b" ")[0].decode()
                for record in self.records(count, timeout_s)]

    def expect(self, values, timeout_s=30):
        """Exactly these payloads in this order, and nothing after them."""
        values = [str(value) for value in values]
        seen = self.values(len(values), timeout_s)
        assert seen == values, f"{len(seen)} records, {len(values)} expected: {difference(seen, values)}"


def difference(seen, wanted):
    """The first place where two lists differ."""
    for at, (left, right) in enumerate(itertools.zip_longest(seen, wanted)):
        if left != right:
            return f"at {at}: {left!r}, not {right!r}"
    return "none"


def first_appearances(values):
    """The list without repeats."""
    return list(dict.fromkeys(values))
