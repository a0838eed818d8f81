#include "app/teardown_command.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include <unistd.h>

#include "app/doctor_input.h"
#include "app/init_command.h"
#include "app/sql_session.h"
#include "outrider/config/secrets.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/doctor_facts.h"
#include "postgres/server_facts.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kName[] = "outrider_teardown";

struct Step {
  std::string purpose;
  std::string sql;
};

/// What is there to be dropped.
struct Found {
  ServerFacts server;
  DoctorFacts more;
  bool has_publication = false;
  std::vector<QualifiedName> tables;
  bool has_letters = false;   ///< The dead-letter table exists.
  bool letters_wait = false;  ///< And is not empty.
};

Error left_behind(Error error, const std::string& slot) {
  error.hint += "; while slot \"" + slot +
                "\" is there the server keeps WAL for it until the disk "
                "is full";
  return error;
}

Result<Found> look(SqlSession& session, const PipelineConfig& pipeline, bool tables) {
  Found found;
  OUTRIDER_TRY(QueryResult rows, session.query(server_statement(kName)));
  take_server(rows, found.server);
  const int version = found.server.version_num;
  OUTRIDER_TRY(rows, session.query(slot_statement(version, pipeline.source.slot)));
  take_slot(rows, found.server);
  OUTRIDER_TRY(rows, session.query(doctor_slot_statement(version, pipeline.source.slot)));
  take_doctor_slot(rows, found.more);
  OUTRIDER_TRY(rows, session.query(publication_statement(pipeline.source.publication)));
  found.has_publication = !rows.rows.empty();
  if (!tables) return found;
  std::vector<QualifiedName> wanted;
  for (const std::string& text : pipeline.outbox.tables) {
    OUTRIDER_TRY(QualifiedName name, parse_table_name(text));
    wanted.push_back(std::move(name));
  }
  if (!wanted.empty()) {
    OUTRIDER_TRY(rows, session.query(doctor_tables_statement(wanted)));
    take_doctor_tables(rows, found.more);
  }
  for (const TableUse& use : found.more.tables) found.tables.push_back(use.name);
  OUTRIDER_TRY(rows, session.query(dead_letter_columns_statement()));
  found.has_letters = !rows.rows.empty();
  if (found.has_letters) {
    OUTRIDER_TRY(rows, session.query("SELECT 1 FROM outrider.dead_letters LIMIT 1"));
    found.letters_wait = !rows.rows.empty();
  }
  return found;
}

Result<> check_slot(const Found& found, const PipelineConfig& pipeline) {
  if (!found.server.slot) return {};
  const SlotFacts& slot = *found.server.slot;
  const std::string name = "replication slot \"" + pipeline.source.slot + "\"";
  if (slot.type != "logical" || slot.database != found.server.database) {
    return fail(ErrorKind::configuration,
                name + " is not a logical slot of database \"" + found.server.database + "\"",
                "name the slot of this pipeline with --slot, or another database with --dsn");
  }
  if (slot.active) {
    return fail(
        left_behind(Error{ErrorKind::configuration,
                          name + " is in use (process " + std::to_string(slot.active_pid) +
                              "): nothing was dropped",
                          "stop every relay of this slot, then run the command again", "55006"},
                    pipeline.source.slot));
  }
  return {};
}

// The slot first: it is what keeps WAL, and the rest is of no use without it.
std::vector<Step> plan(const Found& found, const PipelineConfig& pipeline) {
  std::vector<Step> steps;
  const std::string& slot = pipeline.source.slot;
  if (found.server.slot) {
    steps.push_back({"slot \"" + slot + "\", which keeps " + size_text(found.more.retained_bytes) +
                         " of WAL; " + size_text(found.more.unconfirmed_bytes) +
                         " of it was never confirmed, and events in there are never relayed",
                     "SELECT pg_catalog.pg_drop_replication_slot(" + quote_literal(slot) + ")"});
  }
  if (found.has_publication) {
    const std::string name = quote_identifier(pipeline.source.publication);
    steps.push_back({"publication " + name, "DROP PUBLICATION IF EXISTS " + name});
  }
  for (const QualifiedName& table : found.tables) {
    steps.push_back({"table " + quote_table_name(table) + " with all its rows",
                     "DROP TABLE IF EXISTS " + quote_table_name(table)});
  }
  if (found.has_letters && !found.letters_wait) {
    steps.push_back({"schema outrider with the dead-letter table, which is empty",
                     "DROP VIEW IF EXISTS outrider.outbox_dead_letters; "
                     "DROP TABLE outrider.dead_letters; "
                     "DROP FUNCTION IF EXISTS outrider.utf8_or_null(bytea); "
                     "DROP TABLE IF EXISTS outrider.schema_version; DROP SCHEMA outrider"});
  }
  return steps;
}

