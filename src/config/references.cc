#include "config/references.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr char kHowToWrite[] =
    "write ${env:NAME} or ${file:/path}, and $${ where a literal ${ is meant";

bool is_variable_name(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// The reference whose inside (between the braces) is `inside`; kind none if it is malformed.
Glyph reference_of(std::string_view inside, std::size_t at) {
  Glyph glyph;
  glyph.at = at;
  if (inside.starts_with("env:") && is_variable_name(inside.substr(4))) {
    glyph.kind = ReferenceKind::env;
    glyph.name = inside.substr(4);
  } else if (inside.starts_with("file:") && inside.size() > 5) {
    glyph.kind = ReferenceKind::file;
    glyph.name = inside.substr(5);
  }
  return glyph;
}

// Returns whether all references were well-formed; the others are taken as text.
bool split(std::string_view text, Glyphs& glyphs) {
  bool well_formed = true;
  std::size_t i = 0;
  auto literal = [&](std::size_t at) {
    Glyph glyph;
    glyph.literal = text[at];
    glyph.at = at;
    glyphs.push_back(glyph);
  };
  while (i < text.size()) {
    if (text.substr(i).starts_with("$${")) {
      literal(i);
      literal(i + 2);
      i += 3;
      continue;
    }
    if (text.substr(i).starts_with("${")) {
      std::size_t close = text.find('}', i);
      if (close != std::string_view::npos) {
        Glyph glyph = reference_of(text.substr(i + 2, close - i - 2), i);
        if (glyph.kind != ReferenceKind::none) {
          glyphs.push_back(glyph);
          i = close + 1;
          continue;
        }
      }
      well_formed = false;
    }
    literal(i);
    ++i;
  }
  return well_formed;
}

std::size_t find(const Glyphs& glyphs, char c, std::size_t from, std::size_t end) {
  while (from < end && !glyphs[from].is(c)) {
    ++from;
  }
  return from;
}

std::string literal_text(const Glyphs& glyphs, std::size_t begin, std::size_t end) {
  std::string text;
  for (std::size_t i = begin; i < end; ++i) {
    text += glyphs[i].kind == ReferenceKind::none ? glyphs[i].literal : '?';
  }
  return text;
}

// postgresql://[user[:password]@][hosts][/database][?name=value[&…]]
std::vector<ConninfoValue> uri_values(const Glyphs& glyphs, std::size_t begin) {
  std::vector<ConninfoValue> values;
  std::size_t size = glyphs.size();
  std::size_t at = std::min(find(glyphs, '@', begin, size), size);
  if (at < size && find(glyphs, '/', begin, at) == at) {
    std::size_t colon = find(glyphs, ':', begin, at);
    if (colon < at) {
      values.push_back({"password", ConninfoForm::percent, colon + 1, at});
    }
  }
  std::size_t i = find(glyphs, '?', begin, size);
  while (i < size) {
    std::size_t name = i + 1;
    std::size_t end = find(glyphs, '&', name, size);
    std::size_t equals = find(glyphs, '=', name, end);
    if (equals < end) {
      values.push_back(
          {literal_text(glyphs, name, equals), ConninfoForm::percent, equals + 1, end});
    }
    i = end;
  }
  return values;
}

// Value after "key =": quoted, or up to the next space; a backslash takes the next character.
ConninfoValue value_at(const Glyphs& glyphs, std::size_t i) {
  ConninfoValue value;
  value.form =
      i < glyphs.size() && glyphs[i].is('\'') ? ConninfoForm::quoted : ConninfoForm::unquoted;
  bool is_quoted = value.form == ConninfoForm::quoted;
  i += is_quoted ? 1 : 0;
  value.begin = i;
  while (i < glyphs.size() && !(is_quoted ? glyphs[i].is('\'') : glyphs[i].is_space())) {
    i += glyphs[i].is('\\') ? 2 : 1;
  }
  value.end = std::min(i, glyphs.size());
  return value;
}

std::vector<ConninfoValue> key_value_values(const Glyphs& glyphs) {
  std::vector<ConninfoValue> values;
  std::size_t i = 0;
  std::string key;
  while (i < glyphs.size()) {
    if (!glyphs[i].is('=')) {
      if (glyphs[i].is_space()) {
        // Spaces may stand between a key and its "=".
        std::size_t next = i;
        while (next < glyphs.size() && glyphs[next].is_space()) {
          ++next;
        }
        key = next < glyphs.size() && glyphs[next].is('=') ? key : std::string{};
        i = next;
        continue;
      }
      key += literal_text(glyphs, i, i + 1);
      ++i;
      continue;
    }
    ++i;
    while (i < glyphs.size() && glyphs[i].is_space()) {
      ++i;
    }
    ConninfoValue value = value_at(glyphs, i);
    value.key = std::move(key);
    key.clear();
    i = value.end + (value.form == ConninfoForm::quoted ? 1 : 0);
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

bool Glyph::is_space() const {
  return kind == ReferenceKind::none && (literal == ' ' || (literal >= '\t' && literal <= '\r'));
}

Result<Glyphs> split_references(std::string_view text) {
  Glyphs glyphs;
  if (!split(text, glyphs)) {
    return fail(ErrorKind::configuration, "has a \"${\" that is no reference", kHowToWrite);
  }
  return glyphs;
}

Glyphs split_leniently(std::string_view text) {
  Glyphs glyphs;
  split(text, glyphs);
  return glyphs;
}

std::size_t uri_begin(const Glyphs& glyphs) {
  for (std::size_t i = 0; i + 2 < glyphs.size(); ++i) {
    if (glyphs[i].is(':') && glyphs[i + 1].is('/') && glyphs[i + 2].is('/')) {
      return i + 3;
    }
    if (glyphs[i].is('=') || glyphs[i].is_space()) {
      return 0;
    }
  }
  return 0;
}

std::vector<ConninfoValue> conninfo_values(const Glyphs& glyphs) {
  std::size_t begin = uri_begin(glyphs);
  return begin > 0 ? uri_values(glyphs, begin) : key_value_values(glyphs);
}

}  // namespace outrider
