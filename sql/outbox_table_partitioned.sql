-- The outbox table in layout (a), partitioned by day (UTC), so that old days are dropped whole.
--
-- Who:   the owner of the application's schema, once; again whenever days ahead are wanted.
-- How:   psql -d app -f sql/outbox_table_partitioned.sql [-v schema=public] [-v table=outbox]
--        [-v days_ahead=7]
-- Again: adds the days that are missing from today on. A day of which the default partition holds
--        rows already is left out (they would have to be moved first).
-- Cost:  one index entry a row (the primary key; its created_at is what PostgreSQL demands of a
--        partitioned table, so uniqueness of id alone is not checked by the database). Adding a
--        partition scans the default partition under a lock: keep that one empty by running in time.
-- The default partition catches rows of days that nobody made, so that no insert ever fails.
-- created_at must not change: an UPDATE that moves a row to another partition is written to the WAL
-- as a delete and an insert, and the insert would be published again. A trigger refuses it.
\set ON_ERROR_STOP on
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif
\if :{?days_ahead} \else \set days_ahead 7 \endif

SELECT format('CREATE SCHEMA IF NOT EXISTS %I', :'schema')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :'schema') \gexec

CREATE TABLE IF NOT EXISTS :"schema".:"table" (
  id             uuid        NOT NULL DEFAULT gen_random_uuid(),
  aggregate_type text        NOT NULL,
  aggregate_id   text        NOT NULL,
  event_type     text        NOT NULL,
  payload        jsonb,
  created_at     timestamptz NOT NULL DEFAULT now(),
  attempts       integer     NOT NULL DEFAULT 0,
  processed_at   timestamptz,
  PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

CREATE OR REPLACE FUNCTION :"schema".outrider_refuse_created_at_change() RETURNS trigger
LANGUAGE plpgsql AS $function$
BEGIN
  RAISE EXCEPTION 'created_at of an outbox row must not change'
    USING ERRCODE = 'integrity_constraint_violation',
          HINT = 'it is the partition key; a moved row would be published again';
END
$function$;

SELECT format('CREATE TRIGGER outrider_created_at_is_fixed BEFORE UPDATE ON %I.%I FOR EACH ROW '
              'WHEN (OLD.created_at IS DISTINCT FROM NEW.created_at) '
              'EXECUTE FUNCTION %I.outrider_refuse_created_at_change()',
              :'schema', :'table', :'schema')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger
                  WHERE tgname = 'outrider_created_at_is_fixed'
                    AND tgrelid = format('%I.%I', :'schema', :'table')::regclass) \gexec

SELECT format('CREATE TABLE IF NOT EXISTS %I.%I PARTITION OF %I.%I DEFAULT',
              :'schema', left(:'table', 54) || '_default', :'schema', :'table')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_partitioned_table
                  WHERE partrelid = format('%I.%I', :'schema', :'table')::regclass
                    AND partdefid <> 0) \gexec

SELECT format('%I.%I', n.nspname, c.relname) AS default_partition
FROM pg_catalog.pg_partitioned_table p
JOIN pg_catalog.pg_class c ON c.oid = p.partdefid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE p.partrelid = format('%I.%I', :'schema', :'table')::regclass \gset

SELECT format('CREATE TABLE IF NOT EXISTS %I.%I PARTITION OF %I.%I '
              'FOR VALUES FROM (%L) TO (%L)',
              :'schema', left(:'table', 53) || to_char(day, '_YYYYMMDD'), :'schema', :'table',
              to_char(day, 'YYYY-MM-DD 00:00:00+00'),
              to_char(day + interval '1 day', 'YYYY-MM-DD 00:00:00+00'))
FROM generate_series(date_trunc('day', now() AT TIME ZONE 'UTC'),
                     date_trunc('day', now() AT TIME ZONE 'UTC')
                       + :'days_ahead'::integer * interval '1 day',
                     interval '1 day') AS day
WHERE NOT EXISTS (SELECT FROM :default_partition
                  WHERE created_at >= day AT TIME ZONE 'UTC'
                    AND created_at < (day + interval '1 day') AT TIME ZONE 'UTC') \gexec
