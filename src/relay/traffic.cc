#include "outrider/relay/traffic.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::string_view kRest = "other";

}  // namespace

void Traffic::received(std::string_view table, std::uint64_t bytes) {
  if (last_table_ == nullptr || last_table_->table != table) {
    last_table_ = &table_of(table);
  }
  ++last_table_->rows;
  last_table_->bytes += bytes;
}

TableTraffic& Traffic::table_of(std::string_view table) {
  const auto named = [this](std::string_view name) {
    return std::find_if(tables_.begin(), tables_.end(),
                        [name](const TableTraffic& each) { return each.table == name; });
  };
  auto found = named(table);
  if (found == tables_.end() && tables_.size() >= kTablesMax) {
    table = kRest;
    found = named(table);
  }
  return found != tables_.end() ? *found : tables_.emplace_back(std::string(table));
}

std::uint16_t Traffic::topic_number(std::string_view topic) {
  CacheLine& line = cache_[(reinterpret_cast<std::uintptr_t>(topic.data()) >> 4) % cache_.size()];
  if (line.address == topic.data()) {
    return line.number;
  }
  auto known = numbers_.find(topic);
  if (known == numbers_.end()) {
    if (names_.size() > kTopicsMax) {
      return 0;
    }
    known = numbers_.emplace(std::string(topic), static_cast<std::uint16_t>(names_.size())).first;
    names_.emplace_back(known->first);
  }
  line = CacheLine{topic.data(), known->second};
  return known->second;
}

std::string_view Traffic::topic_name(std::uint16_t number) const {
  return number < names_.size() ? names_[number] : std::string_view{};
}

}  // namespace outrider
