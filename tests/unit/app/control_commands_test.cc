#include "app/control_commands.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "app/json_tree.h"
#include "app/letter_desk.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A table of letters whose answers come when the test says so.
class FakePlace final : public DeadLetterPlace {
 public:
  void open(const SlotIdentity&, Now) override {}
  bool ready() const override { return is_ready; }
  const std::vector<ParkedKey>& parked_keys() const override { return keys_; }
  Result<> drive(Now) override { return {}; }
  Result<ProduceStatus> store(const DeadLetter&, std::uint64_t, Now) override {
    return ProduceStatus::accepted;
  }
  bool next_stored(std::uint64_t&) override { return false; }
  void fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t count,
             Now) override {
    EXPECT_FALSE(fetching) << "one fetch at a time";
    fetching = true;
    filters.push_back(filter);
    answer_.clear();
    for (const StoredLetter& letter : letters) {
      const bool wanted = filter.numbers.empty() || filter.numbers.front() == letter.number;
      if (letter.number > after && wanted && answer_.size() < std::min(count, batch)) {
        answer_.push_back(letter);
      }
    }
  }
  std::optional<std::vector<StoredLetter>> take_fetched() override {
    if (!fetching || !answers) {
      return std::nullopt;
    }
    fetching = false;
    return answer_;
  }
  void resolve(const RetryOutcome&, Now) override {}
  void discard(std::int64_t number, Now) override {
    discarded.push_back(number);
    ++waiting;
  }
  std::size_t unresolved() const override { return waiting; }
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }

  void add(std::int64_t number) {
    StoredLetter letter;
    letter.number = number;
    letter.event_type = "made";
    letter.mapped = true;
    letter.key = "k";
    letter.value = "pay\xFF";
    letter.headers = {{"id", "x"}, {"none", std::nullopt}};
    letter.reason = DeadLetterReason::too_large;
    letters.push_back(letter);
  }

  std::vector<StoredLetter> letters;
  std::vector<DeadLetterFilter> filters;
  std::vector<std::int64_t> discarded;
  std::size_t waiting = 0;
  std::uint32_t batch = 2;
  bool is_ready = true;
  bool answers = true;
  bool fetching = false;

 private:
  std::vector<StoredLetter> answer_;
  std::vector<ParkedKey> keys_;
};

class FakeTarget final : public ControlTarget {
 public:
  explicit FakeTarget(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  void append_status(JsonWriter& json, Now) const override {
    json.open_object().name("name").text(name_).name("paused").boolean(paused).close_object();
  }
  void pause(Now) override { paused = true; }
  void resume(Now) override { paused = false; }
  DeadLetterPlace* letters() override { return has_place ? &desk.for_commands() : nullptr; }
  Error no_letters() const override { return {ErrorKind::configuration, "no table", "h", {}}; }
  bool start_retry(const RetryRequest& request) override {
    if (progress.running) {
      return false;
    }
    asked.push_back(request);
    progress = {};
    progress.running = true;
    return true;
  }
  RetryProgress retry_progress() const override { return progress; }

  FakePlace place;
  LetterDesk desk{place};
  bool has_place = true;
  bool paused = false;
  RetryProgress progress;
  std::vector<RetryRequest> asked;

 private:
  std::string name_;
};

class ControlCommandsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/outrider-commands-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/relay.sock";
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop);
    loop_ = std::move(*loop);
    auto server = ControlServer::create(*loop_, path_);
    ASSERT_TRUE(server);
    server_ = std::move(*server);
    commands_ =
        std::make_unique<ControlCommands>(*server_, log_, std::vector<ControlTarget*>{&orders_});
  }
  void TearDown() override {
    for (int fd : clients_) {
      close(fd);
    }
    commands_.reset();
    server_.reset();
    rmdir(folder_.c_str());
  }

  int ask(const std::string& command, const ControlArguments& arguments = {}) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    const std::string line = control_request_line(command, arguments) + "\n";
    EXPECT_EQ(send(fd, line.data(), line.size(), 0), static_cast<ssize_t>(line.size()));
    clients_.push_back(fd);
    return fd;
  }
  void hang_up(int fd) {
    close(fd);
    clients_.erase(std::find(clients_.begin(), clients_.end(), fd));
  }
  void turn(int times = 4) {
    for (int i = 0; i < times; ++i) {
      loop_->wait(MonoTime{});
      server_->drive(now_);
      commands_->turn(now_);
    }
    loop_->wait(MonoTime{});
    server_->drive(now_);
  }
  static std::vector<std::string> lines(int fd) {
    std::string text;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    std::vector<std::string> found;
    for (std::size_t end = 0; (end = text.find('\n')) != std::string::npos;) {
      found.push_back(text.substr(0, end));
      text.erase(0, end + 1);
    }
    return found;
  }
  std::vector<std::string> answer(const std::string& command,
                                  const ControlArguments& arguments = {}) {
    const int fd = ask(command, arguments);
    turn();
    std::vector<std::string> found = lines(fd);
    return found.empty() ? std::vector<std::string>{"no answer"} : found;
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<EventLoop> loop_;
  Log log_{{LogLevel::error, LogFormat::text}};
  FakeTarget orders_{"orders"};
  FakeTarget bills_{"bills"};
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<ControlCommands> commands_;
  std::vector<int> clients_;
  Now now_{std::chrono::steady_clock::now(), {}};
};

