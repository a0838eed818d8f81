// Wal2jsonDecoder: wal2json 2.x, one JSON object a change (format-version 2).
//
// Expects the options include-lsn, include-timestamp and include-type-oids; a field that one of
// them brings and that is missing is an error naming the option. Unknown keys are ignored. Owns
// the layouts of the tables seen and the values of the last row. Thread: loop. Errors: poison with
// the byte position or the field. Limits: LayoutCache's and JsonReader's. NaN and Infinity arrive
// as null from the plugin, and the content of a message ends at its first zero byte.
#pragma once

#include <vector>

#include "decode/layout_cache.h"
#include "outrider/base/json_reader.h"
#include "outrider/decode/decoder.h"

namespace outrider {

class Wal2jsonDecoder final : public Decoder {
 public:
  Result<Change> decode(Lsn wal_start, std::span<char> payload) override;
  void reset() override;

 private:
  struct Message;

  Result<void> read_message(JsonReader& reader, Message& message);
  Result<void> read_columns(JsonReader& reader);
  Result<void> read_column(JsonReader& reader);
  Result<Change> to_insert(const Message& message);

  LayoutCache layouts_;
  std::vector<IncomingColumn> columns_;
  std::vector<ColumnValue> values_;
};

}  // namespace outrider
