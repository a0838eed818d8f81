-- The outbox table in the layout of Debezium's outbox event router (c).
--
-- Who:   the owner of the application's schema, once, before the first event is written.
-- How:   psql -d app -f sql/outbox_table_debezium.sql [-v schema=public] [-v table=outbox]
-- Again: does nothing to a table that is there; it is never altered.
-- Cost:  one index entry a row (the primary key).
-- An existing table of that layout needs nothing from here.
\set ON_ERROR_STOP on
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif

SELECT format('CREATE SCHEMA IF NOT EXISTS %I', :'schema')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = :'schema') \gexec

CREATE TABLE IF NOT EXISTS :"schema".:"table" (
  id            uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregatetype varchar(255) NOT NULL,
  aggregateid   varchar(255) NOT NULL,
  type          varchar(255) NOT NULL,
  payload       jsonb
);
