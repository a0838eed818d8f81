// Connection parameters: the operator's conninfo, completed by what the relay needs.
//
// Pure except for libpq's own look at environment and service file. The operator's values win,
// except for `replication` and `client_encoding`, and for the walsender's `application_name`, by
// which preflight judges synchronous_standby_names. Errors never repeat any part of the dsn.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "outrider/base/result.h"
#include "postgres/connection.h"

namespace outrider {

/// `rotation`: how far the list of hosts is turned, so that a host that hangs does not hide the
/// next one for ever.
Result<std::map<std::string, std::string>> connection_parameters(const std::string& dsn,
                                                                 const ConnectionOptions& options,
                                                                 std::size_t rotation);

}  // namespace outrider
