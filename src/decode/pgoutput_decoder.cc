#include "decode/pgoutput_decoder.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "decode/pgoutput_protocol.h"

namespace outrider {
namespace {

using tl::unexpected;

std::string quoted(char type) {
  static constexpr char kDigits[] = "0123456789abcdef";
  if (type > ' ' && type <= '~') {
    return std::string("'") + type + "'";
  }
  auto byte = static_cast<unsigned char>(type);
  return std::string("0x") + kDigits[byte >> 4U] + kDigits[byte & 15U];
}

unexpected<Error> malformed(char type, const ByteReader& reader, const std::string& why) {
  return fail(ErrorKind::poison,
              "pgoutput message " + quoted(type) + " is malformed at byte " +
                  std::to_string(reader.at()) + ": " + why,
              "check that nothing changes the bytes between the relay and the server, and report "
              "the server's version");
}

unexpected<Error> truncated(char type, const ByteReader& reader) {
  return malformed(type, reader, "it ends in the middle of a field");
}

/// A parser reads all its fields, then asks once whether they filled the message exactly.
Result<void> check_end(char type, const ByteReader& reader) {
  if (!reader.ok()) {
    return truncated(type, reader);
  }
  if (reader.left() != 0) {
    return malformed(type, reader, std::to_string(reader.left()) + " bytes follow its last field");
  }
  return {};
}

// Begin: Byte1 'B', Int64 start of the commit record, Int64 commit time, Int32 xid.
Result<Change> decode_begin(ByteReader& reader) {
  Begin begin;
  begin.commit_lsn = Lsn::from_wire(reader.u64());
  std::int64_t commit_time = reader.i64();
  begin.xid = reader.u32();
  OUTRIDER_TRY(check_end(pgoutput::kBegin, reader));
  if (commit_time > std::numeric_limits<std::int64_t>::max() - pgoutput::kEpochOffsetMicroseconds) {
    return malformed(pgoutput::kBegin, reader, "its commit time is out of range");
  }
  begin.commit_time =
      WallTime(std::chrono::microseconds(commit_time + pgoutput::kEpochOffsetMicroseconds));
  return begin;
}

// Commit: Byte1 'C', Int8 flags (unused), Int64 start of the commit record, Int64 its end,
// Int64 commit time.
Result<Change> decode_commit(ByteReader& reader) {
  Commit commit;
  reader.u8();
  commit.commit_lsn = Lsn::from_wire(reader.u64());
  commit.commit_end_lsn = Lsn::from_wire(reader.u64());
  reader.i64();
  OUTRIDER_TRY(check_end(pgoutput::kCommit, reader));
  return commit;
}

// Origin: Byte1 'O', Int64 commit position at the origin, String name.
Result<Change> decode_origin(ByteReader& reader) {
  reader.u64();
  reader.c_string();
  OUTRIDER_TRY(check_end(pgoutput::kOrigin, reader));
  return Skipped{Skipped::What::other};
}

// Type: Byte1 'Y', Int32 OID, String schema, String name. Values come as text: not needed.
Result<Change> decode_type(ByteReader& reader) {
  reader.u32();
  reader.c_string();
  reader.c_string();
  OUTRIDER_TRY(check_end(pgoutput::kType, reader));
  return Skipped{Skipped::What::other};
}

// Message: Byte1 'M', Int8 flags, Int64 position, String prefix, Int32 size, Byte[size] content.
// (The leading xid of the manual is only there inside a streamed transaction.)
Result<Change> decode_logical_message(ByteReader& reader) {
  LogicalMessage message;
  message.transactional = (reader.u8() & pgoutput::kTransactionalFlag) != 0;
  message.lsn = Lsn::from_wire(reader.u64());
  message.prefix = reader.c_string();
  message.content = reader.bytes(reader.u32());
  OUTRIDER_TRY(check_end(pgoutput::kLogicalMessage, reader));
  return message;
}

// Truncate: Byte1 'T', Int32 count, Int8 options, then count times Int32 relation OID.
Result<Change> decode_truncate(ByteReader& reader) {
  std::uint64_t relations = reader.u32();
  reader.u8();
  reader.bytes(relations * sizeof(std::uint32_t));
  OUTRIDER_TRY(check_end(pgoutput::kTruncate, reader));
  return Skipped{Skipped::What::truncate};
}

/// Step over a tuple whose values nobody wants; false if it holds an unknown kind of column.
bool skip_tuple(ByteReader& reader) {
  std::uint16_t count = reader.u16();
  for (std::uint16_t i = 0; i < count && reader.ok(); ++i) {
    switch (static_cast<char>(reader.u8())) {
      case pgoutput::kNullColumn:
      case pgoutput::kUnchangedColumn:
        break;
      case pgoutput::kTextColumn:
      case pgoutput::kBinaryColumn:
        reader.bytes(reader.u32());
        break;
      default:
        return !reader.ok();
    }
  }
  return true;
}

// Update: Byte1 'U', Int32 relation OID, [Byte1 'K' or 'O', TupleData old,] Byte1 'N',
// TupleData new.
Result<Change> decode_update(ByteReader& reader) {
  reader.u32();
  char marker = static_cast<char>(reader.u8());
  bool known = true;
  if (marker == pgoutput::kKeyTuple || marker == pgoutput::kOldTuple) {
    known = skip_tuple(reader);
    marker = static_cast<char>(reader.u8());
  }
  if (reader.ok() && (!known || marker != pgoutput::kNewTuple || !skip_tuple(reader))) {
    return malformed(pgoutput::kUpdate, reader, "unknown tuple or column kind");
  }
  OUTRIDER_TRY(check_end(pgoutput::kUpdate, reader));
  return Skipped{Skipped::What::update};
}

// Delete: Byte1 'D', Int32 relation OID, Byte1 'K' or 'O', TupleData old.
Result<Change> decode_delete(ByteReader& reader) {
  reader.u32();
  char marker = static_cast<char>(reader.u8());
  bool known = marker == pgoutput::kKeyTuple || marker == pgoutput::kOldTuple;
  if (reader.ok() && (!known || !skip_tuple(reader))) {
    return malformed(pgoutput::kDelete, reader, "unknown tuple or column kind");
  }
  OUTRIDER_TRY(check_end(pgoutput::kDelete, reader));
  return Skipped{Skipped::What::remove};
}

/// The canonical text of a bytea (model/change.h); nothing if the server prints it another way.
std::optional<std::string_view> bare_hex(std::string_view text) {
  if (!text.starts_with("\\x")) {
    return std::nullopt;
  }
  return text.substr(2);
}

std::string describe_column(const Relation& relation, std::size_t index) {
  return "column \"" + relation.columns[index].name + "\" of \"" + relation.name.schema + "." +
         relation.name.table + "\"";
}

}  // namespace

Result<Change> PgoutputDecoder::decode(Lsn /*wal_start*/, std::span<char> payload) {
  ByteReader reader({payload.data(), payload.size()});
  char type = static_cast<char>(reader.u8());
  if (!reader.ok()) {
    return fail(ErrorKind::poison, "pgoutput message is empty at byte 0",
                "report the server's version");
  }
  return dispatch(type, reader);
}

Result<Change> PgoutputDecoder::dispatch(char type, ByteReader& reader) {
  switch (type) {
    case pgoutput::kInsert:
      return decode_insert(reader);
    case pgoutput::kBegin:
      return decode_begin(reader);
    case pgoutput::kCommit:
      return decode_commit(reader);
    case pgoutput::kRelation:
      return decode_relation(reader);
    case pgoutput::kUpdate:
      return decode_update(reader);
    case pgoutput::kDelete:
      return decode_delete(reader);
    case pgoutput::kTruncate:
      return decode_truncate(reader);
    case pgoutput::kLogicalMessage:
      return decode_logical_message(reader);
    case pgoutput::kOrigin:
      return decode_origin(reader);
    case pgoutput::kType:
      return decode_type(reader);
    case pgoutput::kStreamStart:
    case pgoutput::kStreamStop:
    case pgoutput::kStreamCommit:
    case pgoutput::kStreamAbort:
    case pgoutput::kStreamPrepare:
    case pgoutput::kBeginPrepare:
    case pgoutput::kPrepare:
    case pgoutput::kCommitPrepared:
    case pgoutput::kRollbackPrepared:
      return Skipped{Skipped::What::other};
    default:
      return fail(ErrorKind::poison,
                  "pgoutput message of unknown type " + quoted(type) + " at byte 0",
                  "check that the slot was made with plugin pgoutput");
  }
}

void PgoutputDecoder::reset() {
  relations_.clear();
  last_relation_ = nullptr;
}

// Relation: Byte1 'R', Int32 OID, String schema (empty means pg_catalog), String name, Int8
// replica identity, Int16 columns, then per column: Int8 flags (1: part of the key), String name,
// Int32 type OID, Int32 type modifier.
Result<Change> PgoutputDecoder::decode_relation(ByteReader& reader) {
  std::uint32_t relation_oid = reader.u32();
  std::string_view schema = reader.c_string();
  incoming_.name.schema = schema.empty() ? "pg_catalog" : schema;
  incoming_.name.table = reader.c_string();
  reader.u8();
  std::uint16_t count = reader.u16();
  incoming_.columns.clear();
  for (std::uint16_t i = 0; i < count && reader.ok(); ++i) {
    reader.u8();
    std::string_view name = reader.c_string();
    std::uint32_t type_oid = reader.u32();
    reader.u32();
    incoming_.columns.push_back({std::string(name), type_oid});
  }
  OUTRIDER_TRY(check_end(pgoutput::kRelation, reader));
  std::unique_ptr<Relation>& known = relations_[relation_oid];
  if (!known || known->name != incoming_.name || known->columns != incoming_.columns) {
    last_relation_ = nullptr;
    incoming_.layout_id = ++last_layout_id_;
    known = std::make_unique<Relation>(std::move(incoming_));
    incoming_ = {};
  }
  return Skipped{Skipped::What::other};
}

const Relation* PgoutputDecoder::find_relation(std::uint32_t relation_oid) {
  if (last_relation_ != nullptr && last_oid_ == relation_oid) [[likely]] {
    return last_relation_;
  }
  auto found = relations_.find(relation_oid);
  if (found == relations_.end()) {
    return nullptr;
  }
  last_oid_ = relation_oid;
  last_relation_ = found->second.get();
  return last_relation_;
}

// Insert: Byte1 'I', Int32 relation OID, Byte1 'N', TupleData new.
Result<Change> PgoutputDecoder::decode_insert(ByteReader& reader) {
  std::uint32_t relation_oid = reader.u32();
  char marker = static_cast<char>(reader.u8());
  if (!reader.ok()) {
    return truncated(pgoutput::kInsert, reader);
  }
  if (marker != pgoutput::kNewTuple) {
    return malformed(pgoutput::kInsert, reader, "unknown tuple " + quoted(marker));
  }
  const Relation* relation = find_relation(relation_oid);
  if (relation == nullptr) {
    return malformed(pgoutput::kInsert, reader,
                     "no relation message described OID " + std::to_string(relation_oid));
  }
  OUTRIDER_TRY(decode_values(*relation, reader));
  OUTRIDER_TRY(check_end(pgoutput::kInsert, reader));
  return Insert{relation, nullptr, values_};
}

// TupleData: Int16 columns, then per column Byte1 kind: 'n' null; 'u' unchanged TOAST value, not
// sent; 't' text or 'b' binary: Int32 size, Byte[size].
Result<void> PgoutputDecoder::decode_values(const Relation& relation, ByteReader& reader) {
  std::size_t count = reader.u16();
  if (reader.ok() && count != relation.columns.size()) {
    return malformed(pgoutput::kInsert, reader,
                     "it has " + std::to_string(count) + " columns, the relation \"" +
                         relation.name.schema + "." + relation.name.table + "\" has " +
                         std::to_string(relation.columns.size()));
  }
  values_.resize(count);
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    ColumnValue& value = values_[i];
    value = {};
    char kind = static_cast<char>(reader.u8());
    if (kind == pgoutput::kTextColumn) [[likely]] {
      value = {ColumnValue::State::text, reader.bytes(reader.u32())};
      if (relation.columns[i].type_oid == kByteaOid && reader.ok()) {
        auto hex = bare_hex(value.text);
        if (!hex) {
          return fail(ErrorKind::poison, describe_column(relation, i) + " is not in hex form",
                      "set bytea_output to hex for the relay's session");
        }
        value.text = *hex;
      }
    } else if (kind == pgoutput::kUnchangedColumn) {
      value.state = ColumnValue::State::unchanged_toast;
    } else if (kind == pgoutput::kBinaryColumn) {
      return malformed(pgoutput::kInsert, reader,
                       describe_column(relation, i) + " is binary ('b'), which was not asked for");
    } else if (kind != pgoutput::kNullColumn && reader.ok()) {
      return malformed(pgoutput::kInsert, reader,
                       describe_column(relation, i) + " is of unknown kind " + quoted(kind));
    }
  }
  return {};
}

std::unique_ptr<Decoder> make_pgoutput_decoder() { return std::make_unique<PgoutputDecoder>(); }

}  // namespace outrider