void tell(const Found& found, const std::vector<Step>& steps, bool tables) {
  std::printf("In database \"%s\" this is dropped:\n", found.server.database.c_str());
  for (const Step& step : steps) std::printf("  - %s\n", step.purpose.c_str());
  std::printf("What stays: the relay's role, the topics of Kafka%s%s\n",
              tables ? "" : ", all tables (--tables drops them)",
              found.letters_wait
                  ? ", and outrider.dead_letters, which holds letters that were never delivered"
                  : "");
  std::fflush(stdout);
}

/// Only "yes" is an agreement; the signals end the wait, as the session keeps them to itself.
bool agreed() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  static_cast<void>(sigprocmask(SIG_UNBLOCK, &signals, nullptr));
  std::printf("Go on? Type yes: ");
  std::fflush(stdout);
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) {
    answer += static_cast<char>(c);
  }
  return answer == "yes";
}

Result<> run(SqlSession& session, const std::vector<Step>& steps) {
  std::size_t number = 0;
  for (const Step& step : steps) {
    std::printf("[%zu/%zu] %s ... ", ++number, steps.size(),
                step.purpose.substr(0, step.purpose.find(',')).c_str());
    std::fflush(stdout);
    auto done = session.query(step.sql);
    std::printf("%s\n", done ? "dropped" : "failed");
    std::fflush(stdout);
    if (!done) return fail(std::move(done).error());
  }
  return {};
}

}  // namespace

Result<> teardown_command(const LoadRequest& request, const TeardownFlags& flags) {
  InitFlags names;
  names.pipeline = flags.pipeline;
  names.slot = flags.slot;
  names.publication = flags.publication;
  OUTRIDER_TRY(const PipelineConfig pipeline, choose_pipeline(request, names));
  OUTRIDER_TRY(const std::string conninfo,
               resolve_conninfo(flags.dsn.empty() ? pipeline.source.dsn : SecretText{flags.dsn}));
  if (conninfo.empty()) {
    return fail(ErrorKind::configuration, "teardown needs a database to connect to",
                "give --dsn, or -c with a file whose pipeline has source.dsn");
  }
  OUTRIDER_TRY(const auto session, SqlSession::open(conninfo, {.application_name = kName}));
  OUTRIDER_TRY(const Found found, look(*session, pipeline, flags.tables));
  OUTRIDER_TRY(check_slot(found, pipeline));
  const std::vector<Step> steps = plan(found, pipeline);
  if (steps.empty()) {
    std::printf("nothing to drop: database \"%s\" has no slot \"%s\" and no publication \"%s\"\n",
                found.server.database.c_str(), pipeline.source.slot.c_str(),
                pipeline.source.publication.c_str());
    return {};
  }
  tell(found, steps, flags.tables);
  if (!flags.yes && isatty(STDIN_FILENO) == 0) {
    return fail(left_behind(Error{ErrorKind::configuration,
                                  "nothing was dropped: nobody is there to be asked",
                                  "say --yes to go on without being asked",
                                  {}},
                            pipeline.source.slot));
  }
  if (!flags.yes && !agreed()) {
    return fail(left_behind(Error{ErrorKind::configuration,
                                  "nothing was dropped",
                                  "run the command again and type yes",
                                  {}},
                            pipeline.source.slot));
  }
  return run(*session, steps);
}

}  // namespace outrider
