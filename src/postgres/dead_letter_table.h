// DeadLetterTable: dead letters in a table of PostgreSQL, the DeadLetterPlace of most pipelines.
//
// One session of its own with synchronous_commit=on, never the stream's, so that a letter is
// durable when its statement has succeeded. Work is done in the order it came; letters that wait
// share a statement. What was under way when a connection broke is done again, which changes
// nothing: a row has one name, an outcome one token. Owns the connection; the loop outlives it.
// Counts the letters every kSummaryInterval, between the work.
// Thread: loop; nothing blocks but name look-up in libpq. Errors of drive(): what somebody has to
// put right (no table, no grant, another version, a server that cannot be written). All else, a
// full disk included, is tried again for ever and named by trouble().
// Limits: letters waiting, by number and bytes (one is always taken); parked keys at open().
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "outrider/base/backoff.h"
#include "outrider/config/config.h"
#include "outrider/loop/event_loop.h"
#include "outrider/relay/dead_letter_place.h"
#include "postgres/connection.h"
#include "postgres/dead_letter_sql.h"
#include "postgres/notes.h"

namespace outrider {

struct DeadLetterTableOptions {
  DsnProvider dsn;
  bool own_dsn = false;  ///< dead_letters.dsn is set; else `dsn` is the source's.
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds reconnect_first{100};
  std::chrono::milliseconds reconnect_max{10'000};
  std::chrono::milliseconds retry_first{5'000};  ///< A new letter is due after so long.
  std::uint32_t attempts_max = 5;
  std::uint64_t parked_keys_max = 10'000;
  std::size_t waiting_letters_max = 1'000;
  std::uint64_t waiting_bytes_max = 8 * 1024 * 1024;
};

/// The options of a pipeline; `dsn` yields dead_letters.dsn, or source.dsn where that is empty.
DeadLetterTableOptions dead_letter_table_options(const PipelineConfig& config, DsnProvider dsn);

class DeadLetterTable final : public DeadLetterPlace {
 public:
  DeadLetterTable(EventLoop& loop, DeadLetterTableOptions options, NoteSink note);

  void open(const SlotIdentity& identity, Now now) override;
  bool ready() const override { return ready_; }
  const std::vector<ParkedKey>& parked_keys() const override { return parked_keys_; }

  Result<> drive(Now now) override;

  Result<ProduceStatus> store(const DeadLetter& letter, std::uint64_t sequence, Now now) override;
  bool next_stored(std::uint64_t& sequence) override;

  void fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t count,
             Now now) override;
  std::optional<std::vector<StoredLetter>> take_fetched() override;

  void resolve(const RetryOutcome& outcome, Now now) override;
  void discard(std::int64_t number, Now now) override;
  std::size_t unresolved() const override { return unresolved_; }

  bool healthy() const override { return ready_ && trouble_.empty(); }
  std::string trouble() const override;
  std::optional<MonoTime> deadline() const override;

  /// How many letters the table holds for this slot, as last asked; nothing while that is not
  /// known: not opened, or no connection.
  const std::optional<LetterSummary>& summary() const { return summary_; }
  MonoTime summary_at() const { return summary_at_; }
  static constexpr std::chrono::seconds kSummaryInterval{10};

  std::size_t waiting_letters() const { return waiting_letters_; }
  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  std::uint64_t reconnects() const { return reconnects_; }

 private:
  struct Store {
    EncodedLetter letter;
    std::uint64_t sequence = 0;
    MonoTime since{};
  };
  struct Remove {
    std::int64_t number = 0;
  };
  struct Refuse {
    RetryOutcome outcome;
    std::int64_t token = 0;
  };
  using Work = std::variant<Store, Remove, Refuse, LetterFetch>;

  /// What the session was asked, or has yet to be asked before work is done in it.
  enum class Step : std::uint8_t { facts, version, parked_keys, work };

  Result<> drive_connection(Now now);
  Result<> ask(Now now);
  Result<> send(const Statement& statement, Now now);
  Result<> send_work(Now now);
  Result<> ask_summary(Now now);
  Statement stores(Now now);
  Statement removals();
  Result<> on_answer(Answer answer, Now now);
  Result<> on_facts(QueryResult rows, Now now);
  Result<> on_parked_keys(const QueryResult& rows);
  Result<> on_work_done(const QueryResult& rows);
  Result<> on_refused(const ServerError& refusal, Now now);
  Result<> on_lost(Error error, Now now);
  Result<> back_off(const Error& error, Now now);
  Error named(Error error) const;
  void finish(Work& work);
  void drop_connection(Now now);
  void recovered();

  DeadLetterTableOptions options_;
  NoteSink note_;
  Connection connection_;
  Backoff backoff_;
  std::mt19937_64 tokens_;
  std::optional<SlotIdentity> identity_;
  std::optional<Error> failure_;
  QueryResult facts_;
  Step step_ = Step::facts;
  bool asking_ = false;
  bool summing_ = false;  ///< What was asked is the summary.
  bool ready_ = false;
  bool heavy_ = false;  ///< libpq keeps its largest buffer until the connection is closed.
  std::vector<ParkedKey> parked_keys_;
  std::deque<Work> work_;
  std::size_t under_way_ = 0;  ///< So many of the first in `work_` are in the statement that runs.
  std::size_t waiting_letters_ = 0;
  std::uint64_t waiting_bytes_ = 0;
  std::size_t unresolved_ = 0;
  std::deque<std::uint64_t> stored_;
  std::optional<std::vector<StoredLetter>> fetched_;
  MonoTime next_try_{};
  MonoTime asked_at_{};
  std::optional<LetterSummary> summary_;
  MonoTime summary_at_{};
  MonoTime next_summary_{};
  std::string trouble_;
  std::uint64_t reconnects_ = 0;
};

}  // namespace outrider
