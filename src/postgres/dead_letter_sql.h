// The statements of the dead-letter table as pure functions: what is sent, and what comes back.
//
// All that stems from a row goes as bytes, so that no content of a row can be refused by the server
// (a zero byte, another encoding); sizes are bounded by kLetterBytesMax, which is checked before.
// Statements name everything with its schema, for a session whose search_path is pg_catalog. The
// table: sql/dead_letters.sql; why it is as it is: docs/adr/0014-dead-letter-table.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/model/dead_letter.h"
#include "outrider/relay/dead_letter_place.h"
#include "outrider/relay/position.h"
#include "postgres/connection.h"
#include "postgres/query_result.h"

namespace outrider {

/// One message to the server holds less than 1 GiB, and so does one row in its memory.
inline constexpr std::uint64_t kLetterBytesMax = 1'000'000'000;

/// A statement whose parameters may point into itself; it can be moved, not copied.
struct Statement {
  std::string sql;
  std::vector<SqlParameter> parameters;
  std::deque<std::string> owned;

  Statement() = default;
  Statement(Statement&&) = default;
  Statement& operator=(Statement&&) = default;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Each adds a parameter and gives back its name, as "$3".
  std::string own(std::uint32_t type_oid, std::string bytes);
  std::string refer(std::uint32_t type_oid, std::optional<std::string_view> bytes);
};

/// "system_id = $1 AND slot = $2", with these parameters added: a relay sees its own letters only.
std::string own_letters(Statement& statement, const SlotIdentity& identity);

/// A letter as the columns that are filled from it, each in binary form.
struct EncodedLetter {
  std::vector<std::optional<std::string>> columns;
  std::uint64_t bytes = 0;
  bool retried = false;  ///< Failed itself, so a time of the next attempt makes sense.
};

/// The bytes of the row in the letter: what kLetterBytesMax and kFetchBytesMax count.
std::uint64_t letter_bytes(const DeadLetter& letter);

EncodedLetter encode_letter(const DeadLetter& letter);

struct LetterToInsert {
  const EncodedLetter* letter = nullptr;
  std::chrono::milliseconds waited{0};  ///< Since the refusal.
};

/// Store letters in the given order; a row that is there already is left as it is. The letters must
/// live until the statement is sent.
Statement insert_statement(const SlotIdentity& identity, const std::vector<LetterToInsert>& letters,
                           std::chrono::milliseconds retry_first);

struct LetterFetch {
  DeadLetterFilter filter;
  std::int64_t after = 0;
  std::uint32_t count = 0;
  std::uint32_t attempts_max = 0;  ///< Only for due_only.
};

/// With due_only a letter of a parked key counts only if every earlier letter of its key is due.
Statement fetch_statement(const SlotIdentity& identity, const LetterFetch& fetch);

Result<std::vector<StoredLetter>> read_letters(const QueryResult& rows);

Statement delete_statement(const SlotIdentity& identity, const std::vector<std::int64_t>& numbers);

/// `token` is kept with the letter: the same outcome sent twice counts as one attempt.
Statement refusal_statement(const SlotIdentity& identity, const RetryOutcome& outcome,
                            std::int64_t token);

/// Each parked key once with the first row of it; at most `limit`.
Statement parked_keys_statement(const SlotIdentity& identity, std::uint64_t limit);

Result<std::vector<ParkedKey>> read_parked_keys(const QueryResult& rows);

/// How many letters of this slot there are.
struct LetterSummary {
  std::uint64_t letters = 0;
  std::optional<WallTime> oldest;  ///< first_failure of the oldest one.
};

Statement summary_statement(const SlotIdentity& identity);

/// Nothing for rows of another form.
std::optional<LetterSummary> read_summary(const QueryResult& rows);

}  // namespace outrider
