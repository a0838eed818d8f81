// Listening sockets from a text like "127.0.0.1:9640", as the option `http.listen` gives it.
//
// Errors: `configuration`, with the address in the message and what to change in the hint. A host
// name is looked up with getaddrinfo, which may block. Thread: before the loop turns.
#pragma once

#include <cstdint>
#include <string>

#include "outrider/base/result.h"

namespace outrider {

struct ListenAddress {
  std::string host;  ///< Empty: all addresses.
  std::string port;
};

/// "host:port", "[v6 address]:port" or ":port".
Result<ListenAddress> parse_listen_address(const std::string& listen);

struct ListenSocket {
  int fd = -1;  ///< Listening, non-blocking; the caller closes it.
  std::uint16_t port = 0;
};

Result<ListenSocket> open_listen_socket(const std::string& listen);

}  // namespace outrider
