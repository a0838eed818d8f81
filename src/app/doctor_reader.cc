#include "app/doctor_reader.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "app/pipeline.h"
#include "app/sql_session.h"
#include "outrider/config/secrets.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/conninfo.h"
#include "postgres/dead_letter_facts.h"
#include "postgres/preflight.h"

namespace outrider {
namespace {

constexpr char kName[] = "outrider_doctor";
constexpr char kSomeType[] = "outrider-doctor";

/// The sessions' loops keep the signals to themselves; what follows should end by them.
void unblock_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  static_cast<void>(sigprocmask(SIG_UNBLOCK, &signals, nullptr));
}

/// A conninfo of these parameters.
std::string conninfo_of(const std::map<std::string, std::string>& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    text += (text.empty() ? "" : " ") + name + "='";
    for (const char c : value) {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
    text += "'";
  }
  return text;
}

class Reader {
 public:
  Reader(DoctorInput& input, const DoctorFlags& flags) : in_(input), flags_(flags) {}

  void postgres();
  void kafka();

 private:
  using Take = void (*)(const QueryResult&, DoctorFacts&);

  void names();
  Result<> catalogue(SqlSession& session);
  Result<> clock(SqlSession& session);
  Result<> more(SqlSession& session, const std::string& statement, Take take);
  void walsender(const std::string& conninfo);
  void standby(const std::map<std::string, std::string>& parameters);
  Result<> read_standby(SqlSession& session, StandbyFacts& facts) const;
  void letters(SqlSession* of_source);
  Result<> read_letters(SqlSession& session, LetterFacts& facts) const;
  KafkaQuestion question(ProducerSettings settings) const;

