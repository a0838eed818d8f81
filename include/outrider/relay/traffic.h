// Traffic: what the core has taken in, by outbox table, and short numbers for topic names.
//
// The number of a topic is kept with each row in flight, so that the record that holds the front
// can be named. No call allocates once a table or topic is known. Thread: loop. Limits: kTablesMax
// tables and kTopicsMax topics have a name of their own, the rest shares one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

namespace outrider {

struct TableTraffic {
  std::string table;        ///< "schema.table"; empty for rows that could not be read.
  std::uint64_t rows = 0;   ///< Each row once, however often the server sends it.
  std::uint64_t bytes = 0;  ///< Of the column values, as the output plugin prints them.
};

class Traffic {
 public:
  static constexpr std::size_t kTablesMax = 128;
  static constexpr std::uint16_t kTopicsMax = 10'000;

  void received(std::string_view table, std::uint64_t bytes);
  const std::deque<TableTraffic>& tables() const { return tables_; }

  /// The view's address must stand for the same name as long as this lives (RecordMapper's topics
  /// do).
  std::uint16_t topic_number(std::string_view topic);
  /// Empty for the number that the rest shares.
  std::string_view topic_name(std::uint16_t number) const;

 private:
  struct CacheLine {
    const char* address = nullptr;
    std::uint16_t number = 0;
  };

  TableTraffic& table_of(std::string_view table);

  std::deque<TableTraffic> tables_;
  TableTraffic* last_table_ = nullptr;
  std::map<std::string, std::uint16_t, std::less<>> numbers_;
  std::deque<std::string_view> names_{std::string_view{}};  ///< The rest is number 0.
  std::array<CacheLine, 64> cache_{};
};

}  // namespace outrider
