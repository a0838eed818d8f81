// The nouns of the stream: what a ChangeSource hands to the core, one Change at a time.
//
// Plain data, no behaviour. All views point into the source's receive buffer or the decoder's
// scratch memory and stay valid until the next change is pulled from the same source.
// Canonical text, the same from both plugins (docs/RECORDS.md):
//   boolean "t"/"f"; bytea as hex digits WITHOUT the leading \x (only for type OID 17, not for
//   domains over it); every other type as its PostgreSQL output function prints it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"

namespace outrider {

/// OIDs of built-in types that some rule treats specially (server source: pg_type.dat).
enum TypeOid : std::uint32_t {
  kBoolOid = 16,
  kByteaOid = 17,
  kInt8Oid = 20,
  kInt2Oid = 21,
  kInt4Oid = 23,
  kTextOid = 25,
  kJsonOid = 114,
  kFloat4Oid = 700,
  kFloat8Oid = 701,
  kBpcharOid = 1042,
  kVarcharOid = 1043,
  kDateOid = 1082,
  kTimestampOid = 1114,
  kTimestamptzOid = 1184,
  kNumericOid = 1700,
  kUuidOid = 2950,
  kJsonbOid = 3802,
};

struct Column {
  std::string name;
  std::uint32_t type_oid = 0;

  bool operator==(const Column&) const = default;
};

struct QualifiedName {
  std::string schema;
  std::string table;

  auto operator<=>(const QualifiedName&) const = default;
};

/// One layout of one table, as the stream described it. Owned by the decoder; a table that changes
/// its columns gets a new Relation with a new `layout_id`, which a process never uses twice.
struct Relation {
  std::uint64_t layout_id = 0;
  QualifiedName name;
  std::vector<Column> columns;
};

struct ColumnValue {
  enum class State : std::uint8_t {
    null,
    text,             ///< `text` holds the canonical text, possibly empty.
    unchanged_toast,  ///< Not sent by the server; never seen in an INSERT.
  };
  State state = State::null;
  std::string_view text;
};

/// The stream runs; everything up to here is already confirmed at the server.
struct StreamStart {
  Lsn confirmed_flush_lsn;
  /// What the server waits for a sign of life from us; zero: for ever.
  std::chrono::milliseconds wal_sender_timeout{0};
  /// The slot was held by another process since the source was opened.
  bool after_standby = false;
  /// The slot was made by this process since the source was opened.
  bool created = false;
  Lsn server_wal_end;      ///< The end of the server's WAL shortly before.
  Lsn slot_confirmed_lsn;  ///< The slot's own word, which may be behind the position above.
  Lsn slot_restart_lsn;    ///< From where the slot needs WAL.
};

struct Begin {
  std::uint32_t xid = 0;  ///< Zero when the plugin was not asked for it.
  Lsn commit_lsn;         ///< Start of the commit record: names the transaction in the WAL.
  WallTime commit_time{};
};

struct Insert {
  const Relation* relation = nullptr;
  /// The outbox table when `relation` is a partition of it; null when it stands for itself.
  const QualifiedName* root = nullptr;
  std::span<const ColumnValue> values;  ///< As many as `relation->columns`.
};

/// A change that never becomes an event: counted, nothing more.
struct Skipped {
  enum class What : std::uint8_t { update, remove, truncate, other };
  What what = What::other;
};

struct Commit {
  Lsn commit_lsn;
  Lsn commit_end_lsn;  ///< First byte after the commit record: what may be confirmed.
};

/// pg_logical_emit_message(); a non-transactional one can stand outside Begin and Commit.
struct LogicalMessage {
  bool transactional = false;
  Lsn lsn;
  std::string_view prefix;
  std::string_view content;
};

/// The server's word that everything committed before `wal_end` has been sent.
struct Keepalive {
  Lsn wal_end;
  bool reply_requested = false;
};

/// The server has answered our CopyDone: it has processed every status sent before it.
struct StreamEnd {};

using Change =
    std::variant<StreamStart, Begin, Insert, Skipped, Commit, LogicalMessage, Keepalive, StreamEnd>;

}  // namespace outrider
