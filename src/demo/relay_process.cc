#include "demo/relay_process.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr const char* kDsnVariable = "DEMO_DSN";
constexpr std::size_t kLogLinesShown = 15;

/// In single quotes, where YAML knows one escape only.
std::string yaml_text(const std::string& text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

std::int64_t number_after(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return 0;
  return std::strtoll(text.c_str() + at + name.size() + 2, nullptr, 10);
}

}  // namespace

std::string relay_configuration(const RelaySettings& settings) {
  const std::string dsn =
      settings.dsn_is_secret ? "${env:" + std::string(kDsnVariable) + "}" : settings.dsn;
  std::ostringstream out;
  out << "version: 1\n"
      << "http:\n"
      << "  listen: 127.0.0.1:" << settings.http_port << "\n"
      << "pipelines:\n"
      << "  - name: demo\n"
      << "    source:\n"
      << "      dsn: " << yaml_text(dsn) << "\n"
      << "      slot: " << settings.name << "\n"
      << "      create_slot: true\n"
      << "      publication: " << settings.name << "\n"
      << "      create_publication: true\n"
      << "    outbox:\n"
      << "      tables: [" << yaml_text(settings.table) << "]\n"
      << "    route:\n"
      << "      replacement: " << yaml_text(settings.topic_prefix + "${routedByValue}") << "\n"
      << "    delivery:\n"
      << "      position_topic: " << kPositionTopic << "\n"
      << "    dead_letters:\n"
      << "      on_poison: stop\n"  // No table of ours in somebody's database.
      << "    kafka:\n"
      << "      bootstrap_servers: " << yaml_text(settings.bootstrap_servers) << "\n";
  return out.str();
}

Memory memory_in_status(const std::string& status) {
  return {number_after(status, "VmRSS"), number_after(status, "VmHWM")};
}

Result<> RelayProcess::start(const ScratchDirectory& directory, const RelaySettings& settings) {
  config_path_ = directory.file("outrider.yaml");
  OUTRIDER_TRY(write_file(config_path_, relay_configuration(settings)));
  command_.arguments = {"/proc/self/exe", "run", "-c", config_path_};
  command_.environment = child_environment();
  if (settings.dsn_is_secret) {
    command_.environment.push_back(std::string(kDsnVariable) + "=" + settings.dsn);
  }
  command_.directory = directory.path();
  command_.output = directory.file("relay.log");
  return restart();
}

Result<> RelayProcess::restart() {
  OUTRIDER_TRY(process_, ChildProcess::start(command_));
  return {};
}

Result<> RelayProcess::check_running() {
  const auto code = process_.exit_code();
  if (!code) return {};
  return fail(ErrorKind::fatal, "the relay ended with " + std::to_string(*code) +
                                    "; the end of its log:\n" + end_of_log());
}

std::string RelayProcess::end_of_log() const {
  return end_of_file(command_.output, kLogLinesShown);
}

Memory RelayProcess::memory() {
  std::ifstream in("/proc/" + std::to_string(process_.pid()) + "/status");
  std::ostringstream text;
  text << in.rdbuf();
  const Memory memory = memory_in_status(text.str());
  peak_kb_ = std::max(peak_kb_, memory.peak_kb);
  return memory;
}

std::int64_t RelayProcess::peak_kb() {
  memory();
  return peak_kb_;
}

void RelayProcess::kill() {
  memory();
  process_.kill();
}

void RelayProcess::stop() { process_.end(SIGTERM, 3s); }

}  // namespace outrider::demo
