// What becomes of refused rows: isolation, dead letters, parked keys, topic faults, retries.
#include <gmock/gmock.h>

#include "support/relay_fixture.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::at;
using ::testing::Contains;
using ::testing::Not;

class RelayRefusalsTest : public testing::RelayFixture {
 protected:
  RelayRefusalsTest() {
    with_place_ = true;
    remake(RelayOptions{});
  }

  void remake(RelayOptions options) {
    options.slot.witness = false;
    make(options);
  }

  long count(const std::string& line) const {
    return std::count(trace_.begin(), trace_.end(), line);
  }

  /// Queue the same transaction at each open, as a server would from its flushed position.
  void server_has(std::uint64_t commit, std::initializer_list<const char*> keys) {
    const std::vector<const char*> copy(keys);
    source_.on_open = [this, commit, copy] {
      source_.changes.clear();
      source_.changes.push_back(Begin{1, at(commit), now_.wall});
      for (const char* key : copy) {
        queue_row(key);
      }
      source_.changes.push_back(Commit{at(commit), at(commit + 10)});
    };
  }

  StoredLetter letter(std::int64_t number, const std::string& key, bool parked) {
    StoredLetter stored;
    stored.number = number;
    stored.mapped = true;
    stored.topic = "t";
    stored.key = key;
    stored.event_id = key;
    if (parked) stored.parked_key = key;
    return stored;
  }
};

TEST_F(RelayRefusalsTest, ABatchThatIsRefusedGoesAgainRowByRowAndOnlyTheCulpritLeaves) {
  server_has(200, {"a", "b", "c", "d"});
  settle();  // All four are under way.
  const Error fault{ErrorKind::poison, "too large", "", "MSG_SIZE_TOO_LARGE"};
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Refused{2, fault, "b", "t"});
  sink_.reports.push_back(Refused{3, fault, "c", "t"});
  sink_.reports.push_back(SinkLost{Error{ErrorKind::transient, "refused", "", ""}});
  sink_.refuse_key = "c";
  sink_.acknowledge_at_once = true;
  settle();
  settle();
  EXPECT_THAT(trace_, Contains("isolate 2"));
  EXPECT_EQ(count("produce 1 a"), 1) << "an acknowledged neighbour is not sent again";
  EXPECT_EQ(count("produce 2 b"), 2);
  EXPECT_EQ(count("produce 3 c"), 2) << "once in the batch, once alone";
  EXPECT_THAT(trace_, Contains("letter c too_large"));
  EXPECT_EQ(count("letter a too_large") + count("letter b too_large"), 0);
  EXPECT_THAT(trace_, Contains("status 0/D2"));
  EXPECT_FALSE(relay_->stop_error());
}

TEST_F(RelayRefusalsTest, ThePositionWaitsUntilTheDeadLetterIsDurable) {
  place_.durable_at_once = false;
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a", "poison", "b"});
  settle();
  EXPECT_THAT(trace_, Contains("store 2 raw"));
  EXPECT_THAT(trace_, Contains("produce 3 b")) << "the rest of the key goes on";
  EXPECT_THAT(trace_, Not(Contains("status 0/D2")));
  place_.stored.push_back(2);
  settle();
  EXPECT_THAT(trace_, Contains("status 0/D2"));
}

TEST_F(RelayRefusalsTest, ARowThatCannotBeDecodedIsNotStoredAsTheRowBeforeIt) {
  sink_.acknowledge_at_once = true;
  source_.changes.push_back(Begin{1, at(200), now_.wall});
  queue_row("a");
  settle();
  for (const char* bytes : {"what the plugin wrote", ""}) {
    source_.bytes_at_fault = bytes;
    source_.next_error = Error{ErrorKind::poison, "makes no sense", "", ""};
    settle();
  }
  queue_row("b");
  source_.changes.push_back(Commit{at(200), at(210)});
  settle();
  EXPECT_THAT(trace_, Contains("store 2 raw"));
  EXPECT_THAT(trace_, Contains("store 3 raw"));
  EXPECT_EQ(count("produce 1 a"), 1);
  EXPECT_EQ(count("produce 4 b"), 1);
  EXPECT_THAT(trace_, Contains("status 0/D2"));
}

TEST_F(RelayRefusalsTest, LaterRowsOfAParkedKeyFollowItAndOthersDoNot) {
  RelayOptions options;
  options.dead_letters.on_poison = OnPoison::park_key;
  options.dead_letters.automatic_retry = AutomaticRetry::off;
  remake(options);
  sink_.acknowledge_at_once = true;
  sink_.refuse_key = "a";
  server_has(200, {"a", "b", "a"});
  settle();
  settle();
  EXPECT_THAT(trace_, Contains("letter a too_large"));
  EXPECT_THAT(trace_, Contains("letter a key_parked"));
  EXPECT_GE(count("produce 2 b"), 1);
  EXPECT_EQ(count("produce 3 a"), 1) << "only before the verdict";
  EXPECT_EQ(relay_->parked_keys(), 1U);
}

TEST_F(RelayRefusalsTest, KeysThatWereParkedBeforeTheStartFollowFromTheirFirstRowOn) {
  RelayOptions options;
  options.dead_letters.on_poison = OnPoison::park_key;
  options.dead_letters.automatic_retry = AutomaticRetry::off;
  place_.parked = {{"a", RowPlace{at(200), 1}}};
  remake(options);
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a", "a", "a"});
  settle();
  EXPECT_EQ(count("produce 1 a"), 1) << "what lies before the parked row was sent and is sent";
  EXPECT_EQ(count("store 3 record"), 1);
}

