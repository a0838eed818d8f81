#include "demo/report.h"

#include <unistd.h>

#include <cstdio>

#include "demo/interrupt.h"

namespace outrider::demo {

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string one_decimal(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", number);
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string megabytes(std::int64_t kib) {
  return one_decimal(static_cast<double>(kib) * 1024 / 1e6) + " MB";
}

void Report::line(const std::string& text) {
  if (std::printf("%s\n", text.c_str()) < 0 || std::fflush(stdout) != 0) interrupt();
}

void Report::heading(const std::string& text) {
  line();
  line(isatty(STDOUT_FILENO) != 0 ? "\033[1m" + text + "\033[0m" : text);
}

bool Report::check(bool holds, const std::string& text) {
  line((holds ? "   ok     " : "   WRONG  ") + text);
  if (!holds) failures_.push_back(text);
  return holds;
}

}  // namespace outrider::demo
