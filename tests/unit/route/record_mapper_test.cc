#include "outrider/route/record_mapper.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

using State = ColumnValue::State;

ColumnValue text(std::string_view value) { return ColumnValue{State::text, value}; }
ColumnValue null() { return ColumnValue{}; }

/// One table and its mapper; a row is given by the columns that differ from a good row.
class Outbox {
 public:
  explicit Outbox(OutboxConfig outbox = {}, RouteConfig route = {}) {
    relation.layout_id = 1;
    relation.name = {"public", "outbox"};
    relation.columns = {{"id", kUuidOid},           {"aggregate_type", kTextOid},
                        {"aggregate_id", kTextOid}, {"event_type", kTextOid},
                        {"payload", kJsonbOid},     {"tenant", kTextOid}};
    good = {{"id", text("da8d6de6-3b77-45ff-8f44-57db55a7a06c")},
            {"aggregate_type", text("User")},
            {"aggregate_id", text("10711fa5")},
            {"event_type", text("UserCreated")},
            {"payload", text("{\"a\": 1}")},
            {"tenant", text("acme")}};
    auto made = make_record_mapper(outbox, route);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    if (made) {
      mapper = std::move(*made);
    }
  }

  void set_type(const std::string& name, std::uint32_t oid) {
    for (Column& column : relation.columns) {
      column.type_oid = column.name == name ? oid : column.type_oid;
    }
    ++relation.layout_id;
  }

  void drop(const std::string& name) {
    std::erase_if(relation.columns, [&](const Column& column) { return column.name == name; });
    ++relation.layout_id;
  }

  Result<MapOutcome> map(const std::map<std::string, ColumnValue>& changed = {}) {
    values.clear();
    for (const Column& column : relation.columns) {
      auto found = changed.find(column.name);
      values.push_back(found != changed.end() ? found->second : good[column.name]);
    }
    return mapper->map(Insert{&relation, root, values}, context, row);
  }

  Error refused(const std::map<std::string, ColumnValue>& changed = {}) {
    auto outcome = map(changed);
    EXPECT_FALSE(outcome);
    Error error = outcome ? Error{} : outcome.error();
    EXPECT_EQ(error.kind, ErrorKind::poison);
    EXPECT_FALSE(error.hint.empty());
    return error;
  }

  Relation relation;
  const QualifiedName* root = nullptr;
  std::map<std::string, ColumnValue> good;
  std::vector<ColumnValue> values;
  RowContext context;
  MappedRow row;
  std::unique_ptr<RecordMapper> mapper;
};

bool has(const Error& error, const std::string& part) {
  return error.message.find(part) != std::string::npos;
}

OutboxConfig with_headers(std::vector<HeaderColumn> headers) {
  OutboxConfig outbox;
  outbox.headers = std::move(headers);
  return outbox;
}

TEST(RecordMapper, MakesTheWholeRecord) {
  Outbox outbox(with_headers({{"tenant", ""}, {"aggregate_type", "type"}}));
  outbox.context.commit_time = WallTime(std::chrono::microseconds(1'700'000'000'123'999));
  auto outcome = outbox.map();
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(*outcome, MapOutcome::event);
  const KafkaRecord& record = outbox.row.record;
  EXPECT_EQ(record.topic, "outbox.event.UserCreated");
  EXPECT_EQ(record.key, "10711fa5");
  EXPECT_EQ(record.value, "{\"a\": 1}");
  EXPECT_EQ(record.timestamp_ms, 1'700'000'000'123);
  EXPECT_FALSE(record.partition);
  ASSERT_EQ(record.headers.size(), 3u);
  EXPECT_EQ(record.headers[0].name, "id");
  EXPECT_EQ(record.headers[0].value, "da8d6de6-3b77-45ff-8f44-57db55a7a06c");
  EXPECT_EQ(record.headers[1].name, "tenant");
  EXPECT_EQ(record.headers[1].value, "acme");
  EXPECT_EQ(record.headers[2].name, "type");
  EXPECT_EQ(record.headers[2].value, "User");
  EXPECT_EQ(outbox.row.event.table, "public.outbox");
  EXPECT_EQ(outbox.row.event.event_id, "da8d6de6-3b77-45ff-8f44-57db55a7a06c");
  EXPECT_EQ(outbox.row.event.event_type, "UserCreated");
  EXPECT_EQ(outbox.row.event.aggregate_id, "10711fa5");
}

TEST(RecordMapper, CopiesNoTextThatNeedsNoDecoding) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map());
  EXPECT_EQ(outbox.row.record.value->data(), outbox.good["payload"].text.data());
  EXPECT_EQ(outbox.row.record.key->data(), outbox.good["aggregate_id"].text.data());
}

