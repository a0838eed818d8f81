// ThrowawayPostgres: a PostgreSQL cluster in a directory of ours, reached by a Unix socket in it.
//
// Owns the server process; the directory is the caller's and must outlive it. PostgreSQL refuses to
// run as root, so a root caller's server runs as `postgres` or `nobody`. No TCP port: the directory
// is closed to other users, which is why "trust" is safe. Settings: wal_level logical, fsync off,
// and output_plugin_libraries where the server knows it (since 15.19 and 18.6).
#pragma once

#include <optional>
#include <string>

#include "demo/child_process.h"
#include "demo/scratch_directory.h"
#include "outrider/base/result.h"

namespace outrider::demo {

struct PostgresBinaries {
  std::string directory;
  int major = 0;
};

/// The newest server (14 or later) under /usr/lib/postgresql, else the one on PATH.
Result<PostgresBinaries> find_postgres();

/// "postgres (PostgreSQL) 15.20 (Debian …)" → 15; 0 if there is no number.
int major_of_version_text(const std::string& text);

/// The user the server must run as; nothing when the caller is not root.
Result<std::optional<UserId>> postgres_user();

class ThrowawayPostgres {
 public:
  /// Initialise and start; returns when it accepts connections.
  static Result<ThrowawayPostgres> start(const PostgresBinaries& binaries,
                                         const ScratchDirectory& directory,
                                         const std::optional<UserId>& user);

  ~ThrowawayPostgres() { stop(); }
  ThrowawayPostgres(ThrowawayPostgres&&) noexcept = default;
  ThrowawayPostgres& operator=(ThrowawayPostgres&&) = delete;

  std::string conninfo() const;
  pid_t pid() const { return server_.pid(); }
  bool running() { return server_.running(); }

  /// Immediate: nobody needs the data any more.
  void stop();

 private:
  ThrowawayPostgres(std::string socket_directory, ChildProcess server)
      : socket_directory_(std::move(socket_directory)), server_(std::move(server)) {}

  std::string socket_directory_;
  ChildProcess server_;
};

}  // namespace outrider::demo
