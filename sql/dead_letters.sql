-- The dead-letter table: outbox rows that did not become records, kept until they are sent again or
-- given up. With it the view outrider.outbox_dead_letters for people who look with SQL.
--
-- Who:   a superuser, or a role with CREATE on the database; once, in the source database or in the
--        one that dead_letters.dsn names. Not needed with dead_letters.topic.
-- How:   psql -d app -f sql/dead_letters.sql [-v role=outrider_relay]
-- Again: adds what is missing, keeps the letters. Run it again after the role was made.
-- Cost:  nothing while no row is refused; else a copy of the row, its payload included.
-- Text that comes from rows is kept as bytes, because a row may hold what is no text here: another
-- encoding, a zero byte. The view shows it as text. The role gets what the relay does with the
-- table and nothing else; reading the view is for others to be granted (schema and view).
\set ON_ERROR_STOP on
\if :{?role} \else \set role outrider_relay \endif

BEGIN;

SELECT 'CREATE SCHEMA outrider'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'outrider') \gexec

CREATE TABLE IF NOT EXISTS outrider.schema_version (
  part    text    PRIMARY KEY,
  version integer NOT NULL
);

CREATE TABLE IF NOT EXISTS outrider.dead_letters (
  number               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  system_id            text        NOT NULL,
  slot                 text        NOT NULL,
  commit_lsn           pg_lsn      NOT NULL,
  index_in_transaction bigint      NOT NULL,
  commit_time          timestamptz NOT NULL,
  xid                  bigint      NOT NULL,
  table_name           bytea       NOT NULL,
  event_id             bytea       NOT NULL,
  event_type           bytea       NOT NULL,
  aggregate_id         bytea       NOT NULL,
  mapped               boolean     NOT NULL,
  topic                bytea       NOT NULL,
  partition            integer,
  key                  bytea,
  payload              bytea,
  header_names         bytea[]     NOT NULL,
  header_values        bytea[]     NOT NULL,
  timestamp_ms         bigint      NOT NULL,
  raw_row              bytea       NOT NULL,
  bytes                bigint      NOT NULL,
  reason               text        NOT NULL,
  code                 text        NOT NULL,
  message              bytea       NOT NULL,
  parked_key           bytea,
  attempts             integer     NOT NULL,
  first_failure        timestamptz NOT NULL,
  last_failure         timestamptz NOT NULL,
  retry_after          timestamptz,
  last_outcome         bigint,
  CONSTRAINT dead_letters_row
    UNIQUE (system_id, slot, commit_lsn, index_in_transaction, commit_time)
);

CREATE INDEX IF NOT EXISTS dead_letters_own
  ON outrider.dead_letters (system_id, slot, number);

CREATE INDEX IF NOT EXISTS dead_letters_parked
  ON outrider.dead_letters (system_id, slot, sha256(parked_key), number)
  WHERE parked_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS dead_letters_due
  ON outrider.dead_letters (system_id, slot, retry_after);

CREATE OR REPLACE FUNCTION outrider.utf8_or_null(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog AS $function$
BEGIN
  RETURN convert_from(bytes, 'UTF8');
EXCEPTION
  WHEN character_not_in_repertoire OR untranslatable_character THEN
    RETURN NULL;
END
$function$;

CREATE OR REPLACE VIEW outrider.outbox_dead_letters AS
SELECT number,
       date_trunc('second', now() - first_failure) AS age,
       reason,
       code,
       coalesce(outrider.utf8_or_null(message), encode(message, 'escape')) AS message,
       coalesce(outrider.utf8_or_null(event_id), encode(event_id, 'escape')) AS event_id,
       coalesce(outrider.utf8_or_null(event_type), encode(event_type, 'escape')) AS event_type,
       coalesce(outrider.utf8_or_null(aggregate_id), encode(aggregate_id, 'escape'))
         AS aggregate_id,
       coalesce(outrider.utf8_or_null(table_name), encode(table_name, 'escape')) AS table_name,
       CASE WHEN mapped THEN coalesce(outrider.utf8_or_null(topic), encode(topic, 'escape')) END
         AS topic,
       coalesce(outrider.utf8_or_null(parked_key), encode(parked_key, 'escape')) AS parked_key,
       attempts,
       retry_after AS next_retry,
       first_failure,
       last_failure,
       octet_length(payload) AS payload_bytes,
       bytes,
       outrider.utf8_or_null(payload) AS payload,
       CASE WHEN NOT mapped THEN outrider.utf8_or_null(raw_row) END AS raw_row,
       commit_lsn,
       index_in_transaction,
       commit_time,
       xid,
       slot,
       system_id
FROM outrider.dead_letters;

INSERT INTO outrider.schema_version (part, version) VALUES ('dead_letters', 1)
ON CONFLICT (part) DO NOTHING;

SELECT format(statement, :'role')
FROM (VALUES ('GRANT USAGE ON SCHEMA outrider TO %I'),
             ('GRANT SELECT ON outrider.schema_version TO %I'),
             ('GRANT SELECT, INSERT, DELETE, UPDATE (attempts, last_failure, retry_after, code, '
              'message, last_outcome) ON outrider.dead_letters TO %I')) AS grants(statement)
WHERE EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'role') \gexec

COMMIT;
