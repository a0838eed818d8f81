// JsonReader: a bounded, strict, in-place JSON pull reader for wal2json and the control socket.
//
// Strings are unescaped where they stand and numbers stay the text they are, so every view points
// into the caller's bytes and nothing is allocated. Own code, because RapidJSON 1.1.0 refuses
// numbers that no double can hold even when it is told to keep them as text, and a numeric column
// may have thousands of digits. Errors: sticky; after the first one every call returns false and
// `why()` and `at()` tell what and where. Limits: kNestingMax. Bytes that are not UTF-8 pass
// through (an SQL_ASCII database may hold them). Source of the grammar: RFC 8259.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace outrider {

struct JsonValue {
  enum class Kind : std::uint8_t {
    null,
    boolean,
    number,
    string,
    nested,  ///< An object or array, checked and stepped over.
  };
  Kind kind = Kind::null;
  bool truth = false;     ///< Of a boolean.
  std::string_view text;  ///< Of a string, unescaped; of a number, as it stands.
};

class JsonReader {
 public:
  static constexpr int kNestingMax = 32;

  explicit JsonReader(std::span<char> text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  /// Enter an object or array; `bracket` is '{' or '['.
  bool open(char bracket);

  /// Whether the next value begins with this bracket; consumes nothing but white space.
  bool at_bracket(char bracket);

  /// Is there another member? If so its key and colon are consumed. False at '}', also consumed.
  /// `first` is true before the first call and kept by the reader from then on.
  bool next_member(bool& first, std::string_view& key);

  /// Is there another element? False at ']', which is consumed.
  bool next_element(bool& first);

  /// The next value, whatever it is.
  bool value(JsonValue& out) { return value_at(0, out); }

  /// Nothing but white space may be left.
  bool finish();

  bool ok() const { return why_ == nullptr; }
  /// What was wrong; only when not ok().
  const char* why() const { return why_; }
  /// Where the reader stands, counted from the start of the message.
  std::size_t at() const { return static_cast<std::size_t>(at_ - begin_); }

 private:
  bool wrong(const char* why);
  void skip_space();
  bool more(char close, bool& first);
  bool value_at(int depth, JsonValue& out);
  bool skip_nested(int depth);
  bool literal(std::string_view word);
  bool number(std::string_view& out);
  bool digits();
  bool string(std::string_view& out);
  bool escape(char*& put);
  bool hex4(std::uint32_t& unit);
  bool unicode_escape(char*& put);

  char* begin_;
  char* at_;
  char* end_;
  const char* why_ = nullptr;
};

}  // namespace outrider
