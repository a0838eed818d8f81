// ProducerSink: sessions, witnesses and Kafka transactions (docs/adr/0013 and 0015).

#include <chrono>
#include <utility>

#include "kafka/errors.h"
#include "kafka/hand_over.h"
#include "kafka/position_record.h"
#include "kafka/producer_sink.h"
#include "kafka/transaction_step.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// For the abort of a transaction that is left behind; without one its readers wait for the
/// broker's timeout, or for the next session.
constexpr milliseconds kAbortPatience{300};
constexpr int kAbortPollMs = 2;

}  // namespace

void ProducerSink::open_session(const SlotIdentity& identity, Now now) {
  now_ = now;
  if (start_failure_ || loss_) return;  // restart() comes first.
  if (exactly_once()) {
    if (transactions_.busy()) {
      lose(Error{ErrorKind::transient, "the stream began anew within a Kafka transaction", {}, {}});
      return;
    }
    const std::string id =
        make_transactional_id(identity.system_id, identity.database, identity.slot);
    if (client_used_ || id != transactional_id_) {
      transactional_id_ = id;
      renew(now);
      if (start_failure_) return;
    }
  }
  client_used_ = true;
  session_.begin(identity, settings_, now);
}

void ProducerSink::mark(const ResumePoint& point, bool whole, Now now) {
  now_ = now;
  if (exactly_once() && session_open()) transactions_.mark(point, whole);
}

void ProducerSink::reserve(Lsn lsn, Now now) {
  now_ = now;
  if (exactly_once()) {
    if (session_open()) transactions_.reserve(lsn);
  } else if (settings_.delivery.witness) {
    witness_.reserve(lsn);
  }
}

void ProducerSink::reserve_exactly(Lsn lsn, Now now) {
  now_ = now;
  if (exactly_once()) {
    if (session_open()) transactions_.reserve(lsn);
  } else if (settings_.delivery.witness && session_open()) {
    witness_.settle(lsn);
  }
}

Lsn ProducerSink::confirm_limit() const {
  if (exactly_once()) return transactions_.committed();
  return settings_.delivery.witness ? witness_.limit() : Lsn::max();
}

Result<> ProducerSink::drive_session() {
  if (position_failure_) return fail(*position_failure_);
  if (loss_) {
    // What the client called fatal while the session was opened is for people to mend.
    const bool opening = exactly_once() && client_used_ && !session_.open();
    if (!opening || loss_->error.kind != ErrorKind::configuration) return {};
    return fail(session_.explained(loss_->error));
  }
  if (!session_.open()) {
    if (auto driven = session_.drive(link_.connected(), now_); !driven) {
      Error error = std::move(driven).error();
      if (error.kind == ErrorKind::configuration) return fail(std::move(error));
      if (!note_fatal_error()) lose_transaction(std::move(error));
      return {};
    }
    if (!session_.open()) return {};
    witness_.open();
    transactions_.open(session_.durable().is_valid() ? session_.stored()->point : ResumePoint{});
  }
  return exactly_once() ? drive_transactions() : drive_witness();
}

Result<> ProducerSink::drive_witness() {
  if (!settings_.delivery.witness) return {};
  const std::optional<Lsn> lsn = witness_.due(now_.mono);
  if (!lsn) return {};
  OUTRIDER_TRY(const bool written,
               write_position(ResumePoint{*lsn, Lsn{}, 0, 0}, witness_.wanted()));
  if (written) witness_.written(*lsn, now_.mono);
  return {};
}

Result<> ProducerSink::drive_transactions() {
  OUTRIDER_TRY(const std::optional<ResumePoint> point, transactions_.due(now_.mono));
  rd_kafka_t* const client = instance_->client();
  if (point) {
    if (auto begun = transactions_.begin(client, now_.mono); !begun) {
      lose_transaction(std::move(begun).error());
      return {};
    }
    OUTRIDER_TRY(const bool written, write_position(*point, point->lsn));
    if (written) {
      transactions_.position_written();
    } else {
      transactions_.position_waits();
    }
  }
  if (loss_) return {};
  const bool waiting = open_ + positions_open_ > 0;
  Result<> step = transactions_.probe(client, waiting, now_.mono);
  if (step) step = transactions_.commit(client, waiting, now_.mono);
  if (!step) lose_transaction(std::move(step).error());
  return {};
}

