// Node: one value of a configuration text, with its place; plain data of our own.
//
// The YAML library's nodes change when they are looked at and do not see duplicate keys, so they
// never leave yaml.cc. A value from the environment or from --set is a Node too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace outrider {

struct Node {
  enum class Kind : std::uint8_t { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  std::string text;         ///< Of a scalar.
  bool plain = true;        ///< A scalar without quotes: may be a number or true/false.
  int line = 0;             ///< From 1; 0 when not from a file.
  int column = 0;           ///< From 1.
  std::vector<Node> keys;   ///< Of a map, beside `items`.
  std::vector<Node> items;  ///< Of a list or a map.

  static Node scalar(std::string text) {
    Node node;
    node.kind = Kind::scalar;
    node.text = std::move(text);
    return node;
  }
};

}  // namespace outrider
