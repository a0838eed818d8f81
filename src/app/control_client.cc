#include "app/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <utility>

#include "app/check_config.h"
#include "app/control_commands.h"
#include "app/control_text.h"
#include "app/exit_code.h"
#include "outrider/control/control_server.h"
#include "outrider/model/dead_letter.h"

namespace outrider {
namespace {

constexpr int kSilenceMs = std::chrono::milliseconds(kSilenceMax).count();

tl::unexpected<Error> no_relay(const std::string& path, int error) {
  const std::string message = "no relay answers at \"" + path + "\": " + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      return fail(ErrorKind::fatal, message,
                  "see that the relay runs with control.socket set to this path");
    case EACCES:
    case EPERM:
      return fail(ErrorKind::configuration, message, "run the command as the relay's user or root");
    default:
      return fail(ErrorKind::fatal, message, "see that the path is the relay's control.socket");
  }
}

/// One connection to a relay.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  Line(Line&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Line& operator=(Line&&) = delete;
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }

  static Result<Line> connect(const std::string& path) {
    if (path.empty() || path.size() > kControlPathBytesMax) {
      return no_relay(path, ENAMETOOLONG);
    }
    Line line(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (line.fd_ < 0 ||
        ::connect(line.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return no_relay(path, errno);
    }
    return line;
  }

  /// A relay that does not want the request answers before it has read it all: no error here.
  void send_all(const std::string& text) const {
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count = send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno != EINTR) {
        return;
      }
      sent += count > 0 ? static_cast<std::size_t>(count) : 0;
    }
  }

  /// The next line; nothing at the end.
  Result<std::optional<std::string>> next() {
    std::size_t looked = 0;
    while (true) {
      const std::size_t end = buffer_.find('\n', looked);
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return std::optional<std::string>(std::move(line));
      }
      looked = buffer_.size();
      OUTRIDER_TRY(const bool more, read_more());
      if (!more) {
        return std::optional<std::string>();
      }
    }
  }

 private:
  Result<bool> read_more() {
    pollfd wanted{fd_, POLLIN, 0};
    int ready = 0;
    do {
      ready = poll(&wanted, 1, kSilenceMs);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) {
      return fail(ErrorKind::fatal,
                  "the relay has said nothing for " + std::to_string(kSilenceMax.count()) + " s",
                  "see its log and /livez; the command may still have been carried out");
    }
    std::array<char, 65536> bytes;
    const ssize_t count = recv(fd_, bytes.data(), bytes.size(), 0);
    if (count > 0) {
      buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return count > 0 || (count < 0 && errno == EINTR);
  }

  int fd_;
  std::string buffer_;
};

Result<std::string> socket_path(const LoadRequest& request, const CommandFlags& flags) {
  if (!flags.socket.empty()) {
    return flags.socket;
  }
  LoadRequest lenient = request;
  lenient.complete = false;
  OUTRIDER_TRY(const LoadedConfig loaded, load_config(lenient));
  if (loaded.config.control.socket.empty()) {
    return fail(ErrorKind::configuration, "no control socket is configured",
                "set control.socket in the relay's configuration and give it with -c, or give the "
                "path with --socket");
  }
  return loaded.config.control.socket;
}

Result<int> converse(const LoadRequest& request, const CommandFlags& flags) {
  OUTRIDER_TRY(const ControlArguments arguments, control_arguments(flags));
  OUTRIDER_TRY(const std::string path, socket_path(request, flags));
  OUTRIDER_TRY(Line line, Line::connect(path));
  line.send_all(control_request_line(flags.command, arguments) + "\n");
  ControlText text(flags.command, flags.json, flags.letters.dry_run);
  while (true) {
    OUTRIDER_TRY(const std::optional<std::string> answer, line.next());
    if (!answer) {
      text.end_progress();
      return fail(ErrorKind::fatal, "the relay ended the connection before the command was done",
                  "see the relay's log, and try again");
    }
    OUTRIDER_TRY(const std::optional<int> code, text.show(*answer));
    if (code) {
      return *code;
    }
  }
}

void put(ControlArguments& arguments, const char* name, const std::string& value) {
  if (!value.empty()) {
    arguments[name] = {value};
  }
}

/// What the relay would refuse as well, but as a fault of the command line.
Result<> check_flags(const CommandFlags& flags) {
  OUTRIDER_TRY(const ControlArguments arguments, control_arguments(flags));
  if (const std::optional<LetterCommand> command = letter_command_of(flags.command)) {
    OUTRIDER_TRY(letter_order_of(*command, arguments));
  }
  return {};
}

constexpr std::array<DeadLetterReason, 8> kReasons = {
    DeadLetterReason::unroutable,     DeadLetterReason::undecodable,
    DeadLetterReason::too_large,      DeadLetterReason::bad_timestamp,
    DeadLetterReason::refused,        DeadLetterReason::topic_missing,
    DeadLetterReason::not_authorised, DeadLetterReason::key_parked,
};

}  // namespace

std::optional<std::int64_t> parse_age(std::string_view text) {
  std::int64_t number = 0;
  const auto [unit, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || number < 1 || number > 1'000'000'000 ||
      unit + 1 != text.data() + text.size()) {
    return std::nullopt;
  }
  switch (*unit) {
    case 's':
      return number;
    case 'm':
      return number * 60;
    case 'h':
      return number * 3'600;
    case 'd':
      return number * 86'400;
    default:
      return std::nullopt;
  }
}

std::string letter_reasons() {
  std::string text;
  for (DeadLetterReason reason : kReasons) {
    text += std::string(text.empty() ? "" : ", ") + to_string(reason);
  }
  return text;
}

Result<ControlArguments> control_arguments(const CommandFlags& flags) {
  const LetterFlags& letters = flags.letters;
  ControlArguments arguments;
  put(arguments, "pipeline", flags.pipeline);
  put(arguments, "type", letters.type);
  put(arguments, "aggregate_id", letters.aggregate_id);
  put(arguments, "key", letters.key);
  put(arguments, "topic", letters.topic);
  put(arguments, "all", letters.all ? "true" : "");
  put(arguments, "dry_run", letters.dry_run ? "true" : "");
  if (!letters.reason.empty() && !parse_dead_letter_reason(letters.reason)) {
    return fail(ErrorKind::configuration, "\"" + letters.reason + "\" is no reason",
                "--reason takes one of: " + letter_reasons());
  }
  put(arguments, "reason", letters.reason);
  if (!letters.older_than.empty()) {
    const std::optional<std::int64_t> age = parse_age(letters.older_than);
    if (!age) {
      return fail(ErrorKind::configuration, "\"" + letters.older_than + "\" is no age",
                  "write a whole number and s, m, h or d, for example --older-than 10m");
    }
    arguments["older_than_s"] = {std::to_string(*age)};
  }
  if (!letters.numbers.empty()) {
    arguments["number"] = letters.numbers;
  }
  if (!letters.ids.empty()) {
    arguments["id"] = letters.ids;
  }
  return arguments;
}

int control_command(const LoadRequest& request, const CommandFlags& flags) {
  if (const Result<> checked = check_flags(flags); !checked) {
    (void)report_error(checked.error());
    return kExitUsage;
  }
  const Result<int> code = converse(request, flags);
  return code ? *code : report_error(code.error());
}

}  // namespace outrider
