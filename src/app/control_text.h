// ControlText: what a relay answers to a command, as text for people or JSON lines for programs.
//
// Rows and results go to standard output, progress and errors to standard error. With `json` each
// row and the result of a command without rows are one line of JSON, and there is no progress.
// Texts of events may hold anything: control characters are shown as escapes, so that a payload
// cannot drive a terminal. Thread: the command's own.
#pragma once

#include <optional>
#include <string>

#include "app/json_tree.h"
#include "outrider/base/result.h"

namespace outrider {

class ControlText {
 public:
  ControlText(std::string command, bool json, bool dry_run);

  /// Show one line of the answer; after the last one the exit code. Error: what the relay said, or
  /// that the line makes no sense.
  Result<std::optional<int>> show(const std::string& line);

  /// A progress line that stands alone on a terminal gets its line break.
  void end_progress();

 private:
  void progress(const JsonTree& tree);
  void row(const JsonTree& tree);
  int result(const JsonTree& tree);
  int letters_result(const JsonTree& tree) const;

  std::string command_;
  bool json_;
  bool dry_run_;
  bool terminal_;
  bool head_shown_ = false;
  bool progress_open_ = false;
};

/// For one line of a terminal: control characters and bytes that are no UTF-8 as escapes.
std::string shown_text(const std::string& text);

/// The whole of `outrider status` for one relay.
std::string status_text(const JsonTree& result);

/// The whole of `outrider dead-letters show`.
std::string letter_text(const JsonTree& letter);

}  // namespace outrider