TEST(RecordMapper, FloorsTheTimestampAlsoBefore1970) {
  Outbox outbox;
  for (auto [us, ms] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 0}, {999, 0}, {1000, 1}, {-1, -1}, {-1000, -1}, {-1001, -2}}) {
    outbox.context.commit_time = WallTime(std::chrono::microseconds(us));
    ASSERT_TRUE(outbox.map());
    EXPECT_EQ(outbox.row.record.timestamp_ms, ms) << us;
  }
}

TEST(RecordMapper, TellsJsonNullSqlNullAndEmptyApart) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map({{"payload", text("null")}}));
  EXPECT_EQ(outbox.row.record.value, "null");
  ASSERT_TRUE(outbox.map({{"payload", null()}}));
  EXPECT_EQ(outbox.row.record.value, std::nullopt);
  outbox.set_type("payload", kTextOid);
  ASSERT_TRUE(outbox.map({{"payload", text("")}}));
  EXPECT_EQ(outbox.row.record.value, "");
}

TEST(RecordMapper, TellsNullKeyAndEmptyKeyApart) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map({{"aggregate_id", null()}}));
  EXPECT_EQ(outbox.row.record.key, std::nullopt);
  EXPECT_EQ(outbox.row.event.aggregate_id, "");
  ASSERT_TRUE(outbox.map({{"aggregate_id", text("")}}));
  EXPECT_EQ(outbox.row.record.key, "");
}

TEST(RecordMapper, TakesTheKeyOfEachTypeAsPrinted) {
  Outbox outbox;
  outbox.set_type("aggregate_id", kInt8Oid);
  ASSERT_TRUE(outbox.map({{"aggregate_id", text("9223372036854775807")}}));
  EXPECT_EQ(outbox.row.record.key, "9223372036854775807");
  outbox.set_type("aggregate_id", kBpcharOid);
  ASSERT_TRUE(outbox.map({{"aggregate_id", text("ab   ")}}));
  EXPECT_EQ(outbox.row.record.key, "ab   ");
  outbox.set_type("aggregate_id", kBoolOid);
  ASSERT_TRUE(outbox.map({{"aggregate_id", text("t")}}));
  EXPECT_EQ(outbox.row.record.key, "t") << "only headers say true and false";
}

TEST(RecordMapper, DecodesByteaToRawBytes) {
  Outbox outbox(with_headers({{"tenant", ""}, {"aggregate_type", ""}}));
  for (const char* column : {"aggregate_id", "payload", "tenant", "aggregate_type", "id"}) {
    outbox.set_type(column, kByteaOid);
  }
  ASSERT_TRUE(outbox.map({{"aggregate_id", text("00ff5C")},
                          {"payload", text("deadBEEF00")},
                          {"tenant", text("01")},
                          {"aggregate_type", text("")},
                          {"id", text("a1b2")}}));
  const KafkaRecord& record = outbox.row.record;
  EXPECT_EQ(record.key, std::string_view("\x00\xff\x5c", 3));
  EXPECT_EQ(record.value, std::string_view("\xde\xad\xbe\xef\x00", 5));
  EXPECT_EQ(record.headers[0].value, "a1b2") << "the event id stays text";
  EXPECT_EQ(record.headers[1].value, "\x01");
  EXPECT_EQ(record.headers[2].value, "");
  EXPECT_EQ(outbox.row.event.aggregate_id, "00ff5C");
  EXPECT_EQ(outbox.row.event.event_id, "a1b2");
}

TEST(RecordMapper, GivesBackTheMemoryOfOneHugeValue) {
  Outbox outbox;
  outbox.set_type("payload", kByteaOid);
  std::string huge(6 * 1024 * 1024, 'f');
  ASSERT_TRUE(outbox.map({{"payload", text(huge)}}));
  EXPECT_EQ(outbox.row.record.value->size(), huge.size() / 2);
  ASSERT_TRUE(outbox.map({{"payload", text("00")}}));
  EXPECT_EQ(outbox.row.record.value, std::string_view("\0", 1));
}

