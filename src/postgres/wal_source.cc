#include "postgres/wal_source.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "outrider/base/check.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// A server that shuts down asks for replies tens of thousands of times a second.
constexpr milliseconds kReplyGap{5};
constexpr milliseconds kSlotTimeout{30'000};
/// So long a row waits for a look at the catalogue; then it goes on, and the look comes when it
/// can.
constexpr milliseconds kLookPatience{2'000};

ConnectionOptions connection_options(const SourceConfig& source, const DsnProvider& dsn,
                                     bool replication) {
  ConnectionOptions options;
  options.dsn = dsn;
  options.replication = replication;
  options.application_name =
      replication ? walsender_application_name(source.slot) : "outrider_control";
  options.connect_timeout = milliseconds(source.connect_timeout_ms);
  options.dead_after = milliseconds(2 * source.silence_probe_ms);
  options.lock_timeout = milliseconds(source.lock_timeout_ms);
  options.wal_sender_timeout = milliseconds(source.wal_sender_timeout_ms);
  return options;
}

/// Passes when the server is up again or has room, however often it comes.
bool passes_by_itself(std::string_view code) {
  return code.starts_with("57") || code.starts_with("08") || code.starts_with("53") ||
         code.starts_with("55");
}

std::optional<MonoTime> earlier(std::optional<MonoTime> a, std::optional<MonoTime> b) {
  return a && b ? std::min(*a, *b) : (a ? a : b);
}

}  // namespace

Result<std::unique_ptr<WalSource>> WalSource::create(EventLoop& loop, const SourceConfig& source,
                                                     const OutboxConfig& outbox,
                                                     const RouteConfig& route,
                                                     const DsnProvider& dsn, NoteSink note,
                                                     bool leave_nothing) {
  Result<PartitionMap> partitions = PartitionMap::create(source.former_partitions);
  if (!partitions) {
    return fail(std::move(partitions).error());
  }
  return std::unique_ptr<WalSource>(new WalSource(loop, source, outbox, route, dsn, std::move(note),
                                                  std::move(*partitions), leave_nothing));
}

WalSource::WalSource(EventLoop& loop, const SourceConfig& source, const OutboxConfig& outbox,
                     const RouteConfig& route, const DsnProvider& dsn, NoteSink note,
                     PartitionMap partitions, bool leave_nothing)
    : source_(source),
      outbox_(outbox),
      route_(route),
      note_(std::move(note)),
      leave_nothing_(leave_nothing),
      control_(loop, connection_options(source, dsn, false)),
      stream_(loop, connection_options(source, dsn, true),
              std::chrono::microseconds(source.read_pause_us)),
      catalog_(source, outbox),
      slot_watch_(source_.slot, milliseconds(source_.watch_interval_ms), note_),
      watch_(control_, source_, catalog_, slot_watch_, note_),
      partitions_(std::move(partitions)),
      silence_(milliseconds(source.silence_probe_ms)),
      application_name_(walsender_application_name(source.slot)) {}

void WalSource::note(LogLevel level, std::string message,
                     std::vector<std::pair<std::string, std::string>> fields) const {
  note_(SourceNote{level, std::move(message), std::move(fields)});
}

void WalSource::close() {
  stream_.close();
  control_.close();
  watch_.end();
  slot_watch_.lost();
  slot_asked_ = false;
  preflight_.reset();
  held_.reset();
  held_for_look_.reset();
  deferred_reply_.reset();
  start_pending_ = false;
  step_ = Step::closed;
}

tl::unexpected<Error> WalSource::close_with(Error error) {
  error = with_last_good(judge_repeated(std::move(error)));
  close();
  return fail(std::move(error));
}

// What preflight refuses at a reconnect may have been so for a while.
Error WalSource::with_last_good(Error error) const {
  std::optional<Lsn> good = catalog_.last_good();
  if (good && step_ == Step::preflight && error.kind == ErrorKind::configuration &&
      error.code.empty()) {
    error.message += "; the catalogue was last seen good at " + good->to_string() +
                     ", and rows written since may never arrive";
  }
  return error;
}

// A row that the server cannot decode ends the stream each time it is reached. It must not be
// skipped, and to try for ever would only hide it.
Error WalSource::judge_repeated(Error error) {
  bool in_stream = step_ == Step::streaming || step_ == Step::starting;
  if (!in_stream || error.kind != ErrorKind::transient || error.code.empty() ||
      passes_by_itself(error.code)) {
    return error;
  }
  same_errors_ = error.code == error_code_ && furthest_ == error_at_ ? same_errors_ + 1 : 1;
  error_code_ = error.code;
  error_at_ = furthest_;
  if (same_errors_ >= kSameErrorMax) {
    error.kind = ErrorKind::fatal;
    error.message = "the server failed " + std::to_string(same_errors_) +
                    " times at the same place (" + furthest_.to_string() + "): " + error.message;
    if (error.hint.empty()) {
      error.hint = "see the server's log for the row or setting at fault; nothing was skipped";
    }
  }
  return error;
}

Result<> WalSource::drive(Now now) {
  if (step_ == Step::closed) {
    return {};
  }
  bool streams = step_ == Step::streaming || step_ == Step::finishing;
  if (Result<> driven = streams ? drive_streaming(now) : drive_opening(now); !driven) {
    return close_with(std::move(driven).error());
  }
  return {};
}

Result<> WalSource::ask_about_slot(Now now) {
  if (control_.state() != Connection::State::idle || !slot_watch_.due(now.mono)) {
    return {};
  }
  slot_asked_ = true;
  return control_.send(slot_watch_.ask(control_.server_version(), now), now, kSlotTimeout);
}

bool WalSource::take_slot_answer(const Answer& answer) {
  if (!std::exchange(slot_asked_, false)) {
    return false;
  }
  slot_watch_.take(answer);
  return true;
}

Result<> WalSource::drive_streaming(Now now) {
  OUTRIDER_TRY(stream_.drive(now));
  if (step_ == Step::finishing) {
    return {};
  }
  OUTRIDER_TRY(watch_.drive(now));
  // A stream from a standby outlives its promotion.
  if (watch_.timeline() > identity_.timeline) {
    note(LogLevel::warn, "the server was promoted while it streams to us",
         {{"timeline", std::to_string(watch_.timeline())}});
    identity_.timeline = watch_.timeline();
  }
  return judge_silence(now);
}

Result<> WalSource::judge_silence(Now now) {
  if (!reading_ || held_) {
    silence_.restart(now.mono);
    return {};
  }
  WalsenderActivity activity = watch_.activity_since(silence_.overdue_since());
  switch (silence_.judge(now.mono, stream_.last_heard(), activity)) {
    case SilenceJudge::Verdict::fine:
      return {};
    case SilenceJudge::Verdict::probe:
      return stream_.send_status(last_status_, true, now);
    case SilenceJudge::Verdict::ask:
      watch_.ask_now(now);
      return {};
    case SilenceJudge::Verdict::dead:
      break;
  }
  return fail(ErrorKind::transient, "the server has been silent for " +
                                        std::to_string(2 * source_.silence_probe_ms) +
                                        " ms and does not answer: the link is dead");
}

Result<bool> WalSource::next(Change& change, Now now) {
  if (step_ != Step::streaming && step_ != Step::finishing) {
    return false;
  }
  if (start_pending_) {
    start_pending_ = false;
    catalog_.begin({plan_.plugin, plan_.server_version_num, started_from_, slot_created_now_});
    watch_.watch_catalog(now);
    change = StreamStart{started_from_,    milliseconds(plan_.wal_sender_timeout_ms),
                         waited_,          slot_created_now_,
                         server_wal_end_,  plan_.confirmed_flush_lsn,
                         slot_restart_lsn_};
    return true;
  }
  if (deferred_reply_ && now.mono >= reply_allowed_) {
    change = *std::exchange(deferred_reply_, std::nullopt);
    reply_allowed_ = now.mono + kReplyGap;
    return true;
  }
  table_at_fault_ = false;
  Result<bool> given = held_ ? on_held(change, now) : pull_change(change, now);
  if (!given && given.error().kind != ErrorKind::poison && !table_at_fault_) {
    return close_with(std::move(given).error());
  }
  return given;
}

Result<bool> WalSource::pull_change(Change& change, Now now) {
  for (;;) {
    auto pulled = receive_time_.run([&] { return stream_.pull(now); });
    if (!pulled) {
      return fail(explain_stream_error(std::move(pulled).error(), source_, plan_));
    }
    switch (pulled->what) {
      case ReplicationStream::Pulled::What::nothing:
        return false;
      case ReplicationStream::Pulled::What::ended:
        close();
        change = StreamEnd{};
        return true;
      case ReplicationStream::Pulled::What::message:
        break;
    }
    OUTRIDER_TRY(bool given, on_message(pulled->message, change, now));
    if (given || held_) {
      return given;
    }
  }
}

Result<bool> WalSource::on_message(std::span<char> message, Change& change, Now now) {
  OUTRIDER_TRY(ServerMessage parsed, parse_server_message(message));
  if (const auto* keepalive = std::get_if<PrimaryKeepalive>(&parsed)) {
    return on_keepalive(*keepalive, change, now);
  }
  const XLogData& data = std::get<XLogData>(parsed);
  furthest_ = std::max(furthest_, data.wal_start);
  Result<Change> decoded =
      decode_time_.run([&] { return decoder_->decode(data.wal_start, data.payload); });
  if (!decoded) {
    refused_bytes_ = {data.payload.data(), data.payload.size()};
    return fail(std::move(decoded).error());
  }
  change = *decoded;
  return on_change(change, now);
}

/// A request for a reply inside the gap is kept for later, never forgotten.
bool WalSource::on_keepalive(const PrimaryKeepalive& keepalive, Change& change, Now now) {
  bool reply = keepalive.reply_requested;
  if (reply && now.mono < reply_allowed_) {
    deferred_reply_ = Keepalive{keepalive.wal_end, true};
    return false;
  }
  if (reply) {
    reply_allowed_ = now.mono + kReplyGap;
    deferred_reply_.reset();
  }
  change = Keepalive{keepalive.wal_end, reply};
  return true;
}

Result<bool> WalSource::on_change(Change& change, Now now) {
  if (const auto* begin = std::get_if<Begin>(&change)) {
    transaction_ = begin->commit_lsn;
    return true;
  }
  auto* insert = std::get_if<Insert>(&change);
  if (insert == nullptr || !plan_.follows_all_tables) {
    return insert == nullptr || !must_look_first(*insert, now);
  }
  Result<PartitionMap::Place> place = partitions_.place(*insert->relation);
  table_at_fault_ = !place;
  if (!place) {
    return fail(std::move(place).error());
  }
  if (place->kind == PartitionMap::Kind::unknown) {
    held_ = *insert;
    apply_reading();
    watch_.look_up(PartitionMap::lookup_sql(insert->relation->name));
    return false;
  }
  insert->root = place->root;
  return true;
}

// Under pgoutput a renamed table's rows come under the new name, and a swapped or re-added one
// brings a new layout: look before what lies behind can be confirmed.
bool WalSource::must_look_first(const Insert& insert, Now now) {
  if (plan_.plugin != Plugin::pgoutput || !catalog_.needs_look(*insert.relation)) {
    return false;
  }
  held_ = insert;
  held_for_look_ = now.mono;
  apply_reading();
  watch_.look_now(now);
  return true;
}

Result<bool> WalSource::on_held(Change& change, Now now) {
  if (!held_for_look_) {
    return on_lookup(change);
  }
  if (!watch_.looked_since(*held_for_look_) && now.mono < *held_for_look_ + kLookPatience) {
    return false;
  }
  held_for_look_.reset();
  change = *std::exchange(held_, std::nullopt);
  apply_reading();
  return true;
}

Result<bool> WalSource::on_lookup(Change& change) {
  std::optional<QueryResult> rows = watch_.take_lookup();
  if (!rows) {
    return false;
  }
  Insert insert = *std::exchange(held_, std::nullopt);
  apply_reading();
  Result<PartitionMap::Place> place = partitions_.learn(*insert.relation, *rows, transaction_);
  table_at_fault_ = !place;
  if (!place) {
    return fail(std::move(place).error());
  }
  insert.root = place->root;
  change = insert;
  return true;
}

void WalSource::set_reading(bool on) {
  reading_ = on;
  apply_reading();
}

/// While a row waits for the catalogue, what lies behind it must not wake anybody.
void WalSource::apply_reading() { stream_.set_reading(reading_ && !held_); }

Result<> WalSource::send_status(const StandbyStatus& status, Now now) {
  OUTRIDER_CHECK(step_ == Step::streaming, "a status needs a stream");
  OUTRIDER_CHECK(status.flushed_lsn >= told_flushed_lsn_, "a confirmed position never goes back");
  told_flushed_lsn_ = status.flushed_lsn;
  last_status_ = status;
  if (Result<> sent = stream_.send_status(status, false, now); !sent) {
    return close_with(std::move(sent).error());
  }
  return {};
}

void WalSource::finish() {
  OUTRIDER_CHECK(step_ == Step::streaming, "only a stream can be finished");
  step_ = Step::finishing;
  deferred_reply_.reset();
  held_.reset();
  held_for_look_.reset();
  // A failure shows when the answer is read.
  (void)stream_.finish();
}

SourceState WalSource::state() const {
  switch (step_) {
    case Step::closed:
      return SourceState::closed;
    case Step::waiting:
      return SourceState::waiting;
    case Step::asking:
      return SourceState::asking;
    case Step::streaming:
      return SourceState::streaming;
    case Step::finishing:
      return SourceState::finishing;
    default:
      return SourceState::opening;
  }
}

bool WalSource::has_buffered() const {
  if (step_ != Step::streaming && step_ != Step::finishing) {
    return false;
  }
  return start_pending_ || (!held_ && stream_.has_buffered());
}

std::optional<MonoTime> WalSource::deadline() const {
  switch (step_) {
    case Step::closed:
      return std::nullopt;
    case Step::streaming: {
      std::optional<MonoTime> at = earlier(stream_.deadline(), watch_.deadline());
      if (reading_ && !held_) {
        at = earlier(at, silence_.deadline());
      }
      if (held_for_look_) {
        at = earlier(at, *held_for_look_ + kLookPatience);
      }
      return deferred_reply_ ? earlier(at, reply_allowed_) : at;
    }
    case Step::finishing:
      return stream_.deadline();
    default: {
      if (control_.state() == Connection::State::closed) {
        return MonoTime{};  // drive() has to begin.
      }
      std::optional<MonoTime> at = earlier(control_.deadline(), stream_.connection().deadline());
      bool polls = step_ == Step::waiting || step_ == Step::creating_slot;
      const bool idle = control_.state() == Connection::State::idle;
      if (step_ == Step::waiting && idle) {
        at = earlier(at, slot_watch_.deadline());
      }
      return polls && idle ? earlier(at, next_poll_) : at;
    }
  }
}

}  // namespace outrider
