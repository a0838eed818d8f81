// Field bytes: from a column's canonical text to the bytes that Kafka gets (docs/RECORDS.md).
//
// bytea (type OID 17 itself) becomes its raw bytes, everything else is its text; NULL stays
// nothing. Views are of the row or of the caller's scratch. Pure. Errors: `poison`, naming the
// column and never its value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "outrider/base/result.h"
#include "outrider/model/change.h"

namespace outrider {

/// A column of a row, with what an error has to name.
struct Field {
  const Column& column;
  const ColumnValue& value;
  const std::string& table;
};

tl::unexpected<Error> refuse_field(const Field& field, const std::string& reason,
                                   const std::string& hint);

/// The text as it is (bytea as hex digits). Error if the server did not send the value.
Result<std::optional<std::string_view>> field_text(const Field& field);

/// For key and value. `scratch` holds the bytes where they had to be decoded.
Result<std::optional<std::string_view>> field_bytes(const Field& field, std::string& scratch);

/// For a header: as field_bytes, and a boolean is "true" or "false".
Result<std::optional<std::string_view>> field_header(const Field& field, std::string& scratch);

}  // namespace outrider
