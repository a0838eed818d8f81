// PostgreSQL's binary form of the few types that statements with parameters use.
//
// Numbers are big-endian; pg_lsn and timestamptz are 64-bit numbers, the latter in microseconds
// since 2000; text and bytea are their bytes (server source: the types' send and recv functions).
// Pure. Reading never trusts its input: what has another form is nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/clock.h"

namespace outrider {

/// OIDs that only parameters need (server source: pg_type.dat); the others are in model/change.h.
enum ParameterOid : std::uint32_t {
  kByteaArrayOid = 1001,
  kInt8ArrayOid = 1016,
  kPgLsnOid = 3220,
};

std::string binary_int4(std::int32_t value);
std::string binary_int8(std::int64_t value);
std::string binary_bool(bool value);
std::string binary_timestamptz(WallTime time);
std::string binary_bytea_array(const std::vector<std::optional<std::string_view>>& items);
std::string binary_int8_array(const std::vector<std::int64_t>& items);

std::optional<std::int32_t> read_int4(std::string_view bytes);
std::optional<std::int64_t> read_int8(std::string_view bytes);
std::optional<WallTime> read_timestamptz(std::string_view bytes);
/// At most one dimension.
std::optional<std::vector<std::optional<std::string>>> read_bytea_array(std::string_view bytes);

}  // namespace outrider
