#include "app/letter_jobs.h"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace outrider {
namespace {

constexpr std::uint32_t kBatch = 200;
/// Removals that may wait for the table before more is read.
constexpr std::size_t kUnresolvedMax = 1'000;
/// Letters that are counted before a retry; more are "more than".
constexpr std::uint64_t kCountMax = 10'000;
constexpr std::chrono::seconds kProgressInterval{1};
/// How long a retry waits for another one to end before it is refused.
constexpr std::chrono::seconds kStartPatience{3};

/// The letters of a filter, one after the other, read in batches.
class LetterCursor {
 public:
  enum class State : std::uint8_t { waiting, letter, end };

  LetterCursor(DeadLetterPlace& place, DeadLetterFilter filter)
      : place_(place), filter_(std::move(filter)) {}

  /// Whether current() is a letter, the end is reached, or the table has not answered yet.
  State look(Now now) {
    if (next_ < batch_.size()) {
      return State::letter;
    }
    if (end_) {
      return State::end;
    }
    if (!reading_) {
      reading_ = true;
      place_.fetch(filter_, after_, kBatch, now);
    }
    std::optional<std::vector<StoredLetter>> letters = place_.take_fetched();
    if (!letters) {
      return State::waiting;
    }
    reading_ = false;
    batch_ = std::move(*letters);
    next_ = 0;
    end_ = batch_.empty();
    return end_ ? State::end : State::letter;
  }
  const StoredLetter& current() const { return batch_[next_]; }
  void step() {
    after_ = batch_[next_].number;
    ++next_;
  }
  /// A fetch is under way; until it is answered no other may begin.
  bool reading() const { return reading_; }
  void take_rest() { reading_ = reading_ && !place_.take_fetched(); }

 private:
  DeadLetterPlace& place_;
  DeadLetterFilter filter_;
  std::vector<StoredLetter> batch_;
  std::size_t next_ = 0;
  std::int64_t after_ = 0;
  bool reading_ = false;
  bool end_ = false;
};

/// What list, discard and retry have in common: client, cursor, progress once a second.
class BaseJob : public LetterJob {
 public:
  BaseJob(ControlServer& server, std::uint64_t session, ControlTarget& target, LetterOrder order,
          Now now)
      : server_(server),
        session_(session),
        target_(target),
        order_(std::move(order)),
        cursor_(*target.letters(), order_.filter),
        progress_at_(now.mono + kProgressInterval) {}

  bool step(bool at_place, Now now) final {
    if (!server_.is_open(session_)) {
      cursor_.take_rest();
      return !cursor_.reading();
    }
    if (at_place) {
      advance(now);
    }
    if (server_.is_open(session_) && now.mono >= progress_at_ && server_.has_room(session_)) {
      progress_at_ = now.mono + kProgressInterval;
      JsonWriter json;
      json.open_object().name("progress").open_object();
      progress(json);
      if (!at_place) {
        json.name("waiting").text("another command reads the dead letters");
      } else if (!target_.letters()->healthy()) {
        json.name("waiting").text(target_.letters()->trouble());
      }
      server_.write_line(session_, json.close_object().close_object().json());
    }
    return !server_.is_open(session_) && !cursor_.reading();
  }

  bool reads() const override { return true; }
  MonoTime deadline() const final { return progress_at_; }

 protected:
  virtual void advance(Now now) = 0;
  virtual void progress(JsonWriter& json) const = 0;

  void fail_with(const Error& error) { server_.finish(session_, control_error_line(error)); }

  template <typename Fill>
  void finish_with(Fill&& fill) {
    JsonWriter json;
    json.open_object().name("result").open_object();
    fill(json);
    server_.finish(session_, json.close_object().close_object().json());
  }

  void write_row(const StoredLetter& letter, bool whole) {
    JsonWriter json;
    json.open_object().name("row");
    append_letter(json, letter, whole);
    server_.write_line(session_, json.close_object().json());
  }

