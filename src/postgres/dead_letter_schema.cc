#include "postgres/dead_letter_schema.h"

#include "outrider/route/outbox_layout.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kTables[] = R"sql(CREATE TABLE IF NOT EXISTS outrider.schema_version (
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
)sql";

constexpr char kView[] = R"sql(
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
ON CONFLICT (part) DO NOTHING)sql";

constexpr char kMayUpdate[] = "attempts, last_failure, retry_after, code, message, last_outcome";

}  // namespace

std::string dead_letter_objects_sql() { return std::string(kTables) + kView; }

// The view is made last.
std::string dead_letter_objects_present_sql() {
  return "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
         "c.relnamespace WHERE n.nspname = 'outrider' AND c.relname IN ('dead_letters', "
         "'schema_version', 'outbox_dead_letters') HAVING pg_catalog.count(*) = 3";
}

std::string dead_letter_grants_sql(const std::string& role) {
  const std::string to = " TO " + quote_identifier(role);
  return "GRANT USAGE ON SCHEMA outrider" + to + ";\nGRANT SELECT ON outrider.schema_version" + to +
         ";\nGRANT SELECT, INSERT, DELETE, UPDATE (" + kMayUpdate +
         ")\n  ON outrider.dead_letters" + to;
}

std::string dead_letter_grants_present_sql(const std::string& role) {
  const auto may = [](const char* relation, const char* privilege) {
    return " AND pg_catalog.has_table_privilege(r.oid, " + std::string(relation) + ".oid, '" +
           privilege + "')";
  };
  return "SELECT 1 FROM pg_catalog.pg_roles r JOIN pg_catalog.pg_namespace n ON n.nspname = "
         "'outrider' JOIN pg_catalog.pg_class v ON v.relnamespace = n.oid AND v.relname = "
         "'schema_version' JOIN pg_catalog.pg_class d ON d.relnamespace = n.oid AND d.relname = "
         "'dead_letters' WHERE r.rolname = " +
         quote_literal(role) + " AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')" +
         may("v", "SELECT") + may("d", "SELECT") + may("d", "INSERT") + may("d", "DELETE") +
         " AND pg_catalog.has_column_privilege(r.oid, d.oid, 'last_outcome', 'UPDATE')";
}

}  // namespace outrider
