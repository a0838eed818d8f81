// The same transactions, recorded from one server through both plugins, give equal changes.
#include <gtest/gtest.h>

#include "unit/decode/decode_testing.h"

namespace outrider::testing {
namespace {

/// What is left of a stream when what never becomes an event is dropped.
struct Step {
  char kind = 0;
  Lsn first;
  Lsn second;
  WallTime time{};
  std::string prefix;
  std::string content;
  Row row;

  bool operator==(const Step&) const = default;
};

struct Stream {
  std::vector<Step> steps;
  std::vector<std::uint64_t> layout_ids;
  int updates = 0;
  int removals = 0;
  int truncations = 0;
};

void add(Stream& stream, const Change& change) {
  Step step;
  if (const auto* begin = std::get_if<Begin>(&change)) {
    step.kind = 'B';
    step.first = begin->commit_lsn;
    step.time = begin->commit_time;
  } else if (const auto* commit = std::get_if<Commit>(&change)) {
    step.kind = 'C';
    step.first = commit->commit_lsn;
    step.second = commit->commit_end_lsn;
  } else if (const auto* insert = std::get_if<Insert>(&change)) {
    step.kind = 'I';
    step.row = to_row(*insert);
    stream.layout_ids.push_back(insert->relation->layout_id);
  } else if (const auto* message = std::get_if<LogicalMessage>(&change)) {
    step.kind = message->transactional ? 'M' : 'm';
    step.first = message->lsn;
    step.prefix = message->prefix;
    step.content = message->content;
  } else {
    const auto* skipped = std::get_if<Skipped>(&change);
    ASSERT_NE(skipped, nullptr);
    stream.updates += skipped->what == Skipped::What::update ? 1 : 0;
    stream.removals += skipped->what == Skipped::What::remove ? 1 : 0;
    stream.truncations += skipped->what == Skipped::What::truncate ? 1 : 0;
    return;
  }
  // pgoutput leaves out transactions without changes in its publication, wal2json does not.
  if (step.kind == 'C' && !stream.steps.empty() && stream.steps.back().kind == 'B') {
    stream.steps.pop_back();
    return;
  }
  stream.steps.push_back(std::move(step));
}

Stream replay(const std::string& fixture, std::unique_ptr<Decoder> decoder) {
  Session session(std::move(decoder));
  Stream stream;
  for (const std::string& message : read_fixture(fixture)) {
    auto change = session.decode(message);
    if (!change.has_value()) {
      ADD_FAILURE() << describe(change.error());
      continue;
    }
    add(stream, *change);
  }
  return stream;
}

TEST(DecoderParity, BothPluginsGiveTheSameChanges) {
  Stream pgoutput = replay("pgoutput", make_pgoutput_decoder());
  Stream wal2json = replay("wal2json", make_wal2json_decoder());
  ASSERT_EQ(pgoutput.steps.size(), wal2json.steps.size());
  for (std::size_t i = 0; i < pgoutput.steps.size(); ++i) {
    const Step& one = pgoutput.steps[i];
    const Step& other = wal2json.steps[i];
    EXPECT_TRUE(one == other) << "step " << i << " " << one.kind << " " << other.kind;
    for (std::size_t c = 0; c < one.row.values.size() && c < other.row.values.size(); ++c) {
      EXPECT_EQ(one.row.values[c], other.row.values[c]) << one.row.columns[c].name;
    }
  }
  EXPECT_EQ(pgoutput.layout_ids, wal2json.layout_ids);
  EXPECT_EQ(pgoutput.updates, 2);
  EXPECT_EQ(pgoutput.removals, 1);
  EXPECT_EQ(pgoutput.truncations, 1);
  EXPECT_EQ(wal2json.updates, 2);
  EXPECT_EQ(wal2json.removals, 1);
  EXPECT_EQ(wal2json.truncations, 1);
}

TEST(DecoderParity, RecordedValuesAreCanonical) {
  for (const char* fixture : {"pgoutput", "wal2json"}) {
    Stream stream =
        replay(fixture, std::string_view(fixture) == "pgoutput" ? make_pgoutput_decoder()
                                                                : make_wal2json_decoder());
    ASSERT_GT(stream.steps.size(), 1U);
    const Row& row = stream.steps[1].row;
    auto value = [&row](std::string_view name) -> std::string {
      for (std::size_t i = 0; i < row.columns.size(); ++i) {
        if (row.columns[i].name == name) {
          return row.values[i].value_or("NULL");
        }
      }
      return "no such column";
    };
    EXPECT_EQ(value("c_bool"), "t");
    EXPECT_EQ(value("c_int8"), "9223372036854775807");
    EXPECT_EQ(value("c_numeric"), "12345678901234567890.1234567890123456780");
    EXPECT_EQ(value("c_char"), "ab   ");
    EXPECT_EQ(value("c_bytea"), "deadbeef00");
    EXPECT_EQ(value("c_json"), R"({"a":"\u0000\ud800",  "b" : [1.0,2]})");
    EXPECT_EQ(value("c_timestamptz"), "2026-02-28 18:29:59.5+00");
    EXPECT_EQ(value("c_date"), "0044-03-15 BC");
    EXPECT_EQ(value("c_array"), R"({"a,b","c\"d",NULL,"","e\\f"})");
    EXPECT_EQ(value("c_blob_d"), "\\x00ff");
    EXPECT_EQ(value("c_int_d"), "42");
    EXPECT_EQ(value("c_bool_d"), "t");
    EXPECT_EQ(value("c_quoted"), R"((7,"x""y"))");
  }
}

TEST(DecoderParity, EveryTruncationOfARecordedMessageIsRefused) {
  for (const char* fixture : {"pgoutput", "wal2json"}) {
    Session session(std::string_view(fixture) == "pgoutput" ? make_pgoutput_decoder()
                                                            : make_wal2json_decoder());
    for (const std::string& message : read_fixture(fixture)) {
      for (std::size_t size = 0; size < message.size(); ++size) {
        ASSERT_FALSE(session.decode(message.substr(0, size)).has_value());
      }
      ASSERT_TRUE(session.decode(message).has_value());
    }
  }
}

}  // namespace
}  // namespace outrider::testing
