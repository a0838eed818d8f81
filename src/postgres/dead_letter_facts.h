// Whether the dead-letter table can be used: facts of one session, and the judgement on them.
//
// Asked anew on every connection, because the next one may reach another server. Pure. Errors are
// `configuration` with the command that helps, carrying the SQLSTATE the server would have given.
#pragma once

#include <string>

#include "outrider/base/result.h"
#include "postgres/query_result.h"

namespace outrider {

/// Of the table's layout, kept in outrider.schema_version (sql/dead_letters.sql).
inline constexpr int kDeadLetterSchemaVersion = 1;

/// Reads the catalogue only, so that it is answered whatever is missing.
std::string dead_letter_facts_sql();
/// Only once the facts are right.
std::string dead_letter_version_sql();

/// `own_dsn`: the table has a dsn of its own (dead_letters.dsn), not the source's.
Result<> judge_dead_letter_facts(const QueryResult& facts, bool own_dsn);
Result<> judge_dead_letter_version(const QueryResult& version, const QueryResult& facts,
                                   bool own_dsn);

/// How to make the table, with the names of the session.
std::string dead_letter_install_hint(const QueryResult& facts, bool own_dsn);

}  // namespace outrider
