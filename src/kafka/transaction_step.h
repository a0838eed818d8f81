// The transaction calls of librdkafka, made in small steps that the loop can bear.
//
// Each call gets kStepMs: with 0 librdkafka 2.0.2 fails an assertion. A call that is not done goes
// on in the background and is made again until it is; in between the client's queue must be served.
// A short call may be given the result of one before it that timed out, and so succeed falsely
// (rdkafka_txnmgr.c, txn_curr_api). So success is never taken at its word: it counts when the
// library, asked for something that is not allowed, names the state that success leads to.
#pragma once

#include <optional>
#include <string>

#include "kafka/handles.h"
#include "outrider/base/result.h"

namespace outrider {

constexpr int kStepMs = 1;
/// A commit gets longer: if the library's own thread is not scheduled within this time, 2.0.2
/// forgets that a commit is under way, takes the broker's answer for an abort's and fails an
/// assertion (rd_kafka_txn_endtxn_complete). Normally the answer is there in milliseconds.
constexpr int kCommitMs = 100;

/// The library's names of its transactional states.
constexpr const char* kStateReady = "Ready";
constexpr const char* kStateInTransaction = "InTransaction";

/// True: the call was refused because of the state the producer is in, and that is this one.
bool names_state(const ErrorHandle& error, const char* state);

/// True: done; false: call again. `trouble` gets the reason if one is known.
Result<bool> finish_step(const ErrorHandle& error, const std::string& what, std::string& trouble);

/// Begin a transaction; returns when it is begun, or with the reason why not. Local and quick.
Result<> begin_transaction(rd_kafka_t* client);

/// True: the commit is done beyond doubt; false: call again.
Result<bool> commit_step(rd_kafka_t* client, std::string& trouble);

/// True: the producer is initialised beyond doubt; false: call again.
Result<bool> init_step(rd_kafka_t* client, std::string& trouble);

/// Why the open transaction can only be aborted; nothing if that is not so.
std::optional<Error> abort_reason(rd_kafka_t* client);

/// Errors of a record's report that are not about the record but end the transactional producer.
bool ends_transactions(rd_kafka_resp_err_t code);

/// "outrider-<system>-<database>-<slot>": the same for every relay of that slot.
std::string make_transactional_id(const std::string& system_id, const std::string& database,
                                  const std::string& slot);

}  // namespace outrider
