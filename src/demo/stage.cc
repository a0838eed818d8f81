#include "demo/stage.h"

#include <chrono>
#include <cstdio>

#include "demo/interrupt.h"
#include "demo/real_topics.h"
#include "demo/shop.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kPartitions = 6;
constexpr const char* kOwnName = "outrider_demo";

double seconds_since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void complain(const std::string& what, const Error& error) {
  std::fprintf(stderr, "outrider demo: %s: %s\n", what.c_str(), describe(error).c_str());
}

}  // namespace

std::vector<std::string> Stage::topics() const {
  std::vector<std::string> names;
  for (const std::string& type : Shop::event_types()) {
    names.push_back(relay_settings_.topic_prefix + type);
  }
  return names;
}

Result<> Stage::build(Report& report) {
  const bool all_ours = flags_.dsn.empty() && flags_.kafka.empty();
  report.line(all_ours ? "outrider demo: on a throw-away PostgreSQL and an in-process Kafka; "
                         "nothing else is touched"
                       : "outrider demo: everything in a real server is named outrider_demo or "
                         "outrider-demo.*, and removed at the end");
  if (flags_.dsn.empty()) {
    OUTRIDER_TRY(postgres_binaries_, find_postgres());
    OUTRIDER_TRY(postgres_user_, postgres_user());
  }
  OUTRIDER_TRY(directory_, ScratchDirectory::create(postgres_user_));
  relay_settings_.topic_prefix = flags_.kafka.empty() ? "outbox.event." : "outrider-demo.";
  // The mock cluster first: it is a fork of this process, which has no threads until the consumer.
  OUTRIDER_TRY(start_kafka(report));
  OUTRIDER_TRY(start_postgres(report));
  OUTRIDER_TRY(consumer_, Consumer::create(relay_settings_.bootstrap_servers, topics(), kPartitions,
                                           has_mock()));
  return start_relay(report);
}

Result<> Stage::start_kafka(Report& report) {
  if (flags_.kafka.empty()) {
    OUTRIDER_TRY(MockKafka mock, MockKafka::start(topics(), kPartitions));
    mock_.emplace(std::move(mock));
    relay_settings_.bootstrap_servers = mock_->bootstrap_servers();
    return {};
  }
  relay_settings_.bootstrap_servers = flags_.kafka;
  report.line("   making topics on " + flags_.kafka);
  topics_made_ = true;
  return create_topics(flags_.kafka, topics(), kPartitions);
}

Result<> Stage::start_postgres(Report& report) {
  const auto began = std::chrono::steady_clock::now();
  if (flags_.dsn.empty()) {
    report.line("   starting PostgreSQL " + std::to_string(postgres_binaries_.major) + " from " +
                postgres_binaries_.directory + " in " + directory_.path());
    OUTRIDER_TRY(ThrowawayPostgres postgres,
                 ThrowawayPostgres::start(postgres_binaries_, directory_, postgres_user_));
    postgres_.emplace(std::move(postgres));
    relay_settings_.dsn = postgres_->conninfo();
    relay_settings_.name = "outrider";
    OUTRIDER_TRY(database_, Database::connect(relay_settings_.dsn));
    report.line("   ready after " + one_decimal(seconds_since(began)) + " s");
  } else {
    relay_settings_.dsn = flags_.dsn;
    relay_settings_.dsn_is_secret = true;
    relay_settings_.name = kOwnName;
    OUTRIDER_TRY(database_, Database::connect(flags_.dsn));
    OUTRIDER_TRY(
        std::string busy,
        database_->value("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '" +
                         slot() + "' AND active"));
    if (!busy.empty()) {
      return fail(ErrorKind::configuration,
                  "slot \"" + slot() + "\" is in use by process " + busy + " of the server",
                  "another demo runs on this database; end it first");
    }
    objects_made_ = true;
    OUTRIDER_TRY(remove_database_objects());  // Of a demo that could not clean up.
  }
  const std::string schema = flags_.dsn.empty() ? "public" : kOwnName;
  relay_settings_.table = schema + ".outbox";
  return Shop::create_tables(*database_, schema);
}

Result<> Stage::start_relay(Report& report) {
  const auto began = std::chrono::steady_clock::now();
  OUTRIDER_TRY(relay_settings_.http_port, free_port());
  OUTRIDER_TRY(relay_.start(directory_, relay_settings_));
  OUTRIDER_TRY(wait_for_relay());
  report.line("   relay streaming after " + one_decimal(seconds_since(began) * 1e3) + " ms");
  return {};
}

