"""The load of an episode: support/workload.py at a steady rate, and large transactions beside it.

The large ones have keys of their own, so the steady writers do not wait for their locks.
"""

from support.workload import Workload

_BULK_KEYS = 250
_TABLES = """
CREATE TABLE workload.bulk (number bigint NOT NULL);
INSERT INTO workload.bulk VALUES (0);
"""
_BULK = """
WITH base AS (
  SELECT number FROM workload.bulk
), made AS MATERIALIZED (
  SELECT gen_random_uuid() AS id, 'bulk-' || (1 + i %% {keys}) AS key, i,
         base.number + 1 + i / {keys} AS number
  FROM generate_series(0, %(rows)s - 1) AS i, base
), bodies AS MATERIALIZED (
  SELECT id, key, number, i, (%(types)s::text[])[1 + (number %% %(type_count)s)] AS event,
         json_build_object('key', key, 'number', number, 'filler',
                           substr(repeat(md5(id::text), 4), 1, 100))::text::jsonb AS body
  FROM made
), sent AS (
  INSERT INTO public.outbox (id, aggregate_id, event_type, payload)
  SELECT id, key, event, body FROM bodies ORDER BY i
), noted AS (
  INSERT INTO workload.oracle
  SELECT id, key, number, event, md5(body::text), octet_length(body::text), 'bulk' FROM bodies
)
UPDATE workload.bulk SET number = number + (%(rows)s + {keys} - 1) / {keys}
""".replace("{keys}", str(_BULK_KEYS))


class AuditLoad(Workload):
    """start_load at `rate` events a second; large(rows) is one transaction."""

    SYNCHRONOUS_COMMIT = "on"  # As an application commits: rows come one by one.

    def __init__(self, cluster, dbname, rate):
        super().__init__(cluster, dbname, rate=rate, keys=400)
        connection = self._connection()
        with connection.cursor() as cursor:
            cursor.execute(_TABLES)
        connection.close()

    def start_load(self, writers=4):
        self.start(1_000_000_000, writers=writers)

    def large(self, rows):
        types = self.options["event_types"]
        connection = self._connection()
        try:
            with connection.cursor() as cursor:
                cursor.execute(_BULK, {"rows": rows, "types": types, "type_count": len(types)})
        finally:
            connection.close()

    def check(self):
        if self._errors:
            raise RuntimeError(f"a writer failed: {self._errors[0]}")
