#include "outrider/relay/dead_letter_retry.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// Rows get at least so long between two retries.
constexpr milliseconds kRest{5};
constexpr milliseconds kAutomaticInterval{1'000};
constexpr std::size_t kLayoutsMax = 256;
/// Layout ids of stored rows; the decoders count from 1.
constexpr std::uint64_t kStoredLayouts = 1ULL << 63;

milliseconds backoff(const DeadLetterConfig& config, std::uint32_t attempts) {
  std::int64_t delay = config.retry_first_ms;
  for (std::uint32_t i = 1; i < attempts && delay < config.retry_max_ms; ++i) {
    delay *= 2;
  }
  return milliseconds(std::min(delay, config.retry_max_ms));
}

}  // namespace

DeadLetterRetry::DeadLetterRetry(RecordMapper& mapper, const DeadLetterConfig& config)
    : mapper_(mapper), config_(config) {
  automatic_ = config.automatic_retry == AutomaticRetry::on ||
               (config.automatic_retry == AutomaticRetry::automatic &&
                config.on_poison == OnPoison::park_key);
}

bool DeadLetterRetry::start(RetryRequest request) {
  if (job_ && !job_->automatic) {
    return false;
  }
  if (fetching_ || (job_ && sent_)) {
    return false;  // An automatic one is under way; ask again in a moment.
  }
  letters_.clear();
  record_.reset();
  waiting_.clear();
  progress_ = RetryProgress{};
  progress_.running = true;
  job_ = Job{std::move(request), false, 0};
  return true;
}

void DeadLetterRetry::begin_job(Now now) {
  if (!waiting_.empty()) {
    const bool automatic = job_ && job_->automatic;
    job_ = Job{std::move(waiting_.front()), automatic, 0};
    waiting_.pop_front();
    return;
  }
  job_.reset();
  progress_.running = false;
  next_automatic_ = now.mono + kAutomaticInterval;
}

void DeadLetterRetry::drive(DeadLetterPlace& place, std::uint64_t letters_on_their_way, Now now) {
  if (fetching_) {
    auto fetched = place.take_fetched();
    if (!fetched) {
      return;
    }
    fetching_ = false;
    if (!job_) {
      return;
    }
    const bool none_left = fetched->empty();
    take_batch(std::move(*fetched));
    if (none_left) {
      // A row may have been parked since the question was asked: then it is asked again.
      if (job_->request.release_key && (key_grew_ || letters_on_their_way > 0)) {
        return;
      }
      if (job_->request.release_key) {
        released_.push_back(job_->request.filter.parked_key);
      }
      end_job(now);
    }
  }
  if (!job_ && automatic_ && now.mono >= next_automatic_) {
    RetryRequest due;
    due.filter.due_only = true;
    job_ = Job{std::move(due), true, 0};
  }
  if (job_ && letters_.empty() && place.unresolved() == 0) {
    key_grew_ = letters_on_their_way > 0;
    place.fetch(job_->request.filter, job_->after, kBatch, now);
    fetching_ = true;
    return;
  }
  if (!letters_.empty() && !record_) {
    prepare(place, now);
  }
}

void DeadLetterRetry::take_batch(std::vector<StoredLetter> letters) {
  for (StoredLetter& letter : letters) {
    job_->after = letter.number;
    if (!letter.parked_key || job_->request.release_key) {
      letters_.push_back(std::move(letter));
      continue;
    }
    // Letters of a parked key go in order, all of them.
    const bool listed = std::any_of(
        waiting_.begin(), waiting_.end(),
        [&](const RetryRequest& other) { return other.filter.parked_key == *letter.parked_key; });
    if (!listed) {
      RetryRequest release;
      release.filter.parked_key = *letter.parked_key;
      release.topic = job_->request.topic;
      release.release_key = true;
      waiting_.push_back(std::move(release));
    }
  }
}

void DeadLetterRetry::prepare(DeadLetterPlace& place, Now now) {
  ++attempt_;
  sent_ = false;
  if (auto built = build(letters_.front()); !built) {
    const Error error = built.error();
    finish_letter(place, &error, now);
  }
}

