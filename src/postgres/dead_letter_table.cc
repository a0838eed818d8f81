#include "postgres/dead_letter_table.h"

#include <algorithm>
#include <utility>

#include "outrider/base/check.h"
#include "postgres/dead_letter_facts.h"

namespace outrider {
namespace {

constexpr char kApplicationName[] = "outrider_dead_letters";
constexpr std::size_t kStatementLettersMax = 64;
constexpr std::uint64_t kStatementBytesMax = 4 * 1024 * 1024;
constexpr std::size_t kStatementRemovalsMax = 1000;
/// Above this a connection is not worth its buffers once the work is done.
constexpr std::uint64_t kHeavyBytes = 2 * kStatementBytesMax;
/// A statement that takes longer is shown as trouble; one that takes much longer is given up.
constexpr std::chrono::seconds kSlow{10};
constexpr std::chrono::seconds kStatementTimeout{60};
constexpr std::uint64_t kSlowestBytesPerSecond = 256 * 1024;
/// Counting the letters may take one part of so many of the session's time.
constexpr int kSummaryCost = 50;

ConnectionOptions connection_options(const DeadLetterTableOptions& options) {
  ConnectionOptions out;
  out.dsn = options.dsn;
  out.application_name = kApplicationName;
  out.connect_timeout = options.connect_timeout;
  out.durable_writes = true;
  out.dsn_name = options.own_dsn ? "dead_letters.dsn" : "source.dsn";
  return out;
}

std::uint64_t bytes_of(const Statement& statement) {
  std::uint64_t bytes = statement.sql.size();
  for (const SqlParameter& parameter : statement.parameters) {
    bytes += parameter.bytes ? parameter.bytes->size() : 0;
  }
  return bytes;
}

std::uint64_t bytes_of(const QueryResult& rows) {
  std::uint64_t bytes = 0;
  for (const auto& row : rows.rows) {
    for (const auto& value : row) {
      bytes += value ? value->size() : 0;
    }
  }
  return bytes;
}

/// A refusal that the same statement would meet again: our table is not as it was made, or a value
/// does not fit it. Everything is done so that it cannot happen.
bool blames_the_table(const std::string& sqlstate) {
  for (const char* prefix : {"21", "22", "23", "3F", "42"}) {
    if (sqlstate.starts_with(prefix)) {
      return true;
    }
  }
  return false;
}

}  // namespace

DeadLetterTableOptions dead_letter_table_options(const PipelineConfig& config, DsnProvider dsn) {
  DeadLetterTableOptions options;
  options.dsn = std::move(dsn);
  options.own_dsn = !config.dead_letters.dsn.empty();
  options.connect_timeout = std::chrono::milliseconds(config.source.connect_timeout_ms);
  options.reconnect_first = std::chrono::milliseconds(config.source.reconnect_first_ms);
  options.reconnect_max = std::chrono::milliseconds(config.source.reconnect_max_ms);
  options.retry_first = std::chrono::milliseconds(config.dead_letters.retry_first_ms);
  options.attempts_max = static_cast<std::uint32_t>(config.dead_letters.max_attempts);
  options.parked_keys_max = static_cast<std::uint64_t>(config.dead_letters.parked_keys_max);
  return options;
}

DeadLetterTable::DeadLetterTable(EventLoop& loop, DeadLetterTableOptions options, NoteSink note)
    : options_(std::move(options)),
      note_(std::move(note)),
      connection_(loop, connection_options(options_)),
      backoff_(options_.reconnect_first, options_.reconnect_max, std::random_device{}()),
      tokens_((std::uint64_t{std::random_device{}()} << 32) | std::random_device{}()) {}

void DeadLetterTable::open(const SlotIdentity& identity, Now now) {
  if (!identity_) {
    identity_ = identity;
    next_try_ = now.mono;
    return;
  }
  if (identity.system_id != identity_->system_id || identity.slot != identity_->slot) {
    failure_ = Error{ErrorKind::fatal,
                     "the dead letters are those of slot \"" + identity_->slot + "\" of server " +
                         identity_->system_id + ", and the stream now is of \"" + identity.slot +
                         "\" of server " + identity.system_id,
                     "start the relay anew", ""};
  }
}

Result<> DeadLetterTable::drive(Now now) {
  if (!identity_) {
    return {};
  }
  if (failure_) {
    return fail(*failure_);
  }
  return drive_connection(now);
}

Result<> DeadLetterTable::drive_connection(Now now) {
  if (connection_.state() == Connection::State::closed) {
    if (now.mono < next_try_) {
      return {};
    }
    step_ = Step::facts;
    asking_ = false;
    if (Result<> opened = connection_.open(now); !opened) {
      return on_lost(opened.error(), now);
    }
  }
  if (Result<> driven = connection_.drive(now); !driven) {
    return on_lost(driven.error(), now);
  }
  if (connection_.state() != Connection::State::idle) {
    if (asking_ && trouble_.empty() && now.mono - asked_at_ >= kSlow) {
      trouble_ = "the server with the dead-letter table has not answered for " +
                 std::to_string(kSlow.count()) +
                 " s (a lock, a slow disk, or a synchronous standby that is gone)";
      note_(SourceNote{LogLevel::warn, trouble_, {}});
    }
    return {};
  }
  if (std::optional<Answer> answer = connection_.take_answer(); answer && asking_) {
    asking_ = false;
    OUTRIDER_TRY(on_answer(std::move(*answer), now));
  }
  const bool idle = connection_.state() == Connection::State::idle;
  return idle && now.mono >= next_try_ ? ask(now) : Result<>();
}

Result<> DeadLetterTable::ask(Now now) {
  Statement statement;
  switch (step_) {
    case Step::facts:
      statement.sql = dead_letter_facts_sql();
      break;
    case Step::version:
      statement.sql = dead_letter_version_sql();
      break;
    case Step::parked_keys:
      statement = parked_keys_statement(*identity_, options_.parked_keys_max + 1);
      break;
    case Step::work:
      return work_.empty() ? ask_summary(now) : send_work(now);
  }
  return send(statement, now);
}

// Facts and version are read as text, everything with parameters in binary form.
Result<> DeadLetterTable::send(const Statement& statement, Now now) {
  const std::uint64_t bytes = bytes_of(statement);
  const auto timeout = kStatementTimeout + std::chrono::seconds(bytes / kSlowestBytesPerSecond);
  heavy_ = heavy_ || bytes > kHeavyBytes;
  asking_ = true;
  asked_at_ = now.mono;
  Result<> sent = statement.parameters.empty()
                      ? connection_.send(statement.sql, now, timeout)
                      : connection_.send(statement.sql, statement.parameters, now, timeout);
  return sent ? Result<>() : on_lost(sent.error(), now);
}

// A table so large that counting it takes long is counted the less often.
Result<> DeadLetterTable::ask_summary(Now now) {
  if (now.mono < next_summary_) {
    return {};
  }
  summing_ = true;
  next_summary_ = now.mono + kSummaryInterval;
  return send(summary_statement(*identity_), now);
}

Result<> DeadLetterTable::send_work(Now now) {
  const Work& first = work_.front();
  if (std::holds_alternative<Store>(first)) {
    return send(stores(now), now);
  }
  if (std::holds_alternative<Remove>(first)) {
    return send(removals(), now);
  }
  under_way_ = 1;
  if (const auto* refuse = std::get_if<Refuse>(&first)) {
    return send(refusal_statement(*identity_, refuse->outcome, refuse->token), now);
  }
  return send(fetch_statement(*identity_, std::get<LetterFetch>(first)), now);
}

Statement DeadLetterTable::stores(Now now) {
  std::vector<LetterToInsert> letters;
  std::uint64_t bytes = 0;
  for (const Work& each : work_) {
    const auto* store = std::get_if<Store>(&each);
    if (store == nullptr || letters.size() == kStatementLettersMax ||
        (!letters.empty() && bytes + store->letter.bytes > kStatementBytesMax)) {
      break;
    }
    bytes += store->letter.bytes;
    letters.push_back({&store->letter, std::chrono::duration_cast<std::chrono::milliseconds>(
                                           now.mono - store->since)});
  }
  under_way_ = letters.size();
  return insert_statement(*identity_, letters, options_.retry_first);
}

Statement DeadLetterTable::removals() {
  std::vector<std::int64_t> numbers;
  for (const Work& each : work_) {
    const auto* remove = std::get_if<Remove>(&each);
    if (remove == nullptr || numbers.size() == kStatementRemovalsMax) {
      break;
    }
    numbers.push_back(remove->number);
  }
  under_way_ = numbers.size();
  return delete_statement(*identity_, numbers);
}

Result<> DeadLetterTable::on_answer(Answer answer, Now now) {
  if (answer.error) {
    return on_refused(*answer.error, now);
  }
  switch (step_) {
    case Step::facts:
      return on_facts(std::move(answer.rows), now);
    case Step::version:
      OUTRIDER_TRY(judge_dead_letter_version(answer.rows, facts_, options_.own_dsn));
      step_ = ready_ ? Step::work : Step::parked_keys;
      break;
    case Step::parked_keys:
      OUTRIDER_TRY(on_parked_keys(answer.rows));
      break;
    case Step::work:
      if (std::exchange(summing_, false)) {
        summary_ = read_summary(answer.rows);
        summary_at_ = asked_at_;
        next_summary_ = std::max(next_summary_, now.mono + kSummaryCost * (now.mono - asked_at_));
      } else {
        OUTRIDER_TRY(on_work_done(answer.rows));
      }
      backoff_.reset();
      break;
  }
  if (step_ == Step::work) {
    recovered();
    if (heavy_ && work_.empty()) {
      drop_connection(now);
    }
  }
  return {};
}

Result<> DeadLetterTable::on_facts(QueryResult rows, Now now) {
  facts_ = std::move(rows);
  Result<> judged = judge_dead_letter_facts(facts_, options_.own_dsn);
  if (!judged) {
    // Whoever could be written once is being replaced, or its disk is full: wait for that to pass.
    if (!ready_ || judged.error().code != "25006") {
      return judged;
    }
    drop_connection(now);
    return back_off(judged.error(), now);
  }
  step_ = Step::version;
  return {};
}

Result<> DeadLetterTable::on_parked_keys(const QueryResult& rows) {
  if (rows.rows.size() > options_.parked_keys_max) {
    return fail(ErrorKind::configuration,
                "the dead-letter table holds more than " +
                    std::to_string(options_.parked_keys_max) + " parked keys of this slot",
                "raise dead_letters.parked_keys_max");
  }
  OUTRIDER_TRY(parked_keys_, read_parked_keys(rows));
  ready_ = true;
  step_ = Step::work;
  return {};
}

Result<> DeadLetterTable::on_work_done(const QueryResult& rows) {
  OUTRIDER_CHECK(under_way_ > 0 && under_way_ <= work_.size(), "an answer has its work");
  if (std::holds_alternative<LetterFetch>(work_.front())) {
    heavy_ = heavy_ || bytes_of(rows) > kHeavyBytes;
    OUTRIDER_TRY(fetched_, read_letters(rows));
  }
  for (; under_way_ > 0; --under_way_) {
    finish(work_.front());
    work_.pop_front();
  }
  return {};
}

void DeadLetterTable::finish(Work& work) {
  if (const auto* store = std::get_if<Store>(&work)) {
    stored_.push_back(store->sequence);
    --waiting_letters_;
    waiting_bytes_ -= store->letter.bytes;
  } else if (!std::holds_alternative<LetterFetch>(work)) {
    --unresolved_;
  }
}

Result<> DeadLetterTable::on_refused(const ServerError& refusal, Now now) {
  under_way_ = 0;
  summing_ = false;
  Error error = named(classify_server_error("the dead-letter table cannot be used", refusal));
  if (error.code == "25006" && ready_) {
    drop_connection(now);  // Another host of the list may be the primary now.
    return back_off(error, now);
  }
  if (blames_the_table(error.code)) {
    error.kind = ErrorKind::configuration;
    error.hint = facts_.rows.empty() ? "" : dead_letter_install_hint(facts_, options_.own_dsn);
  }
  return error.kind == ErrorKind::transient ? back_off(error, now) : fail(std::move(error));
}

Result<> DeadLetterTable::on_lost(Error error, Now now) {
  ++reconnects_;
  drop_connection(now);
  error = named(std::move(error));
  return error.kind == ErrorKind::transient ? back_off(error, now) : fail(std::move(error));
}

Result<> DeadLetterTable::back_off(const Error& error, Now now) {
  next_try_ = now.mono + backoff_.next();
  const bool is_new = trouble_.empty();
  trouble_ = "the dead-letter table cannot be reached: " + describe(error);
  if (is_new) {
    note_(SourceNote{LogLevel::warn,
                     "dead-letter table cannot be used, trying again",
                     {{"error", describe(error)}}});
  }
  return {};
}

/// Hints speak of the source's dsn; this session may have another.
Error DeadLetterTable::named(Error error) const {
  constexpr std::string_view kSource = "source.dsn";
  const std::size_t at = error.hint.find(kSource);
  if (options_.own_dsn && at != std::string::npos) {
    error.hint.replace(at, kSource.size(), "dead_letters.dsn");
  }
  return error;
}

void DeadLetterTable::drop_connection(Now now) {
  connection_.close();
  asking_ = heavy_ = summing_ = false;
  summary_.reset();
  next_summary_ = MonoTime{};
  under_way_ = 0;
  step_ = Step::facts;
  next_try_ = now.mono;
}

void DeadLetterTable::recovered() {
  if (work_.empty()) {
    backoff_.reset();
  }
  if (!trouble_.empty()) {
    trouble_.clear();
    note_(SourceNote{LogLevel::info, "dead-letter table can be used again", {}});
  }
}

Result<ProduceStatus> DeadLetterTable::store(const DeadLetter& letter, std::uint64_t sequence,
                                             Now now) {
  const std::uint64_t bytes = letter_bytes(letter);
  if (bytes > kLetterBytesMax) {
    return fail(
        ErrorKind::fatal,
        "a dead letter of " + std::to_string(bytes) + " bytes is larger than a row of PostgreSQL",
        "set dead_letters.on_poison: stop and take the row out of the outbox");
  }
  const bool full = waiting_letters_ > 0 && (waiting_letters_ >= options_.waiting_letters_max ||
                                             waiting_bytes_ + bytes > options_.waiting_bytes_max);
  if (!ready_ || full) {
    return ProduceStatus::busy;
  }
  work_.emplace_back(Store{encode_letter(letter), sequence, now.mono});
  ++waiting_letters_;
  waiting_bytes_ += bytes;
  return ProduceStatus::accepted;
}

bool DeadLetterTable::next_stored(std::uint64_t& sequence) {
  if (stored_.empty()) {
    return false;
  }
  sequence = stored_.front();
  stored_.pop_front();
  return true;
}

void DeadLetterTable::fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t count,
                            Now /*now*/) {
  fetched_.reset();
  work_.emplace_back(LetterFetch{filter, after, count, options_.attempts_max});
}

