#include "postgres/catalog_watch.h"

#include <algorithm>
#include <utility>

#include "outrider/route/outbox_layout.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

using Weight = CatalogFinding::Weight;

Weight heaviest(const std::vector<CatalogFinding>& findings) {
  Weight weight = Weight::harmless;
  for (const CatalogFinding& finding : findings) {
    weight = std::max(weight, finding.weight);
  }
  return weight;
}

std::string xid_age(std::uint32_t xid) { return "age('" + std::to_string(xid) + "'::xid)"; }

}  // namespace

CatalogWatch::CatalogWatch(const SourceConfig& source, const OutboxConfig& outbox)
    : slot_(source.slot), rules_{Plugin::pgoutput, source.publication} {
  for (const std::string& text : outbox.tables) {
    // A name that is none was refused by preflight.
    if (Result<QualifiedName> name = parse_table_name(text)) {
      tables_.push_back(std::move(*name));
    }
  }
}

void CatalogWatch::begin(const Stream& stream) {
  stream_ = stream;
  rules_.plugin = stream.plugin;
  last_layout_ = 0;
  layouts_.clear();
  met_.clear();
}

std::string CatalogWatch::statement() const {
  CatalogQuestion question;
  question.version_num = stream_.version_num;
  question.publication = rules_.publication;
  question.tables = tables_;
  if (!good_ && !stream_.new_slot) {
    question.slot = slot_;
  }
  if (good_) {
    for (const CatalogTable& table : good_->tables) {
      question.known_oids.push_back(table.oid);
    }
  }
  return catalog_statement(question);
}

CatalogReport CatalogWatch::take(const QueryResult& rows) {
  CatalogFacts seen = take_catalog(rows);
  if (seen.tables.empty()) {
    return {};
  }
  if (!good_) {
    return first_look(seen);
  }
  CatalogReport result = report(find_drift(*good_, seen, rules_), seen, floor_);
  if (result.kind != CatalogReport::Kind::drift) {
    settle(std::move(seen));
  }
  return result;
}

// Preflight found it good a moment ago. What lies before is known only from the transactions that
// wrote the catalogue's rows.
CatalogReport CatalogWatch::first_look(const CatalogFacts& seen) {
  Floor floor{stream_.from, seen.slot_catalog_xmin.value_or(seen.oldest_xid)};
  if (auto flaws = find_flaws(seen, rules_); !flaws.empty()) {
    return report(flaws, seen, floor);
  }
  floor_ = floor;
  settle(seen);
  if (seen.slot_restart_lsn.is_valid()) {
    floor.lsn = std::min(floor.lsn, seen.slot_restart_lsn);
  }
  return report(find_remade(seen, rules_), seen, floor);
}

void CatalogWatch::settle(CatalogFacts seen) {
  if (seen.settled) {
    floor_ = Floor{seen.lsn, seen.oldest_xid};
  }
  good_ = std::move(seen);
}

CatalogReport CatalogWatch::report(const std::vector<CatalogFinding>& findings,
                                   const CatalogFacts& seen, const Floor& floor) const {
  CatalogReport result;
  if (findings.empty()) {
    return result;
  }
  const Weight weight = heaviest(findings);
  std::vector<std::string> what;
  std::vector<std::string> repairs;
  for (const CatalogFinding& finding : findings) {
    what.push_back(finding.what);
    if (!finding.repair.empty()) {
      repairs.push_back(finding.repair);
    }
  }
  result.what = join(what, "; ");
  if (weight == Weight::harmless) {
    result.kind = CatalogReport::Kind::changed;
    return result;
  }
  result.kind = weight == Weight::gap ? CatalogReport::Kind::gap : CatalogReport::Kind::drift;
  result.rows =
      "rows written after " + floor.lsn.to_string() +
      (repairs.empty() ? " and before " + seen.lsn.to_string() + " may never arrive"
                       : " may never arrive (seen at " + seen.lsn.to_string() + ", and it lasts)");
  result.hint = "send again what the table still has: " + republish(findings, seen, floor) +
                " (docs/OPERATIONS.md, \"Rows that never arrived\")";
  if (!repairs.empty()) {
    result.hint = "put it back: " + join(repairs, "; ") + "; start the relay, then " + result.hint;
  } else if (result.kind == CatalogReport::Kind::drift) {
    result.hint = "start the relay again and " + result.hint;
  }
  return result;
}

// By the number of the inserting transaction, since a row does not know its position. To write the
// rows again, with their ids, is right whether they arrived or not: consumers know ids.
std::string CatalogWatch::republish(const std::vector<CatalogFinding>& findings,
                                    const CatalogFacts& seen, const Floor& floor) const {
  std::set<QualifiedName> tables;
  bool lasts = false;
  for (const CatalogFinding& finding : findings) {
    if (finding.weight == Weight::harmless) {
      continue;
    }
    const std::vector<QualifiedName>& whose = finding.tables.empty() ? tables_ : finding.tables;
    tables.insert(whose.begin(), whose.end());
    lasts = lasts || !finding.repair.empty();
  }
  std::string where = "age(xmin) <= " + xid_age(floor.xid);
  if (!lasts) {
    where += " AND age(xmin) > " + xid_age(seen.next_xid);
  }
  std::vector<std::string> statements;
  for (const QualifiedName& table : tables) {
    const std::string name = quote_table_name(table);
    statements.push_back("WITH gone AS (DELETE FROM " + name + " WHERE " + where +
                         " RETURNING *) INSERT INTO " + name +
                         " OVERRIDING SYSTEM VALUE SELECT * FROM gone");
  }
  return join(statements, "; ");
}

bool CatalogWatch::needs_look(const Relation& relation) {
  if (relation.layout_id == last_layout_) [[likely]] {
    return false;
  }
  last_layout_ = relation.layout_id;
  if (layouts_.size() >= kLayoutsMax) {
    layouts_.clear();
  }
  if (!layouts_.insert(relation.layout_id).second) {
    return false;
  }
  const bool is_outbox = std::find(tables_.begin(), tables_.end(), relation.name) != tables_.end();
  return !is_outbox || !met_.insert(relation.name).second;
}

std::optional<Lsn> CatalogWatch::last_good() const {
  return good_ ? std::optional<Lsn>(floor_.lsn) : std::nullopt;
}

}  // namespace outrider
