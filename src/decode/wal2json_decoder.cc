#include "decode/wal2json_decoder.h"

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "decode/timestamp_text.h"

namespace outrider {

// One message, as
//   {"action":"B","xid":N,"timestamp":T,"lsn":commit record,"nextlsn":its end}      begin
//   {"action":"C", the same fields}                                                 commit
//   {"action":"I","timestamp":T,"lsn":L,"schema":S,"table":S,
//    "columns":[{"name":S,"typeoid":N,"value":V},...]}                              insert
//   {"action":"U" or "D", as insert, "identity":[...]}  {"action":"T","schema","table"}
//   {"action":"M","timestamp":T or null,"lsn":L,"transactional":bool,"prefix":S,"content":S}
// xid only with include-xids, which is not asked for.
struct Wal2jsonDecoder::Message {
  std::optional<std::string_view> action;
  std::optional<std::string_view> timestamp;
  std::optional<std::string_view> lsn;
  std::optional<std::string_view> next_lsn;
  std::optional<std::string_view> schema;
  std::optional<std::string_view> table;
  std::optional<std::string_view> prefix;
  std::optional<std::string_view> content;
  std::optional<bool> transactional;
  std::uint32_t xid = 0;
  bool has_columns = false;
};

namespace {

using tl::unexpected;

unexpected<Error> malformed(const JsonReader& reader, const std::string& why) {
  return fail(ErrorKind::poison,
              "wal2json message is malformed at byte " + std::to_string(reader.at()) + ": " + why,
              "check that the slot was made with plugin wal2json 2.x and report the server's "
              "version");
}

unexpected<Error> missing(std::string_view field, std::string_view option) {
  return fail(ErrorKind::poison, "wal2json message has no \"" + std::string(field) + "\"",
              "start wal2json with the option " + std::string(option));
}

unexpected<Error> unreadable(std::string_view field) {
  return fail(ErrorKind::poison,
              "wal2json message has a \"" + std::string(field) + "\" that cannot be read",
              "report the versions of the server and of wal2json");
}

/// A whole number that fits into `Number`.
template <typename Number>
bool parse_number(const JsonValue& value, Number& out) {
  if (value.kind != JsonValue::Kind::number) {
    return false;
  }
  const char* end = value.text.data() + value.text.size();
  auto [stopped_at, error] = std::from_chars(value.text.data(), end, out);
  return error == std::errc{} && stopped_at == end;
}

/// An OID is printed with %d, so one above 2^31 comes out negative.
bool parse_type_oid(const JsonValue& value, std::uint32_t& type_oid) {
  std::int64_t number = 0;
  if (!parse_number(value, number) || number < std::numeric_limits<std::int32_t>::min() ||
      number > std::numeric_limits<std::uint32_t>::max()) {
    return false;
  }
  type_oid = static_cast<std::uint32_t>(number);
  return true;
}

/// The canonical text of a value (model/change.h). A bytea comes without \x already.
bool to_column_value(const JsonValue& value, ColumnValue& out) {
  switch (value.kind) {
    case JsonValue::Kind::null:
      out = {};
      return true;
    case JsonValue::Kind::boolean:
      out = {ColumnValue::State::text, value.truth ? "t" : "f"};
      return true;
    case JsonValue::Kind::number:
    case JsonValue::Kind::string:
      out = {ColumnValue::State::text, value.text};
      return true;
    case JsonValue::Kind::nested:
      return false;
  }
  return false;
}

Result<Lsn> parse_lsn(const std::optional<std::string_view>& text, std::string_view field) {
  if (!text) {
    return missing(field, "\"include-lsn\" \"true\"");
  }
  std::optional<Lsn> lsn = Lsn::parse(*text);
  if (!lsn) {
    return unreadable(field);
  }
  return *lsn;
}

}  // namespace

Result<Change> Wal2jsonDecoder::decode(Lsn /*wal_start*/, std::span<char> payload) {
  JsonReader reader(payload);
  Message message;
  OUTRIDER_TRY(read_message(reader, message));
  if (!message.action) {
    return missing("action", "\"format-version\" \"2\"");
  }
  if (*message.action == "I") {
    return to_insert(message);
  }
  if (*message.action == "B") {
    OUTRIDER_TRY(Lsn commit_lsn, parse_lsn(message.lsn, "lsn"));
    if (!message.timestamp) {
      return missing("timestamp", "\"include-timestamp\" \"true\"");
    }
    std::optional<WallTime> commit_time = parse_timestamptz(*message.timestamp);
    if (!commit_time) {
      return unreadable("timestamp");
    }
    return Begin{message.xid, commit_lsn, *commit_time};
  }
  if (*message.action == "C") {
    OUTRIDER_TRY(Lsn commit_lsn, parse_lsn(message.lsn, "lsn"));
    OUTRIDER_TRY(Lsn commit_end_lsn, parse_lsn(message.next_lsn, "nextlsn"));
    return Commit{commit_lsn, commit_end_lsn};
  }
  if (*message.action == "M") {
    OUTRIDER_TRY(Lsn lsn, parse_lsn(message.lsn, "lsn"));
    if (!message.transactional || !message.prefix || !message.content) {
      return fail(ErrorKind::poison,
                  "wal2json message of action \"M\" lacks \"transactional\", \"prefix\" or "
                  "\"content\"",
                  "report the versions of the server and of wal2json");
    }
    return LogicalMessage{*message.transactional, lsn, *message.prefix, *message.content};
  }
  if (*message.action == "U") {
    return Skipped{Skipped::What::update};
  }
  if (*message.action == "D") {
    return Skipped{Skipped::What::remove};
  }
  if (*message.action == "T") {
    return Skipped{Skipped::What::truncate};
  }
  return unreadable("action");
}

void Wal2jsonDecoder::reset() { layouts_.clear(); }

Result<void> Wal2jsonDecoder::read_message(JsonReader& reader, Message& message) {
  struct TextField {
    std::string_view key;
    std::optional<std::string_view> Message::*member;
  };
  static constexpr TextField kTextFields[] = {
      {"action", &Message::action}, {"timestamp", &Message::timestamp},
      {"lsn", &Message::lsn},       {"nextlsn", &Message::next_lsn},
      {"schema", &Message::schema}, {"table", &Message::table},
      {"prefix", &Message::prefix}, {"content", &Message::content},
  };
  bool first = true;
  std::string_view key;
  JsonValue value;
  reader.open('{');
  while (reader.next_member(first, key)) {
    if (key == "columns") {
      if (message.has_columns) {
        return malformed(reader, "it has \"columns\" twice");
      }
      message.has_columns = true;
      OUTRIDER_TRY(read_columns(reader));
      continue;
    }
    if (!reader.value(value)) {
      break;
    }
    if (key == "transactional" && value.kind == JsonValue::Kind::boolean) {
      message.transactional = value.truth;
      continue;
    }
    if (key == "xid" && !parse_number(value, message.xid)) {
      return malformed(reader, "its \"xid\" is not a transaction id");
    }
    for (const TextField& field : kTextFields) {
      if (key == field.key && value.kind != JsonValue::Kind::null) {
        if (value.kind != JsonValue::Kind::string) {
          return malformed(reader, "its \"" + std::string(key) + "\" is not a string");
        }
        message.*field.member = value.text;
      }
    }
  }
  if (!reader.ok() || !reader.finish()) {
    return malformed(reader, reader.why());
  }
  return {};
}

Result<void> Wal2jsonDecoder::read_columns(JsonReader& reader) {
  columns_.clear();
  values_.clear();
  bool first = true;
  reader.open('[');
  while (reader.next_element(first)) {
    OUTRIDER_TRY(read_column(reader));
  }
  if (!reader.ok()) {
    return malformed(reader, reader.why());
  }
  return {};
}

Result<void> Wal2jsonDecoder::read_column(JsonReader& reader) {
  bool first = true;
  bool has_name = false;
  bool has_type_oid = false;
  bool has_value = false;
  std::string_view key;
  JsonValue value;
  IncomingColumn column;
  ColumnValue column_value;
  reader.open('{');
  while (reader.next_member(first, key) && reader.value(value)) {
    if (key == "name" && value.kind == JsonValue::Kind::string) {
      column.name = value.text;
      has_name = true;
    } else if (key == "typeoid") {
      has_type_oid = parse_type_oid(value, column.type_oid);
      if (!has_type_oid) {
        return malformed(reader, "a \"typeoid\" is not an OID");
      }
    } else if (key == "value") {
      has_value = to_column_value(value, column_value);
    }
  }
  if (!reader.ok()) {
    return malformed(reader, reader.why());
  }
  if (!has_name || !has_value) {
    return malformed(reader, "a column lacks its name or a plain value");
  }
  if (!has_type_oid) {
    return missing("typeoid", "\"include-type-oids\" \"true\"");
  }
  columns_.push_back(column);
  values_.push_back(column_value);
  return {};
}

Result<Change> Wal2jsonDecoder::to_insert(const Message& message) {
  constexpr std::string_view kSchemas = "\"include-schemas\" \"true\"";
  if (!message.schema) {
    return missing("schema", kSchemas);
  }
  if (!message.table) {
    return missing("table", "\"format-version\" \"2\"");
  }
  if (!message.has_columns) {
    return missing("columns", "\"format-version\" \"2\"");
  }
  const Relation* relation = layouts_.find(*message.schema, *message.table, columns_);
  return Insert{relation, nullptr, values_};
}

std::unique_ptr<Decoder> make_wal2json_decoder() { return std::make_unique<Wal2jsonDecoder>(); }

}  // namespace outrider
