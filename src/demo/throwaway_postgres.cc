#include "demo/throwaway_postgres.h"

#include <dirent.h>
#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "demo/database.h"
#include "demo/interrupt.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kMajorMin = 14;
constexpr const char* kDebianRoot = "/usr/lib/postgresql";
constexpr const char* kLog = "postgres.log";

bool has_server(const std::string& directory) {
  return access((directory + "/initdb").c_str(), X_OK) == 0 &&
         access((directory + "/postgres").c_str(), X_OK) == 0;
}

PostgresBinaries newest_under(const std::string& root) {
  PostgresBinaries newest;
  DIR* list = opendir(root.c_str());
  if (list == nullptr) return newest;
  while (const dirent* entry = readdir(list)) {
    const int major = static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    const std::string directory = root + "/" + entry->d_name + "/bin";
    if (major > newest.major && has_server(directory)) newest = {directory, major};
  }
  closedir(list);
  return newest;
}

std::string directory_on_path() {
  const char* path = std::getenv("PATH");
  std::istringstream parts(path == nullptr ? "" : path);
  for (std::string directory; std::getline(parts, directory, ':');) {
    if (!directory.empty() && has_server(directory)) return directory;
  }
  return {};
}

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char chunk[4096];
  for (std::size_t got = 0; (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) {
    text.append(chunk, got);
  }
  pclose(pipe);
  return text;
}

ChildCommand server_command(const PostgresBinaries& binaries, const ScratchDirectory& directory,
                            const std::optional<UserId>& user) {
  ChildCommand command;
  for (std::string& entry : child_environment()) {
    const bool ours = entry.rfind("PG", 0) == 0 || entry.rfind("LC_", 0) == 0 ||
                      entry.rfind("LANG", 0) == 0 || entry.rfind("HOME=", 0) == 0;
    if (!ours) command.environment.push_back(std::move(entry));
  }
  command.environment.push_back("HOME=" + directory.path());
  command.environment.push_back("LC_ALL=C");
  command.directory = directory.path();
  command.output = directory.file(kLog);
  command.user = user;
  command.arguments = {binaries.directory + "/postgres"};
  return command;
}

Error server_error(const std::string& message, const ScratchDirectory& directory) {
  return Error{ErrorKind::fatal,
               message + "; its last lines:\n" + end_of_file(directory.file(kLog), 15), "", ""};
}

/// Run to its end; a signal to us ends it.
Result<int> run_to_end(const ChildCommand& command) {
  OUTRIDER_TRY(ChildProcess child, ChildProcess::start(command));
  while (!child.exit_code()) OUTRIDER_TRY(sleep_for(5ms));
  return *child.exit_code();
}

Result<> initialise(ChildCommand command, const PostgresBinaries& binaries,
                    const ScratchDirectory& directory) {
  command.arguments = {binaries.directory + "/initdb",
                       "-D",
                       directory.file("data"),
                       "-U",
                       "postgres",
                       "-E",
                       "UTF8",
                       "--locale=C",
                       "--no-sync",
                       "--auth=trust"};
  OUTRIDER_TRY(int code, run_to_end(command));
  if (code != 0) return fail(server_error("initdb failed", directory));
  return {};
}

/// Older servers do not start with a setting they do not know.
Result<bool> knows_plugin_list(ChildCommand command, const ScratchDirectory& directory) {
  command.arguments.emplace_back("--describe-config");
  command.output = directory.file("settings.txt");
  OUTRIDER_TRY(run_to_end(command));
  std::ifstream in(command.output);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("output_plugin_libraries", 0) == 0) return true;
  }
  return false;
}

Result<> configure(const ChildCommand& command, const ScratchDirectory& directory) {
  OUTRIDER_TRY(bool plugin_list, knows_plugin_list(command, directory));
  std::ofstream conf(directory.file("data/postgresql.conf"), std::ios::app);
  conf << "listen_addresses = ''\n"
       << "unix_socket_directories = '" << directory.path() << "'\n"
       << "unix_socket_permissions = 0700\n"
       << "port = 5432\n"
       << "wal_level = logical\n"
       << "fsync = off\n"
       << "full_page_writes = off\n"
       << "max_connections = 20\n"
       << "shared_buffers = '64MB'\n"
       << "log_min_messages = warning\n";
  if (plugin_list) conf << "output_plugin_libraries = 'pgoutput, test_decoding, wal2json'\n";
  conf.close();
  if (!conf) return fail(ErrorKind::fatal, "cannot write postgresql.conf");
  return {};
}

}  // namespace

int major_of_version_text(const std::string& text) {
  const std::size_t digit = text.find_first_of("0123456789");
  if (digit == std::string::npos) return 0;
  return static_cast<int>(std::strtol(text.c_str() + digit, nullptr, 10));
}

Result<PostgresBinaries> find_postgres() {
  PostgresBinaries found = newest_under(kDebianRoot);
  if (found.major < kMajorMin) {
    const std::string directory = directory_on_path();
    if (!directory.empty()) {
      found = {directory,
               major_of_version_text(output_of("'" + directory + "/postgres' --version 2>&1"))};
    }
  }
  if (found.major < kMajorMin) {
    return fail(ErrorKind::configuration,
                "no PostgreSQL server 14 or later under \"/usr/lib/postgresql\" or on PATH",
                "apt-get install -y --no-install-recommends postgresql-15 postgresql-15-wal2json, "
                "or give a database of your own with --dsn");
  }
  return found;
}

Result<std::optional<UserId>> postgres_user() {
  if (geteuid() != 0) return std::optional<UserId>();
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* entry = getpwnam(name)) {
      return std::optional<UserId>(UserId{entry->pw_uid, entry->pw_gid});
    }
  }
  return fail(ErrorKind::configuration, "no user \"postgres\" or \"nobody\" to run PostgreSQL as",
              "run the demo as another user than root");
}

Result<ThrowawayPostgres> ThrowawayPostgres::start(const PostgresBinaries& binaries,
                                                   const ScratchDirectory& directory,
                                                   const std::optional<UserId>& user) {
  ChildCommand command = server_command(binaries, directory, user);
  OUTRIDER_TRY(initialise(command, binaries, directory));
  OUTRIDER_TRY(configure(command, directory));
  command.arguments.insert(command.arguments.end(), {"-D", directory.file("data")});
  command.death_signal = SIGQUIT;  // So that it ends its own children.
  OUTRIDER_TRY(ChildProcess server, ChildProcess::start(command));
  ThrowawayPostgres postgres(directory.path(), std::move(server));
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!Database::connect(postgres.conninfo())) {
    if (!postgres.running() || std::chrono::steady_clock::now() > end) {
      return fail(server_error("PostgreSQL did not start", directory));
    }
    OUTRIDER_TRY(sleep_for(20ms));
  }
  return postgres;
}

std::string ThrowawayPostgres::conninfo() const {
  return "host=" + socket_directory_ + " user=postgres dbname=postgres";
}

void ThrowawayPostgres::stop() { server_.end(SIGQUIT, 8s); }

}  // namespace outrider::demo
