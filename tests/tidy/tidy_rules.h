// The rules of the house that a compiler does not check, as pure functions over the text of a file.
//
// Each rule takes a file and returns its findings, "path:line: what is wrong"; none means clean.
// They read text, not syntax: good enough to stop a slip, not to stop a liar. Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider::tidy {

using Findings = std::vector<std::string>;

/// One file of the tree; path is relative to the root, with forward slashes.
struct SourceFile {
  std::string path;
  std::string text;

  bool is_header() const { return path.ends_with(".h"); }
  bool is_cpp() const { return is_header() || path.ends_with(".cc"); }
  bool in(std::string_view folder) const { return path.starts_with(folder); }
};

inline constexpr std::size_t kColumnsMax = 100;
inline constexpr std::size_t kFunctionLinesMax = 70;
inline constexpr std::size_t kFileLinesMax = 500;

/// Text with comments, string and character literals blanked out, same lines and columns.
std::string without_comments_and_literals(std::string_view text);

/// Name of the room a file belongs to ("relay" for src/relay/… and include/outrider/relay/…).
std::string room_of(std::string_view path);

/// Includes against the room table, for project headers and for third-party ones.
Findings check_includes(const SourceFile& file);

/// No thread, mutex or atomic in src and include outside the loop room.
Findings check_threads(const SourceFile& file);

/// Columns and lines of a file, lines of a function.
Findings check_sizes(const SourceFile& file);

/// Unfinished-work marks must carry the number of an issue.
Findings check_marks(const SourceFile& file);

/// A header has the once pragma, and begins with a comment that says what it is.
Findings check_header_form(const SourceFile& file);

/// Calls that are never right here.
Findings check_banned_calls(const SourceFile& file);

/// Paths of one developer's machine.
Findings check_machine_paths(const SourceFile& file);

/// Every *_test.cc is named, or globbed, by the CMake list that would build it.
Findings check_dead_tests(const std::vector<SourceFile>& files);

}  // namespace outrider::tidy