TEST(RecordMapper, RefusesBrokenHex) {
  Outbox outbox;
  outbox.set_type("payload", kByteaOid);
  EXPECT_TRUE(has(outbox.refused({{"payload", text("abc")}}), "odd number"));
  EXPECT_TRUE(has(outbox.refused({{"payload", text("SECRET")}}), "column \"payload\""));
  EXPECT_FALSE(has(outbox.refused({{"payload", text("SECRET")}}), "SECRET"));
}

TEST(RecordMapper, PassesTextThroughUnchanged) {
  Outbox outbox;
  outbox.set_type("payload", kJsonOid);
  for (std::string_view payload :
       {std::string_view("{\"a\":\"\\u0000\\ud800\"}"),
        std::string_view("\x01\u2028\uFEFF\U0001F600"), std::string_view("a\0b", 3),
        std::string_view("12345678901234567890.0")}) {
    ASSERT_TRUE(outbox.map({{"payload", text(payload)}}));
    EXPECT_EQ(outbox.row.record.value, payload);
  }
}

TEST(RecordMapper, MakesHeadersOfEachKind) {
  Outbox outbox(with_headers({{"tenant", "x"}}));
  ASSERT_TRUE(outbox.map({{"tenant", null()}}));
  EXPECT_EQ(outbox.row.record.headers[1].value, std::nullopt);
  ASSERT_TRUE(outbox.map({{"tenant", text("")}}));
  EXPECT_EQ(outbox.row.record.headers[1].value, "");
  ASSERT_TRUE(outbox.map({{"tenant", text("t")}}));
  EXPECT_EQ(outbox.row.record.headers[1].value, "t");
  outbox.set_type("tenant", kBoolOid);
  ASSERT_TRUE(outbox.map({{"tenant", text("t")}}));
  EXPECT_EQ(outbox.row.record.headers[1].value, "true");
  ASSERT_TRUE(outbox.map({{"tenant", text("f")}}));
  EXPECT_EQ(outbox.row.record.headers[1].value, "false");
}

TEST(RecordMapper, RefusesARowWithoutAnId) {
  Outbox outbox;
  Error error = outbox.refused({{"id", null()}});
  EXPECT_TRUE(has(error, "column \"id\" of table public.outbox is NULL"));
  EXPECT_EQ(outbox.row.event.aggregate_id, "10711fa5") << "the log still names the row";
  EXPECT_EQ(outbox.row.event.event_id, "");
}

TEST(RecordMapper, RefusesANullRouteAndGoesOn) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map());
  EXPECT_TRUE(has(outbox.refused({{"event_type", null()}}), "column \"event_type\""));
  EXPECT_EQ(outbox.row.event.event_id, "da8d6de6-3b77-45ff-8f44-57db55a7a06c");
  ASSERT_TRUE(outbox.map());
}

TEST(RecordMapper, RefusesValuesThatTheServerDidNotSend) {
  Outbox outbox(with_headers({{"tenant", ""}}));
  ColumnValue unchanged{State::unchanged_toast, {}};
  for (const char* column : {"id", "aggregate_id", "payload", "event_type", "tenant"}) {
    Error error = outbox.refused({{column, unchanged}});
    EXPECT_TRUE(has(error, std::string("\"") + column + "\"")) << error.message;
    EXPECT_TRUE(has(error, "not sent")) << error.message;
  }
  EXPECT_TRUE(outbox.map({{"aggregate_type", unchanged}})) << "a column that nothing needs";
}

TEST(RecordMapper, RefusesTopicsThatKafkaDoesNotAllow) {
  Outbox outbox;
  Error error = outbox.refused({{"event_type", text("a b")}});
  EXPECT_TRUE(has(error, "U+0020 at byte 14")) << error.message;
  EXPECT_TRUE(has(error, "column \"event_type\" of table public.outbox")) << error.message;
  EXPECT_TRUE(has(outbox.refused({{"event_type", text(std::string(300, 'x'))}}), "313 bytes"));
  std::string longest(249 - 13, 'x');
  EXPECT_TRUE(outbox.map({{"event_type", text(longest)}}));
}

TEST(RecordMapper, RoutesByAggregateTypeOrAnyColumn) {
  RouteConfig route;
  route.by = "aggregate_type";
  Outbox by_role({}, route);
  ASSERT_TRUE(by_role.map());
  EXPECT_EQ(by_role.row.record.topic, "outbox.event.User");
  route.by = "tenant";
  route.pattern = "(\\w)(\\w*)";
  route.replacement = "$2.$1";
  Outbox by_column({}, route);
  ASSERT_TRUE(by_column.map());
  EXPECT_EQ(by_column.row.record.topic, "cme.a");
}

