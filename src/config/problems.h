// Problems: everything wrong with a configuration, gathered so that it is told at once.
//
// Each has a place ("outrider.yaml:12:3"), a path and a text. The first kProblemsMax are kept, the
// rest is counted. problems_error()
// makes one Error of kind configuration of them, one line a problem.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"

namespace outrider {

class Problems {
 public:
  /// `path` may be empty where the problem belongs to no option.
  void add(const std::string& place, const std::string& path, const std::string& what);

  bool empty() const { return count_ == 0; }
  /// Whether this option has a problem already, so that a second one would be noise.
  bool has(const std::string& path) const { return paths_.count(path) > 0; }

  const std::vector<std::string>& lines() const { return lines_; }
  std::size_t count() const { return count_; }

 private:
  std::vector<std::string> lines_;
  std::set<std::string> paths_;
  std::size_t count_ = 0;
};

}  // namespace outrider