std::optional<std::vector<StoredLetter>> DeadLetterTable::take_fetched() {
  return std::exchange(fetched_, std::nullopt);
}

void DeadLetterTable::resolve(const RetryOutcome& outcome, Now now) {
  if (outcome.delivered) {
    discard(outcome.number, now);
    return;
  }
  ++unresolved_;
  work_.emplace_back(Refuse{outcome, static_cast<std::int64_t>(tokens_())});
}

void DeadLetterTable::discard(std::int64_t number, Now /*now*/) {
  ++unresolved_;
  work_.emplace_back(Remove{number});
}

std::string DeadLetterTable::trouble() const {
  if (!trouble_.empty() || ready_) {
    return trouble_;
  }
  return "the dead-letter table is not open yet";
}

std::optional<MonoTime> DeadLetterTable::deadline() const {
  if (!identity_) {
    return std::nullopt;
  }
  switch (connection_.state()) {
    case Connection::State::closed:
      return next_try_;
    case Connection::State::idle:
      return step_ == Step::work && work_.empty() ? std::max(next_try_, next_summary_) : next_try_;
    default:
      break;
  }
  std::optional<MonoTime> deadline = connection_.deadline();
  if (asking_ && trouble_.empty()) {
    deadline = std::min(deadline.value_or(MonoTime::max()), asked_at_ + kSlow);
  }
  return deadline;
}

}  // namespace outrider
