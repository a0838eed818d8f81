// The report of `outrider doctor`: checks as text for people, or as one JSON object for programs.
//
// Pure. The JSON carries a version; fields are only ever added. Verdicts and numbers mean the same
// in both.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/doctor_check.h"

namespace outrider {

struct DoctorCounts {
  std::size_t pass = 0;
  std::size_t warn = 0;
  std::size_t fail = 0;
  std::size_t not_applicable = 0;
};

DoctorCounts count(const std::vector<Check>& checks);

/// Groups, one line a check and below it how to repair what is wrong, and a line of figures.
std::string doctor_text(const std::string& pipeline, const std::vector<Check>& checks);

/// One line.
std::string doctor_json(const std::string& pipeline, const std::vector<Check>& checks);

/// Numbers, groups and names of all checks.
std::string doctor_list();

}  // namespace outrider
