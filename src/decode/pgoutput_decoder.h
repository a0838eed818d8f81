// PgoutputDecoder: pgoutput protocol version 1, text format, without streaming or two-phase.
//
// Owns the relations of one connection, keyed by their OID, and the values of the last row. The
// server describes a relation once a connection and never again, so none may be forgotten before
// reset(): their number is bounded by the tables of the publication. Thread: loop. Errors: poison
// with the byte position. Decoding a row allocates nothing once the widest row has been seen.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "outrider/base/byte_reader.h"
#include "outrider/decode/decoder.h"

namespace outrider {

class PgoutputDecoder final : public Decoder {
 public:
  Result<Change> decode(Lsn wal_start, std::span<char> payload) override;
  void reset() override;

 private:
  Result<Change> dispatch(char type, ByteReader& reader);
  Result<Change> decode_relation(ByteReader& reader);
  Result<Change> decode_insert(ByteReader& reader);
  Result<void> decode_values(const Relation& relation, ByteReader& reader);
  const Relation* find_relation(std::uint32_t relation_oid);

  std::unordered_map<std::uint32_t, std::unique_ptr<Relation>> relations_;
  // The relation of the last row: nearly always the one of the next.
  std::uint32_t last_oid_ = 0;
  const Relation* last_relation_ = nullptr;
  std::uint64_t last_layout_id_ = 0;
  std::vector<ColumnValue> values_;
  // Where a Relation message is read before it is compared; kept for its capacity.
  Relation incoming_;
};

}  // namespace outrider
