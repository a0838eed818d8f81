// DoctorInput: everything the checks of `outrider doctor` are judged by, for one pipeline.
//
// Plain data, filled by doctor_reader.cc, or by hand in a test. No passwords are in it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/doctor_check.h"
#include "kafka/doctor_probe.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "postgres/doctor_facts.h"
#include "postgres/preflight_judge.h"
#include "postgres/query_result.h"
#include "postgres/server_facts.h"

namespace outrider {

/// What the session to the dead-letter table's database said.
struct LetterFacts {
  std::optional<Error> unreachable;
  QueryResult facts;
  std::optional<QueryResult> version;  ///< Only where it may be read.
  DeadLetterColumns columns;
};

/// A standby that source.dsn names beside the primary.
struct StandbyFacts {
  std::optional<Error> unreachable;
  int version_num = 0;
  std::string host;
  std::optional<SlotFacts> slot;
};

struct DoctorInput {
  PipelineConfig pipeline;
  std::string control_socket;
  std::string http_listen;
  std::vector<Error> config_problems;

  /// source.dsn as libpq understands it, without passwords.
  std::map<std::string, std::string> connection;
  std::optional<Error> server_fault;  ///< Not reached, or lost while it was asked.
  ServerFacts server;
  DoctorFacts more;
  std::vector<QualifiedName> wanted;
  bool walsender_asked = false;
  std::optional<Error> walsender_fault;
  std::int64_t clock_ahead_ms = 0;  ///< The server's clock against this machine's.
  std::optional<StandbyFacts> standby;
  std::optional<LetterFacts> letters;

  std::string bootstrap_servers;
  std::string kafka_user;  ///< "User:…", empty if it cannot be known.
  bool kafka_login = false;
  KafkaFacts kafka;

  bool has_server() const { return !server_fault; }
  bool has_kafka() const { return !kafka.unreachable; }
  Case known() const { return {server, pipeline.source, pipeline.outbox, pipeline.route, wanted}; }
};

/// An error as an outcome: its hint is the fix, as exact SQL where it holds some.
Outcome failed(const Error& error);

/// The statement within a hint, empty if there is none.
std::string sql_of_hint(const std::string& hint);

bool stores_positions(const PipelineConfig& pipeline);

/// "13 kB", "4.2 GB".
std::string size_text(std::int64_t bytes);

}  // namespace outrider