  ControlServer& server_;
  const std::uint64_t session_;
  ControlTarget& target_;
  const LetterOrder order_;
  LetterCursor cursor_;
  MonoTime progress_at_;
};

/// list, show, and --dry-run of the others.
class ListJob final : public BaseJob {
 public:
  using BaseJob::BaseJob;

 private:
  void advance(Now now) override {
    while (server_.has_room(session_)) {
      switch (cursor_.look(now)) {
        case LetterCursor::State::waiting:
          return;
        case LetterCursor::State::letter:
          write_row(cursor_.current(), order_.command == LetterCommand::show);
          cursor_.step();
          ++matched_;
          break;
        case LetterCursor::State::end:
          finish_with([this](JsonWriter& json) {
            json.name("matched").number(matched_).name("dry_run").boolean(order_.dry_run);
          });
          return;
      }
    }
  }
  void progress(JsonWriter& json) const override { json.name("matched").number(matched_); }

  std::uint64_t matched_ = 0;
};

class DiscardJob final : public BaseJob {
 public:
  using BaseJob::BaseJob;

 private:
  void advance(Now now) override {
    // The core's retry and a removal of the same letter must not cross.
    if (discarded_ == 0 && target_.retry_progress().running) {
      fail_with({ErrorKind::transient, "a retry is running", "wait until it is done", {}});
      return;
    }
    DeadLetterPlace& place = *target_.letters();
    while (!all_read_ && place.unresolved() < kUnresolvedMax) {
      const LetterCursor::State state = cursor_.look(now);
      if (state == LetterCursor::State::waiting) {
        return;
      }
      if (state == LetterCursor::State::end) {
        all_read_ = true;
        break;
      }
      place.discard(cursor_.current().number, now);
      cursor_.step();
      ++discarded_;
    }
    if (all_read_ && place.unresolved() == 0) {
      finish_with([this](JsonWriter& json) {
        json.name("matched").number(discarded_).name("discarded").number(discarded_);
      });
    }
  }
  void progress(JsonWriter& json) const override { json.name("discarded").number(discarded_); }

  std::uint64_t discarded_ = 0;
  bool all_read_ = false;
};

/// retry and release: count what is meant, then let the core send it.
class RetryJob final : public BaseJob {
 public:
  using BaseJob::BaseJob;
  bool reads() const override { return !started_; }

 private:
  bool releases() const { return order_.command == LetterCommand::release; }

  void advance(Now now) override {
    if (!counted_) {
      count(now);
    }
    if (counted_ && !started_ && server_.is_open(session_)) {
      start(now);
    }
    if (started_) {
      follow();
    }
  }

  void count(Now now) {
    while (matched_ < kCountMax) {
      const LetterCursor::State state = cursor_.look(now);
      if (state == LetterCursor::State::waiting) {
        return;
      }
      if (state == LetterCursor::State::end) {
        exact_ = true;
        break;
      }
      cursor_.step();
      ++matched_;
    }
    counted_ = true;
  }

  void start(Now now) {
    if (matched_ == 0 && !releases()) {
      finish_with([](JsonWriter& json) { json.name("matched").number(std::uint64_t{0}); });
      return;
    }
    give_up_at_ = give_up_at_.value_or(now.mono + kStartPatience);
    started_ = target_.start_retry({order_.filter, order_.topic, releases()});
    // One letter that an automatic retry has on its way is soon done; a whole run is not.
    if (!started_ && now.mono >= *give_up_at_) {
      fail_with({ErrorKind::transient, "another retry is running", "wait until it is done", {}});
    }
  }

  void follow() {
    const RetryProgress now_at = target_.retry_progress();
    if (now_at.running) {
      return;
    }
    if (now_at.error) {
      fail_with(*now_at.error);
      return;
    }
    finish_with([&](JsonWriter& json) {
      matched(json);
      counts(json, now_at);
    });
  }

