#include "control/socket_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "outrider/control/control_server.h"

namespace outrider {
namespace {

constexpr int kBacklog = 16;
constexpr int kLockPauseMs = 20;

/// A descriptor that is closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

tl::unexpected<Error> refused(const std::string& path, const std::string& why,
                              const std::string& hint) {
  return fail(ErrorKind::configuration, "cannot open the control socket \"" + path + "\": " + why,
              hint);
}

tl::unexpected<Error> refused(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return refused(path, std::strerror(error),
                     "make its folder, owned by the relay's user, or set control.socket to a path "
                     "in one that exists");
    case EACCES:
    case EPERM:
    case EROFS:
      return refused(path, std::strerror(error),
                     "let the relay's user write to the folder, or set control.socket to a path "
                     "in one that it may write to");
    default:
      return refused(path, std::strerror(error),
                     "set control.socket to a path where this process may make a socket");
  }
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int unix_socket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

/// Nothing is there any more, or an error.
Result<> clear_the_way(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? Result<>() : Result<>(refused(path, errno));
  }
  if (!S_ISSOCK(found.st_mode)) {
    return refused(path, "something else than a socket has this name",
                   "move it away, or set control.socket to another path");
  }
  const Descriptor probe(unix_socket());
  if (probe.get() < 0) {
    return refused(path, errno);
  }
  const sockaddr_un address = address_of(path);
  // A full queue of connections (EAGAIN) is a living process too.
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN) {
    return refused(path, "a running process answers there",
                   "stop that relay, or give each relay on this machine a control.socket of its "
                   "own");
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return refused(path, errno);
  }
  return unlink(path.c_str()) == 0 || errno == ENOENT ? Result<>() : Result<>(refused(path, errno));
}

Result<> lock_folder(const std::string& path, int folder) {
  for (int waited_ms = 0; flock(folder, LOCK_EX | LOCK_NB) != 0; waited_ms += kLockPauseMs) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return {};  // A file system without locks: the probe alone has to do.
    }
    if (waited_ms >= kFolderLockMax.count()) {
      return refused(path, "another process holds a lock on its folder",
                     "give the socket a folder that nobody else locks");
    }
    (void)poll(nullptr, 0, kLockPauseMs);
  }
  return {};
}

}  // namespace

SocketFile::SocketFile(SocketFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      device_(other.device_),
      inode_(other.inode_) {}

SocketFile::~SocketFile() {
  if (fd_ < 0) {
    return;
  }
  struct stat found {};
  if (lstat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_) {
    (void)unlink(path_.c_str());
  }
  close(fd_);
}

Result<SocketFile> SocketFile::open(const std::string& path) {
  if (path.size() > kControlPathBytesMax || path.find('\0') != std::string::npos || path.empty()) {
    return refused(path,
                   "a socket's path has 1 to " + std::to_string(kControlPathBytesMax) +
                       " bytes, none of them zero",
                   "set control.socket to a shorter path");
  }
  const Descriptor folder(
      ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
  if (folder.get() < 0) {
    return refused(path, errno);
  }
  OUTRIDER_TRY(lock_folder(path, folder.get()));
  OUTRIDER_TRY(clear_the_way(path));
  Descriptor socket(unix_socket());
  const sockaddr_un address = address_of(path);
  struct stat made {};
  if (socket.get() < 0 || fchmod(socket.get(), S_IRUSR | S_IWUSR) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(socket.get(), kBacklog) != 0 || lstat(path.c_str(), &made) != 0) {
    return refused(path, errno);
  }
  SocketFile file;
  file.fd_ = socket.release();
  file.path_ = path;
  file.device_ = made.st_dev;
  file.inode_ = made.st_ino;
  return file;
}

}  // namespace outrider
