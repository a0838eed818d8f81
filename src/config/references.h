// References: the pieces of a text with ${env:NAME} and ${file:path} in it.
//
// Pure: splits and judges, never reads a variable or a file. "$${" is the two literal characters
// "${". Also finds the values inside a libpq conninfo (manual, 34.1.1), over the same pieces, so
// that masking and escaping agree on what a value is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"

namespace outrider {

enum class ReferenceKind : std::uint8_t { none, env, file };

/// One literal character, or one reference.
struct Glyph {
  ReferenceKind kind = ReferenceKind::none;
  char literal = 0;
  std::string_view name;  ///< Of the variable or the file; points into the text.
  std::size_t at = 0;     ///< Where it begins in the text.

  bool is(char c) const { return kind == ReferenceKind::none && literal == c; }
  bool is_space() const;
};

using Glyphs = std::vector<Glyph>;

/// Errors: a reference that is not closed, or is neither env nor file. The text is not shown.
Result<Glyphs> split_references(std::string_view text);

/// The same where a malformed reference is just text; for masking, which cannot fail.
Glyphs split_leniently(std::string_view text);

enum class ConninfoForm : std::uint8_t { unquoted, quoted, percent };

/// A value inside a conninfo: glyphs [begin, end).
struct ConninfoValue {
  std::string key;
  ConninfoForm form = ConninfoForm::unquoted;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Where the user part of a URI begins (after "://"); 0: not a URI.
std::size_t uri_begin(const Glyphs& glyphs);

std::vector<ConninfoValue> conninfo_values(const Glyphs& glyphs);

}  // namespace outrider
