-- The outbox table in the simple layout (b): numeric keys and nothing but the event.
--
-- Who:   the owner of the application's schema, once, before the first event is written.
-- How:   psql -d app -f sql/outbox_table_simple.sql [-v schema=public] [-v table=outbox]
-- Again: does nothing to a table that is there; it is never altered.
-- Cost:  one index entry a row (the primary key).
-- aggregate_id becomes the key of the record, as decimal digits.
\set ON_ERROR_STOP on
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif

SELECT format('CREATE SCHEMA IF NOT EXISTS %I', :'schema')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :'schema') \gexec

CREATE TABLE IF NOT EXISTS :"schema".:"table" (
  id           uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_id bigint      NOT NULL,
  type         text        NOT NULL,
  payload      jsonb,
  created_at   timestamptz NOT NULL DEFAULT now()
);
