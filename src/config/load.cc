#include "outrider/config/load.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "config/layers.h"
#include "config/yaml.h"

namespace outrider {
namespace {

constexpr char kNoFile[] = "flags and environment";

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

Result<std::string> read_config_file(const std::string& path) {
  const char* hint = "give the file's path with -c, or see that the relay's user may read it";
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) {
    return fail(ErrorKind::configuration,
                "cannot read the configuration \"" + path + "\": " + std::strerror(errno), hint);
  }
  std::string text(kConfigBytesMax + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return fail(ErrorKind::configuration,
                "cannot read the configuration \"" + path + "\": " + std::strerror(errno), hint);
  }
  return text;
}

// The place of a fault that may lie past the last line, or nowhere.
std::string place_of(const std::string& name, const YamlFault& fault) {
  return fault.line <= 0 ? name : Origin{OriginKind::file, name, fault.line, fault.column}.place();
}

ConfigReport to_report(LoadedConfig loaded, const Problems& problems) {
  return {std::move(loaded), problems.lines(), problems.count()};
}

ConfigReport finish(const std::string& source, LoadedConfig loaded, Problems& problems,
                    const LoadRequest& request) {
  apply_overrides(request, loaded, problems);
  validate(source, request.complete, loaded, problems);
  return to_report(std::move(loaded), problems);
}

ConfigReport report_text(const std::string& name, const std::string& text,
                         const LoadRequest& request) {
  LoadedConfig loaded;
  Problems problems;
  if (text.size() > kConfigBytesMax) {
    problems.add(name, "", "is larger than " + std::to_string(kConfigBytesMax) + " bytes");
    return to_report(std::move(loaded), problems);
  }
  tl::expected<Node, YamlFault> root = parse_yaml(text);
  if (!root) {
    problems.add(place_of(name, root.error()), "", root.error().message);
    return to_report(std::move(loaded), problems);
  }
  if (root->kind == Node::Kind::nothing) {
    problems.add(name, "", "is empty; begin with \"version: 1\" and a list of pipelines");
    return to_report(std::move(loaded), problems);
  }
  apply_file(name, *root, loaded, problems);
  return finish(name, std::move(loaded), problems, request);
}

Result<LoadedConfig> all_or_nothing(ConfigReport report) {
  if (report.problem_count > 0) {
    return fail(problems_error(report.problems, report.problem_count));
  }
  return std::move(report.loaded);
}

}  // namespace

std::string Origin::text() const {
  switch (kind) {
    case OriginKind::file:
      return "file " + name + ":" + std::to_string(line);
    case OriginKind::environment:
      return "environment " + name;
    case OriginKind::set:
      return "--set " + name;
    case OriginKind::by_default:
      break;
  }
  return "default";
}

std::string Origin::place() const {
  if (kind == OriginKind::file) {
    return name + ":" + std::to_string(line) + ":" + std::to_string(column);
  }
  return text();
}

Origin LoadedConfig::origin_of(std::string_view path) const {
  auto found = origins.find(path);
  return found == origins.end() ? Origin{} : found->second;
}

Result<LoadedConfig> load_config_text(const std::string& name, const std::string& text,
                                      const LoadRequest& request) {
  return all_or_nothing(report_text(name, text, request));
}

Result<ConfigReport> report_config(const LoadRequest& request) {
  std::optional<std::string> path = request.path;
  for (const auto& [name, value] : request.environment) {
    if (!path && name == kConfigVariable && !value.empty()) {
      path = value;
    }
  }
  if (!path) {
    Problems problems;
    return finish(kNoFile, {}, problems, request);
  }
  OUTRIDER_TRY(std::string text, read_config_file(*path));
  return report_text(*path, text, request);
}

Result<LoadedConfig> load_config(const LoadRequest& request) {
  OUTRIDER_TRY(ConfigReport report, report_config(request));
  return all_or_nothing(std::move(report));
}

std::vector<std::pair<std::string, std::string>> environment_of(const char* const* environ_block) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    std::string_view entry = *environ_block;
    std::size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace outrider
