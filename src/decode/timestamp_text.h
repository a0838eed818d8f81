// The text of a timestamptz as PostgreSQL prints it in ISO style, to microseconds since 1970.
//
// `YYYY-MM-DD HH:MM:SS[.f{1,6}]+HH[:MM[:SS]][ BC]`, with four or more digits of year. Exact, no
// locale, no time zone data. Nothing is returned for another form, for a date that does not exist,
// for "infinity", and for an instant outside WallTime. Source: server, datetime.c, EncodeDateTime.
#pragma once

#include <optional>
#include <string_view>

#include "outrider/base/clock.h"

namespace outrider {

std::optional<WallTime> parse_timestamptz(std::string_view text);

}  // namespace outrider
