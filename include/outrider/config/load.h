// Loading: file, environment and flags become one Config that remembers where each value came from.
//
// Precedence: --set, then OUTRIDER_ variables, then the file, then the default. Strict: whatever
// is not understood is an error, and up to kProblemsMax of them are told at once, each with its
// place. Everything follows the one table of options in src/config/options.cc. Errors are of kind
// configuration and never show a secret. No state; any thread; reads the file and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"

namespace outrider {

/// So many problems are told in one error; the rest is only counted.
inline constexpr std::size_t kProblemsMax = 20;
/// A larger file is refused.
inline constexpr std::size_t kConfigBytesMax = 1024 * 1024;

enum class OriginKind : std::uint8_t { by_default, file, environment, set };

/// Where an effective value was written.
struct Origin {
  OriginKind kind = OriginKind::by_default;
  std::string name;  ///< The file, the variable or the path given to --set.
  int line = 0;      ///< Of a file only, from 1.
  int column = 0;

  /// "file outrider.yaml:12", "environment OUTRIDER_LOG__LEVEL", "--set log.level", "default".
  std::string text() const;
  /// The same for the head of an error: "outrider.yaml:12:3", …
  std::string place() const;
};

struct LoadRequest {
  std::optional<std::string> path;  ///< Nothing: OUTRIDER_CONFIG, else no file at all.
  /// The process's environment; names that do not begin with OUTRIDER_ are ignored.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> sets;  ///< "pipelines.0.source.slot=x"; a later one wins.
  /// False: what has no default (a pipeline, its name, dsn, Kafka) may be missing, for `init`.
  bool complete = true;
};

struct LoadedConfig {
  Config config;
  /// By path, "pipelines[0].source.slot"; map entries by "….properties.linger.ms", list items of
  /// `pipelines` by "pipelines[0]". What is not in here is the default.
  std::map<std::string, Origin, std::less<>> origins;

  Origin origin_of(std::string_view path) const;
};

Result<LoadedConfig> load_config(const LoadRequest& request);

/// All that is wrong, for a command that goes on to look for more.
struct ConfigReport {
  LoadedConfig loaded;                ///< What could be understood.
  std::vector<std::string> problems;  ///< One line each, at most kProblemsMax, with its place.
  std::size_t problem_count = 0;      ///< Also those without a line.
};

/// The same as load_config(), told as a report. Error: the file cannot be read.
Result<ConfigReport> report_config(const LoadRequest& request);

/// So many problems, some of them with a line, as one error.
Error problems_error(const std::vector<std::string>& lines, std::size_t count);

/// Name and value of each variable, from the form of `environ`: null-terminated "NAME=value".
std::vector<std::pair<std::string, std::string>> environment_of(const char* const* environ_block);

/// The effective values as YAML that would load again, each with its origin as a comment.
/// References
/// (${env:…}) are shown as written, passwords written out are masked.
std::string effective_config_text(const LoadedConfig& loaded);

}  // namespace outrider
