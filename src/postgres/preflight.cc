#include "postgres/preflight.h"

#include <deque>
#include <utility>

#include "outrider/base/check.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/preflight_judge.h"
#include "postgres/server_facts.h"

namespace outrider {

const char* to_string(Plugin plugin) {
  return plugin == Plugin::wal2json ? "wal2json" : "pgoutput";
}

namespace {

using Take = void (*)(const QueryResult&, ServerFacts&);

struct Question {
  std::string statement;
  Take take;
};

std::vector<std::string> oids_of_kind(const ServerFacts& facts, std::string_view kinds) {
  std::vector<std::string> oids;
  for (const TableFacts& table : facts.tables) {
    if (kinds.find(table.kind) != std::string_view::npos) {
      oids.push_back(table.oid);
    }
  }
  return oids;
}

}  // namespace

/// The questions come in stages, because a later one is worded by the answers to the earlier ones.
struct Preflight::Facts {
  enum class Stage : std::uint8_t { server, objects, tables, done };

  ServerFacts server;
  std::vector<QualifiedName> wanted;
  std::optional<Error> bad_name;
  Stage stage = Stage::server;
  std::deque<Question> questions;
  std::optional<Take> pending;

  void ask_objects(const SourceConfig& source);
  void ask_tables();
  void next_stage(const SourceConfig& source);
};

void Preflight::Facts::ask_objects(const SourceConfig& source) {
  if (server.may_read_control) {
    questions.push_back({control_statement(), take_control});
  }
  questions.push_back({slot_statement(server.version_num, source.slot), take_slot});
  questions.push_back({publication_statement(source.publication), take_publication});
  questions.push_back(
      {published_tables_statement(server.version_num, source.publication), take_published_tables});
  if (!wanted.empty()) {
    questions.push_back({tables_statement(wanted), take_tables});
  }
}

void Preflight::Facts::ask_tables() {
  if (const auto oids = oids_of_kind(server, "rp"); !oids.empty()) {
    questions.push_back({columns_statement(oids), take_columns});
  }
  if (const auto oids = oids_of_kind(server, "p"); !oids.empty()) {
    questions.push_back({partitions_statement(oids), take_partitions});
  }
}

void Preflight::Facts::next_stage(const SourceConfig& source) {
  switch (stage) {
    case Stage::server:
      ask_objects(source);
      stage = Stage::objects;
      break;
    case Stage::objects:
      ask_tables();
      stage = Stage::tables;
      break;
    case Stage::tables:
    case Stage::done:
      stage = Stage::done;
      break;
  }
}

Preflight::Preflight(const SourceConfig& source, const OutboxConfig& outbox,
                     const RouteConfig& route)
    : facts_(std::make_unique<Facts>()), source_(source), outbox_(outbox), route_(route) {
  for (const std::string& text : outbox_.tables) {
    Result<QualifiedName> name = parse_table_name(text);
    if (!name) {
      facts_->bad_name = name.error();
      continue;
    }
    facts_->wanted.push_back(std::move(*name));
  }
  facts_->questions.push_back(
      {server_statement(walsender_application_name(source_.slot)), take_server});
}

Preflight::~Preflight() = default;

std::optional<std::string> Preflight::next_statement() {
  OUTRIDER_CHECK(!facts_->pending, "the rows of the last statement are taken before the next one");
  while (facts_->questions.empty() && facts_->stage != Facts::Stage::done) {
    facts_->next_stage(source_);
  }
  if (facts_->questions.empty()) {
    return std::nullopt;
  }
  Question question = std::move(facts_->questions.front());
  facts_->questions.pop_front();
  facts_->pending = question.take;
  return std::move(question.statement);
}

void Preflight::take(const QueryResult& rows) {
  OUTRIDER_CHECK(facts_->pending, "rows answer a statement that was given out");
  (*std::exchange(facts_->pending, std::nullopt))(rows, facts_->server);
}

const ServerFacts& Preflight::facts() const { return facts_->server; }

Result<StartPlan> Preflight::judge(std::optional<Plugin> instead) const {
  OUTRIDER_CHECK(facts_->stage == Facts::Stage::done, "all facts are in before they are judged");
  if (facts_->bad_name) {
    return fail(*facts_->bad_name);
  }
  return judge_case({facts_->server, source_, outbox_, route_, facts_->wanted}, instead);
}

}  // namespace outrider
