-- The outbox table in Outrider's own layout (a).
--
-- Who:   the owner of the application's schema, once, before the first event is written.
-- How:   psql -d app -f sql/outbox_table.sql [-v schema=public] [-v table=outbox] [-v polling=off]
-- Again: does nothing to a table that is there; it is never altered.
-- Cost:  one index entry a row (the primary key). Outrider reads the WAL and leaves attempts and
--        processed_at untouched; they are for pollers of your own. polling=on adds a partial index
--        of the rows not yet processed for them, a second entry a row.
-- A row is published when its transaction commits; it may be deleted at once, even in the same
-- transaction. A NULL payload becomes a record with a null value (a tombstone).
\set ON_ERROR_STOP on
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif
\if :{?polling} \else \set polling off \endif

SELECT format('CREATE SCHEMA IF NOT EXISTS %I', :'schema')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :'schema') \gexec

CREATE TABLE IF NOT EXISTS :"schema".:"table" (
  id             uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_type text        NOT NULL,
  aggregate_id   text        NOT NULL,
  event_type     text        NOT NULL,
  payload        jsonb,
  created_at     timestamptz NOT NULL DEFAULT now(),
  attempts       integer     NOT NULL DEFAULT 0,
  processed_at   timestamptz
);

\if :polling
SELECT format('CREATE INDEX IF NOT EXISTS %I ON %I.%I (created_at) WHERE processed_at IS NULL',
              left(:'table', 55) || '_pending', :'schema', :'table') \gexec
\endif
