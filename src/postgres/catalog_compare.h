// What a look at the catalogue means for the rows: the rules of drift.
//
// find_drift() compares a look with the last good one, find_flaws() judges one by itself, and
// find_remade() tells what a relay without memory can still see from the numbers of the
// transactions that wrote the catalogue's rows. Pure. The rules that PostgreSQL's manual does not
// state were provoked on a server; the reasons are in docs/adr/0017-catalogue-watch.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outrider/model/change.h"
#include "postgres/catalog_facts.h"
#include "postgres/preflight.h"

namespace outrider {

struct CatalogFinding {
  enum class Weight : std::uint8_t {
    harmless,  ///< No row was missed.
    gap,       ///< Rows may have been missed: report, go on.
    drift,     ///< Rows were or will be missed: stop.
  };
  Weight weight = Weight::drift;
  std::string what;
  std::string repair;                 ///< SQL or words that put it back; empty: nothing to do.
  std::vector<QualifiedName> tables;  ///< Whose rows; empty: of all outbox tables.
};

struct CatalogRules {
  Plugin plugin = Plugin::pgoutput;
  std::string publication;
};

std::vector<CatalogFinding> find_flaws(const CatalogFacts& seen, const CatalogRules& rules);

std::vector<CatalogFinding> find_drift(const CatalogFacts& good, const CatalogFacts& seen,
                                       const CatalogRules& rules);

/// Made or changed by a transaction whose effect the slot has still to decode. Needs the slot's
/// catalog_xmin.
std::vector<CatalogFinding> find_remade(const CatalogFacts& seen, const CatalogRules& rules);

}  // namespace outrider
