#include "config/problems.h"

#include <utility>

#include "outrider/config/load.h"

namespace outrider {

void Problems::add(const std::string& place, const std::string& path, const std::string& what) {
  ++count_;
  paths_.insert(path);
  if (lines_.size() < kProblemsMax) {
    lines_.push_back(place + ": " + (path.empty() ? "" : path + ": ") + what);
  }
}

Error problems_error(const std::vector<std::string>& lines, std::size_t count) {
  std::string message;
  if (count == 1 && lines.size() == 1) {
    message = lines.front();
  } else {
    message = std::to_string(count) + " problems in the configuration";
    for (const std::string& line : lines) {
      message += "\n  " + line;
    }
    if (count > lines.size()) {
      message += "\n  and " + std::to_string(count - lines.size()) + " more";
    }
  }
  return {ErrorKind::configuration,
          std::move(message),
          "correct it and try with \"outrider check-config\"; every option is in "
          "docs/CONFIGURATION.md",
          {}};
}

}  // namespace outrider
