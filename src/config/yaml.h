// YAML text to Node, one document, aliases expanded; the door of the YAML library.
//
// Errors: not YAML, more than one document, an alias of something unfinished, or more than
// kYamlNodesMax values (aliases multiply). Their message has line and column and no content.
#pragma once

#include <cstddef>
#include <string>

#include "config/node.h"
#include "outrider/base/result.h"

namespace outrider {

inline constexpr std::size_t kYamlNodesMax = 100'000;

struct YamlFault {
  std::string message;
  int line = 0;
  int column = 0;
};

/// The document; a Node of kind nothing if there is none.
tl::expected<Node, YamlFault> parse_yaml(const std::string& text);

}  // namespace outrider