TEST_F(ControlCommandsTest, TellsTheStatusOfEachPipeline) {
  const auto found = answer("status");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found[0], HasSubstr(R"("pipelines":[{"name":"orders","paused":false}]})"));
  EXPECT_THAT(found[0], HasSubstr("\"pid\":" + std::to_string(getpid())));
}

TEST_F(ControlCommandsTest, PausesAndResumes) {
  EXPECT_THAT(
      answer("pause"),
      ElementsAre(R"({"result":{"pipelines":[{"name":"orders","paused_by_operator":true}]}})"));
  EXPECT_TRUE(orders_.paused);
  answer("resume", {{"pipeline", {"orders"}}});
  EXPECT_FALSE(orders_.paused);
}

TEST_F(ControlCommandsTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(answer("explode")[0], HasSubstr("this relay has no command \\\"explode\\\""));
  EXPECT_THAT(answer("pause", {{"hard", {"true"}}})[0], HasSubstr("\\\"hard\\\" is unknown"));
  EXPECT_THAT(answer("status", {{"pipeline", {"x"}}})[0], HasSubstr("this relay has: orders"));
  EXPECT_FALSE(orders_.paused);
}

TEST_F(ControlCommandsTest, ListsInBatchesWithoutPayload) {
  for (int i = 1; i <= 5; ++i) {
    orders_.place.add(i);
  }
  const auto found = answer("dead-letters.list", {{"type", {"made"}}, {"older_than_s", {"60"}}});
  ASSERT_EQ(found.size(), 6U);
  EXPECT_THAT(found[0], HasSubstr(R"({"row":{"number":1,"reason":"too_large")"));
  EXPECT_EQ(found[0].find("pay"), std::string::npos);
  EXPECT_EQ(found[5], R"({"result":{"matched":5,"dry_run":false}})");
  EXPECT_EQ(orders_.place.filters.front().event_type, "made");
  EXPECT_EQ(orders_.place.filters.front().older_than, seconds(60));
}

