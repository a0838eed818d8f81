// LayoutCache: the layouts of tables whose every row repeats its column names (wal2json).
//
// Owns the Relations it hands out. A row with a known layout costs comparisons and no allocation;
// a new layout makes a Relation with an id that this cache never uses again, not even after
// clear(). Pointers stay valid until the next call. Limits: kLayoutsPerTableMax, then the layout
// unused for longest goes; kTablesMax, then everything is forgotten and learned again (dropped
// partitions would pile up for ever). Thread: loop. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "outrider/model/change.h"

namespace outrider {

struct IncomingColumn {
  std::string_view name;
  std::uint32_t type_oid = 0;
};

class LayoutCache {
 public:
  static constexpr std::size_t kLayoutsPerTableMax = 16;
  static constexpr std::size_t kTablesMax = 10'000;

  /// The layout of that table with exactly these columns, made if it is new.
  const Relation* find(std::string_view schema, std::string_view table,
                       std::span<const IncomingColumn> columns);

  void clear();

  std::size_t tables() const { return tables_.size(); }
  std::size_t layouts(std::string_view schema, std::string_view table) const;

 private:
  struct NameView {
    std::string_view schema;
    std::string_view table;
    auto operator<=>(const NameView&) const = default;
  };
  struct NameOrder {
    using is_transparent = void;
    static NameView view(const QualifiedName& name) { return {name.schema, name.table}; }
    static NameView view(const NameView& name) { return name; }
    bool operator()(const auto& a, const auto& b) const { return view(a) < view(b); }
  };
  // The one used last stands first.
  using Layouts = std::vector<std::unique_ptr<Relation>>;

  std::map<QualifiedName, Layouts, NameOrder> tables_;
  const Relation* last_ = nullptr;
  std::uint64_t last_layout_id_ = 0;
};

}  // namespace outrider
