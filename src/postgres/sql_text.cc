#include "postgres/sql_text.h"

namespace outrider {

namespace {

std::string quote_with(std::string_view text, char quote, bool double_backslash) {
  std::string quoted(1, quote);
  for (const char c : text) {
    if (c == quote || (double_backslash && c == '\\')) {
      quoted += c;
    }
    quoted += c;
  }
  quoted += quote;
  return quoted;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }

}  // namespace

std::string quote_literal(std::string_view text) {
  const bool has_backslash = text.find('\\') != std::string_view::npos;
  return (has_backslash ? " E" : "") + quote_with(text, '\'', has_backslash);
}

std::string quote_replication_literal(std::string_view text) {
  return quote_with(text, '\'', false);
}

std::string quote_always(std::string_view name) { return quote_with(name, '"', false); }

std::vector<std::string> split_setting_list(std::string_view text) {
  std::vector<std::string> items;
  std::string item;
  bool in_quotes = false;
  bool was_quoted = false;
  std::size_t kept = 0;  // Length up to which trailing blanks belong to the item.
  const auto finish = [&] {
    item.resize(kept);
    if (was_quoted || !item.empty()) {
      items.push_back(item);
    }
    item.clear();
    was_quoted = false;
    kept = 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const bool doubled = in_quotes && i + 1 < text.size() && text[i + 1] == '"';
      if (!doubled) {
        in_quotes = !in_quotes;
        was_quoted = true;
        kept = item.size();
        continue;
      }
      ++i;
    } else if (!in_quotes && c == ',') {
      finish();
      continue;
    } else if (!in_quotes && is_blank(c)) {
      if (!item.empty()) {
        item += c;
      }
      continue;
    }
    item += c;
    kept = item.size();
  }
  finish();
  return items;
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) {
      text += separator;
    }
    text += item;
  }
  return text;
}

}  // namespace outrider
