#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/layers.h"
#include "config/suggest.h"
#include "config/values.h"

namespace outrider {
namespace {

constexpr std::size_t kKeyShownMax = 60;
constexpr char kVersion[] = "version";

std::string join(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
}

bool is_section(std::string_view path) {
  std::string prefix = std::string(path) + ".";
  return std::any_of(options().begin(), options().end(),
                     [&](const Option& option) { return option.path.starts_with(prefix); });
}

// What may be written directly under a section: "slot", "columns", "pipelines".
std::vector<std::string> keys_under(std::string_view section) {
  std::vector<std::string> keys;
  std::string prefix = section.empty() ? "" : std::string(section) + ".";
  for (const Option& option : options()) {
    if (!option.path.starts_with(prefix)) {
      continue;
    }
    std::string_view rest = option.path.substr(prefix.size());
    std::string key(rest.substr(0, rest.find_first_of(".[")));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(std::move(key));
    }
  }
  return keys;
}

// A key that is right elsewhere, or was written with dots: the path it should have.
std::string right_path_of(std::string_view section, const std::string& key) {
  for (const Option& option : options()) {
    if (option.key() == key) {
      return std::string(option.path);
    }
  }
  if (key.find('.') == std::string::npos) {
    return {};
  }
  std::vector<std::string> spellings;
  std::map<std::string, std::string> paths;
  for (const Option& option : options()) {
    for (std::string_view prefix : {section, std::string_view("pipelines[]")}) {
      if (!prefix.empty() && option.path.starts_with(std::string(prefix) + ".")) {
        spellings.emplace_back(option.path.substr(prefix.size() + 1));
        paths.emplace(spellings.back(), option.path);
      }
    }
    spellings.emplace_back(option.path);
    paths.emplace(option.path, option.path);
  }
  std::string near = nearest(key, spellings);
  return near.empty() ? near : paths[near];
}

class FileLayer {
 public:
  FileLayer(const std::string& name, LoadedConfig& loaded, Problems& problems)
      : name_(name), loaded_(loaded), problems_(problems) {}

  void apply(const Node& root) {
    if (root.kind == Node::Kind::map) {
      version(root);
    }
    section(root, "", "", {&loaded_.config, nullptr, &version_});
  }

 private:
  Origin origin(const Node& node) const {
    return {OriginKind::file, name_, node.line, node.column};
  }
  void problem(const Node& node, const std::string& path, const std::string& what) {
    problems_.add(origin(node).place(), path, what);
  }

  // Its other keys are looked at all the same: most are right, and typos in them are typos.
  void version(const Node& root) {
    auto key = std::find_if(root.keys.begin(), root.keys.end(),
                            [](const Node& each) { return each.text == kVersion; });
    if (key == root.keys.end()) {
      problem(root, kVersion, "is missing; write \"version: 1\" as the first line");
      return;
    }
    const Node& value = root.items[static_cast<std::size_t>(key - root.keys.begin())];
    if (value.kind == Node::Kind::scalar && value.plain && value.text == "1") {
      return;
    }
    std::string found = value.kind == Node::Kind::scalar
                            ? "found \"" + value.text.substr(0, kKeyShownMax) + "\""
                            : "found no number";
    problem(value, kVersion, found + "; this release reads version 1, written as \"version: 1\"");
  }

  void section(const Node& node, const std::string& pattern, const std::string& path,
               const Scope& scope) {
    if (node.kind != Node::Kind::map) {
      std::string keys;
      for (const std::string& key : keys_under(pattern)) {
        keys += (keys.empty() ? "" : ", ") + key;
      }
      problem(node, path, "must be a map with keys out of: " + keys);
      return;
    }
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const Node& key = node.keys[i];
      if (is_good_key(key, path, seen)) {
        entry(key, node.items[i], pattern, path, scope);
      }
    }
  }

