#include "demo/scratch_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace outrider::demo {
namespace {

// sun_path has 108 bytes; "/outrider-demo-XXXXXX/.s.PGSQL.5432" and a zero take 37 of them.
constexpr std::size_t kParentPathMax = 70;

std::string parent_directory(const std::optional<UserId>& owner) {
  if (owner) return "/tmp";  // Another user may not be able to enter what TMPDIR names.
  const char* chosen = std::getenv("TMPDIR");
  const std::string path = chosen == nullptr ? "" : chosen;
  const bool fits = !path.empty() && path[0] == '/' && path.size() <= kParentPathMax;
  return fits ? path : "/tmp";
}

Error file_error(const std::string& what, const std::string& path) {
  return Error{ErrorKind::configuration, what + " \"" + path + "\": " + std::strerror(errno),
               "free some space, or point TMPDIR to a directory that can be written", ""};
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create(const std::optional<UserId>& owner) {
  std::string path = parent_directory(owner) + "/outrider-demo-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return fail(file_error("cannot make directory", path));
  ScratchDirectory directory(path);
  if (owner && chown(path.c_str(), owner->uid, owner->gid) != 0) {
    return fail(file_error("cannot give away directory", path));
  }
  return directory;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

ScratchDirectory& ScratchDirectory::operator=(ScratchDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

Result<int> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool ok = fd >= 0 && bind(fd, generic, size) == 0 && getsockname(fd, generic, &size) == 0;
  const int number = errno;
  if (fd >= 0) close(fd);
  if (!ok) return fail(ErrorKind::fatal, std::string("no free port: ") + std::strerror(number));
  return int{ntohs(address.sin_port)};
}

Result<> write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  chmod(path.c_str(), 0600);  // Before there is anything in it.
  out << text;
  out.close();
  if (!out) return fail(file_error("cannot write", path));
  return {};
}

std::string end_of_file(const std::string& path, std::size_t lines) {
  std::ifstream in(path);
  std::deque<std::string> kept;
  for (std::string line; std::getline(in, line);) {
    kept.push_back(line);
    if (kept.size() > lines) kept.pop_front();
  }
  std::string text;
  for (const std::string& line : kept) text += "    " + line + "\n";
  return text;
}

}  // namespace outrider::demo
