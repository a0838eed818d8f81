// The dead-letter table as SQL text: the same objects that sql/dead_letters.sql makes.
//
// A test installs both and compares the catalogue. Pure.
#pragma once

#include <string>

namespace outrider {

/// Table, indexes, view and version as one transaction's statements; all can be run again.
std::string dead_letter_objects_sql();
/// A row where all of them are there.
std::string dead_letter_objects_present_sql();

/// What the relay's role gets.
std::string dead_letter_grants_sql(const std::string& role);
std::string dead_letter_grants_present_sql(const std::string& role);

}  // namespace outrider
