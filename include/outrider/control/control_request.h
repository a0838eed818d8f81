// ControlRequest: the words that commands and a running relay speak over the control socket.
//
// One connection carries one request, a JSON object on one line:
//   {"v":1,"command":"dead-letters.list","arguments":{"reason":"too_large","number":[1,2]}}
// and any number of answers, each a JSON object on one line with one member: `progress` and `row`
// as often as the command wants, then `result` or `error` {kind, message, hint}, which is the last.
// A value of an argument is a text, a whole number, true, false, or a list of texts and numbers.
// Pure functions. Errors: configuration, with the place in the line. See
// docs/adr/0016-control-socket.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"

namespace outrider {

/// Version of the protocol; another one is refused.
inline constexpr int kControlVersion = 1;
inline constexpr std::size_t kControlRequestBytesMax = std::size_t{64} * 1024;

/// By name; a single value is a list of one, and everything is kept as its text.
using ControlArguments = std::map<std::string, std::vector<std::string>, std::less<>>;

struct ControlRequest {
  std::uint64_t session = 0;  ///< Given by the server; names the connection.
  std::uint32_t uid = 0;      ///< Who asks, from the kernel.
  std::int32_t pid = 0;
  std::string command;
  ControlArguments arguments;
};

/// Unescapes in place; what comes back owns its texts.
Result<ControlRequest> parse_control_request(std::span<char> line);

/// The request as a line, without the line break.
std::string control_request_line(std::string_view command, const ControlArguments& arguments);

/// The line that ends a request without success.
std::string control_error_line(const Error& error);

}  // namespace outrider
