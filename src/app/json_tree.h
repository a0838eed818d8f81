// JsonTree: one line of JSON as a tree, for commands that read what a relay answers.
//
// Object members keep their order. Missing members read as null, whose text is empty, so that a
// newer command understands an older relay. Owns its texts. Thread: any. Errors: nothing for what
// is no JSON. Limits: JsonReader's depth.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

struct JsonTree {
  enum class Kind : unsigned char { null, boolean, number, string, array, object };

  Kind kind = Kind::null;
  std::string text;               ///< Of a string, a number or "true" and "false".
  std::string name;               ///< As a member of an object.
  std::vector<JsonTree> members;  ///< Of an object or array.

  bool is_true() const { return kind == Kind::boolean && text == "true"; }
  const JsonTree& operator[](std::string_view wanted) const;
  bool has(std::string_view wanted) const;

  static std::optional<JsonTree> parse(std::string line);
};

}  // namespace outrider
