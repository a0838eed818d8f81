#include "postgres/dead_letter_sql.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "outrider/model/change.h"
#include "postgres/binary_values.h"

namespace outrider {
namespace {

constexpr std::size_t kMessageBytesMax = 8192;
constexpr std::size_t kCodeBytesMax = 256;

struct LetterColumn {
  std::string_view name;
  std::uint32_t type_oid;
};

// The columns that are filled from a letter, in the order of encode_letter().
constexpr std::array kLetterColumns = {
    LetterColumn{"commit_lsn", kPgLsnOid},
    LetterColumn{"index_in_transaction", kInt8Oid},
    LetterColumn{"commit_time", kTimestamptzOid},
    LetterColumn{"xid", kInt8Oid},
    LetterColumn{"table_name", kByteaOid},
    LetterColumn{"event_id", kByteaOid},
    LetterColumn{"event_type", kByteaOid},
    LetterColumn{"aggregate_id", kByteaOid},
    LetterColumn{"mapped", kBoolOid},
    LetterColumn{"topic", kByteaOid},
    LetterColumn{"partition", kInt4Oid},
    LetterColumn{"key", kByteaOid},
    LetterColumn{"payload", kByteaOid},
    LetterColumn{"header_names", kByteaArrayOid},
    LetterColumn{"header_values", kByteaArrayOid},
    LetterColumn{"timestamp_ms", kInt8Oid},
    LetterColumn{"raw_row", kByteaOid},
    LetterColumn{"bytes", kInt8Oid},
    LetterColumn{"reason", kTextOid},
    LetterColumn{"code", kTextOid},
    LetterColumn{"message", kByteaOid},
    LetterColumn{"parked_key", kByteaOid},
    LetterColumn{"attempts", kInt4Oid},
};

std::uint64_t size_of(const std::optional<std::string_view>& bytes) {
  return bytes ? bytes->size() : 0;
}

std::optional<std::string> copy_of(const std::optional<std::string_view>& bytes) {
  return bytes ? std::optional<std::string>(*bytes) : std::nullopt;
}

/// A name out of a library; text in every encoding of a database.
std::string plain_code(std::string_view code) {
  std::string out(code.substr(0, kCodeBytesMax));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::string shortened(std::string_view message) {
  return std::string(message.substr(0, kMessageBytesMax));
}

std::string interval_text(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " milliseconds";
}

}  // namespace

std::string Statement::own(std::uint32_t type_oid, std::string bytes) {
  owned.push_back(std::move(bytes));
  return refer(type_oid, owned.back());
}

std::string Statement::refer(std::uint32_t type_oid, std::optional<std::string_view> bytes) {
  parameters.push_back({type_oid, bytes});
  return "$" + std::to_string(parameters.size());
}

std::string own_letters(Statement& statement, const SlotIdentity& identity) {
  const std::string system_id = statement.own(kTextOid, identity.system_id);
  const std::string slot = statement.own(kTextOid, identity.slot);
  return "system_id = " + system_id + " AND slot = " + slot;
}

std::uint64_t letter_bytes(const DeadLetter& letter) {
  std::uint64_t bytes = letter.event.table.size() + letter.event.event_id.size() +
                        letter.event.event_type.size() + letter.event.aggregate_id.size() +
                        letter.raw_row.size() + size_of(letter.parked_key);
  if (letter.record != nullptr) {
    bytes +=
        letter.record->topic.size() + size_of(letter.record->key) + size_of(letter.record->value);
    for (const RecordHeader& header : letter.record->headers) {
      bytes += header.name.size() + size_of(header.value);
    }
  }
  return bytes;
}

EncodedLetter encode_letter(const DeadLetter& letter) {
  const KafkaRecord nothing;
  const KafkaRecord& record = letter.record == nullptr ? nothing : *letter.record;
  std::vector<std::optional<std::string_view>> names;
  std::vector<std::optional<std::string_view>> values;
  for (const RecordHeader& header : record.headers) {
    names.emplace_back(header.name);
    values.push_back(header.value);
  }
  constexpr std::uint32_t kAttemptsMax = std::numeric_limits<std::int32_t>::max();
  EncodedLetter encoded;
  encoded.bytes = letter_bytes(letter);
  encoded.retried = letter.attempts > 0;
  encoded.columns = {
      binary_int8(static_cast<std::int64_t>(letter.row.commit_lsn.to_wire())),
      binary_int8(static_cast<std::int64_t>(letter.row.index)),
      binary_timestamptz(letter.commit_time),
      binary_int8(letter.xid),
      std::string(letter.event.table),
      std::string(letter.event.event_id),
      std::string(letter.event.event_type),
      std::string(letter.event.aggregate_id),
      binary_bool(letter.record != nullptr),
      std::string(record.topic),
      record.partition ? std::optional(binary_int4(*record.partition)) : std::nullopt,
      copy_of(record.key),
      copy_of(record.value),
      binary_bytea_array(names),
      binary_bytea_array(values),
      binary_int8(record.timestamp_ms),
      std::string(letter.raw_row),
      binary_int8(static_cast<std::int64_t>(encoded.bytes)),
      std::string(to_string(letter.reason)),
      plain_code(letter.code),
      shortened(letter.message),
      copy_of(letter.parked_key),
      binary_int4(static_cast<std::int32_t>(std::min(letter.attempts, kAttemptsMax))),
  };
  return encoded;
}

Statement insert_statement(const SlotIdentity& identity, const std::vector<LetterToInsert>& letters,
                           std::chrono::milliseconds retry_first) {
  Statement statement;
  std::string names = "system_id, slot";
  for (const LetterColumn& column : kLetterColumns) {
    names += ", " + std::string(column.name);
  }
  const std::string system_id = statement.own(kTextOid, identity.system_id);
  const std::string slot = statement.own(kTextOid, identity.slot);
  const std::string retry = statement.own(kTextOid, interval_text(retry_first));
  std::string rows;
  for (const LetterToInsert& each : letters) {
    rows += (rows.empty() ? "(" : ", (") + system_id + ", " + slot;
    for (std::size_t i = 0; i < kLetterColumns.size(); ++i) {
      rows += ", " + statement.refer(kLetterColumns[i].type_oid, each.letter->columns[i]);
    }
    const std::string failed = "statement_timestamp() - " +
                               statement.own(kTextOid, interval_text(each.waited)) + "::interval";
    rows += ", " + failed + ", " + failed + ", ";
    rows += each.letter->retried ? "statement_timestamp() + " + retry + "::interval)"
                                 : "NULL::timestamptz)";
  }
  statement.sql = "INSERT INTO outrider.dead_letters (" + names +
                  ", first_failure, last_failure, retry_after) VALUES " + rows +
                  " ON CONFLICT ON CONSTRAINT dead_letters_row DO NOTHING";
  return statement;
}

Statement delete_statement(const SlotIdentity& identity, const std::vector<std::int64_t>& numbers) {
  Statement statement;
  const std::string own = own_letters(statement, identity);
  statement.sql = "DELETE FROM outrider.dead_letters WHERE " + own + " AND number = ANY (" +
                  statement.own(kInt8ArrayOid, binary_int8_array(numbers)) + ")";
  return statement;
}

Statement refusal_statement(const SlotIdentity& identity, const RetryOutcome& outcome,
                            std::int64_t token) {
  Statement statement;
  const std::string own = own_letters(statement, identity);
  const std::string mark = statement.own(kInt8Oid, binary_int8(token));
  statement.sql =
      "UPDATE outrider.dead_letters SET attempts = attempts + 1, "
      "last_failure = statement_timestamp(), code = " +
      statement.own(kTextOid, plain_code(outcome.code)) +
      ", message = " + statement.own(kByteaOid, shortened(outcome.message)) +
      ", retry_after = statement_timestamp() + " +
      statement.own(kTextOid, interval_text(outcome.retry_after)) +
      "::interval, last_outcome = " + mark + " WHERE " + own +
      " AND number = " + statement.own(kInt8Oid, binary_int8(outcome.number)) +
      " AND last_outcome IS DISTINCT FROM " + mark;
  return statement;
}

Statement parked_keys_statement(const SlotIdentity& identity, std::uint64_t limit) {
  Statement statement;
  const std::string own = own_letters(statement, identity);
  statement.sql =
      "SELECT DISTINCT ON (parked_key) parked_key, commit_lsn, index_in_transaction "
      "FROM outrider.dead_letters WHERE " +
      own +
      " AND parked_key IS NOT NULL ORDER BY parked_key, commit_lsn, index_in_transaction LIMIT " +
      std::to_string(limit);
  return statement;
}

Statement summary_statement(const SlotIdentity& identity) {
  Statement statement;
  statement.sql =
      "SELECT pg_catalog.count(*) AS letters, pg_catalog.min(first_failure) AS oldest "
      "FROM outrider.dead_letters WHERE " +
      own_letters(statement, identity);
  return statement;
}

std::optional<LetterSummary> read_summary(const QueryResult& rows) {
  if (rows.rows.size() != 1) {
    return std::nullopt;
  }
  const std::optional<std::string>& letters = rows.value(0, "letters");
  const std::optional<std::string>& oldest = rows.value(0, "oldest");
  const std::optional<std::int64_t> count = letters ? read_int8(*letters) : std::nullopt;
  if (!count || *count < 0) {
    return std::nullopt;
  }
  return LetterSummary{static_cast<std::uint64_t>(*count),
                       oldest ? read_timestamptz(*oldest) : std::nullopt};
}

}  // namespace outrider
