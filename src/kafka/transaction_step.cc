#include "kafka/transaction_step.h"

#include <string_view>
#include <utility>

#include "kafka/errors.h"

namespace outrider {
namespace {

/// Calls that may be given results of older ones before they get their own.
constexpr int kTriesMax = 8;

bool refused_by_state(const ErrorHandle& error) {
  return error != nullptr && rd_kafka_error_code(error.get()) == RD_KAFKA_RESP_ERR__STATE &&
         rd_kafka_error_is_fatal(error.get()) == 0 &&
         rd_kafka_error_txn_requires_abort(error.get()) == 0;
}

}  // namespace

// "Operation not valid in state Ready": the library has no other way to tell its state.
bool names_state(const ErrorHandle& error, const char* state) {
  return refused_by_state(error) &&
         std::string_view(rd_kafka_error_string(error.get())).ends_with(state);
}

Result<> begin_transaction(rd_kafka_t* client) {
  std::string trouble;
  for (int i = 0; i < kTriesMax; ++i) {
    const ErrorHandle error(rd_kafka_begin_transaction(client));
    if (names_state(error, kStateInTransaction)) return {};
    if (error == nullptr || names_state(error, kStateReady)) continue;
    OUTRIDER_TRY(finish_step(error, "cannot begin a Kafka transaction", trouble));
  }
  return fail(ErrorKind::transient, "cannot begin a Kafka transaction: " + trouble);
}

Result<bool> commit_step(rd_kafka_t* client, std::string& trouble) {
  for (int i = 0; i < kTriesMax; ++i) {
    const ErrorHandle error(rd_kafka_commit_transaction(client, kCommitMs));
    if (names_state(error, kStateReady)) return true;
    if (error == nullptr) continue;  // The next call proves it.
    if (refused_by_state(error)) return false;
    return finish_step(error, "cannot commit a Kafka transaction", trouble);
  }
  return false;
}

Result<bool> init_step(rd_kafka_t* client, std::string& trouble) {
  const ErrorHandle error(rd_kafka_init_transactions(client, kStepMs));
  if (!refused_by_state(error)) {
    OUTRIDER_TRY(const bool done,
                 finish_step(error, "cannot begin to use Kafka transactions", trouble));
    if (!done) return false;
  }
  const ErrorHandle proof(rd_kafka_commit_transaction(client, kCommitMs));
  return names_state(proof, kStateReady);
}

std::optional<Error> abort_reason(rd_kafka_t* client) {
  const ErrorHandle error(rd_kafka_begin_transaction(client));
  if (error == nullptr || rd_kafka_error_txn_requires_abort(error.get()) == 0) return std::nullopt;
  Error reason = kafka_error(rd_kafka_error_code(error.get()), {});
  reason.message =
      std::string("the Kafka transaction cannot go on: ") + rd_kafka_error_string(error.get());
  return reason;
}

Result<bool> finish_step(const ErrorHandle& error, const std::string& what, std::string& trouble) {
  if (error == nullptr) return true;
  const rd_kafka_resp_err_t code = rd_kafka_error_code(error.get());
  Error found = kafka_error(code, what);
  found.message = what + ": " + rd_kafka_error_string(error.get());
  const bool over = rd_kafka_error_is_fatal(error.get()) != 0 ||
                    rd_kafka_error_txn_requires_abort(error.get()) != 0;
  const bool again = rd_kafka_error_is_retriable(error.get()) != 0 ||
                     code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__CONFLICT;
  if (!over && again && found.kind == ErrorKind::transient) {
    trouble = code == RD_KAFKA_RESP_ERR__TIMED_OUT ? "" : found.message;
    return false;
  }
  return fail(std::move(found));
}

bool ends_transactions(rd_kafka_resp_err_t code) {
  switch (code) {
    case RD_KAFKA_RESP_ERR__FENCED:
    case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
    case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING:
    case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
    case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
    case RD_KAFKA_RESP_ERR_INVALID_TXN_STATE:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
      return true;
    default:
      return false;
  }
}

// No part but the database's name may hold a hyphen, so two slots never share an id.
std::string make_transactional_id(const std::string& system_id, const std::string& database,
                                  const std::string& slot) {
  return "outrider-" + system_id + "-" + database + "-" + slot;
}

}  // namespace outrider