TEST(RecordMapper, SendsAllToOneFixedTopic) {
  RouteConfig route;
  route.topic = "order-events";
  route.pattern = "(";  // Not used.
  Outbox outbox({}, route);
  ASSERT_TRUE(outbox.map({{"event_type", null()}}));
  EXPECT_EQ(outbox.row.record.topic, "order-events");
  const char* address = outbox.row.record.topic.data();
  ASSERT_TRUE(outbox.map());
  EXPECT_EQ(outbox.row.record.topic.data(), address);
}

TEST(RecordMapper, KeepsTheAddressOfATopic) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map());
  std::string_view first = outbox.row.record.topic;
  for (int i = 0; i < 500; ++i) {
    std::string type = "T" + std::to_string(i);
    ASSERT_TRUE(outbox.map({{"event_type", text(type)}}));
    EXPECT_EQ(outbox.row.record.topic, "outbox.event." + type);
  }
  ASSERT_TRUE(outbox.map());
  EXPECT_EQ(outbox.row.record.topic.data(), first.data());
}

TEST(RecordMapper, BoundsTheNumberOfTopics) {
  RouteConfig route;
  route.topics_max = 3;
  Outbox outbox({}, route);
  for (const char* type : {"a", "b", "c"}) {
    ASSERT_TRUE(outbox.map({{"event_type", text(type)}}));
  }
  EXPECT_TRUE(has(outbox.refused({{"event_type", text("d")}}), "route.topics_max"));
  EXPECT_TRUE(outbox.map({{"event_type", text("b")}}));
}

TEST(RecordMapper, RefusesTopicsThatCollide) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map({{"event_type", text("user.created")}}));
  EXPECT_TRUE(has(outbox.refused({{"event_type", text("user_created")}}), "'.' and '_'"));
}

TEST(RecordMapper, KnowsTablesByTheirExactNames) {
  OutboxConfig config;
  config.tables = {"b.o", "\"Sales\".\"Out.box\""};
  Outbox outbox(config);
  struct Case {
    QualifiedName name;
    MapOutcome outcome;
  };
  for (const Case& item : std::vector<Case>{{{"b", "o"}, MapOutcome::event},
                                            {{"c", "o"}, MapOutcome::not_outbox},
                                            {{"b", "O"}, MapOutcome::not_outbox},
                                            {{"b", "outbox"}, MapOutcome::not_outbox},
                                            {{"Sales", "Out.box"}, MapOutcome::event},
                                            {{"sales", "out.box"}, MapOutcome::not_outbox}}) {
    outbox.relation.name = item.name;
    // Twice: as the plan is made and from memory. The layout id stays: the name alone decides.
    for (int i = 0; i < 2; ++i) {
      auto outcome = outbox.map();
      ASSERT_TRUE(outcome);
      EXPECT_EQ(*outcome, item.outcome) << item.name.schema << "." << item.name.table;
    }
  }
}

TEST(RecordMapper, TakesAPartitionsRowAsItsRoots) {
  Outbox outbox;
  outbox.relation.name = {"parts", "outbox_2026_01"};
  ASSERT_EQ(*outbox.map(), MapOutcome::not_outbox);
  QualifiedName root{"public", "outbox"};
  outbox.root = &root;
  ASSERT_EQ(*outbox.map(), MapOutcome::event) << "attached later, same layout";
  EXPECT_EQ(outbox.row.event.table, "public.outbox");
  outbox.root = nullptr;
  ASSERT_EQ(*outbox.map(), MapOutcome::not_outbox);
}

TEST(RecordMapper, LetsRowsFlowWhenAnUnmappedColumnGoes) {
  Outbox outbox;
  ASSERT_TRUE(outbox.map());
  outbox.drop("tenant");
  ASSERT_TRUE(outbox.map());
  EXPECT_EQ(outbox.row.record.value, "{\"a\": 1}");
}

TEST(RecordMapper, RefusesRowsOfALayoutThatLostAColumnAndKeepsTheOthers) {
  Outbox outbox(with_headers({{"tenant", ""}}));
  Relation before = outbox.relation;
  ASSERT_TRUE(outbox.map());
  outbox.drop("tenant");
  for (int i = 0; i < 2; ++i) {
    Error error = outbox.refused();
    EXPECT_TRUE(has(error, "\"tenant\"")) << error.message;
    EXPECT_TRUE(has(error, "public.outbox")) << error.message;
    EXPECT_EQ(outbox.row.event.event_type, "UserCreated");
    EXPECT_EQ(outbox.row.event.aggregate_id, "10711fa5");
  }
  outbox.relation = before;
  ASSERT_TRUE(outbox.map());
}