TEST_F(RelayRefusalsTest, NoRowIsPulledBeforeTheParkedKeysAreKnown) {
  place_.is_ready = false;
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a"});
  settle();
  EXPECT_THAT(trace_, Not(Contains("produce 1 a")));
  place_.is_ready = true;
  settle();
  EXPECT_THAT(trace_, Contains("produce 1 a"));
}

TEST_F(RelayRefusalsTest, TheBreakerHoldsRowsWhenTooManyLeave) {
  RelayOptions options;
  options.dead_letters.burst = 2;
  options.dead_letters.per_minute = 60;
  remake(options);
  queue_transaction(200, {"poison", "poison", "poison"});
  settle();
  EXPECT_EQ(count("letter poison unroutable"), 2);
  EXPECT_THAT(relay_->trouble(), ::testing::HasSubstr("dead_letters.burst"));
  turn(milliseconds(1'100));
  settle();
  EXPECT_EQ(count("letter poison unroutable"), 3);
  EXPECT_TRUE(relay_->trouble().empty());
}

TEST_F(RelayRefusalsTest, AForbiddenTopicIsWaitedForAndBurnsNothing) {
  sink_.acknowledge_at_once = true;
  sink_.refusal =
      Error{ErrorKind::configuration, "not allowed", "grant it", "TOPIC_AUTHORIZATION_FAILED"};
  sink_.refuse_key = "a";
  server_has(200, {"a"});
  settle();
  settle();
  EXPECT_FALSE(relay_->stop_error());
  EXPECT_THAT(relay_->trouble(), ::testing::HasSubstr("not allowed"));
  EXPECT_EQ(relay_->counters().dead_letters, 0U);
  sink_.refuse_key.clear();
  for (int i = 0; i < 10; ++i) {
    turn(milliseconds(4'000));
    settle();
  }
  EXPECT_THAT(trace_, Contains("status 0/D2"));
  EXPECT_TRUE(relay_->trouble().empty());
}

TEST_F(RelayRefusalsTest, AMissingTopicIsADeadLetterOnlyWhereThatIsThePolicy) {
  RelayOptions options;
  options.dead_letters.on_topic_error = OnTopicError::dead_letter;
  remake(options);
  sink_.produce_error = Error{ErrorKind::configuration, "does not exist", "make it", ""};
  queue_transaction(200, {"a"});
  settle();
  EXPECT_THAT(trace_, Contains("letter a topic_missing"));
  EXPECT_THAT(trace_, Contains("status 0/D2"));
}

TEST_F(RelayRefusalsTest, ARetrySendsEachLetterAloneAndRemovesIt) {
  sink_.acknowledge_at_once = true;
  settle();
  place_.letters = {letter(7, "x", false), letter(8, "y", false)};
  ASSERT_TRUE(relay_->start_retry(RetryRequest{}));
  settle();
  settle();
  EXPECT_THAT(trace_, Contains("resolve 7"));
  EXPECT_THAT(trace_, Contains("resolve 8"));
  EXPECT_EQ(relay_->retry_progress().delivered, 2U);
  EXPECT_FALSE(relay_->retry_progress().running);
}

TEST_F(RelayRefusalsTest, AReleaseStopsAtTheFirstLetterThatIsRefusedAgain) {
  RelayOptions options;
  options.dead_letters.on_poison = OnPoison::park_key;
  options.dead_letters.automatic_retry = AutomaticRetry::off;
  place_.parked = {{"x", RowPlace{at(50), 0}}};
  remake(options);
  sink_.acknowledge_at_once = true;
  settle();
  place_.letters = {letter(7, "x", true), letter(8, "x", true)};
  sink_.refuse_key = "x";
  RetryRequest request;
  request.filter.parked_key = "x";
  request.release_key = true;
  ASSERT_TRUE(relay_->start_retry(request));
  settle();
  settle();
  EXPECT_THAT(trace_, Contains("again 7"));
  EXPECT_EQ(relay_->retry_progress().skipped, 1U);
  EXPECT_EQ(relay_->parked_keys(), 1U);
  sink_.refuse_key.clear();
  ASSERT_TRUE(relay_->start_retry(request));
  settle();
  settle();
  EXPECT_THAT(trace_, Contains("resolve 7"));
  EXPECT_THAT(trace_, Contains("resolve 8"));
  EXPECT_EQ(relay_->parked_keys(), 0U) << "nothing of the key is left";
}

TEST_F(RelayRefusalsTest, APauseOfTheOperatorTakesNoRowAndKeepsTheLink) {
  sink_.acknowledge_at_once = true;
  settle();
  relay_->pause();
  queue_transaction(200, {"a"});
  settle();
  EXPECT_THAT(trace_, Not(Contains("produce 1 a")));
  EXPECT_THAT(relay_->trouble(), ::testing::HasSubstr("paused by an operator"));
  relay_->resume();
  settle();
  EXPECT_THAT(trace_, Contains("produce 1 a"));
}

TEST_F(RelayRefusalsTest, NothingIsConfirmedPastTheWitness) {
  sink_.tell_sessions = true;
  sink_.limit = at(150);
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a"});
  settle();
  EXPECT_THAT(trace_, Contains("reserve 0/D2"));
  EXPECT_LE(relay_->confirmed_lsn(), at(150));
  sink_.limit = at(1'000);
  settle();
  EXPECT_EQ(relay_->confirmed_lsn(), at(210));
}

TEST_F(RelayRefusalsTest, AProcessThatStoodStillLooksAtTheSlotBeforeItGoesOn) {
  server_has(200, {"a"});
  settle();
  turn(milliseconds(60'000));
  EXPECT_EQ(relay_->phase(), Phase::backing_off);
  EXPECT_THAT(trace_, Contains("restart")) << "what was under way is thrown away";
}

}  // namespace
}  // namespace outrider
