#include "app/json_tree.h"

#include <algorithm>

#include "outrider/base/json_reader.h"

namespace outrider {
namespace {

bool read_value(JsonReader& json, JsonTree& tree, int depth);

bool read_members(JsonReader& json, JsonTree& tree, int depth) {
  const bool object = tree.kind == JsonTree::Kind::object;
  bool first = true;
  std::string_view key;
  while (object ? json.next_member(first, key) : json.next_element(first)) {
    JsonTree& member = tree.members.emplace_back();
    member.name = key;
    if (!read_value(json, member, depth)) {
      return false;
    }
  }
  return json.ok();
}

bool read_value(JsonReader& json, JsonTree& tree, int depth) {
  if (depth > JsonReader::kNestingMax) {
    return false;
  }
  for (char bracket : {'{', '['}) {
    if (json.at_bracket(bracket)) {
      tree.kind = bracket == '{' ? JsonTree::Kind::object : JsonTree::Kind::array;
      return json.open(bracket) && read_members(json, tree, depth + 1);
    }
  }
  JsonValue value;
  if (!json.value(value)) {
    return false;
  }
  switch (value.kind) {
    case JsonValue::Kind::boolean:
      tree.kind = JsonTree::Kind::boolean;
      tree.text = value.truth ? "true" : "false";
      break;
    case JsonValue::Kind::number:
      tree.kind = JsonTree::Kind::number;
      tree.text = value.text;
      break;
    case JsonValue::Kind::string:
      tree.kind = JsonTree::Kind::string;
      tree.text = value.text;
      break;
    case JsonValue::Kind::null:
    case JsonValue::Kind::nested:
      break;
  }
  return true;
}

}  // namespace

const JsonTree& JsonTree::operator[](std::string_view wanted) const {
  static const JsonTree none;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [wanted](const JsonTree& each) { return each.name == wanted; });
  return found == members.end() ? none : *found;
}

bool JsonTree::has(std::string_view wanted) const {
  return std::any_of(members.begin(), members.end(),
                     [wanted](const JsonTree& each) { return each.name == wanted; });
}

std::optional<JsonTree> JsonTree::parse(std::string line) {
  JsonReader json({line.data(), line.size()});
  JsonTree tree;
  if (!read_value(json, tree, 0) || !json.finish()) {
    return std::nullopt;
  }
  return tree;
}

}  // namespace outrider
