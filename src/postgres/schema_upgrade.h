// The versions of Outrider's own schema in the database, and the way from each to the next.
//
// outrider.schema_version holds one row a part; the only part so far is the dead-letter table. A
// release knows its own version and the step from the one before; `outrider init --upgrade` runs
// it. A table without a row of its version counts as version 0. Pure. Errors: configuration.
#pragma once

#include <optional>
#include <string>

#include "outrider/base/result.h"

namespace outrider {

/// A row with the version, if the table of versions and the dead-letter table are there.
std::string schema_present_sql();
std::string schema_version_sql();

/// The statements that lead from `found` to this release's version, as one transaction; empty if
/// it is there already.
Result<std::string> schema_upgrade_sql(int found);

/// Version by the text of the row; nothing there counts as 0.
Result<int> parse_schema_version(const std::optional<std::string>& text);

}  // namespace outrider
