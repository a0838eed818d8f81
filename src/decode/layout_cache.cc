#include "decode/layout_cache.h"

#include <algorithm>
#include <string>
#include <utility>

namespace outrider {
namespace {

bool same_columns(const Relation& relation, std::span<const IncomingColumn> columns) {
  return std::equal(relation.columns.begin(), relation.columns.end(), columns.begin(),
                    columns.end(), [](const Column& known, const IncomingColumn& incoming) {
                      return known.type_oid == incoming.type_oid && known.name == incoming.name;
                    });
}

}  // namespace

const Relation* LayoutCache::find(std::string_view schema, std::string_view table,
                                  std::span<const IncomingColumn> columns) {
  if (last_ != nullptr && last_->name.table == table && last_->name.schema == schema &&
      same_columns(*last_, columns)) [[likely]] {
    return last_;
  }
  auto found = tables_.find(NameView{schema, table});
  if (found == tables_.end()) {
    if (tables_.size() == kTablesMax) {
      clear();
    }
    found =
        tables_.emplace(QualifiedName{std::string(schema), std::string(table)}, Layouts{}).first;
  }
  Layouts& layouts = found->second;
  auto known = std::find_if(layouts.begin(), layouts.end(), [columns](const auto& layout) {
    return same_columns(*layout, columns);
  });
  if (known == layouts.end()) {
    if (layouts.size() == kLayoutsPerTableMax) {
      layouts.pop_back();
    }
    auto layout = std::make_unique<Relation>();
    layout->layout_id = ++last_layout_id_;
    layout->name = found->first;
    layout->columns.reserve(columns.size());
    for (const IncomingColumn& column : columns) {
      layout->columns.push_back({std::string(column.name), column.type_oid});
    }
    layouts.push_back(std::move(layout));
    known = layouts.end() - 1;
  }
  std::rotate(layouts.begin(), known, known + 1);
  last_ = layouts.front().get();
  return last_;
}

void LayoutCache::clear() {
  last_ = nullptr;
  tables_.clear();
}

std::size_t LayoutCache::layouts(std::string_view schema, std::string_view table) const {
  auto found = tables_.find(NameView{schema, table});
  return found == tables_.end() ? 0 : found->second.size();
}

}  // namespace outrider
