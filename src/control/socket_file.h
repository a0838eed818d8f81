// SocketFile: a listening Unix socket and the file that names it.
//
// Made under a lock of its folder, so that of two processes that find the same stale file only one
// takes it. The file is created with mode 0600 (fchmod before bind, unix(7)), without touching the
// process's umask. Owns: descriptor and file; the file is removed only if it is still ours.
// Thread: any. Errors: configuration, with what to change.
#pragma once

#include <sys/types.h>

#include <string>

#include "outrider/base/result.h"

namespace outrider {

class SocketFile {
 public:
  SocketFile() = default;
  SocketFile(SocketFile&& other) noexcept;
  SocketFile& operator=(SocketFile&&) = delete;
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile();

  static Result<SocketFile> open(const std::string& path);

  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace outrider
