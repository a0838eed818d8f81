// Any bytes: the parser of copy-both messages reads inside them and answers, never crashes.
#include "postgres/replication_protocol.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<char> message(data, data + size);
  auto parsed = outrider::parse_server_message(message);
  if (!parsed) {
    return 0;
  }
  if (const auto* xlog = std::get_if<outrider::XLogData>(&*parsed)) {
    // The payload is exactly the rest of the message.
    if (xlog->payload.size() + outrider::kXLogDataHeaderBytes != size) {
      std::abort();
    }
  }
  return 0;
}
