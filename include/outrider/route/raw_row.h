// A row as text, for a dead letter that could not be mapped, and back again.
//
// One line says which table, then each column has a line "column OID STATE LENGTH-OF-NAME
// LENGTH-OF-VALUE", its name and its value, so that any bytes survive and people can read it.
// Pure. Errors: `poison` for text that was not written by this code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/model/change.h"

namespace outrider {

std::string encode_raw_row(const Insert& insert);

/// Owns what an Insert points to. Not copied or moved: insert() holds addresses.
class RawRow {
 public:
  static Result<std::unique_ptr<RawRow>> decode(std::string text);

  RawRow(const RawRow&) = delete;
  RawRow& operator=(const RawRow&) = delete;

  /// `layout_id` must be one that names the same columns each time (RecordMapper's cache).
  Insert insert(std::uint64_t layout_id);
  const Relation& relation() const { return relation_; }

 private:
  RawRow() = default;
  Result<> parse();

  std::string text_;
  Relation relation_;
  std::optional<QualifiedName> root_;
  std::vector<ColumnValue> values_;
};

}  // namespace outrider