Result<> DeadLetterRetry::build(const StoredLetter& letter) {
  if (letter.mapped) {
    KafkaRecord record;
    record.topic = letter.topic;
    if (letter.key) record.key = *letter.key;
    if (letter.value) record.value = *letter.value;
    for (const auto& [name, value] : letter.headers) {
      record.headers.push_back(
          {name, value ? std::optional<std::string_view>(*value) : std::nullopt});
    }
    record.timestamp_ms = letter.timestamp_ms;
    record.partition = letter.partition;
    record_ = std::move(record);
  } else {
    OUTRIDER_TRY(raw_, RawRow::decode(letter.raw_row));
    const RowContext context{0, letter.row.commit_lsn, letter.commit_time, letter.row.index};
    OUTRIDER_TRY(const MapOutcome outcome,
                 mapper_.map(raw_->insert(layout_of(raw_->relation())), context, mapped_));
    if (outcome == MapOutcome::not_outbox) {
      return fail(ErrorKind::poison, "the row's table is no outbox table any more",
                  "list the table in outbox.tables, or discard the dead letter");
    }
    record_ = mapped_.record;
  }
  if (!job_->request.topic.empty()) {
    record_->topic = job_->request.topic;
    record_->partition.reset();
  }
  return {};
}

std::uint64_t DeadLetterRetry::layout_of(const Relation& relation) {
  std::string columns = relation.name.schema + '.' + relation.name.table;
  for (const Column& column : relation.columns) {
    columns += '\n' + column.name + ' ' + std::to_string(column.type_oid);
  }
  if (layouts_.size() >= kLayoutsMax) layouts_.clear();
  const auto [at, added] = layouts_.emplace(std::move(columns), kStoredLayouts | next_layout_);
  if (added) ++next_layout_;
  return at->second;
}

void DeadLetterRetry::lost() {
  if (record_ && sent_) {
    sent_ = false;
    ++attempt_;
  }
}

void DeadLetterRetry::delivered(DeadLetterPlace& place, Now now) {
  ++progress_.delivered;
  finish_letter(place, nullptr, now);
}

void DeadLetterRetry::refused(DeadLetterPlace& place, const Error& error, Now now) {
  finish_letter(place, &error, now);
}

void DeadLetterRetry::finish_letter(DeadLetterPlace& place, const Error* error, Now now) {
  StoredLetter letter = std::move(letters_.front());
  letters_.pop_front();
  record_.reset();
  raw_.reset();
  sent_ = false;
  rest_until_ = now.mono + kRest;
  RetryOutcome outcome;
  outcome.number = letter.number;
  outcome.delivered = error == nullptr;
  if (error != nullptr) {
    ++progress_.refused;
    outcome.code = error->code;
    outcome.message = error->message;
    outcome.retry_after = backoff(config_, letter.attempts + 1);
  }
  place.resolve(outcome, now);
  if (error != nullptr && letter.parked_key) {
    progress_.skipped += letters_.size();
    letters_.clear();
    end_job(now);
  }
}

void DeadLetterRetry::give_up(const Error& error, Now now) {
  progress_.error = error;
  letters_.clear();
  record_.reset();
  raw_.reset();
  sent_ = false;
  waiting_.clear();
  end_job(now);
}

void DeadLetterRetry::end_job(Now now) { begin_job(now); }

std::optional<std::string> DeadLetterRetry::take_released_key() {
  if (released_.empty()) {
    return std::nullopt;
  }
  std::string key = std::move(released_.front());
  released_.pop_front();
  return key;
}

void DeadLetterRetry::parked(std::string_view key) {
  if (job_ && job_->request.release_key && job_->request.filter.parked_key == key) {
    key_grew_ = true;
  }
}

std::optional<MonoTime> DeadLetterRetry::deadline() const {
  if (record_ && !sent_) {
    return rest_until_;
  }
  if (job_ || !automatic_) {
    return std::nullopt;
  }
  return next_automatic_;
}

}  // namespace outrider