TEST(RecordMapper, RefusesARowWithTooFewValues) {
  Outbox outbox;
  std::vector<ColumnValue> two(2);
  auto outcome = outbox.mapper->map(Insert{&outbox.relation, nullptr, two}, {}, outbox.row);
  ASSERT_FALSE(outcome);
  EXPECT_TRUE(has(outcome.error(), "2 values for 6 columns")) << outcome.error().message;
}

TEST(RecordMapper, ForgetsOldLayouts) {
  Outbox outbox;
  for (int i = 0; i < 10'000; ++i) {
    ++outbox.relation.layout_id;
    ASSERT_EQ(*outbox.map(), MapOutcome::event);
  }
}

TEST(RecordMapper, NeverPrintsPayloadsInErrors) {
  Outbox outbox(with_headers({{"tenant", ""}}));
  Error error = outbox.refused(
      {{"payload", text("MARKER")}, {"tenant", text("MARKER")}, {"event_type", text("\x01")}});
  EXPECT_EQ(describe(error).find("MARKER"), std::string::npos);
}

TEST(RecordMapper, SurvivesRandomBytes) {
  RouteConfig route;
  route.pattern = "(?<kind>[^/]*)/?(.*)";
  route.replacement = "t.${kind}";
  Outbox outbox(with_headers({{"tenant", ""}, {"aggregate_type", ""}}), route);
  std::mt19937 random(11);
  const std::vector<std::uint32_t> oids = {kByteaOid, kTextOid, kBoolOid, kJsonbOid};
  std::map<std::string, std::string> bytes;
  for (int i = 0; i < 20'000; ++i) {
    std::map<std::string, ColumnValue> changed;
    outbox.relation.layout_id = random() % 64;
    for (Column& column : outbox.relation.columns) {
      column.type_oid = oids[random() % oids.size()];
      std::string& value = bytes[column.name];
      value.resize(random() % 12);
      for (char& c : value) {
        c = random() % 4 != 0 ? "0123456789abcdef"[random() % 16]
                              : static_cast<char>(random() % 256);
      }
      changed[column.name] =
          ColumnValue{static_cast<State>(random() % 8 == 0 ? random() % 3 : 1), value};
    }
    auto outcome = outbox.map(changed);
    if (!outcome) {
      EXPECT_EQ(outcome.error().kind, ErrorKind::poison);
    }
  }
}

TEST(RecordMapper, RefusesBadConfigurations) {
  struct Case {
    OutboxConfig outbox;
    RouteConfig route;
    std::string part;
  };
  auto tables = [](std::vector<std::string> names) {
    OutboxConfig outbox;
    outbox.tables = std::move(names);
    return outbox;
  };
  auto route = [](auto member, auto value) {
    RouteConfig made;
    made.*member = value;
    return made;
  };
  const std::vector<Case> cases = {
      {tables({}), {}, "outbox.tables"},
      {tables({"a b"}), {}, "\"a b\""},
      {tables({"outbox", "public.OUTBOX"}), {}, "twice"},
      {with_headers({{"", "x"}}), {}, "without a column"},
      {with_headers({{"tenant", "id"}}), {}, "\"id\""},
      {with_headers({{"id", ""}}), {}, "\"id\""},
      {{}, route(&RouteConfig::topic, "a b"), "route.topic"},
      {{}, route(&RouteConfig::by, ""), "route.by"},
      {{}, route(&RouteConfig::pattern, "("), "route.pattern"},
      {{}, route(&RouteConfig::replacement, "${x}"), "route.replacement"},
      {{}, route(&RouteConfig::replacement, "a b$0"), "U+0020"},
      {{}, route(&RouteConfig::topics_max, 0), "route.topics_max"},
  };
  for (const Case& item : cases) {
    auto made = make_record_mapper(item.outbox, item.route);
    ASSERT_FALSE(made) << item.part;
    EXPECT_EQ(made.error().kind, ErrorKind::configuration);
    EXPECT_TRUE(has(made.error(), item.part)) << made.error().message;
    EXPECT_FALSE(made.error().hint.empty());
  }
  EXPECT_TRUE(make_record_mapper({}, route(&RouteConfig::replacement, ".$0")));
  EXPECT_TRUE(make_record_mapper({}, route(&RouteConfig::replacement, "$0")));
}

}  // namespace
}  // namespace outrider