// False: the queue is full, or the producer is lost.
Result<bool> ProducerSink::write_position(const ResumePoint& point, Lsn flushed) {
  const StoredPosition position{session_.identity(), point, flushed, exactly_once(), writer_};
  const std::string key = encode_position_key(position.identity);
  const std::string value = encode_position(position, now_.wall);
  KafkaRecord record;
  record.topic = settings_.delivery.position_topic;
  record.key = key;
  record.value = value;
  record.timestamp_ms =
      std::chrono::duration_cast<milliseconds>(now_.wall.time_since_epoch()).count();
  record.partition = 0;
  const ErrorHandle failure =
      hand_over(instance_->client(), session_.topic(), record, kPositionOpaque);
  if (failure == nullptr) {
    ++positions_open_;
    return true;
  }
  const rd_kafka_resp_err_t code = rd_kafka_error_code(failure.get());
  if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL || note_fatal_error()) return false;
  Error error = kafka_error(code, "cannot write the position");
  if (error.kind != ErrorKind::transient) return fail(position_error(std::move(error)));
  lose_transaction(std::move(error));
  return false;
}

void ProducerSink::take_position_report(const rd_kafka_message_t& message) {
  --positions_open_;
  transactions_.wake();
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    link_.note_acknowledgement();
    if (!exactly_once()) witness_.durable();
    return;
  }
  witness_.lost();
  Error error = kafka_error(message.err, "cannot write the position");
  if (error.kind == ErrorKind::configuration || error.kind == ErrorKind::poison) {
    position_failure_ = position_error(std::move(error));
    return;
  }
  if (!loss_ && !note_fatal_error()) lose(std::move(error));
}

Error ProducerSink::position_error(Error error) const {
  error.kind = ErrorKind::configuration;
  error.message += " (topic \"" + settings_.delivery.position_topic + "\")";
  if (error.code == rd_kafka_err2name(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)) {
    error.hint = "grant the relay's Kafka user WRITE on the position topic";
  }
  return error;
}

// The broker refuses the topics of a transaction, not its records; then every record that was not
// sent is a suspect, so that the relay finds the right one.
void ProducerSink::lose_transaction(Error error) {
  if (note_fatal_error()) return;
  const bool of_topic =
      error.code == rd_kafka_err2name(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  if (!of_topic && error.kind == ErrorKind::poison) error.kind = ErrorKind::transient;
  lose(std::move(error));
  loss_->of_topic = of_topic;
}

// Brokers fence the producer of a transaction that was open for too long as well.
Error ProducerSink::fenced(Error error) const {
  if (error.code != rd_kafka_err2name(RD_KAFKA_RESP_ERR__FENCED)) return error;
  const auto open_for =
      std::chrono::duration_cast<milliseconds>(now_.mono - transactions_.begun_at());
  if (transactions_.busy() && open_for >= milliseconds(settings_.delivery.transaction_timeout_ms)) {
    return Error{ErrorKind::transient,
                 "the broker ended a Kafka transaction that was open for " +
                     std::to_string(open_for.count()) + " ms",
                 "nothing to do: the producer is made anew and the stream rewinds",
                 rd_kafka_err2name(RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH)};
  }
  error.message = "another relay took over the slot's Kafka transactions: " + error.message;
  return error;
}

void ProducerSink::abort_open_transaction() {
  if (!transactions_.abortable() || !link_.connected()) return;
  if (rd_kafka_fatal_error(instance_->client(), nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  reports_.reset();
  const MonoTime end = std::chrono::steady_clock::now() + kAbortPatience;
  std::string trouble;
  while (std::chrono::steady_clock::now() < end) {
    const ErrorHandle error(rd_kafka_abort_transaction(instance_->client(), kStepMs));
    const Result<bool> done = finish_step(error, "cannot abort a Kafka transaction", trouble);
    if (!done || *done) return;
    // The abort waits for the reports of what it purges.
    const EventHandle event(rd_kafka_queue_poll(instance_->queue(), kAbortPollMs));
  }
}

}  // namespace outrider
