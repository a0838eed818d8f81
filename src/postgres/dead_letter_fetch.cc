// Reading letters back: the other half of postgres/dead_letter_sql.h.
#include <algorithm>
#include <utility>

#include "outrider/model/change.h"
#include "postgres/binary_values.h"
#include "postgres/dead_letter_sql.h"

namespace outrider {
namespace {

constexpr char kFetchedColumns[] =
    "d.number, d.commit_lsn, d.index_in_transaction, d.commit_time, d.table_name, d.event_id, "
    "d.event_type, d.aggregate_id, d.mapped, d.topic, d.partition, d.key, d.payload, "
    "d.header_names, d.header_values, d.timestamp_ms, d.raw_row, d.reason, d.parked_key, "
    "d.attempts, d.code, d.message, d.last_failure, d.retry_after";

std::string bytea_list(Statement& statement, const std::vector<std::string>& items) {
  const std::vector<std::optional<std::string_view>> views(items.begin(), items.end());
  return statement.own(kByteaArrayOid, binary_bytea_array(views));
}

std::string conditions(Statement& statement, const DeadLetterFilter& filter) {
  std::string sql;
  const auto equals = [&](const char* column, const std::string& bytes) {
    if (!bytes.empty()) {
      sql += " AND d." + std::string(column) + " = " + statement.own(kByteaOid, bytes);
    }
  };
  if (filter.reason) {
    sql += " AND d.reason = " + statement.own(kTextOid, to_string(*filter.reason));
  }
  equals("event_type", filter.event_type);
  equals("aggregate_id", filter.aggregate_id);
  if (!filter.parked_key.empty()) {
    equals("parked_key", filter.parked_key);
    // The index holds digests: a key may be longer than an index entry.
    sql +=
        " AND sha256(d.parked_key) = sha256(" + statement.own(kByteaOid, filter.parked_key) + ")";
  }
  if (!filter.numbers.empty()) {
    sql += " AND d.number = ANY (" +
           statement.own(kInt8ArrayOid, binary_int8_array(filter.numbers)) + ")";
  }
  if (!filter.event_ids.empty()) {
    sql += " AND d.event_id = ANY (" + bytea_list(statement, filter.event_ids) + ")";
  }
  if (filter.older_than) {
    sql += " AND d.last_failure <= statement_timestamp() - " +
           statement.own(kTextOid, std::to_string(filter.older_than->count()) + " seconds") +
           "::interval";
  }
  return sql;
}

/// The bytes of a value that is never NULL in the table.
std::string_view bytes_of(const QueryResult& rows, std::size_t row, std::string_view name) {
  const std::optional<std::string>& value = rows.value(row, name);
  return value ? std::string_view(*value) : std::string_view();
}

std::optional<RowPlace> read_place(const QueryResult& rows, std::size_t row) {
  const auto lsn = read_int8(bytes_of(rows, row, "commit_lsn"));
  const auto index = read_int8(bytes_of(rows, row, "index_in_transaction"));
  if (!lsn || !index) {
    return std::nullopt;
  }
  return RowPlace{Lsn::from_wire(static_cast<std::uint64_t>(*lsn)),
                  static_cast<std::uint64_t>(*index)};
}

std::optional<StoredLetter> read_letter(const QueryResult& rows, std::size_t row) {
  const auto number = [&](std::string_view name) { return read_int8(bytes_of(rows, row, name)); };
  const auto place = read_place(rows, row);
  const auto commit_time = read_timestamptz(bytes_of(rows, row, "commit_time"));
  const auto timestamp_ms = number("timestamp_ms");
  const auto attempts = read_int4(bytes_of(rows, row, "attempts"));
  const auto letter_number = number("number");
  auto names = read_bytea_array(bytes_of(rows, row, "header_names"));
  auto values = read_bytea_array(bytes_of(rows, row, "header_values"));
  if (!letter_number || !place || !commit_time || !timestamp_ms || !attempts || !names || !values ||
      names->size() != values->size()) {
    return std::nullopt;
  }
  StoredLetter letter;
  letter.number = *letter_number;
  letter.row = *place;
  letter.commit_time = *commit_time;
  letter.table = rows.text(row, "table_name");
  letter.event_id = rows.text(row, "event_id");
  letter.event_type = rows.text(row, "event_type");
  letter.aggregate_id = rows.text(row, "aggregate_id");
  letter.mapped = bytes_of(rows, row, "mapped") == std::string_view("\1", 1);
  letter.topic = rows.text(row, "topic");
  letter.partition = read_int4(bytes_of(rows, row, "partition"));
  letter.key = rows.value(row, "key");
  letter.value = rows.value(row, "payload");
  for (std::size_t i = 0; i < names->size(); ++i) {
    letter.headers.emplace_back((*names)[i].value_or(std::string()), std::move((*values)[i]));
  }
  letter.timestamp_ms = *timestamp_ms;
  letter.raw_row = rows.text(row, "raw_row");
  // A word of a later release means no less than "refused".
  letter.reason =
      parse_dead_letter_reason(bytes_of(rows, row, "reason")).value_or(DeadLetterReason::refused);
  letter.parked_key = rows.value(row, "parked_key");
  letter.attempts = static_cast<std::uint32_t>(std::max(*attempts, 0));
  letter.code = rows.text(row, "code");
  letter.message = rows.text(row, "message");
  letter.failed_at = read_timestamptz(bytes_of(rows, row, "last_failure"));
  letter.retry_after = read_timestamptz(bytes_of(rows, row, "retry_after"));
  return letter;
}

}  // namespace

Statement fetch_statement(const SlotIdentity& identity, const LetterFetch& fetch) {
  Statement statement;
  const std::string own = own_letters(statement, identity);
  const std::string after = statement.own(kInt8Oid, binary_int8(fetch.after));
  std::string from = "outrider.dead_letters d";
  std::string where = own + " AND d.number > " + after + conditions(statement, fetch.filter);
  if (fetch.filter.due_only) {
    const std::string due =
        "(coalesce(d.retry_after <= statement_timestamp(), true) AND d.attempts < " +
        statement.own(kInt8Oid, binary_int8(fetch.attempts_max)) + ")";
    from +=
        " LEFT JOIN (SELECT d.parked_key, min(d.number) AS number FROM outrider.dead_letters "
        "d WHERE " +
        own + " AND d.parked_key IS NOT NULL AND NOT " + due +
        " GROUP BY d.parked_key) AS waiting ON waiting.parked_key = d.parked_key";
    where += " AND " + due + " AND coalesce(d.number < waiting.number, true)";
  }
  // Sizes are added up before any payload is read.
  statement.sql =
      std::string("SELECT ") + kFetchedColumns +
      " FROM (SELECT number, sum(bytes) OVER (ORDER BY number) AS total, "
      "row_number() OVER (ORDER BY number) AS place FROM (SELECT d.number, d.bytes FROM " +
      from + " WHERE " + where + " ORDER BY d.number LIMIT " + std::to_string(fetch.count) +
      ") AS fitting) AS chosen JOIN outrider.dead_letters d ON d.number = chosen.number "
      "WHERE chosen.total <= " +
      std::to_string(DeadLetterPlace::kFetchBytesMax) + " OR chosen.place = 1 ORDER BY d.number";
  return statement;
}

Result<std::vector<StoredLetter>> read_letters(const QueryResult& rows) {
  std::vector<StoredLetter> letters;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    std::optional<StoredLetter> letter = read_letter(rows, row);
    if (!letter) {
      const auto number = read_int8(bytes_of(rows, row, "number"));
      return fail(ErrorKind::configuration,
                  "dead letter " + std::to_string(number.value_or(0)) + " was changed by hand",
                  "put its header arrays right (as many values as names), or delete the row from "
                  "outrider.dead_letters");
    }
    letters.push_back(std::move(*letter));
  }
  return letters;
}

Result<std::vector<ParkedKey>> read_parked_keys(const QueryResult& rows) {
  std::vector<ParkedKey> keys;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const std::optional<RowPlace> first = read_place(rows, row);
    if (!first) {
      return fail(ErrorKind::configuration, "outrider.dead_letters has columns of other types",
                  "make it as sql/dead_letters.sql does");
    }
    keys.push_back({rows.text(row, "parked_key"), *first});
  }
  return keys;
}

}  // namespace outrider
