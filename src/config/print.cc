#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/options.h"
#include "config/values.h"
#include "outrider/config/load.h"
#include "outrider/config/secrets.h"

namespace outrider {
namespace {

constexpr std::string_view kMask = "***";
constexpr std::size_t kPipelineIndent = 4;

using Texts = std::vector<std::string_view>;

Texts split_dots(std::string_view path) {
  Texts parts;
  while (!path.empty()) {
    std::size_t dot = path.find('.');
    parts.push_back(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return parts;
}

std::string entry_value(const std::string&, const std::string& value) { return value; }

std::string entry_value(const std::string& key, const SecretText& value) {
  bool hide = is_secret_property(key) && !value.empty() && !only_references(value.raw);
  return hide ? std::string(kMask) : value.raw;
}

class Printer {
 public:
  explicit Printer(const LoadedConfig& loaded) : loaded_(loaded), config_(loaded.config) {}

  std::string print() {
    std::string out = rows({}, 0, 0);
    out += "pipelines:\n";
    for (std::size_t i = 0; i < config_.pipelines.size(); ++i) {
      std::string item = rows(&config_.pipelines[i], i, kPipelineIndent);
      out += item.replace(0, kPipelineIndent, "  - ");
    }
    return out;
  }

 private:
  // All rows of the process, or of one pipeline; a heading wherever the section changes.
  std::string rows(PipelineConfig* pipeline, std::size_t index, std::size_t indent) {
    std::string out;
    Texts section;
    for (const Option& option : options()) {
      if (option.in_pipeline() != (pipeline != nullptr)) {
        continue;
      }
      Texts now = split_dots(option.section());
      if (pipeline != nullptr) {
        now.erase(now.begin());
      }
      headings(section, now, indent, out);
      Scope scope{&config_, pipeline, &version_};
      std::string shown;
      leaf(option, option.field(scope), option.concrete_path(index), indent + 2 * now.size(),
           shown);
      if (is_excluded(option, scope)) {
        shown.insert(shown.find_first_not_of(' '), "# unused: ");
      }
      out += shown;
      section = std::move(now);
    }
    return out;
  }

  // Written out it would contradict the option that leaves it without effect.
  static bool is_excluded(const Option& option, const Scope& scope) {
    if (option.rule.excluded_by.empty()) {
      return false;
    }
    Field other = find_option(option.rule.excluded_by)->field(scope);
    return !(*std::get_if<std::string*>(&other))->empty();
  }

  static void headings(const Texts& before, const Texts& now, std::size_t indent,
                       std::string& out) {
    std::size_t common = 0;
    while (common < std::min(before.size(), now.size()) && before[common] == now[common]) {
      ++common;
    }
    for (; common < now.size(); ++common) {
      out += std::string(indent + 2 * common, ' ') + std::string(now[common]) + ":\n";
    }
  }

  void leaf(const Option& option, const Field& field, const std::string& path, std::size_t indent,
            std::string& out) {
    if (auto* texts = std::get_if<std::map<std::string, std::string>*>(&field)) {
      map(**texts, option, path, indent, out);
    } else if (auto* secrets = std::get_if<std::map<std::string, SecretText>*>(&field)) {
      map(**secrets, option, path, indent, out);
    } else {
      std::string value = option.rule.conninfo
                              ? quoted(mask_conninfo((*std::get_if<SecretText*>(&field))->raw))
                              : value_text(option, field);
      line(option.key(), value, loaded_.origin_of(path), indent, out);
    }
  }

  template <typename Value>
  void map(const std::map<std::string, Value>& entries, const Option& option,
           const std::string& path, std::size_t indent, std::string& out) {
    if (entries.empty()) {
      line(option.key(), "{}", loaded_.origin_of(path), indent, out);
      return;
    }
    out.append(indent, ' ').append(option.key()).append(":\n");
    std::string entry_path = path + ".";
    for (const auto& [key, value] : entries) {
      entry_path.resize(path.size() + 1);
      entry_path += key;
      line(quoted(key), quoted(entry_value(key, value)), loaded_.origin_of(entry_path), indent + 2,
           out);
    }
  }

  static void line(std::string_view key, const std::string& value, const Origin& origin,
                   std::size_t indent, std::string& out) {
    std::string comment = origin.text();
    std::replace_if(
        comment.begin(), comment.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    out += std::string(indent, ' ') + std::string(key) + ": " + value + "  # " + comment + "\n";
  }

  const LoadedConfig& loaded_;
  Config config_;  // The table's rows want something they could write to.
  std::int64_t version_ = 1;
};

}  // namespace

std::string effective_config_text(const LoadedConfig& loaded) { return Printer(loaded).print(); }

}  // namespace outrider