  void matched(JsonWriter& json) const {
    json.name("matched").number(matched_).name("matched_exactly").boolean(exact_);
  }

  static void counts(JsonWriter& json, const RetryProgress& progress) {
    json.name("sent").number(progress.delivered + progress.refused + progress.skipped);
    json.name("delivered").number(progress.delivered);
    json.name("refused").number(progress.refused);
    json.name("skipped").number(progress.skipped);
  }

  void progress(JsonWriter& json) const override {
    matched(json);
    if (started_) {
      counts(json, target_.retry_progress());
    }
  }

  std::uint64_t matched_ = 0;
  bool exact_ = false;  ///< Counted to the end.
  bool counted_ = false;
  bool started_ = false;
  std::optional<MonoTime> give_up_at_;
};

std::string time_text(WallTime time) {
  using std::chrono::floor;
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<std::chrono::milliseconds>(time - day));
  char text[48];
  std::snprintf(
      text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4U];
    out += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return out;
}

/// {"text": …} or {"hex": …}, or null.
void append_bytes(JsonWriter& json, const std::optional<std::string>& bytes) {
  if (!bytes) {
    json.null();
  } else if (is_utf8(*bytes)) {
    json.open_object().name("text").text(*bytes).close_object();
  } else {
    json.open_object().name("hex").text(hex(*bytes)).close_object();
  }
}

void append_content(JsonWriter& json, const StoredLetter& letter) {
  json.name("mapped").boolean(letter.mapped);
  if (!letter.mapped) {
    json.name("raw_row");
    append_bytes(json, letter.raw_row);
    return;
  }
  json.name("partition");
  letter.partition ? json.number(std::int64_t{*letter.partition}) : json.null();
  json.name("timestamp_ms").number(letter.timestamp_ms);
  json.name("key");
  append_bytes(json, letter.key);
  json.name("value");
  append_bytes(json, letter.value);
  json.name("headers").open_array();
  for (const auto& [name, value] : letter.headers) {
    json.open_array().text(name);
    append_bytes(json, value);
    json.close_array();
  }
  json.close_array();
}

}  // namespace

void append_letter(JsonWriter& json, const StoredLetter& letter, bool whole) {
  json.open_object().name("number").number(letter.number);
  json.name("reason").text(to_string(letter.reason)).name("code").text(letter.code);
  json.name("message").text(letter.message);
  json.name("attempts").number(std::uint64_t{letter.attempts});
  json.name("table").text(letter.table).name("event_id").text(letter.event_id);
  json.name("event_type").text(letter.event_type);
  json.name("aggregate_id").text(letter.aggregate_id).name("topic").text(letter.topic);
  json.name("parked_key");
  letter.parked_key ? json.text(*letter.parked_key) : json.null();
  json.name("committed_at").text(time_text(letter.commit_time));
  json.name("failed_at");
  letter.failed_at ? json.text(time_text(*letter.failed_at)) : json.null();
  json.name("retry_after");
  letter.retry_after ? json.text(time_text(*letter.retry_after)) : json.null();
  json.name("commit_lsn").text(letter.row.commit_lsn.to_string());
  json.name("row_index").number(letter.row.index);
  if (whole) {
    append_content(json, letter);
  }
  json.close_object();
}

std::unique_ptr<LetterJob> make_letter_job(ControlServer& server, std::uint64_t session,
                                           ControlTarget& target, LetterOrder order, Now now) {
  const LetterCommand command = order.command;
  if (command == LetterCommand::list || command == LetterCommand::show || order.dry_run) {
    return std::make_unique<ListJob>(server, session, target, std::move(order), now);
  }
  if (command == LetterCommand::discard) {
    return std::make_unique<DiscardJob>(server, session, target, std::move(order), now);
  }
  return std::make_unique<RetryJob>(server, session, target, std::move(order), now);
}

}  // namespace outrider
