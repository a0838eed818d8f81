// Layers: file, then environment and flags, written one over the other into a LoadedConfig.
//
// Owns nothing; a layer writes what it understands and adds a problem for the rest. Cross-checks
// between values come last, in validate(). load_config_text() is the whole without the file system,
// for tests and the fuzzer.
#pragma once

#include <string>

#include "config/node.h"
#include "config/options.h"
#include "config/problems.h"
#include "outrider/config/load.h"

namespace outrider {

/// Load `text` as if it were the file `name`; `request.path` is not looked at.
Result<LoadedConfig> load_config_text(const std::string& name, const std::string& text,
                                      const LoadRequest& request = {});

/// The root of the file's tree.
void apply_file(const std::string& name, const Node& root, LoadedConfig& loaded,
                Problems& problems);

/// Environment, then --set.
void apply_overrides(const LoadRequest& request, LoadedConfig& loaded, Problems& problems);

/// What cannot be seen in one value alone. `source` is the place for what stands nowhere;
/// `complete` as in LoadRequest.
void validate(const std::string& source, bool complete, LoadedConfig& loaded, Problems& problems);

/// The variable that names the file; the only OUTRIDER_ variable that is no option.
inline constexpr char kConfigVariable[] = "OUTRIDER_CONFIG";

}  // namespace outrider
