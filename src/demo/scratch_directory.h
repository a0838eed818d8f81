// ScratchDirectory: a fresh directory that goes with this object, and what else is free for a
// while.
//
// Under $TMPDIR, or /tmp where that is unset, too long for the path of a Unix socket, or perhaps
// closed to the user the directory is made for. Mode 0700.
#pragma once

#include <optional>
#include <string>

#include "demo/child_process.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class ScratchDirectory {
 public:
  /// Owned by `owner` if given, so that a server of that user may enter it.
  static Result<ScratchDirectory> create(const std::optional<UserId>& owner);

  ScratchDirectory() = default;
  ~ScratchDirectory();
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&& other) noexcept;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

/// A loopback TCP port nobody listens on now.
Result<int> free_port();

/// Replace the file's content, readable by its owner only.
Result<> write_file(const std::string& path, const std::string& text);

/// The last lines of a file, for showing why something ended; empty if there is none.
std::string end_of_file(const std::string& path, std::size_t lines);

}  // namespace outrider::demo
