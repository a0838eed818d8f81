"""Load as an application makes it, generated inside the server by a procedure, with an oracle.

Each transaction takes the row lock of a key, raises that key's number, and writes an order row and
one or more outbox rows whose payload holds key, number and filler. The same transaction notes the
event in workload.oracle, so a row stands there exactly when the event was committed, also when the
outbox row was deleted again in its own transaction. The oracle's payload digest is that of
payload::text. Numbers of one key rise in commit order, because the lock is held until commit.
"""

import json
import threading
import time

import psycopg2

OUTBOX_TYPES = {"jsonb": "jsonb", "json": "json", "text": "text"}

_SCHEMA = """
CREATE SCHEMA workload;
CREATE TABLE IF NOT EXISTS public.orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, number bigint);
CREATE TABLE workload.keys (key text PRIMARY KEY, number bigint NOT NULL DEFAULT 0)
  WITH (fillfactor = 50);
CREATE TABLE workload.oracle (
  id uuid PRIMARY KEY, key text NOT NULL, number bigint NOT NULL, event_type text NOT NULL,
  payload_md5 text NOT NULL, payload_bytes int NOT NULL, kind text NOT NULL);
CREATE TABLE workload.progress (
  writer int PRIMARY KEY, done bigint NOT NULL, rolled_back bigint NOT NULL DEFAULT 0)
  WITH (fillfactor = 10);
CREATE TABLE workload.control (stop boolean NOT NULL);
INSERT INTO workload.control VALUES (false);
"""

_OUTBOX = """
CREATE TABLE {table} (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type text NOT NULL DEFAULT 'order',
  aggregate_id text NOT NULL, event_type text NOT NULL, payload {payload} NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(), attempts int NOT NULL DEFAULT 0,
  processed_at timestamptz);
"""

# One event: returns nothing, notes it in the oracle. A payload has quotes, a newline, a backslash
# and characters of two, three and four bytes, because an escaping error would show there.
_PROCEDURES = """
CREATE FUNCTION workload.emit(k text, size int, kind text, types text[]) RETURNS void
LANGUAGE plpgsql AS $body$
DECLARE
  n bigint;
  new_id uuid := gen_random_uuid();
  event text;
  body {payload};
BEGIN
  UPDATE workload.keys SET number = number + 1 WHERE key = k RETURNING number INTO n;
  event := types[1 + (n % array_length(types, 1))];
  body := json_build_object('key', k, 'number', n, 'text', E'\\u00e9"\\\\\\n\\u20ac\\U0001F680',
    'filler', substr(repeat(md5(new_id::text), 1 + size / 32), 1, size))::text::{payload};
  INSERT INTO {table} (id, aggregate_id, event_type, payload) VALUES (new_id, k, event, body);
  INSERT INTO workload.oracle VALUES
    (new_id, k, n, event, md5(body::text), octet_length(body::text), kind);
  IF kind = 'deleted' THEN
    DELETE FROM {table} WHERE id = new_id;
  END IF;
END $body$;

CREATE FUNCTION workload.size(o jsonb) RETURNS int LANGUAGE sql VOLATILE AS $body$
  SELECT CASE WHEN r < (o->>'huge')::float THEN (o->>'bytes_max')::int
              WHEN r < (o->>'large')::float
                THEN (o->>'bytes')::int + (random() * least(30000, (o->>'bytes_max')::int))::int
              ELSE (o->>'bytes')::int / 2 + (random() * (o->>'bytes')::int)::int END
  FROM (SELECT random() AS r) AS dice
$body$;

CREATE PROCEDURE workload.run(writer int, until bigint, o jsonb) LANGUAGE plpgsql AS $body$
DECLARE
  types text[] := ARRAY(SELECT jsonb_array_elements_text(o->'event_types'));
  keys int := (o->>'keys')::int;
  rate float := (o->>'rate')::float;
  made bigint;
  first bigint;
  began timestamptz := clock_timestamp();
  due float;
  r float;
  k int;
  rows_now int;
BEGIN
  SELECT done INTO made FROM workload.progress p WHERE p.writer = run.writer;
  first := made;
  WHILE made < until LOOP
    EXIT WHEN (SELECT stop FROM workload.control);
    r := random();
    k := 1 + floor(random() * keys)::int;
    IF r < (o->>'rolled_back')::float THEN
      PERFORM workload.emit('key-' || k, workload.size(o), 'rolled back', types);
      ROLLBACK;
      UPDATE workload.progress p SET rolled_back = rolled_back + 1 WHERE p.writer = run.writer;
      COMMIT;
      CONTINUE;
    END IF;
    r := random();
    rows_now := 1;
    INSERT INTO public.orders (customer, number) VALUES ('customer ' || k, made);
    IF r < (o->>'deleted')::float THEN
      PERFORM workload.emit('key-' || k, workload.size(o), 'deleted', types);
    ELSIF r < (o->>'deleted')::float + (o->>'multi')::float THEN
      rows_now := least(2 + floor(random() * (o->>'multi_max')::int)::int, until - made);
      -- One key a transaction, or rising keys: two writers never lock in opposite order.
      FOR i IN 1..rows_now LOOP
        PERFORM workload.emit('key-' || least(keys, k + i / 4), workload.size(o), 'multi', types);
      END LOOP;
    ELSIF r < (o->>'deleted')::float + (o->>'multi')::float + (o->>'savepoint')::float THEN
      BEGIN
        PERFORM workload.emit('key-' || k, workload.size(o), 'rolled back', types);
        RAISE EXCEPTION 'back to the savepoint';
      EXCEPTION WHEN raise_exception THEN
        NULL;
      END;
      PERFORM workload.emit('key-' || k, workload.size(o), 'savepoint', types);
    ELSE
      PERFORM workload.emit('key-' || k, workload.size(o), 'single', types);
    END IF;
    made := made + rows_now;
    UPDATE workload.progress p SET done = made WHERE p.writer = run.writer;
    COMMIT;
    IF rate > 0 THEN
      due := (made - first) / rate - extract(epoch FROM clock_timestamp() - began);
      IF due > 0.002 THEN
        PERFORM pg_sleep(due);
        COMMIT;
      END IF;
    END IF;
  END LOOP;
END $body$;

-- One transaction of many rows, as fast as the server can; a key's numbers rise row by row.
CREATE PROCEDURE workload.bulk(total bigint, o jsonb) LANGUAGE plpgsql AS $body$
DECLARE
  types text[] := ARRAY(SELECT jsonb_array_elements_text(o->'event_types'));
  keys int := (o->>'keys')::int;
BEGIN
  -- The writers lock in this order too.
  PERFORM 1 FROM workload.keys ORDER BY substr(key, 5)::bigint FOR UPDATE;
  WITH made AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, 'key-' || (1 + i % keys) AS key, i AS i,
           k.number + 1 + i / keys AS number
    FROM generate_series(0, total - 1) AS i JOIN workload.keys k ON k.key = 'key-' || (1 + i % keys)
  ), bodies AS MATERIALIZED (
    SELECT id, key, number, i, types[1 + (number % array_length(types, 1))] AS event,
           json_build_object('key', key, 'number', number, 'filler',
             substr(repeat(md5(id::text), 1 + (o->>'bytes')::int / 32), 1, (o->>'bytes')::int)
           )::text::{payload} AS body
    FROM made
  ), sent AS (
    INSERT INTO {table} (id, aggregate_id, event_type, payload)
    SELECT id, key, event, body FROM bodies ORDER BY i
  ), noted AS (
    INSERT INTO workload.oracle
    SELECT id, key, number, event, md5(body::text), octet_length(body::text), 'bulk' FROM bodies
  )
  UPDATE workload.keys k SET number = k.number + (total - (substr(k.key, 5)::bigint - 1)
                                                  + keys - 1) / keys
  WHERE substr(k.key, 5)::bigint <= total;
END $body$;
"""