  bool is_good_key(const Node& key, const std::string& path, std::map<std::string, int>& seen) {
    if (key.kind != Node::Kind::scalar) {
      problem(key, path, "a key must be a plain name");
      return false;
    }
    auto [first, is_new] = seen.emplace(key.text, key.line);
    if (!is_new) {
      problem(key, join(path, key.text.substr(0, kKeyShownMax)),
              "is written twice, first in line " + std::to_string(first->second) +
                  "; keep one of them");
    }
    return is_new;
  }

  void entry(const Node& key, const Node& value, const std::string& pattern,
             const std::string& path, const Scope& scope) {
    std::string child_pattern = join(pattern, key.text);
    std::string child_path = join(path, key.text);
    if (child_path == kVersion) {
      return;  // Was judged first.
    }
    // A key is one name. A path in it could lead into a pipeline where there is none.
    if (key.text.find_first_of(".[") != std::string::npos) {
      unknown(key, pattern, path);
      return;
    }
    if (const Option* option = find_option(child_pattern)) {
      leaf(*option, value, child_path, scope);
    } else if (is_section(child_pattern + "[]")) {
      pipelines(value, child_pattern + "[]", child_path);
    } else if (is_section(child_pattern)) {
      section(value, child_pattern, child_path, scope);
    } else {
      unknown(key, pattern, path);
    }
  }

  void leaf(const Option& option, const Node& value, const std::string& path, const Scope& scope) {
    Field field = option.field(scope);
    if (value.kind == Node::Kind::map && is_map(field)) {
      std::map<std::string, int> seen;
      for (const Node& key : value.keys) {
        is_good_key(key, path, seen);
      }
    }
    if (std::optional<ValueFault> fault = assign(option, field, value)) {
      problem(*fault->at, fault->map_key.empty() ? path : join(path, fault->map_key), fault->what);
      return;
    }
    loaded_.origins[path] = origin(value);
    if (is_map(field)) {
      for (const Node& key : value.keys) {
        loaded_.origins[join(path, key.text)] = origin(key);
      }
    }
  }

  void pipelines(const Node& node, const std::string& pattern, const std::string& path) {
    if (node.kind != Node::Kind::list) {
      problem(node, path, "must be a list: each pipeline begins with \"- name: …\"");
      return;
    }
    loaded_.config.pipelines.resize(node.items.size());
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      std::string item = path + "[" + std::to_string(i) + "]";
      loaded_.origins[item] = origin(node.items[i]);
      section(node.items[i], pattern, item,
              {&loaded_.config, &loaded_.config.pipelines[i], &version_});
    }
  }

  void unknown(const Node& key, const std::string& pattern, const std::string& path) {
    if (problems_.count() >= kProblemsMax) {
      problem(key, path, "unknown key");  // Is counted; nobody will read more.
      return;
    }
    std::vector<std::string> keys = keys_under(pattern);
    std::string what = "unknown key \"" + key.text.substr(0, kKeyShownMax) + "\"; ";
    std::string near = nearest(key.text, keys);
    std::string elsewhere = near.empty() ? right_path_of(pattern, key.text) : std::string();
    if (key.text == "<<") {
      what += "merge keys are not supported, repeat the values or use an alias for each";
    } else if (!near.empty()) {
      what += "did you mean \"" + near + "\"?";
    } else if (!elsewhere.empty()) {
      what += "did you mean \"" + elsewhere + "\", each part nested under the one before?";
    } else {
      what += "allowed here:";
      for (const std::string& each : keys) {
        what += (each == keys.front() ? " " : ", ") + each;
      }
    }
    problem(key, path, what);
  }

  const std::string& name_;
  LoadedConfig& loaded_;
  Problems& problems_;
  std::int64_t version_ = 1;
};

}  // namespace

void apply_file(const std::string& name, const Node& root, LoadedConfig& loaded,
                Problems& problems) {
  FileLayer(name, loaded, problems).apply(root);
}

}  // namespace outrider
