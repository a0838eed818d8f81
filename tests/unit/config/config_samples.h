// Texts and helpers that the tests of the config room share.
#pragma once

#include <string>

#include "config/layers.h"
#include "outrider/config/load.h"

namespace outrider {

/// The smallest file that loads, with `more` appended inside its one pipeline (four spaces deep).
inline std::string minimal_file(const std::string& more = {}) {
  return "version: 1\n"
         "pipelines:\n"
         "  - name: orders\n"
         "    source: {dsn: host=db, slot: orders}\n"
         "    kafka: {bootstrap_servers: \"k:9092\"}\n" +
         more;
}

/// The message of the error, or "" if the text loads.
inline std::string problem_of(const std::string& text, const LoadRequest& request = {}) {
  Result<LoadedConfig> loaded = load_config_text("o.yaml", text, request);
  return loaded ? "" : loaded.error().message;
}

}  // namespace outrider
