// SQL names of tables: parsing and quoting (manual, "Identifiers and Key Words").
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "outrider/route/outbox_layout.h"

namespace outrider {
namespace {

// Words that are neither a table's nor a column's name without quotes: "reserved" and "reserved
// (can be function or type)" in the manual's appendix "SQL Key Words", PostgreSQL 10 to 18. Sorted.
constexpr std::array<std::string_view, 101> kReserved{"all",
                                                      "analyse",
                                                      "analyze",
                                                      "and",
                                                      "any",
                                                      "array",
                                                      "as",
                                                      "asc",
                                                      "asymmetric",
                                                      "authorization",
                                                      "binary",
                                                      "both",
                                                      "case",
                                                      "cast",
                                                      "check",
                                                      "collate",
                                                      "collation",
                                                      "column",
                                                      "concurrently",
                                                      "constraint",
                                                      "create",
                                                      "cross",
                                                      "current_catalog",
                                                      "current_date",
                                                      "current_role",
                                                      "current_schema",
                                                      "current_time",
                                                      "current_timestamp",
                                                      "current_user",
                                                      "default",
                                                      "deferrable",
                                                      "desc",
                                                      "distinct",
                                                      "do",
                                                      "else",
                                                      "end",
                                                      "except",
                                                      "false",
                                                      "fetch",
                                                      "for",
                                                      "foreign",
                                                      "freeze",
                                                      "from",
                                                      "full",
                                                      "grant",
                                                      "group",
                                                      "having",
                                                      "ilike",
                                                      "in",
                                                      "initially",
                                                      "inner",
                                                      "intersect",
                                                      "into",
                                                      "is",
                                                      "isnull",
                                                      "join",
                                                      "lateral",
                                                      "leading",
                                                      "left",
                                                      "like",
                                                      "limit",
                                                      "localtime",
                                                      "localtimestamp",
                                                      "natural",
                                                      "not",
                                                      "notnull",
                                                      "null",
                                                      "offset",
                                                      "on",
                                                      "only",
                                                      "or",
                                                      "order",
                                                      "outer",
                                                      "overlaps",
                                                      "placing",
                                                      "primary",
                                                      "references",
                                                      "returning",
                                                      "right",
                                                      "select",
                                                      "session_user",
                                                      "similar",
                                                      "some",
                                                      "symmetric",
                                                      "system_user",
                                                      "table",
                                                      "tablesample",
                                                      "then",
                                                      "to",
                                                      "trailing",
                                                      "true",
                                                      "union",
                                                      "unique",
                                                      "user",
                                                      "using",
                                                      "variadic",
                                                      "verbose",
                                                      "when",
                                                      "where",
                                                      "window",
                                                      "with"};

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool may_begin(char c) {
  return is_lower(c) || is_upper(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
constexpr bool may_follow(char c) { return may_begin(c) || is_digit(c) || c == '$'; }

class NameReader {
 public:
  explicit NameReader(std::string_view text) : text_(text) {}

  /// The next identifier, or nothing if there is none.
  std::optional<std::string> identifier() {
    skip_spaces();
    if (at_ == text_.size()) {
      return std::nullopt;
    }
    return text_[at_] == '"' ? quoted() : unquoted();
  }

  bool take_dot() {
    skip_spaces();
    bool found = at_ < text_.size() && text_[at_] == '.';
    at_ += found ? 1 : 0;
    return found;
  }

  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) {
      ++at_;
    }
  }

  std::optional<std::string> quoted() {
    std::string name;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') {
          return name.empty() ? std::nullopt : std::optional(name);
        }
      }
      if (text_[at_] == '\0') {
        return std::nullopt;
      }
      name.push_back(text_[at_]);
    }
    return std::nullopt;
  }

  std::optional<std::string> unquoted() {
    if (!may_begin(text_[at_])) {
      return std::nullopt;
    }
    std::string name;
    while (at_ < text_.size() && may_follow(text_[at_])) {
      char c = text_[at_++];
      name.push_back(is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c);
    }
    return name;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

tl::unexpected<Error> refuse(const std::string& text, const std::string& reason) {
  return fail(ErrorKind::configuration, "\"" + text + "\" is no table name: " + reason,
              "write schema.table as in SQL, with double quotes around a part that has upper case "
              "letters, dots or spaces");
}

}  // namespace

Result<QualifiedName> parse_table_name(const std::string& text) {
  NameReader reader(text);
  std::optional<std::string> first = reader.identifier();
  if (!first) {
    return refuse(text, "it does not begin with an identifier");
  }
  if (reader.at_end()) {
    return QualifiedName{"public", *first};
  }
  if (!reader.take_dot()) {
    return refuse(text, "no dot follows the first part");
  }
  std::optional<std::string> second = reader.identifier();
  if (!second) {
    return refuse(text, "no identifier follows the dot");
  }
  if (!reader.at_end()) {
    return refuse(text, "something follows the table");
  }
  return QualifiedName{*first, *second};
}

std::string quote_identifier(const std::string& name) {
  bool plain = !name.empty() && !is_digit(name[0]) &&
               std::all_of(name.begin(), name.end(),
                           [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
  if (plain && !std::binary_search(kReserved.begin(), kReserved.end(), name)) {
    return name;
  }
  std::string quoted = "\"";
  for (char c : name) {
    quoted.append(c == '"' ? 2 : 1, c);
  }
  return quoted + '"';
}

std::string quote_table_name(const QualifiedName& name) {
  return quote_identifier(name.schema) + "." + quote_identifier(name.table);
}

}  // namespace outrider
