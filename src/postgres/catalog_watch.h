// CatalogWatch: notices when rows of an outbox table pass the stream by.
//
// PostgreSQL decodes each row with the catalogue of its moment: what was written while the table
// was out of the publication, or had another name, never arrives, and the slot's position passes
// it. So the catalogue is looked at when the stream begins, every few seconds and when a row comes
// from a table or layout not met before; each look is compared with the last good one. Remembers
// across connections, not across processes. Pure: StreamWatch asks the statement and hands in the
// rows. Thread: loop. Limits: what it can and cannot see is in docs/adr/0017-catalogue-watch.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "outrider/base/lsn.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"
#include "postgres/catalog_compare.h"
#include "postgres/catalog_facts.h"
#include "postgres/preflight.h"
#include "postgres/query_result.h"

namespace outrider {

/// What one look has to say.
struct CatalogReport {
  enum class Kind : std::uint8_t { nothing, changed, gap, drift };
  Kind kind = Kind::nothing;
  std::string what;  ///< What was found.
  std::string rows;  ///< Which rows may be missing, with the bounds.
  std::string hint;  ///< How to put it back and how to send the rows again.
};

class CatalogWatch {
 public:
  /// Layouts remembered before they are all forgotten and met anew.
  static constexpr std::size_t kLayoutsMax = 10'000;

  CatalogWatch(const SourceConfig& source, const OutboxConfig& outbox);

  struct Stream {
    Plugin plugin = Plugin::pgoutput;
    int version_num = 0;
    Lsn from;
    bool new_slot = false;  ///< Nothing before it is owed.
  };
  void begin(const Stream& stream);

  std::string statement() const;
  CatalogReport take(const QueryResult& rows);

  /// Does this row's table call for a look before the row is passed on? Says so once for each
  /// layout of another table, and for each but the first of an outbox table.
  bool needs_look(const Relation& relation);

  /// Where the catalogue was last seen good.
  std::optional<Lsn> last_good() const;

 private:
  struct Floor {
    Lsn lsn;
    std::uint32_t xid = 0;  ///< Rows of older transactions have all been written.
  };

  CatalogReport first_look(const CatalogFacts& seen);
  CatalogReport report(const std::vector<CatalogFinding>& findings, const CatalogFacts& seen,
                       const Floor& floor) const;
  std::string republish(const std::vector<CatalogFinding>& findings, const CatalogFacts& seen,
                        const Floor& floor) const;
  void settle(CatalogFacts seen);

  std::string slot_;
  std::vector<QualifiedName> tables_;
  CatalogRules rules_;
  Stream stream_;
  std::optional<CatalogFacts> good_;
  Floor floor_;  ///< Where the catalogue was last seen good and nobody was changing it.

  std::uint64_t last_layout_ = 0;
  std::unordered_set<std::uint64_t> layouts_;
  std::set<QualifiedName> met_;  ///< Outbox tables whose rows this stream has brought.
};

}  // namespace outrider
