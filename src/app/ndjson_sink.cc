#include "app/ndjson_sink.h"

#include <string_view>

namespace outrider {
namespace {

/// Length of the valid UTF-8 sequence at the start of `text`, 0 if there is none (RFC 3629).
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    std::size_t size = utf8_sequence(text);
    if (size == 0) {
      return false;
    }
    text.remove_prefix(size);
  }
  return true;
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_base64(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out += "{\"base64\":\"";
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group =
          (group << 8) | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += at + i <= bytes.size() ? kDigits[(group >> (18 - 6 * i)) & 63] : '=';
    }
  }
  out += "\"}";
}

void append_bytes(std::string& out, std::optional<std::string_view> bytes) {
  if (!bytes) {
    out += "null";
  } else if (is_utf8(*bytes)) {
    append_string(out, *bytes);
  } else {
    append_base64(out, *bytes);
  }
}

}  // namespace

std::string record_as_json(const KafkaRecord& record) {
  std::string line = "{\"topic\":";
  append_string(line, record.topic);
  if (record.partition) {
    line += ",\"partition\":" + std::to_string(*record.partition);
  }
  line += ",\"timestamp\":" + std::to_string(record.timestamp_ms) + ",\"key\":";
  append_bytes(line, record.key);
  line += ",\"headers\":[";
  for (std::size_t i = 0; i < record.headers.size(); ++i) {
    line += i == 0 ? "[" : ",[";
    append_string(line, record.headers[i].name);
    line += ',';
    append_bytes(line, record.headers[i].value);
    line += ']';
  }
  line += "],\"value\":";
  append_bytes(line, record.value);
  line += '}';
  return line;
}

Result<> NdjsonSink::drive(Now) {
  if (std::fflush(out_) != 0 || std::ferror(out_) != 0) {
    return fail(ErrorKind::configuration, "cannot write records to standard output",
                "keep the reading end of the pipe open for as long as the dry run lasts");
  }
  return {};
}

Result<ProduceStatus> NdjsonSink::produce(const KafkaRecord& record, std::uint64_t sequence, Now) {
  line_ = record_as_json(record);
  line_ += '\n';
  // A failed write is seen by drive(); nothing is confirmed in a dry run.
  (void)std::fwrite(line_.data(), 1, line_.size(), out_);
  delivered_.push_back(sequence);
  return ProduceStatus::accepted;
}

bool NdjsonSink::next_report(SinkReport& report) {
  if (delivered_.empty()) {
    return false;
  }
  report = Delivered{delivered_.front()};
  delivered_.pop_front();
  return true;
}

}  // namespace outrider
