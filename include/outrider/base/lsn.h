// Lsn: a position in PostgreSQL's write-ahead log (manual, "pg_lsn Type").
//
// A type of its own, so that an xid, a count or a sequence number cannot be passed for a position.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace outrider {

class Lsn {
 public:
  constexpr Lsn() = default;

  /// From the 64-bit number in a replication message.
  static constexpr Lsn from_wire(std::uint64_t value) { return Lsn(value); }

  /// Past every position: no limit.
  static constexpr Lsn max() { return Lsn(~std::uint64_t{0}); }

  /// From "16/B374D848"; nothing if the text is not of that form.
  static std::optional<Lsn> parse(std::string_view text);

  constexpr std::uint64_t to_wire() const { return value_; }

  /// As PostgreSQL prints it: two hexadecimal halves, upper case, no leading zeros.
  std::string to_string() const;

  /// Zero is PostgreSQL's "no position".
  constexpr bool is_valid() const { return value_ != 0; }

  constexpr auto operator<=>(const Lsn&) const = default;

 private:
  constexpr explicit Lsn(std::uint64_t value) : value_(value) {}

  std::uint64_t value_ = 0;
};

/// Bytes from `from` to `to`; zero when `to` is not ahead.
constexpr std::uint64_t bytes_between(Lsn from, Lsn to) {
  return to > from ? to.to_wire() - from.to_wire() : 0;
}

}  // namespace outrider
