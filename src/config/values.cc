#include "config/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "config/suggest.h"
#include "outrider/config/secrets.h"

namespace outrider {
namespace {

constexpr std::size_t kShownBytesMax = 60;

std::string kind_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::nothing:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  return node.text.empty() ? "an empty text" : "a text";
}

std::string found_text(const Node& node, bool secret) {
  if (node.kind != Node::Kind::scalar || node.text.empty() || secret) {
    return "found " + kind_text(node);
  }
  std::string shown = node.text.substr(0, kShownBytesMax);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return "found \"" + shown + (node.text.size() > kShownBytesMax ? "…\"" : "\"");
}

ValueFault mismatch(const Option& option, const Node& node, bool secret,
                    const std::string& hint = {}) {
  std::string what = found_text(node, secret) + "; allowed: " + allowed_text(option);
  if (!hint.empty()) {
    what += "; " + hint;
  }
  return {&node, {}, std::move(what)};
}

using Fault = std::optional<ValueFault>;

Fault check_text(const Option& option, const Node& node, bool secret) {
  if (node.kind != Node::Kind::scalar) {
    return mismatch(option, node, secret);
  }
  if (node.text.empty() && !option.rule.may_be_empty) {
    return mismatch(option, node, secret);
  }
  if (node.text.find('\0') != std::string::npos) {
    return ValueFault{&node, {}, "holds a zero byte, which no server can take"};
  }
  return {};
}

Fault take(const Option& option, std::string& field, const Node& node) {
  if (Fault fault = check_text(option, node, false)) {
    return fault;
  }
  field = node.text;
  return {};
}

Fault take(const Option& option, SecretText& field, const Node& node) {
  if (Fault fault = check_text(option, node, true)) {
    return fault;
  }
  SecretText value{node.text};
  if (Result<void> checked = check_references(value); !checked) {
    return ValueFault{&node, {}, checked.error().message + "; " + checked.error().hint};
  }
  field = std::move(value);
  return {};
}

Fault take(const Option& option, std::int64_t& field, const Node& node) {
  if (node.kind != Node::Kind::scalar) {
    return mismatch(option, node, false);
  }
  if (!node.plain) {
    return mismatch(option, node, false, "write it without quotes");
  }
  std::string_view digits = node.text;
  if (digits.starts_with('-')) {
    digits.remove_prefix(1);
  }
  bool whole =
      !digits.empty() && (digits.size() == 1 || digits.front() != '0') &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  std::int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  if (!whole || std::from_chars(node.text.data(), end, value).ec != std::errc{} ||
      value < option.rule.min || value > option.rule.max) {
    return mismatch(option, node, false);
  }
  field = value;
  return {};
}

Fault take(const Option& option, bool& field, const Node& node) {
  if (node.kind != Node::Kind::scalar || (node.text != "true" && node.text != "false")) {
    return mismatch(option, node, false);
  }
  if (!node.plain) {
    return mismatch(option, node, false, "write it without quotes");
  }
  field = node.text == "true";
  return {};
}

Fault take(const Option& option, std::uint8_t& word, const Node& node) {
  const auto& words = option.rule.words;
  auto found = std::find(words.begin(), words.end(), std::string_view(node.text));
  if (node.kind == Node::Kind::scalar && found != words.end()) {
    word = static_cast<std::uint8_t>(found - words.begin());
    return {};
  }
  std::string near = nearest(node.text, std::vector<std::string>(words.begin(), words.end()));
  return mismatch(option, node, false, near.empty() ? "" : "did you mean \"" + near + "\"?");
}

Fault take_list(const Option& option, const Node& node, std::vector<std::string>& texts) {
  if (node.kind != Node::Kind::list || (node.items.empty() && !option.rule.may_be_empty)) {
    return mismatch(option, node, false);
  }
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::scalar || item.text.empty()) {
      return mismatch(option, item, false);
    }
    if (Fault fault = check_text(option, item, false)) {
      return fault;
    }
    if (std::find(texts.begin(), texts.end(), item.text) != texts.end()) {
      return ValueFault{&item, {}, "\"" + item.text + "\" is in the list twice"};
    }
    texts.push_back(item.text);
  }
  return {};
}

Fault take(const Option& option, std::vector<std::string>& field, const Node& node) {
  std::vector<std::string> texts;
  if (Fault fault = take_list(option, node, texts)) {
    return fault;
  }
  field = std::move(texts);
  return {};
}

Fault take(const Option& option, std::vector<HeaderColumn>& field, const Node& node) {
  std::vector<std::string> texts;
  if (Fault fault = take_list(option, node, texts)) {
    return fault;
  }
  std::vector<HeaderColumn> headers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::size_t colon = texts[i].find(':');
    if (colon == 0 || colon + 1 == texts[i].size()) {
      return mismatch(option, node.items[i], false);
    }
    headers.push_back(colon == std::string::npos
                          ? HeaderColumn{texts[i], {}}
                          : HeaderColumn{texts[i].substr(0, colon), texts[i].substr(colon + 1)});
  }
  field = std::move(headers);
  return {};
}

Fault take_entry(const Option&, std::map<std::string, std::string>& field, const std::string& key,
                 const Node& node) {
  if (node.kind != Node::Kind::scalar || node.text.find('\0') != std::string::npos) {
    return ValueFault{&node, key, found_text(node, false) + "; allowed: a text, number or boolean"};
  }
  field[key] = node.text;
  return {};
}

