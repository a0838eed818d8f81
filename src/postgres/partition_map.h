// PartitionMap: which outbox table a row belongs to, when the stream names a leaf.
//
// wal2json names the partition a row lies in, and its list of tables is fixed at the start; so the
// server sends all tables and every one in the stream is placed here: an outbox table, a leaf of
// one, foreign, or unknown until the catalogue has been asked. Leaves once known stay known for the
// life of the process, since their rows may arrive after they were detached or dropped. A table
// without the columns that every event needs is foreign, and remembered by layout: to become a
// partition it needs other columns, which is another layout. Pure: the caller asks the catalogue.
// Errors: `fatal` for a table that has those columns and no known root, for to skip it could lose
// events. Limits: kLayoutsMax remembered layouts; beyond it all are forgotten and judged again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "outrider/base/lsn.h"
#include "outrider/base/result.h"
#include "outrider/model/change.h"
#include "postgres/preflight.h"
#include "postgres/query_result.h"

namespace outrider {

class PartitionMap {
 public:
  static constexpr std::size_t kLayoutsMax = 10'000;

  enum class Kind : std::uint8_t {
    own,      ///< An outbox table itself.
    leaf,     ///< A partition of `root`.
    foreign,  ///< None of ours.
    unknown,  ///< Ask the catalogue, then learn().
  };
  struct Place {
    Kind kind = Kind::unknown;
    const QualifiedName* root = nullptr;  ///< Lives as long as the map.
  };

  /// `former_partitions` as in SourceConfig; an error names the one that is no table name.
  static Result<PartitionMap> create(const std::vector<std::string>& former_partitions);

  /// A new connection: forget layouts, keep leaves, add what the catalogue says now.
  void begin(const StartPlan& plan);

  /// Errors: a listed former partition that fits none of the outbox tables.
  Result<Place> place(const Relation& relation);

  /// The statement that tells where `name` belongs; its rows go to learn().
  static std::string lookup_sql(const QualifiedName& name);

  /// `commit_lsn` names the transaction in the error.
  Result<Place> learn(const Relation& relation, const QueryResult& rows, Lsn commit_lsn);

 private:
  PartitionMap() = default;
  Place remember(const Relation& relation, Place place);
  /// The outbox table whose events this table's rows could be; null if none.
  const QualifiedName* lookalike(const Relation& relation) const;

  std::set<QualifiedName> former_;
  /// Node-based: addresses of the names are given away.
  std::map<QualifiedName, std::vector<std::string>> tables_;
  std::map<QualifiedName, const QualifiedName*> leaves_;
  std::unordered_map<std::uint64_t, Place> by_layout_;
};

}  // namespace outrider
