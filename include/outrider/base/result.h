// What a fallible call gives back: a value, or an Error that an operator can act on.
//
// Every room returns Result; exceptions of third-party libraries are caught at the door of the room
// that includes them. A dropped Result is a compiler warning. See
// docs/adr/0002-result-and-check.md.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace outrider {

/// What an error means for the relay; the only thing the core decides by.
enum class ErrorKind {
  transient,  ///< Heals by itself: connection lost, broker down, slot held by another. Back off.
  configuration,  ///< Somebody has to change a setting, a grant or an object. Stop, exit 78.
  poison,         ///< One row cannot be decoded, routed or sent. Policy of the row; exit 65.
  fatal,          ///< The slot, the catalogue or the server state is wrong. Stop, exit 69.
};

const char* to_string(ErrorKind kind);

/// One error. `message` is lower case without a full stop and names the thing in quotes; `hint` is
/// one sentence that says what to do; `code` is the SQLSTATE or the librdkafka error name, if any.
struct Error {
  ErrorKind kind = ErrorKind::transient;
  std::string message;
  std::string hint;
  std::string code;
};

/// "message (code); hint: …", for places that have one line only.
std::string describe(const Error& error);

template <typename T = void>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message, std::string hint = {},
                                  std::string code = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(message), std::move(hint), std::move(code)});
}

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace outrider

#define OUTRIDER_TRY_CAT2(a, b) a##b
#define OUTRIDER_TRY_CAT(a, b) OUTRIDER_TRY_CAT2(a, b)
#define OUTRIDER_TRY_ONE(result, expr)                                   \
  if (auto result = (expr); !result.has_value()) {                       \
    return tl::unexpected<::outrider::Error>(std::move(result).error()); \
  }
#define OUTRIDER_TRY_TWO(result, decl, expr)                             \
  auto result = (expr);                                                  \
  if (!result.has_value()) {                                             \
    return tl::unexpected<::outrider::Error>(std::move(result).error()); \
  }                                                                      \
  decl = std::move(*result)
#define OUTRIDER_TRY_PICK(a, b, name, ...) name
#define OUTRIDER_TRY_1(expr) OUTRIDER_TRY_ONE(OUTRIDER_TRY_CAT(try_, __LINE__), expr)
#define OUTRIDER_TRY_2(decl, expr) OUTRIDER_TRY_TWO(OUTRIDER_TRY_CAT(try_, __LINE__), decl, expr)

/// `OUTRIDER_TRY(auto x, call());` or `OUTRIDER_TRY(call());`: return the error of the call, if
/// any.
#define OUTRIDER_TRY(...) \
  OUTRIDER_TRY_PICK(__VA_ARGS__, OUTRIDER_TRY_2, OUTRIDER_TRY_1, unused)(__VA_ARGS__)
