// What both decoder fuzz targets do with an input: a sequence of messages, each behind its length
// as two big-endian bytes (a length past the end takes what is left; zero resets the decoder).
// Every change is walked through, so that a view outside the message is a sanitizer report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "outrider/base/byte_reader.h"
#include "outrider/base/check.h"
#include "outrider/decode/decoder.h"

namespace outrider {

inline std::size_t sum_bytes(std::string_view text) {
  std::size_t sum = 0;
  for (char byte : text) {
    sum += static_cast<unsigned char>(byte);
  }
  return sum;
}

inline std::size_t walk(const Change& change) {
  std::size_t sum = 0;
  if (const auto* insert = std::get_if<Insert>(&change)) {
    OUTRIDER_CHECK(insert->relation != nullptr && insert->relation->layout_id != 0,
                   "an insert names its layout");
    OUTRIDER_CHECK(insert->values.size() == insert->relation->columns.size(),
                   "a row has a value for each column");
    for (const ColumnValue& value : insert->values) {
      sum += sum_bytes(value.text);
    }
    for (const Column& column : insert->relation->columns) {
      sum += sum_bytes(column.name);
    }
  } else if (const auto* message = std::get_if<LogicalMessage>(&change)) {
    sum += sum_bytes(message->prefix) + sum_bytes(message->content);
  }
  return sum;
}

inline void fuzz_decoder(Decoder& decoder, const std::uint8_t* data, std::size_t size) {
  ByteReader reader({reinterpret_cast<const char*>(data), size});
  volatile std::size_t sink = 0;
  while (reader.left() > 0) {
    std::size_t length = reader.u16();
    if (length == 0) {
      decoder.reset();
      continue;
    }
    std::string_view message = reader.bytes(std::min(length, reader.left()));
    // Of exactly the message's size: the byte behind it belongs to nobody.
    auto buffer = std::make_unique<char[]>(message.size());
    message.copy(buffer.get(), message.size());
    auto change = decoder.decode(Lsn::from_wire(1), {buffer.get(), message.size()});
    if (change.has_value()) {
      sink = sink + walk(*change);
    } else {
      OUTRIDER_CHECK(change.error().kind == ErrorKind::poison && !change.error().hint.empty(),
                     "a decoder's error is poison and says what to do");
    }
  }
}

}  // namespace outrider