Fault take_entry(const Option&, std::map<std::string, SecretText>& field, const std::string& key,
                 const Node& node) {
  if (node.kind != Node::Kind::scalar || node.text.find('\0') != std::string::npos) {
    return ValueFault{&node, key, found_text(node, true) + "; allowed: a text, number or boolean"};
  }
  SecretText value{node.text};
  if (Result<void> checked = check_references(value); !checked) {
    return ValueFault{&node, key, checked.error().message + "; " + checked.error().hint};
  }
  field[key] = std::move(value);
  return {};
}

template <typename Value>
Fault take(const Option& option, std::map<std::string, Value>& field, const Node& node) {
  if (node.kind != Node::Kind::map) {
    return mismatch(option, node, true);
  }
  std::map<std::string, Value> entries;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& key = node.keys[i];
    if (key.kind != Node::Kind::scalar || key.text.empty()) {
      return ValueFault{&key, {}, "a key here must be a name; found " + kind_text(key)};
    }
    if (Fault fault = take_entry(option, entries, key.text, node.items[i])) {
      return fault;
    }
  }
  field = std::move(entries);
  return {};
}

std::string list_text(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    out += (out.size() > 1 ? ", " : "") + quoted(text);
  }
  return out + "]";
}

struct Renderer {
  const Option& option;

  std::string operator()(const std::string* text) const { return quoted(*text); }
  std::string operator()(const SecretText* text) const { return quoted(text->raw); }
  std::string operator()(const std::int64_t* number) const { return std::to_string(*number); }
  std::string operator()(const bool* flag) const { return *flag ? "true" : "false"; }
  std::string operator()(const std::vector<std::string>* texts) const { return list_text(*texts); }
  std::string operator()(const std::vector<HeaderColumn>* headers) const {
    std::vector<std::string> texts;
    for (const HeaderColumn& each : *headers) {
      texts.push_back(each.header.empty() ? each.column : each.column + ":" + each.header);
    }
    return list_text(texts);
  }
  template <typename Value>
  std::string operator()(const std::map<std::string, Value>*) const {
    return "{}";
  }
  std::string operator()(const std::uint8_t* word) const {
    return quoted(option.rule.words[*word]);
  }
};

bool plain_is_safe(std::string_view text) {
  // Only what every YAML reader takes for text: a letter or an underscore first, no reserved word.
  static constexpr std::array<std::string_view, 8> kReserved = {"true", "false", "null", "yes",
                                                                "no",   "on",    "off",  "y"};
  if (text.empty() || !(text.front() == '_' || (text.front() >= 'a' && text.front() <= 'z') ||
                        (text.front() >= 'A' && text.front() <= 'Z'))) {
    return false;
  }
  std::string lower(text);
  for (char& c : lower) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (lower == "n" || std::find(kReserved.begin(), kReserved.end(), lower) != kReserved.end()) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '/';
  });
}

}  // namespace

std::optional<ValueFault> assign(const Option& option, const Field& field, const Node& node) {
  if (node.kind == Node::Kind::nothing) {
    return ValueFault{
        &node,
        {},
        "has no value; leave the line out for the default, or write " + allowed_text(option)};
  }
  return std::visit([&](auto* target) { return take(option, *target, node); }, field);
}

std::optional<ValueFault> assign_entry(const Option& option, const Field& field,
                                       const std::string& key, const Node& node) {
  if (auto* texts = std::get_if<std::map<std::string, std::string>*>(&field)) {
    return take_entry(option, **texts, key, node);
  }
  return take_entry(option, **std::get_if<std::map<std::string, SecretText>*>(&field), key, node);
}

std::string_view type_name(const Field& field) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "text", "secret", "integer", "boolean", "word", "list", "list", "map", "map of secrets",
  };
  static_assert(kNames.size() == std::variant_size_v<Field>);
  return kNames[field.index()];
}

std::string allowed_text(const Option& option) {
  DefaultScope defaults;
  Field field = option.field(defaults.scope());
  const OptionRule& rule = option.rule;
  if (std::holds_alternative<std::int64_t*>(field)) {
    if (rule.min == rule.max) {
      return std::to_string(rule.min);
    }
    std::string unit = option.path.ends_with("_ms")   ? " (milliseconds)"
                       : option.path.ends_with("_us") ? " (microseconds)"
                                                      : "";
    return "a whole number from " + std::to_string(rule.min) + " to " + std::to_string(rule.max) +
           unit;
  }
  if (std::holds_alternative<bool*>(field)) {
    return "true or false";
  }
  if (!rule.words.empty()) {
    std::string out = "one of ";
    for (std::string_view word : rule.words) {
      out += std::string(word == rule.words.front() ? "" : ", ") + std::string(word);
    }
    return out;
  }
  if (std::holds_alternative<std::vector<HeaderColumn>*>(field)) {
    return "a list of `column` or `column:header`";
  }
  if (is_list(field)) {
    return rule.may_be_empty ? "a list of texts" : "a list of at least one text";
  }
  if (is_map(field)) {
    return "a map of names to values";
  }
  return rule.may_be_empty ? "a text" : "a text that is not empty";
}

std::string value_text(const Option& option, const Field& field) {
  return std::visit(Renderer{option}, field);
}

std::string quoted(std::string_view text) {
  if (plain_is_safe(text)) {
    return std::string(text);
  }
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace outrider