TEST_F(ControlCommandsTest, ShowsTheContentOfOne) {
  orders_.place.add(7);
  const auto found = answer("dead-letters.show", {{"number", {"7"}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0], HasSubstr(R"("key":{"text":"k"},"value":{"hex":"706179ff"})"));
  EXPECT_THAT(found[0], HasSubstr(R"("headers":[["id",{"text":"x"}],["none",null]])"));
}

TEST_F(ControlCommandsTest, NeedsAFilterOrAllToChangeAnything) {
  for (const char* command : {"dead-letters.retry", "dead-letters.discard"}) {
    EXPECT_THAT(answer(command)[0], HasSubstr("no letter is named")) << command;
    EXPECT_THAT(answer(command, {{"dry_run", {"true"}}})[0], HasSubstr("no letter is named"));
    EXPECT_THAT(answer(command, {{"all", {"true"}}, {"type", {"a"}}})[0],
                HasSubstr("contradict each other"));
    EXPECT_THAT(answer(command, {{"all", {"false"}}})[0], HasSubstr("no letter is named"));
  }
  EXPECT_THAT(answer("dead-letters.release")[0], HasSubstr("release needs a key"));
  EXPECT_THAT(answer("dead-letters.show")[0], HasSubstr("needs the number of one letter"));
  EXPECT_THAT(answer("dead-letters.discard", {{"all", {"true"}}, {"topic", {"t"}}})[0],
              HasSubstr("only retry takes a topic"));
  EXPECT_TRUE(orders_.place.filters.empty());
}

TEST_F(ControlCommandsTest, RefusesFiltersThatAreNone) {
  for (const ControlArguments& bad :
       {ControlArguments{{"reason", {"bad"}}}, ControlArguments{{"number", {"x"}}},
        ControlArguments{{"number", {"0"}}}, ControlArguments{{"older_than_s", {"-1"}}},
        ControlArguments{{"type", {}}}, ControlArguments{{"type", {"a", "b"}}},
        ControlArguments{{"nonsense", {"a"}}}, ControlArguments{{"type", {""}}}}) {
    EXPECT_FALSE(letter_order_of(LetterCommand::list, bad)) << bad.begin()->first;
  }
}

TEST_F(ControlCommandsTest, DiscardIsDoneWhenItIsDurable) {
  orders_.place.add(1);
  orders_.place.add(2);
  orders_.place.add(3);
  const int fd = ask("dead-letters.discard", {{"all", {"true"}}});
  turn();
  EXPECT_THAT(orders_.place.discarded, ElementsAre(1, 2, 3));
  EXPECT_TRUE(lines(fd).empty());
  now_.mono += seconds(1);
  turn();
  EXPECT_THAT(lines(fd), ElementsAre(R"({"progress":{"discarded":3}})"));
  orders_.place.waiting = 0;
  turn();
  EXPECT_THAT(lines(fd), ElementsAre(R"({"result":{"matched":3,"discarded":3}})"));
}

TEST_F(ControlCommandsTest, DryRunListsAndChangesNothing) {
  orders_.place.add(1);
  const auto found = answer("dead-letters.discard", {{"all", {"true"}}, {"dry_run", {"true"}}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1], R"({"result":{"matched":1,"dry_run":true}})");
  answer("dead-letters.retry", {{"all", {"true"}}, {"dry_run", {"true"}}});
  EXPECT_TRUE(orders_.place.discarded.empty());
  EXPECT_TRUE(orders_.asked.empty());
}

TEST_F(ControlCommandsTest, RetryCountsThenFollowsTheCore) {
  orders_.place.add(1);
  orders_.place.add(2);
  const int fd = ask("dead-letters.retry", {{"reason", {"too_large"}}, {"topic", {"other"}}});
  turn();
  ASSERT_EQ(orders_.asked.size(), 1U);
  EXPECT_EQ(orders_.asked[0].filter.reason, DeadLetterReason::too_large);
  EXPECT_EQ(orders_.asked[0].topic, "other");
  orders_.progress.delivered = 1;
  now_.mono += seconds(1);
  turn();
  EXPECT_THAT(lines(fd), ElementsAre(R"({"progress":{"matched":2,"matched_exactly":true,"sent":1,)"
                                     R"("delivered":1,"refused":0,"skipped":0}})"));
  orders_.progress.refused = 1;
  orders_.progress.running = false;
  turn();
  EXPECT_THAT(lines(fd), ElementsAre(R"({"result":{"matched":2,"matched_exactly":true,"sent":2,)"
                                     R"("delivered":1,"refused":1,"skipped":0}})"));
}

TEST_F(ControlCommandsTest, RetryTellsWhyTheCoreEndedIt) {
  orders_.place.add(1);
  const int fd = ask("dead-letters.retry", {{"all", {"true"}}});
  turn();
  orders_.progress.error = Error{ErrorKind::transient, "topic is missing", "make it", {}};
  orders_.progress.running = false;
  turn();
  EXPECT_THAT(lines(fd)[0], HasSubstr("topic is missing"));
}

TEST_F(ControlCommandsTest, RetryOfNothingDoesNotStart) {
  EXPECT_THAT(answer("dead-letters.retry", {{"all", {"true"}}}),
              ElementsAre(R"({"result":{"matched":0}})"));
  EXPECT_TRUE(orders_.asked.empty());
}

TEST_F(ControlCommandsTest, ReleaseGoesToTheCoreAlsoWithoutALetter) {
  const int fd = ask("dead-letters.release", {{"key", {"k1"}}});
  turn();
  ASSERT_EQ(orders_.asked.size(), 1U);
  EXPECT_TRUE(orders_.asked[0].release_key);
  EXPECT_EQ(orders_.asked[0].filter.parked_key, "k1");
  orders_.progress.running = false;
  turn();
  EXPECT_THAT(lines(fd)[0], HasSubstr("\"delivered\":0"));
}

TEST_F(ControlCommandsTest, ASecondRetryWaitsALittleAndIsRefused) {
  orders_.place.add(1);
  orders_.progress.running = true;
  const int fd = ask("dead-letters.retry", {{"all", {"true"}}});
  turn();
  EXPECT_TRUE(lines(fd).empty());
  now_.mono += seconds(4);
  turn();
  EXPECT_THAT(lines(fd)[0], HasSubstr("another retry is running"));
}

TEST_F(ControlCommandsTest, ALongRetryDoesNotHinderAList) {
  orders_.place.add(1);
  ask("dead-letters.retry", {{"all", {"true"}}});
  turn();
  EXPECT_EQ(answer("dead-letters.list").size(), 2U);
}

TEST_F(ControlCommandsTest, CommandsReadOneAfterTheOther) {
  orders_.place.add(1);
  orders_.place.answers = false;
  const int first = ask("dead-letters.list");
  turn();
  const int second = ask("dead-letters.list");
  turn();
  now_.mono += seconds(1);
  turn();
  const auto waiting = lines(second);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_THAT(waiting[0], HasSubstr("another command reads the dead letters"));
  orders_.place.answers = true;
  turn(8);
  EXPECT_THAT(lines(first).back(), HasSubstr("\"matched\":1"));
  EXPECT_THAT(lines(second).back(), HasSubstr("\"matched\":1"));
}

TEST_F(ControlCommandsTest, AClientThatGoesLeavesThePlaceToTheNext) {
  orders_.place.add(1);
  orders_.place.answers = false;
  const int gone = ask("dead-letters.list");
  turn();
  hang_up(gone);
  const int next = ask("dead-letters.list");
  turn();
  EXPECT_TRUE(orders_.place.fetching);
  orders_.place.answers = true;
  turn(8);
  EXPECT_THAT(lines(next).back(), HasSubstr("\"matched\":1"));
  EXPECT_FALSE(commands_->deadline());
}

TEST_F(ControlCommandsTest, ASlowClientDoesNotMakeTheRelayGatherLetters) {
  orders_.place.batch = 200;
  for (int i = 1; i <= 20'000; ++i) {
    orders_.place.add(i);
  }
  const int fd = ask("dead-letters.list");
  turn(20);
  const std::size_t fetches = orders_.place.filters.size();
  EXPECT_LT(fetches, 40U);
  turn(20);
  EXPECT_EQ(orders_.place.filters.size(), fetches);
  std::size_t rows = 0;
  for (int i = 0; i < 500 && rows < 20'001; ++i) {
    rows += lines(fd).size();
    turn(1);
  }
  EXPECT_GT(rows, 15'000U);  // Lines cut by this reader's blocks are not counted.
}

TEST_F(ControlCommandsTest, SaysWhyThereAreNoLetters) {
  orders_.has_place = false;
  EXPECT_THAT(answer("dead-letters.list")[0], HasSubstr("no table"));
  orders_.has_place = true;
  orders_.place.is_ready = false;
  EXPECT_THAT(answer("dead-letters.list")[0], HasSubstr("cannot be read yet"));
}

TEST_F(ControlCommandsTest, SeveralPipelinesNeedAName) {
  commands_ = std::make_unique<ControlCommands>(*server_, log_,
                                                std::vector<ControlTarget*>{&orders_, &bills_});
  EXPECT_THAT(answer("dead-letters.list")[0], HasSubstr("several pipelines: orders, bills"));
  EXPECT_EQ(answer("dead-letters.list", {{"pipeline", {"bills"}}}).size(), 1U);
  answer("pause");
  EXPECT_TRUE(orders_.paused && bills_.paused);
}

TEST(LetterDesk, EachSeatGetsItsOwnLetters) {
  FakePlace place;
  LetterDesk desk(place);
  place.add(1);
  place.add(2);
  place.answers = false;
  const Now now{};
  DeadLetterFilter filter;
  filter.numbers = {2};
  desk.for_commands().fetch(filter, 0, 10, now);
  filter.numbers = {1};
  desk.for_core().fetch(filter, 0, 10, now);
  EXPECT_EQ(place.filters.size(), 1U);
  place.answers = true;
  const auto core = desk.for_core().take_fetched();
  EXPECT_FALSE(core) << "the place has only begun";
  ASSERT_TRUE(desk.for_core().drive(now));
  EXPECT_EQ(desk.for_core().take_fetched()->front().number, 1);
  EXPECT_EQ(desk.for_commands().take_fetched()->front().number, 2);
  EXPECT_FALSE(desk.for_commands().take_fetched());
}

}  // namespace
}  // namespace outrider
