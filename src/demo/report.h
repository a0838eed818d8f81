// Report: what the demo prints, and the memory of which figures did not hold.
//
// Lines go to standard output as they come. When nobody reads it any more, that counts as a signal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace outrider::demo {

/// 1234567 → "1,234,567".
std::string grouped(std::uint64_t number);

/// 3.14159 → "3.1".
std::string one_decimal(double number);

/// Text with spaces after it up to a width; never cut.
std::string padded(const std::string& text, std::size_t width);

/// KiB → "12.3 MB", in units of 1,000,000 bytes.
std::string megabytes(std::int64_t kib);

class Report {
 public:
  void line(const std::string& text = {});
  void heading(const std::string& text);

  /// Print a figure with "ok" or "WRONG" before it; what is wrong is remembered.
  bool check(bool holds, const std::string& text);

  const std::vector<std::string>& failures() const { return failures_; }

 private:
  std::vector<std::string> failures_;
};

}  // namespace outrider::demo
