-- The publication that the pgoutput plugin reads: inserts into the outbox table, nothing else.
--
-- Who:   the owner of the table, with CREATE on the database (or a superuser); before the slot is
--        made, because a slot decodes with the publication as it was when the WAL was written.
-- How:   psql -d app -f sql/publication.sql [-v publication=outrider] [-v schema=public]
--        [-v table=outbox]
-- Again: does nothing; with another table it adds that table. Rows written before a table was added
--        are not published.
-- Cost:  none while the table is written. wal2json does not need it.
\set ON_ERROR_STOP on
\if :{?publication} \else \set publication outrider \endif
\if :{?schema} \else \set schema public \endif
\if :{?table} \else \set table outbox \endif

SELECT format('CREATE PUBLICATION %I FOR TABLE %I.%I '
              'WITH (publish = ''insert'', publish_via_partition_root = true)',
              :'publication', :'schema', :'table')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = :'publication') \gexec

SELECT format('ALTER PUBLICATION %I ADD TABLE %I.%I', :'publication', :'schema', :'table')
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_publication_tables
                  WHERE pubname = :'publication'
                    AND schemaname = :'schema' AND tablename = :'table') \gexec