DEFAULTS = {
    "event_types": ["OrderPlaced", "OrderPaid", "OrderShipped"],
    "keys": 500,
    "bytes": 200,          # Usual filler size; half to one and a half times.
    "bytes_max": 900_000,  # Size of the huge ones.
    "large": 0.01,         # Share of rows with up to 30 kB more.
    "huge": 0.0,           # Share of rows of bytes_max.
    "rolled_back": 0.05,   # Share of transactions.
    "deleted": 0.05,
    "multi": 0.05,
    "multi_max": 20,
    "savepoint": 0.02,
    "rate": 0,             # Events a second and writer; 0: as fast as possible.
}


class Workload:
    """Load on one database of a PostgresCluster. Writers are threads that survive restarts."""

    # off is cheaper, but then rows reach the log in bursts, one each wal_writer_delay (200 ms).
    SYNCHRONOUS_COMMIT = "off"

    def __init__(self, cluster, dbname="postgres", table="public.outbox", payload="jsonb",
                 create_outbox=True, **options):
        unknown = set(options) - set(DEFAULTS)
        if unknown:
            raise TypeError(f"unknown options {sorted(unknown)}")
        self.cluster = cluster
        self.dbname = dbname
        self.table = table
        self.options = {**DEFAULTS, **options}
        self._threads = []
        self._errors = []
        self._stopping = threading.Event()
        self.reconnects = 0
        type_name = OUTBOX_TYPES[payload]
        with self._connection() as connection, connection.cursor() as cursor:
            cursor.execute(_SCHEMA)
            if create_outbox:
                cursor.execute(_OUTBOX.format(table=table, payload=type_name))
            cursor.execute(_PROCEDURES.replace("{table}", table).replace("{payload}", type_name))
            cursor.execute("INSERT INTO workload.keys SELECT 'key-' || i"
                           " FROM generate_series(1, %s) AS i", (self.options["keys"],))
        connection.close()

    def _connection(self):
        return self.cluster.connect(self.dbname)

    def start(self, events, writers=4, **options):
        """Begin to write `events` committed rows, shared by so many concurrent writers.

        Options given here count for this run only. Returns at once; see join and stop.
        """
        merged = {**self.options, **options}
        if merged["rate"]:
            merged["rate"] = merged["rate"] / writers
        self._stopping.clear()
        self._errors = []
        connection = self._connection()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE workload.control SET stop = false")
            cursor.execute("INSERT INTO workload.progress SELECT i, 0 FROM generate_series(1, %s) i"
                           " ON CONFLICT DO NOTHING", (writers,))
            cursor.execute("SELECT writer, done FROM workload.progress WHERE writer <= %s",
                           (writers,))
            done = dict(cursor.fetchall())
        connection.close()
        for writer in range(1, writers + 1):
            share = events // writers + (1 if writer <= events % writers else 0)
            thread = threading.Thread(target=self._write, daemon=True,
                                      args=(writer, done[writer] + share, merged))
            self._threads.append(thread)
            thread.start()
        return self

    def run(self, events, writers=4, progress=None, **options):
        """start and join; progress(done) is called about every second."""
        self.start(events, writers, **options)
        self.join(progress=progress)
        return self

    def running(self):
        return any(thread.is_alive() for thread in self._threads)

    def join(self, timeout_s=900, progress=None):
        deadline = time.monotonic() + timeout_s
        while self.running():
            if time.monotonic() > deadline:
                self.stop()
                raise TimeoutError(f"the writers still run after {timeout_s} s")
            time.sleep(0.2)
            if progress:
                progress(self.committed())
        self._threads = []
        if self._errors:
            raise RuntimeError(f"a writer failed: {self._errors[0]}")

    def stop(self):
        """End the writers after their present transaction."""
        self._stopping.set()
        try:
            self.cluster.query("UPDATE workload.control SET stop = true", dbname=self.dbname)
        except psycopg2.Error:
            pass  # The server is down; the writers see the event instead.
        for thread in self._threads:
            thread.join(60)
        self._threads = []

    def bulk(self, events, **options):
        """One transaction with so many rows, in this thread."""
        connection = self._connection()
        try:
            with connection.cursor() as cursor:
                cursor.execute("CALL workload.bulk(%s, %s)",
                               (events, json.dumps({**self.options, **options})))
        finally:
            connection.close()

    def committed(self):
        """Committed events so far, by the writers' own notes (bulk rows not counted)."""
        try:
            return int(self.cluster.scalar("SELECT coalesce(sum(done), 0) FROM workload.progress",
                                           dbname=self.dbname))
        except psycopg2.Error:
            return -1

    def rolled_back(self):
        return int(self.cluster.scalar(
            "SELECT coalesce(sum(rolled_back), 0) FROM workload.progress", dbname=self.dbname))

    def events(self):
        """Rows of the oracle: exactly the committed events."""
        return self.cluster.scalar("SELECT count(*) FROM workload.oracle", dbname=self.dbname)

    def _write(self, writer, until, options):
        text = json.dumps(options)
        while not self._stopping.is_set():
            try:
                connection = self._connection()
                try:
                    with connection.cursor() as cursor:
                        cursor.execute(f"SET synchronous_commit = {self.SYNCHRONOUS_COMMIT}")
                        cursor.execute("CALL workload.run(%s, %s, %s)", (writer, until, text))
                    return
                finally:
                    connection.close()
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                # The server restarts, or the test ended our backend: go on where we were.
                self.reconnects += 1
                time.sleep(0.1)
            except psycopg2.Error as error:
                self._errors.append(error)
                return


def write_other_wal(cluster, megabytes, dbname="postgres", table="public.noise"):
    """WAL that concerns no outbox: rows of incompressible text in a table of their own."""
    connection = cluster.connect(dbname)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} (body text)")
            cursor.execute(f"ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL")
            before = cluster.current_lsn()
            written = 0
            while written < megabytes * 1024 * 1024:
                cursor.execute(f"INSERT INTO {table} SELECT repeat(md5(i::text || random()), 200)"
                               " FROM generate_series(1, 2000) AS i")
                cursor.execute("SELECT pg_current_wal_lsn() - %s::pg_lsn", (before,))
                written = int(cursor.fetchone()[0])
            cursor.execute(f"TRUNCATE {table}")
    finally:
        connection.close()
    return written


def small_foreign_transactions(cluster, count, dbname="postgres", table="public.foreign_rows"):
    """So many one-row transactions on a table that is no outbox (about 20,000 a second)."""
    connection = cluster.connect(dbname)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} (n bigint)")
            cursor.execute("SET synchronous_commit = off")
            cursor.execute(f"DO $body$ BEGIN FOR i IN 1..{int(count)} LOOP"
                           f" INSERT INTO {table} VALUES (i); COMMIT; END LOOP; END $body$")
    finally:
        connection.close()
