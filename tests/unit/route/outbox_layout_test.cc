#include "outrider/route/outbox_layout.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outrider {
namespace {

std::vector<Column> columns_of(std::vector<std::string> names) {
  std::vector<Column> columns;
  for (std::string& name : names) {
    columns.push_back(Column{std::move(name), kTextOid});
  }
  return columns;
}

RouteConfig by(const std::string& column) {
  RouteConfig route;
  route.by = column;
  return route;
}

RouteConfig fixed() {
  RouteConfig route;
  route.topic = "order-events";
  return route;
}

TEST(OutboxLayout, RecognisesTheLayoutsOfTheWild) {
  struct Case {
    std::vector<std::string> names;
    std::size_t aggregate_id, event_type, payload;
    std::optional<std::size_t> aggregate_type;
  };
  const std::vector<Case> cases = {
      {{"id", "aggregate_type", "aggregate_id", "event_type", "payload", "headers", "created_at",
        "attempts", "processed_at"},
       2,
       3,
       4,
       1},
      {{"id", "aggregate_id", "type", "payload", "created_at"}, 1, 2, 3, std::nullopt},
      {{"id", "aggregatetype", "aggregateid", "type", "payload"}, 2, 3, 4, 1},
      {{"id", "aggregateid", "eventtype", "payload"}, 1, 2, 3, std::nullopt},
      {{"id", "type", "event_type", "aggregate_id", "payload"}, 3, 2, 4, std::nullopt},
  };
  for (const Case& item : cases) {
    auto columns = columns_of(item.names);
    auto layout = find_outbox_layout(columns, OutboxConfig{}, RouteConfig{});
    ASSERT_TRUE(layout) << layout.error().message;
    EXPECT_EQ(layout->id, 0u);
    EXPECT_EQ(layout->aggregate_id, item.aggregate_id);
    EXPECT_EQ(layout->event_type, item.event_type);
    EXPECT_EQ(layout->payload, item.payload);
    EXPECT_EQ(layout->aggregate_type, item.aggregate_type);
    EXPECT_EQ(layout->route_by, item.event_type);
  }
}

TEST(OutboxLayout, LetsAnExplicitMappingWinPerColumn) {
  auto columns =
      columns_of({"id", "uid", "aggregate_id", "kind", "type", "payload", "body", "agg"});
  OutboxConfig outbox;
  outbox.columns = {"uid", "kind", "agg", "", "body"};
  auto layout = find_outbox_layout(columns, outbox, by("aggregate_type"));
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->id, 1u);
  EXPECT_EQ(layout->event_type, 3u);
  EXPECT_EQ(layout->aggregate_id, 2u);
  EXPECT_EQ(layout->payload, 6u);
  EXPECT_EQ(layout->route_by, 7u) << "the mapped column of the role";
}

TEST(OutboxLayout, RoutesByAnyColumnAndFindsHeaders) {
  auto columns = columns_of({"id", "aggregate_id", "payload", "tenant", "region"});
  OutboxConfig outbox;
  outbox.headers = {{"region", ""}, {"tenant", "x-tenant"}};
  auto layout = find_outbox_layout(columns, outbox, by("tenant"));
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->route_by, 3u);
  EXPECT_EQ(layout->headers, (std::vector<std::size_t>{4, 3}));
  EXPECT_FALSE(layout->event_type);
}

TEST(OutboxLayout, NeedsNoTypesWithOneFixedTopic) {
  auto columns = columns_of({"id", "aggregate_id", "payload"});
  auto layout = find_outbox_layout(columns, OutboxConfig{}, fixed());
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_FALSE(layout->route_by);
}

TEST(OutboxLayout, NamesAllThatIsMissingAndAllThereIs) {
  auto columns = columns_of({"key", "Payload"});
  OutboxConfig outbox;
  outbox.columns.payload = "body";
  outbox.columns.aggregate_type = "agg";
  outbox.headers = {{"tenant", ""}};
  auto layout = find_outbox_layout(columns, outbox, RouteConfig{});
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().kind, ErrorKind::configuration);
  for (std::string part :
       {"\"id\" (outbox.columns.id)", "\"aggregate_id\" or \"aggregateid\"",
        "\"body\" (outbox.columns.payload)", "\"agg\" (outbox.columns.aggregate_type)",
        "\"event_type\" or \"type\" or \"eventtype\"", "\"tenant\" (outbox.headers)",
        "the columns are \"key\", \"Payload\""}) {
    EXPECT_NE(layout.error().message.find(part), std::string::npos)
        << part << " in " << layout.error().message;
  }
}

TEST(OutboxLayout, RefusesARouteColumnThatIsNotThere) {
  auto columns = columns_of({"id", "aggregate_id", "payload", "type"});
  for (std::string column : {"tenant", "aggregate_type", "TYPE"}) {
    auto layout = find_outbox_layout(columns, OutboxConfig{}, by(column));
    ASSERT_FALSE(layout) << column;
    EXPECT_NE(layout.error().message.find(column), std::string::npos) << layout.error().message;
  }
  EXPECT_FALSE(find_outbox_layout({}, OutboxConfig{}, fixed()));
}

TEST(TableName, ReadsSqlIdentifiers) {
  struct Case {
    std::string text, schema, table;
  };
  const std::vector<Case> cases = {
      {"outbox", "public", "outbox"},
      {"public.OUTBOX", "public", "outbox"},
      {"\"Sales\".\"Out\"\"box.x\"", "Sales", "Out\"box.x"},
      {" app . events_2$ ", "app", "events_2$"},
      {"größe.Ärger", "größe", "Ärger"},
      {"\"a b\"", "public", "a b"},
  };
  for (const Case& item : cases) {
    auto name = parse_table_name(item.text);
    ASSERT_TRUE(name) << item.text;
    EXPECT_EQ(*name, (QualifiedName{item.schema, item.table})) << item.text;
  }
  for (std::string text : {"", " ", ".", "a.", ".a", "a.b.c", "1a", "a b", "\"a", "\"\"", "a.\"\"",
                           "a-b", "a;b", "*", "a.b x"}) {
    auto name = parse_table_name(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().kind, ErrorKind::configuration);
  }
}

TEST(TableName, QuotesWhereSqlNeedsItAndReadsItBack) {
  EXPECT_EQ(quote_table_name({"public", "outbox"}), "public.outbox");
  EXPECT_EQ(quote_identifier("order"), "\"order\"");
  EXPECT_EQ(quote_identifier("left"), "\"left\"");
  EXPECT_EQ(quote_identifier("1a"), "\"1a\"");
  EXPECT_EQ(quote_identifier("type"), "type");
  for (std::string part : {"outbox", "Out", "a\"b", "a.b", "user", "_x9", "é", " ", "a$"}) {
    QualifiedName name{part, part};
    auto back = parse_table_name(quote_table_name(name));
    ASSERT_TRUE(back) << part;
    EXPECT_EQ(*back, name);
  }
}

}  // namespace
}  // namespace outrider