Result<> Stage::wait_for_relay() {
  const auto end = std::chrono::steady_clock::now() + 20s;
  for (;;) {
    OUTRIDER_TRY(check_running());
    OUTRIDER_TRY(std::string active,
                 database_->value("SELECT active FROM pg_replication_slots WHERE slot_name = '" +
                                  slot() + "' AND active"));
    if (!active.empty()) return {};
    if (std::chrono::steady_clock::now() > end) {
      return fail(ErrorKind::fatal, "the relay does not stream after 20 s; the end of its log:\n" +
                                        relay_.end_of_log());
    }
    OUTRIDER_TRY(sleep_for(10ms));
  }
}

Result<> Stage::check_running() {
  if (interrupted()) return fail(interrupted_error());
  OUTRIDER_TRY(relay_.check_running());
  if (postgres_ && !postgres_->running()) return fail(ErrorKind::fatal, "PostgreSQL ended");
  if (mock_ && !mock_->running()) return fail(ErrorKind::fatal, "the in-process Kafka ended");
  return {};
}

void Stage::describe(Report& report) {
  report.heading("What runs where");
  if (postgres_) {
    report.line("   PostgreSQL " + database_->server_version() + "  pid " +
                std::to_string(postgres_->pid()) + ", data in " + directory_.path());
  } else {
    report.line("   PostgreSQL " + database_->server_version() +
                "  yours; schema, slot and publication " + kOwnName);
  }
  report.line("   Kafka             " + relay_settings_.bootstrap_servers +
              (mock_ ? "  (librdkafka's mock cluster, pid " + std::to_string(mock_->pid()) + ")"
                     : "  yours; topics " + relay_settings_.topic_prefix + "*"));
  report.line("   relay             pid " + std::to_string(relay_.pid()) + ": outrider run -c " +
              relay_.config_path());
  report.line("   its metrics       curl http://127.0.0.1:" +
              std::to_string(relay_settings_.http_port) + "/metrics");
  report.heading("Read along in another terminal");
  describe_reading(report);
}

void Stage::describe_reading(Report& report) const {
  report.line("   kcat -b " + relay_settings_.bootstrap_servers + " -C -t " +
              relay_settings_.topic_prefix + "OrderPlaced -f '%t [%p] @%o %k %h %s\\n'");
  if (postgres_) {
    report.line("   psql -h " + directory_.path() + " -U postgres");
  }
}

Result<> Stage::remove_database_objects() {
  OUTRIDER_TRY(Database database, Database::connect(flags_.dsn));
  const std::string name = kOwnName;
  const std::string where = " FROM pg_replication_slots WHERE slot_name = '" + name + "'";
  // The server notices that a killed relay is gone after a moment.
  for (int i = 0; i < 100; ++i) {
    OUTRIDER_TRY(std::string busy, database.value("SELECT 1" + where + " AND active"));
    if (busy.empty()) break;
    // A failure here is an interrupt, which must not end the removal.
    if (!sleep_for(50ms)) continue;
  }
  auto slot_dropped = database.run("SELECT pg_drop_replication_slot(slot_name)" + where);
  OUTRIDER_TRY(database.run("DROP PUBLICATION IF EXISTS " + name));
  OUTRIDER_TRY(database.run("DROP SCHEMA IF EXISTS " + name + " CASCADE"));
  if (!slot_dropped) return fail(slot_dropped.error());
  return {};
}

void Stage::close() {
  consumer_.reset();
  relay_.stop();
  database_.reset();
  if (objects_made_) {
    objects_made_ = false;
    if (auto removed = remove_database_objects(); !removed) {
      complain("schema, slot or publication \"outrider_demo\" is left", removed.error());
    }
  }
  if (topics_made_) {
    topics_made_ = false;
    std::vector<std::string> made = topics();
    made.emplace_back(kPositionTopic);
    if (auto removed = remove_topics(flags_.kafka, made); !removed) {
      complain("topics \"outrider-demo.*\" are left", removed.error());
    }
  }
  postgres_.reset();
  mock_.reset();
  directory_ = ScratchDirectory();
}

}  // namespace outrider::demo
