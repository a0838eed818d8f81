#include "config/problems.h"

#include "outrider/config/load.h"

namespace outrider {

void Problems::add(const std::string& place, const std::string& path, const std::string& what) {
  ++count_;
  paths_.insert(path);
  if (lines_.size() < kProblemsMax) {
    lines_.push_back(place + ": " + (path.empty() ? "" : path + ": ") + what);
  }
}

Error Problems::to_error() const {
  std::string message;
  if (count_ == 1) {
    message = lines_.front();
  } else {
    message = std::to_string(count_) + " problems in the configuration";
    for (const std::string& line : lines_) {
      message += "\n  " + line;
    }
    if (count_ > lines_.size()) {
      message += "\n  and " + std::to_string(count_ - lines_.size()) + " more";
    }
  }
  return {ErrorKind::configuration,
          std::move(message),
          "correct it and try with \"outrider check-config\"; every option is in "
          "docs/CONFIGURATION.md",
          {}};
}

}  // namespace outrider
