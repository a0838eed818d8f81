#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/layers.h"
#include "config/suggest.h"
#include "config/values.h"
#include "config/yaml.h"

namespace outrider {
namespace {

constexpr std::string_view kPrefix = "OUTRIDER_";

struct Override {
  Origin origin;
  std::vector<std::string> segments;
  std::string value;

  bool from_environment() const { return origin.kind == OriginKind::environment; }
};

struct Target {
  const Option* option = nullptr;
  std::size_t pipeline = 0;
  std::string map_key;  ///< One entry of a map.
};

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find(separator, from)) != std::string_view::npos;) {
    parts.emplace_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.emplace_back(text.substr(from));
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += (i > 0 ? std::string(separator) : "") + parts[i];
  }
  return out;
}

std::string mapped(std::string_view text, char from, char to, int case_shift) {
  std::string out(text);
  for (char& c : out) {
    bool upper = c >= 'A' && c <= 'Z';
    bool lower = c >= 'a' && c <= 'z';
    if (c == from) {
      c = to;
    } else if ((case_shift < 0 && lower) || (case_shift > 0 && upper)) {
      c = static_cast<char>(c + (lower ? 'A' - 'a' : 'a' - 'A'));
    }
  }
  return out;
}

std::string to_lower(std::string_view text) { return mapped(text, 0, 0, 1); }
std::string to_upper(std::string_view text) { return mapped(text, 0, 0, -1); }

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::size_t number_of(std::string_view text) {
  std::size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool names_pipeline_by_number(const Override& each) {
  return each.segments.size() >= 2 && each.segments[0] == "pipelines" &&
         is_number(each.segments[1]);
}

// Kubernetes gives every pod variables for the services beside it; a service named "outrider" or
// "outrider-…" would otherwise keep the relay from starting. Names as in the Kubernetes manual,
// "Discovering services".
bool is_service_link(std::string_view name, std::string_view value) {
  auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  bool is_address =
      value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
  return !has("__") &&
         (name.ends_with("_SERVICE_HOST") || has("_SERVICE_PORT") || (is_address && has("_PORT")) ||
          (has("_PORT_") && (has("_TCP_") || has("_UDP_") || has("_SCTP_"))));
}

// The value as a Node. Lists and maps are written as in the file, in brackets; one text alone is a
// list of one.
tl::expected<Node, std::string> node_of(const Field& field, const std::string& value) {
  if ((is_list(field) && value.starts_with('[')) || (is_map(field) && value.starts_with('{'))) {
    tl::expected<Node, YamlFault> parsed = parse_yaml(value);
    if (!parsed) {
      return tl::unexpected(parsed.error().message);
    }
    return *parsed;
  }
  if (!is_list(field)) {
    return Node::scalar(value);
  }
  Node list;
  list.kind = Node::Kind::list;
  bool in_quotes = false;
  for (char c : value) {
    in_quotes = in_quotes != (c == '"');
    if (c == ',' && !in_quotes) {
      return tl::unexpected(std::string("several values are written in brackets: [a, b]"));
    }
  }
  if (!value.empty()) {
    list.items.push_back(Node::scalar(value));
  }
  return list;
}

class OverrideLayer {
 public:
  OverrideLayer(LoadedConfig& loaded, Problems& problems) : loaded_(loaded), problems_(problems) {}

  void apply(const std::vector<Override>& overrides) {
    make_pipelines(overrides);
    for (const Override& each : overrides) {
      if (std::optional<Target> target = resolve(each)) {
        write(each, *target);
      }
    }
  }

 private:
  void problem(const Override& each, const std::string& path, const std::string& what) {
    problems_.add(each.origin.place(), path, what);
  }

  // A number one past the last pipeline makes a new one: a run without any file.
  void make_pipelines(const std::vector<Override>& overrides) {
    std::vector<const Override*> numbered;
    for (const Override& each : overrides) {
      if (names_pipeline_by_number(each)) {
        numbered.push_back(&each);
      }
    }
    std::stable_sort(numbered.begin(), numbered.end(), [](const Override* a, const Override* b) {
      return number_of(a->segments[1]) < number_of(b->segments[1]);
    });
    auto& pipelines = loaded_.config.pipelines;
    for (const Override* each : numbered) {
      if (number_of(each->segments[1]) == pipelines.size()) {
        loaded_.origins["pipelines[" + std::to_string(pipelines.size()) + "]"] = each->origin;
        pipelines.emplace_back();
      }
    }
  }

  std::optional<std::size_t> pipeline_of(const Override& each) {
    const std::string& wanted = each.segments[1];
    const auto& pipelines = loaded_.config.pipelines;
    if (is_number(wanted)) {
      if (number_of(wanted) < pipelines.size()) {
        return number_of(wanted);
      }
      problem(each, "",
              "there is no pipeline " + wanted + "; " + std::to_string(pipelines.size()) +
                  " are defined, counted from 0");
      return {};
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < pipelines.size(); ++i) {
      const std::string& name = pipelines[i].name;
      names.push_back(each.from_environment() ? mapped(name, '-', '_', 0) : name);
      if (names.back() == wanted) {
        return i;
      }
    }
    std::string near = nearest(wanted, names);
    problem(each, "",
            "there is no pipeline named \"" + wanted + "\"" +
                (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
    return {};
  }

  std::optional<Target> resolve(const Override& each) {
    bool in_pipeline = each.segments.size() >= 2 && each.segments[0] == "pipelines";
    std::vector<std::string> segments = each.segments;
    if (in_pipeline) {
      segments.erase(segments.begin());
      segments[0] = "pipelines[]";
    }
    std::string path = join(segments, ".");
    Target target;
    for (const Option& option : options()) {
      DefaultScope defaults;
      if (option.path == path) {
        target.option = &option;
      } else if (path.starts_with(std::string(option.path) + ".") &&
                 is_map(option.field(defaults.scope()))) {
        target.option = &option;
        std::string key = path.substr(option.path.size() + 1);
        // A variable's name has no dots: SASL_PASSWORD stands for sasl.password.
        target.map_key = each.from_environment() ? mapped(key, '_', '.', 0) : key;
      }
    }
    if (target.option == nullptr || (target.option->path != path && target.map_key.empty())) {
      unknown(each);
      return {};
    }
    if (target.option->rule.file_only) {
      problem(each, path, "can be written in the file only");
      return {};
    }
    if (in_pipeline) {
      std::optional<std::size_t> pipeline = pipeline_of(each);
      if (!pipeline) {
        return {};
      }
      target.pipeline = *pipeline;
    }
    return target;
  }

  void write(const Override& each, const Target& target) {
    auto& config = loaded_.config;
    PipelineConfig* pipeline =
        target.option->in_pipeline() ? &config.pipelines[target.pipeline] : nullptr;
    Field field = target.option->field({&config, pipeline, nullptr});
    std::string path = target.option->concrete_path(target.pipeline);
    std::optional<ValueFault> fault;
    Node node = Node::scalar(each.value);
    if (!target.map_key.empty()) {
      path += "." + target.map_key;
      fault = assign_entry(*target.option, field, target.map_key, node);
    } else {
      tl::expected<Node, std::string> read = node_of(field, each.value);
      if (!read) {
        problem(each, path, read.error());
        return;
      }
      node = std::move(*read);
      fault = assign(*target.option, field, node);
    }
    if (fault) {
      problem(each, path, fault->what);
      return;
    }
    if (is_map(field) && target.map_key.empty()) {
      forget_entries(path);
      for (const Node& key : node.keys) {
        loaded_.origins[path + "." + key.text] = each.origin;
      }
    }
    loaded_.origins[path] = each.origin;
  }

  void forget_entries(const std::string& path) {
    std::string prefix = path + ".";
    auto& origins = loaded_.origins;
    for (auto it = origins.lower_bound(prefix);
         it != origins.end() && it->first.starts_with(prefix);) {
      it = origins.erase(it);
    }
  }

  void unknown(const Override& each) {
    // Candidates carry the pipeline that was written, so that only the rest is compared.
    bool in_pipeline = each.segments.size() >= 2 && each.segments[0] == "pipelines";
    std::string pipeline = in_pipeline ? each.segments[1] : "0";
    std::vector<std::string> candidates;
    for (const Option& option : options()) {
      if (option.rule.file_only) {
        continue;
      }
      std::vector<std::string> parts = split(option.path, ".");
      if (option.in_pipeline()) {
        parts[0] = pipeline;
        parts.insert(parts.begin(), "pipelines");
      }
      candidates.push_back(each.from_environment()
                               ? std::string(kPrefix) + to_upper(join(parts, "__"))
                               : join(parts, "."));
    }
    std::string near =
        nearest(each.from_environment() ? to_upper(each.origin.name) : join(each.segments, "."),
                candidates);
    problem(each, "",
            std::string("names no option") + (near.empty()
                                                  ? "; every option is in docs/CONFIGURATION.md"
                                                  : "; did you mean \"" + near + "\"?"));
  }

  LoadedConfig& loaded_;
  Problems& problems_;
};

std::vector<Override> environment_overrides(const LoadRequest& request) {
  std::vector<Override> overrides;
  for (const auto& [name, value] : request.environment) {
    if (!name.starts_with(kPrefix) || name == kConfigVariable || is_service_link(name, value)) {
      continue;
    }
    std::string_view rest = std::string_view(name).substr(kPrefix.size());
    // Lower case in a variable's name is a mistake; it then matches nothing and is told so.
    bool is_upper = to_upper(rest) == rest;
    Override& added = overrides.emplace_back();
    added.origin = {OriginKind::environment, name, 0, 0};
    if (is_upper) {
      added.segments = split(to_lower(rest), "__");
    }
    added.value = value;
  }
  // Numbered pipelines first: they may give the names that others go by.
  std::stable_partition(overrides.begin(), overrides.end(), names_pipeline_by_number);
  return overrides;
}

std::vector<Override> set_overrides(const LoadRequest& request, Problems& problems) {
  std::vector<Override> overrides;
  for (std::size_t i = 0; i < request.sets.size(); ++i) {
    const std::string& text = request.sets[i];
    std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      // The text itself may be a secret that lost its name.
      problems.add("--set number " + std::to_string(i + 1), "",
                   "has no \"path=value\" in it; write --set pipelines.0.source.slot=name");
      continue;
    }
    std::string path = text.substr(0, equals);
    std::string dotted;
    for (char c : path) {
      // pipelines[0].source.slot, as errors write it, is understood too.
      dotted += c == '[' ? std::string(".") : c == ']' ? std::string() : std::string(1, c);
    }
    Override& added = overrides.emplace_back();
    added.origin = {OriginKind::set, std::move(path), 0, 0};
    added.segments = split(dotted, ".");
    added.value = text.substr(equals + 1);
  }
  return overrides;
}

}  // namespace

void apply_overrides(const LoadRequest& request, LoadedConfig& loaded, Problems& problems) {
  OverrideLayer layer(loaded, problems);
  layer.apply(environment_overrides(request));
  layer.apply(set_overrides(request, problems));
}

}  // namespace outrider
