-- Removes what the other files made: slot, publication, dead-letter table, role and, when told to,
-- the outbox table.
--
-- Who:   a superuser, or the owner of these objects with REPLICATION and CREATEROLE; after the relay
--        was stopped (a slot in use is not dropped, and the script stops there).
-- How:   psql -d app -f sql/uninstall.sql [-v slot=outrider] [-v publication=outrider]
--        [-v role=outrider_relay] [-v schema=public] [-v table=outbox] [-v drop_table=off]
--        [-v drop_dead_letters=off]
-- Again: does nothing.
-- Cost:  events that were committed and not yet relayed are never relayed once the slot is gone.
--        drop_table=on also deletes the rows; the default keeps them. A dead-letter table that holds
--        letters stays, unless drop_dead_letters=on: its rows were never delivered. Without the slot
--        the server keeps no more WAL.
\set ON_ERROR_STOP on
\if :{?slot} \else \set slot outrider \endif
\if :{?publication} \else \set publication outrider \endif
\if :{?role} \else \set role outrider_relay \endif
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif
\if :{?drop_table} \else \set drop_table off \endif
\if :{?drop_dead_letters} \else \set drop_dead_letters off \endif

SELECT pg_catalog.pg_drop_replication_slot(slot_name) AS dropped
FROM pg_catalog.pg_replication_slots
WHERE slot_name = :'slot' AND slot_type = 'logical' AND database = current_database();

SELECT format('DROP PUBLICATION %I', :'publication')
WHERE EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = :'publication') \gexec

SELECT count(*) > 0 AS has_dead_letters FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'outrider' AND c.relname = 'dead_letters' \gset

\if :has_dead_letters
SELECT :'drop_dead_letters'::boolean OR NOT EXISTS (SELECT FROM outrider.dead_letters)
  AS drop_dead_letters \gset
\if :drop_dead_letters
BEGIN;
DROP VIEW IF EXISTS outrider.outbox_dead_letters;
DROP TABLE outrider.dead_letters;
DROP FUNCTION IF EXISTS outrider.utf8_or_null(bytea);
DROP TABLE IF EXISTS outrider.schema_version;
-- Fails, and says why, if somebody put objects of another kind into the schema.
DROP SCHEMA outrider;
COMMIT;
\else
\echo kept: outrider.dead_letters holds letters that were never delivered (drop_dead_letters=on drops them)
SELECT format(statement, :'role')
FROM (VALUES ('REVOKE ALL ON outrider.dead_letters FROM %I'),
             ('REVOKE ALL ON outrider.schema_version FROM %I'),
             ('REVOKE ALL ON SCHEMA outrider FROM %I')) AS revokes(statement)
WHERE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec
\endif
\endif

SELECT format('REVOKE ALL ON DATABASE %I FROM %I', current_database(), :'role')
WHERE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec

-- Fails, and says why, if somebody gave the role objects or rights of another kind.
SELECT format('DROP ROLE %I', :'role')
WHERE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec

\if :drop_table
DROP TABLE IF EXISTS :"schema".:"table";
SELECT format('DROP FUNCTION %I.outrider_refuse_created_at_change()', :'schema')
WHERE EXISTS (SELECT FROM pg_catalog.pg_proc p
              JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
              WHERE n.nspname = :'schema' AND p.proname = 'outrider_refuse_created_at_change'
                AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgfoid = p.oid)) \gexec
\endif
