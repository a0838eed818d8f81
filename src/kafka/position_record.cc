#include "kafka/position_record.h"

#include <charconv>
#include <ctime>
#include <vector>

#include "outrider/base/json_reader.h"
#include "outrider/base/json_writer.h"

namespace outrider {
namespace {

/// The members of one flat object; each may come once.
struct Members {
  std::optional<std::uint64_t> version;
  std::optional<std::string> database;
  std::optional<std::string> slot;
  std::optional<std::string> kind;
  std::optional<std::string> system_id;
  std::optional<std::uint64_t> timeline;
  std::optional<Lsn> lsn;
  std::optional<Lsn> partial_commit_lsn;
  std::optional<std::uint64_t> partial_rows;
  std::optional<std::uint64_t> retried_letter;
  std::optional<Lsn> flushed_lsn;
  std::optional<std::string> written_at;
  std::optional<std::string> writer;
};

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool take(const JsonValue& value, std::optional<std::string>& place) {
  if (value.kind != JsonValue::Kind::string || place) return false;
  place.emplace(value.text);
  return true;
}

bool take(const JsonValue& value, std::optional<std::uint64_t>& place) {
  if (value.kind != JsonValue::Kind::number || place) return false;
  place = parse_number(value.text);
  return place.has_value();
}

bool take(const JsonValue& value, std::optional<Lsn>& place) {
  if (value.kind != JsonValue::Kind::string || place) return false;
  place = Lsn::parse(value.text);
  return place.has_value();
}

bool take_member(std::string_view name, const JsonValue& value, Members& members) {
  if (name == "v") return take(value, members.version);
  if (name == "database") return take(value, members.database);
  if (name == "slot") return take(value, members.slot);
  if (name == "kind") return take(value, members.kind);
  if (name == "system_id") return take(value, members.system_id);
  if (name == "timeline") return take(value, members.timeline);
  if (name == "lsn") return take(value, members.lsn);
  if (name == "partial_commit_lsn") return take(value, members.partial_commit_lsn);
  if (name == "partial_rows") return take(value, members.partial_rows);
  if (name == "retried_letter") return take(value, members.retried_letter);
  if (name == "flushed_lsn") return take(value, members.flushed_lsn);
  if (name == "written_at") return take(value, members.written_at);
  if (name == "writer") return take(value, members.writer);
  return false;
}

/// False: not one JSON object. `strange` is the first member that is unknown, twice or of a wrong
/// type.
bool read_members(std::string_view text, Members& members, std::string& strange) {
  std::vector<char> bytes(text.begin(), text.end());
  JsonReader reader(bytes);
  if (!reader.open('{')) return false;
  bool first = true;
  std::string_view name;
  JsonValue value;
  while (reader.next_member(first, name)) {
    const std::string kept(name);
    if (!reader.value(value)) return false;
    if (!take_member(kept, value, members) && strange.empty()) strange = kept;
  }
  return reader.ok() && reader.finish();
}

tl::unexpected<Error> unreadable(const SlotIdentity& whose, const std::string& why) {
  return fail(ErrorKind::configuration,
              "the stored position of slot \"" + whose.slot + "\" in database \"" + whose.database +
                  "\" cannot be read: " + why,
              "use the version of Outrider that wrote it, or set delivery.position_topic to a new "
              "topic");
}

tl::unexpected<Error> wrong_version(const SlotIdentity& whose, std::uint64_t version) {
  return unreadable(whose, std::string("a ") +
                               (version > kPositionVersion ? "newer" : "different") +
                               " Outrider wrote it (format " + std::to_string(version) +
                               ", this one reads format " + std::to_string(kPositionVersion) + ")");
}

std::string utc_text(WallTime time) {
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  char text[32] = {};
  if (gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
    return "";
  }
  return text;
}

}  // namespace

std::string encode_position_key(const SlotIdentity& identity) {
  JsonWriter json;
  json.open_object().name("v").number(std::int64_t{kPositionVersion});
  json.name("database").text(identity.database).name("slot").text(identity.slot).close_object();
  return json.json();
}

std::string encode_position(const StoredPosition& position, WallTime written_at) {
  JsonWriter json;
  json.open_object().name("v").number(std::int64_t{kPositionVersion});
  json.name("kind").text(position.exactly_once ? "position" : "witness");
  json.name("system_id").text(position.identity.system_id);
  json.name("timeline").number(std::uint64_t{position.identity.timeline});
  json.name("lsn").text(position.point.lsn.to_string());
  if (position.point.partial_rows > 0) {
    json.name("partial_commit_lsn").text(position.point.partial_commit_lsn.to_string());
    json.name("partial_rows").number(position.point.partial_rows);
  }
  if (position.point.retried_letter > 0) {
    json.name("retried_letter").number(position.point.retried_letter);
  }
  json.name("flushed_lsn").text(position.flushed.to_string());
  json.name("writer").text(position.writer);
  json.name("written_at").text(utc_text(written_at)).close_object();
  return json.json();
}

Result<PositionKeyIs> judge_position_key(std::string_view key, const SlotIdentity& identity) {
  if (key == encode_position_key(identity)) return PositionKeyIs::ours;
  Members members;
  std::string strange;
  if (!read_members(key, members, strange) || !members.version) return PositionKeyIs::foreign;
  if (members.database && *members.database != identity.database) return PositionKeyIs::anothers;
  if (members.slot && *members.slot != identity.slot) return PositionKeyIs::anothers;
  if (*members.version != kPositionVersion) return wrong_version(identity, *members.version);
  if (!members.database || !members.slot || !strange.empty()) return PositionKeyIs::foreign;
  return PositionKeyIs::ours;
}

Result<StoredPosition> decode_position(std::string_view value, const SlotIdentity& whose) {
  Members members;
  std::string strange;
  if (!read_members(value, members, strange)) return unreadable(whose, "it is not a JSON object");
  if (!members.version) return unreadable(whose, "it has no version");
  if (*members.version != kPositionVersion) return wrong_version(whose, *members.version);
  if (!strange.empty()) return unreadable(whose, "its member \"" + strange + "\" is not known");
  if (!members.kind || (*members.kind != "witness" && *members.kind != "position")) {
    return unreadable(whose, "its kind is not known");
  }
  if (!members.system_id || !members.timeline || *members.timeline > UINT32_MAX || !members.lsn ||
      !members.flushed_lsn || members.retried_letter.value_or(0) > INT64_MAX) {
    return unreadable(whose, "it names no system, timeline or position");
  }
  if (members.partial_rows.has_value() != members.partial_commit_lsn.has_value()) {
    return unreadable(whose, "it names half of a split transaction's position");
  }
  StoredPosition position;
  position.writer = members.writer.value_or("");
  position.identity = {*members.system_id, whose.database, whose.slot,
                       static_cast<std::uint32_t>(*members.timeline)};
  position.point = {*members.lsn, members.partial_commit_lsn.value_or(Lsn{}),
                    members.partial_rows.value_or(0),
                    static_cast<std::int64_t>(members.retried_letter.value_or(0))};
  position.flushed = *members.flushed_lsn;
  position.exactly_once = *members.kind == "position";
  return position;
}

}  // namespace outrider
