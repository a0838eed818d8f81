// Values: one Node into one field by its row's rule, and a field back into YAML text.
//
// The strict part of loading for a single value: type, range, words, emptiness, map keys. Never
// shows what was found where the row holds secrets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/node.h"
#include "config/options.h"

namespace outrider {

/// Why a value was not taken. `at` is the culprit inside the given node; `map_key` names its entry.
struct ValueFault {
  const Node* at = nullptr;
  std::string map_key;
  std::string what;
};

/// Write `node` into `field`. On a fault the field keeps its value.
std::optional<ValueFault> assign(const Option& option, const Field& field, const Node& node);

/// Write one entry of a map field.
std::optional<ValueFault> assign_entry(const Option& option, const Field& field,
                                       const std::string& key, const Node& node);

/// "whole number, 1 to 10", "one of a, b", …: what the row's field may hold.
std::string allowed_text(const Option& option);

/// "text", "secret", "integer", "boolean", "word", "list", "map", "map of secrets".
std::string_view type_name(const Field& field);

/// The field's value as YAML: a scalar, or a list in brackets. Not for maps.
std::string value_text(const Option& option, const Field& field);

/// As a YAML scalar, in double quotes wherever a plain one could be read as something else.
std::string quoted(std::string_view text);

}  // namespace outrider
