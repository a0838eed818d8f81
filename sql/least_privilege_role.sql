-- The role the relay connects as: it may log in and replicate, and nothing else.
--
-- Who:   a superuser, or a role with CREATEROLE that may give REPLICATION away; once.
-- How:   psql -d app -f sql/least_privilege_role.sql [-v role=outrider_relay]
--        then set the password with \password outrider_relay, which keeps it out of history and log.
-- Again: adds what is missing, takes nothing away, leaves the password alone.
-- Cost:  none. Mind that REPLICATION lets a role read every change of the database's tables through
--        a slot; restrict its addresses in pg_hba.conf (both the database and "replication" lines).
-- The role can make and read the slot. It needs no right on the outbox table or its schema: rows
-- come from the WAL. Where the dead-letter table is (sql/dead_letters.sql), it may use that one. The
-- publication belongs to the outbox table's owner (sql/publication.sql).
\set ON_ERROR_STOP on
\if :{?role} \else \set role outrider_relay \endif

SELECT format('CREATE ROLE %I LOGIN', :'role')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec

-- Some hosted services lend replication through a role of theirs instead of the attribute.
SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication')
            THEN format('GRANT rds_replication TO %I', :'role')
            ELSE format('ALTER ROLE %I REPLICATION', :'role') END
WHERE NOT (SELECT rolreplication FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec

SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), :'role') \gexec

SELECT format(statement, :'role')
FROM (VALUES ('GRANT USAGE ON SCHEMA outrider TO %I'),
             ('GRANT SELECT ON outrider.schema_version TO %I'),
             ('GRANT SELECT, INSERT, DELETE, UPDATE (attempts, last_failure, retry_after, code, '
              'message, last_outcome) ON outrider.dead_letters TO %I')) AS grants(statement)
WHERE EXISTS (SELECT FROM pg_catalog.pg_class c
              JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
              WHERE n.nspname = 'outrider' AND c.relname = 'dead_letters') \gexec