  DoctorInput& in_;
  const DoctorFlags& flags_;
};

void Reader::names() {
  for (const std::string& text : in_.pipeline.outbox.tables) {
    if (auto name = parse_table_name(text)) in_.wanted.push_back(std::move(*name));
  }
}

Result<> Reader::catalogue(SqlSession& session) {
  Preflight preflight(in_.pipeline.source, in_.pipeline.outbox, in_.pipeline.route);
  while (const std::optional<std::string> statement = preflight.next_statement()) {
    OUTRIDER_TRY(const QueryResult rows, session.query(*statement));
    preflight.take(rows);
    in_.server = preflight.facts();
  }
  return {};
}

// Halfway between sending and receiving is the best guess at when the server looked at its clock.
Result<> Reader::clock(SqlSession& session) {
  const SystemClock here;
  const Now before = here.now();
  OUTRIDER_TRY(const QueryResult rows, session.query(doctor_server_statement()));
  const Now after = here.now();
  take_doctor_server(rows, in_.more);
  const auto middle = before.wall.time_since_epoch() + (after.mono - before.mono) / 2;
  in_.clock_ahead_ms =
      in_.more.clock_ms - std::chrono::duration_cast<std::chrono::milliseconds>(middle).count();
  return {};
}

Result<> Reader::more(SqlSession& session, const std::string& statement, Take take) {
  OUTRIDER_TRY(const QueryResult rows, session.query(statement));
  take(rows, in_.more);
  return {};
}

void Reader::postgres() {
  names();
  auto conninfo = resolve_conninfo(in_.pipeline.source.dsn);
  if (!conninfo) {
    in_.server_fault = std::move(conninfo).error();
    return;
  }
  auto parameters = connection_parameters(*conninfo, {}, 0);
  if (!parameters) {
    in_.server_fault = std::move(parameters).error();
    return;
  }
  in_.connection = *parameters;
  for (const char* secret : {"password", "sslpassword"}) in_.connection.erase(secret);
  auto session = SqlSession::open(*conninfo, {.application_name = kName});
  if (!session) {
    in_.server_fault = std::move(session).error();
    if (!in_.pipeline.dead_letters.dsn.empty()) letters(nullptr);
    return;
  }
  auto read = catalogue(**session);
  if (read) read = clock(**session);
  if (read) {
    read = more(**session, doctor_slot_statement(in_.server.version_num, in_.pipeline.source.slot),
                take_doctor_slot);
  }
  if (read && !in_.wanted.empty()) {
    read = more(**session, doctor_tables_statement(in_.wanted), take_doctor_tables);
  }
  if (!read) in_.server_fault = std::move(read).error();
  letters(session->get());
  if (in_.server_fault) return;
  if (in_.server.may_replicate) walsender(*conninfo);
  standby(*parameters);
}

void Reader::walsender(const std::string& conninfo) {
  in_.walsender_asked = true;
  auto session = SqlSession::open(conninfo, {.application_name = kName, .replication = true});
  if (!session) {
    in_.walsender_fault = std::move(session).error();
    return;
  }
  if (auto answer = (*session)->query("IDENTIFY_SYSTEM"); !answer) {
    in_.walsender_fault = std::move(answer).error();
  }
}

void Reader::standby(const std::map<std::string, std::string>& parameters) {
  const auto hosts = parameters.find("host");
  if (in_.server.in_recovery || hosts == parameters.end() ||
      hosts->second.find(',') == std::string::npos) {
    return;
  }
  std::map<std::string, std::string> other = parameters;
  other["target_session_attrs"] = "standby";
  StandbyFacts facts;
  auto session = SqlSession::open(conninfo_of(other), {.application_name = kName});
  if (!session) {
    facts.unreachable = std::move(session).error();
  } else if (auto read = read_standby(**session, facts); !read) {
    facts.unreachable = std::move(read).error();
  }
  in_.standby = std::move(facts);
}

Result<> Reader::read_standby(SqlSession& session, StandbyFacts& facts) const {
  facts.host = session.host();
  ServerFacts server;
  OUTRIDER_TRY(const QueryResult rows, session.query(server_statement(kName)));
  take_server(rows, server);
  facts.version_num = server.version_num;
  OUTRIDER_TRY(const QueryResult slot,
               session.query(slot_statement(server.version_num, in_.pipeline.source.slot)));
  take_slot(slot, server);
  facts.slot = server.slot;
  return {};
}

void Reader::letters(SqlSession* of_source) {
  if (!needs_dead_letter_table(in_.pipeline.dead_letters)) return;
  LetterFacts facts;
  std::unique_ptr<SqlSession> own;
  Result<> read;
  if (!in_.pipeline.dead_letters.dsn.empty()) {
    auto conninfo = resolve_conninfo(in_.pipeline.dead_letters.dsn);
    auto opened = conninfo ? SqlSession::open(*conninfo, {.application_name = kName,
                                                          .dsn_name = "dead_letters.dsn"})
                           : fail(std::move(conninfo).error());
    if (!opened) {
      facts.unreachable = std::move(opened).error();
      in_.letters = std::move(facts);
      return;
    }
    own = std::move(*opened);
    of_source = own.get();
  }
  if (auto done = read_letters(*of_source, facts); !done) {
    facts.unreachable = std::move(done).error();
  }
  in_.letters = std::move(facts);
}

Result<> Reader::read_letters(SqlSession& session, LetterFacts& facts) const {
  OUTRIDER_TRY(facts.facts, session.query(dead_letter_facts_sql()));
  OUTRIDER_TRY(const QueryResult columns, session.query(dead_letter_columns_statement()));
  facts.columns = read_dead_letter_columns(columns);
  if (facts.facts.text(0, "v.SELECT") == "t" && facts.facts.text(0, "schema.USAGE") == "t") {
    OUTRIDER_TRY(facts.version, session.query(dead_letter_version_sql()));
  }
  return {};
}

KafkaQuestion Reader::question(ProducerSettings settings) const {
  KafkaQuestion question;
  question.settings = std::move(settings);
  question.topics = flags_.topics;
  const RouteConfig& route = in_.pipeline.route;
  if (!route.topic.empty()) {
    if (std::find(question.topics.begin(), question.topics.end(), route.topic) ==
        question.topics.end()) {
      question.topics.push_back(route.topic);
    }
  } else if (const std::string prefix = topic_prefix(route); !prefix.empty()) {
    question.prefix = prefix;
    question.sample = prefix + kSomeType;
  }
  question.dead_letter_topic = in_.pipeline.dead_letters.topic;
  question.positions = stores_positions(in_.pipeline);
  return question;
}

void Reader::kafka() {
  const auto& properties = in_.pipeline.kafka.properties;
  if (const auto user = properties.find("sasl.username"); user != properties.end()) {
    if (auto name = resolve_secret(user->second)) in_.kafka_user = "User:" + *name;
  }
  const auto protocol = properties.find("security.protocol");
  in_.kafka_login = protocol != properties.end() && protocol->second.raw != "plaintext" &&
                    protocol->second.raw != "PLAINTEXT";
  Result<ProducerSettings> settings = producer_settings(in_.pipeline);
  if (!settings) {
    in_.kafka.unreachable = std::move(settings).error();
    return;
  }
  in_.bootstrap_servers = settings->bootstrap_servers;
  in_.kafka = probe_kafka(question(std::move(*settings)));
}

}  // namespace

std::string topic_prefix(const RouteConfig& route) {
  return route.replacement.substr(0, route.replacement.find_first_of("$\\"));
}

DoctorInput read_input(const Config& config, const PipelineConfig& pipeline,
                       const DoctorFlags& flags, std::vector<Error> problems) {
  DoctorInput input;
  input.pipeline = pipeline;
  input.control_socket = config.control.socket;
  input.http_listen = config.http.listen;
  input.config_problems = std::move(problems);
  Reader reader(input, flags);
  reader.postgres();
  unblock_signals();
  reader.kafka();
  return input;
}

}  // namespace outrider
