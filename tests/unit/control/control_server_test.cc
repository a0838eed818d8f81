#include "outrider/control/control_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace outrider {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kStatus[] = "{\"v\":1,\"command\":\"status\"}\n";

/// A client that never blocks.
class Client {
 public:
  explicit Client(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    (void)fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { hang_up(); }

  bool connected() const { return connected_; }
  ssize_t write(const std::string& text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  void stop_writing() { (void)shutdown(fd_, SHUT_WR); }
  void hang_up() {
    if (fd_ >= 0) {
      close(fd_);
    }
    fd_ = -1;
  }
  /// All that is there now.
  std::string read() {
    std::string text;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = recv(fd_, bytes, sizeof bytes, 0)) > 0) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    ended_ = count == 0;
    return text;
  }
  /// The server has closed; known after read().
  bool ended() const { return ended_; }

 private:
  int fd_;
  bool connected_ = false;
  bool ended_ = false;
};

class ControlServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/outrider-control-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/relay.sock";
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop);
    loop_ = std::move(*loop);
  }
  void TearDown() override {
    server_.reset();
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }

  void serve() {
    auto server = ControlServer::create(*loop_, path_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  std::string refusal() const {
    auto server = ControlServer::create(*loop_, path_);
    return server ? "" : server.error().message;
  }

  /// One turn of the loop, without waiting.
  void turn() {
    loop_->wait(MonoTime{});
    server_->drive(now_);
  }
  void later(std::chrono::milliseconds time) { now_.mono += time; }

  ControlRequest taken() {
    ControlRequest request;
    EXPECT_TRUE(server_->take_request(request));
    return request;
  }
  bool take() {
    ControlRequest request;
    return server_->take_request(request);
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<ControlServer> server_;
  Now now_{std::chrono::steady_clock::now(), {}};
};

TEST_F(ControlServerTest, AnswersARequestLineByLineAndCloses) {
  serve();
  Client client(path_);
  client.write(kStatus);
  turn();
  const ControlRequest request = taken();
  EXPECT_EQ(request.command, "status");
  EXPECT_EQ(request.uid, geteuid());
  EXPECT_EQ(request.pid, getpid());
  EXPECT_FALSE(take());
  server_->write_line(request.session, R"({"row":{}})");
  turn();
  EXPECT_EQ(client.read(), "{\"row\":{}}\n");
  EXPECT_TRUE(server_->is_open(request.session));
  server_->finish(request.session, R"({"result":{}})");
  EXPECT_FALSE(server_->is_open(request.session));
  turn();
  EXPECT_EQ(client.read(), "{\"result\":{}}\n");
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(server_->clients(), 0U);
}

TEST_F(ControlServerTest, FileIsForItsUserAloneWhateverTheUmaskAndGoesWithTheServer) {
  const mode_t before = umask(0);
  serve();
  umask(before);
  struct stat found {};
  ASSERT_EQ(lstat(path_.c_str(), &found), 0);
  EXPECT_TRUE(S_ISSOCK(found.st_mode));
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  server_.reset();
  EXPECT_NE(lstat(path_.c_str(), &found), 0);
}

TEST_F(ControlServerTest, RefusesThePlaceOfALivingProcess) {
  serve();
  EXPECT_EQ(refusal(),
            "cannot open the control socket \"" + path_ + "\": a running process answers there");
  // The living one is unharmed.
  Client client(path_);
  EXPECT_TRUE(client.connected());
}

TEST_F(ControlServerTest, ReplacesTheSocketOfADeadProcess) {
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(dead, 1), 0);
  close(dead);  // The file stays, as after SIGKILL.
  serve();
  Client client(path_);
  client.write(kStatus);
  turn();
  EXPECT_EQ(taken().command, "status");
}

TEST_F(ControlServerTest, LeavesAFileThatIsNoSocketAlone) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(refusal(), HasSubstr("something else than a socket has this name"));
  std::ifstream file(path_);
  std::string text;
  file >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(ControlServerTest, DoesNotRemoveASocketThatIsNotItsOwn) {
  serve();
  unlink(path_.c_str());
  std::unique_ptr<ControlServer> first = std::move(server_);
  serve();  // Somebody else's by now.
  first.reset();
  Client client(path_);
  EXPECT_TRUE(client.connected());
}

TEST_F(ControlServerTest, RefusesPathsThatCannotBe) {
  const std::string own = path_;
  path_ = folder_ + "/" + std::string(kControlPathBytesMax, 'x');
  EXPECT_THAT(refusal(), HasSubstr("has 1 to 107 bytes"));
  path_ = folder_ + "/" + std::string(kControlPathBytesMax - folder_.size() - 1, 'x');
  EXPECT_EQ(path_.size(), kControlPathBytesMax);
  serve();
  server_.reset();
  path_ = folder_ + "/missing/relay.sock";
  auto server = ControlServer::create(*loop_, path_);
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, HasSubstr("No such file or directory"));
  EXPECT_THAT(server.error().hint, HasSubstr("make its folder"));
  path_ = own;
}

TEST_F(ControlServerTest, WaitsBoundedForTheFoldersLock) {
  const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(folder, LOCK_EX), 0);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT(refusal(), HasSubstr("holds a lock on its folder"));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(5));
  close(folder);
  EXPECT_EQ(refusal(), "");
}

TEST_F(ControlServerTest, SaysWhatIsWrongWithARequest) {
  serve();
  Client client(path_);
  client.write("{\"v\":1,\"command\":");
  turn();
  EXPECT_EQ(client.read(), "");
  client.write("oops}\n");
  turn();
  EXPECT_FALSE(take());
  EXPECT_THAT(client.read(), HasSubstr("\"error\":{\"kind\":\"configuration\",\"message\":\"the "
                                       "request is malformed"));
  EXPECT_TRUE(client.ended());
}

TEST_F(ControlServerTest, TakesALineWithoutItsBreakAtTheEndOfInput) {
  serve();
  Client client(path_);
  client.write(R"({"v":1,"command":"status"})");
  client.stop_writing();
  turn();
  const ControlRequest request = taken();
  turn();
  EXPECT_TRUE(server_->is_open(request.session)) << "it still reads";
  server_->finish(request.session, "{}");
  turn();
  EXPECT_EQ(client.read(), "{}\n");
}

TEST_F(ControlServerTest, BoundsTheRequest) {
  serve();
  Client exact(path_);
  std::string line = R"({"v":1,"command":"status"})";
  line.append(kControlRequestBytesMax - line.size(), ' ');
  exact.write(line + "\n");
  turn();
  turn();
  EXPECT_TRUE(take());
  Client over(path_);
  over.write(line + " ");
  turn();
  turn();
  EXPECT_FALSE(take());
  EXPECT_THAT(over.read(), HasSubstr("the request is longer than 65536 bytes"));
}

TEST_F(ControlServerTest, RefusesASecondRequestOnOneConnection) {
  serve();
  Client client(path_);
  client.write(std::string(kStatus) + kStatus);
  turn();
  EXPECT_FALSE(take());
  EXPECT_THAT(client.read(), HasSubstr("bytes follow the request"));
  Client other(path_);
  other.write(kStatus);
  turn();
  const ControlRequest request = taken();
  other.write(kStatus);
  turn();
  EXPECT_FALSE(server_->is_open(request.session));
  EXPECT_THAT(other.read(), HasSubstr("bytes follow the request"));
}

TEST_F(ControlServerTest, BoundsTheClients) {
  serve();
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < kControlClientsMax; ++i) {
    clients.push_back(std::make_unique<Client>(path_));
  }
  turn();
  EXPECT_EQ(server_->clients(), kControlClientsMax);
  Client one_more(path_);
  turn();
  EXPECT_THAT(one_more.read(), HasSubstr("too many commands at once, at most 8"));
  EXPECT_TRUE(one_more.ended());
  clients.front()->hang_up();
  turn();
  Client next(path_);
  next.write(kStatus);
  turn();
  EXPECT_TRUE(take());
}

TEST_F(ControlServerTest, DropsAClientThatDoesNotAsk) {
  serve();
  Client client(path_);
  turn();
  ASSERT_TRUE(server_->deadline());
  EXPECT_EQ(*server_->deadline(), now_.mono + kControlRequestMax);
  client.write("{");
  later(kControlRequestMax);
  turn();
  EXPECT_EQ(server_->clients(), 0U);
  (void)client.read();
  EXPECT_TRUE(client.ended());
  EXPECT_FALSE(server_->deadline());
}

TEST_F(ControlServerTest, NoticesAClientThatIsGone) {
  serve();
  Client client(path_);
  client.write(kStatus);
  turn();
  const ControlRequest request = taken();
  client.hang_up();
  turn();
  EXPECT_FALSE(server_->is_open(request.session));
  EXPECT_EQ(server_->clients(), 0U);
  server_->write_line(request.session, "{}");
  server_->finish(request.session, "{}");
  turn();
}

TEST_F(ControlServerTest, NoticesAClientThatStoppedWritingAndIsGoneLater) {
  serve();
  Client client(path_);
  client.write(kStatus);
  client.stop_writing();
  turn();
  const ControlRequest request = taken();
  EXPECT_TRUE(server_->is_open(request.session));
  client.hang_up();
  turn();
  turn();
  EXPECT_FALSE(server_->is_open(request.session));
}

TEST_F(ControlServerTest, ForgetsTheRequestOfAClientThatIsGone) {
  serve();
  Client client(path_);
  client.write(kStatus);
  client.hang_up();
  turn();
  EXPECT_FALSE(take());
}

TEST_F(ControlServerTest, ASlowClientHasNoRoomAndGetsEverythingInTheEnd) {
  serve();
  Client client(path_);
  client.write(kStatus);
  turn();
  const std::uint64_t session = taken().session;
  const std::string row = "{\"row\":\"" + std::string(10'000, 'x') + "\"}";
  std::size_t rows = 0;
  while (server_->has_room(session)) {
    server_->write_line(session, row);
    ++rows;
    turn();
    ASSERT_LT(rows, 1'000U);
  }
  EXPECT_TRUE(server_->is_open(session));
  server_->finish(session, "{}");
  std::string seen;
  for (int i = 0; i < 1'000 && !client.ended(); ++i) {
    seen += client.read();
    turn();
  }
  EXPECT_EQ(seen.size(), rows * (row.size() + 1) + 3);
  EXPECT_TRUE(seen.ends_with("\n{}\n"));
}

TEST_F(ControlServerTest, DropsAClientThatTakesNothing) {
  serve();
  Client client(path_);
  client.write(kStatus);
  turn();
  const std::uint64_t session = taken().session;
  server_->write_line(session, std::string(4'000'000, 'x'));  // One line may go beyond the room.
  turn();
  EXPECT_FALSE(server_->has_room(session));
  later(kControlStallMax - std::chrono::milliseconds(1));
  turn();
  EXPECT_TRUE(server_->is_open(session));
  later(std::chrono::milliseconds(1));
  turn();
  EXPECT_FALSE(server_->is_open(session));
  EXPECT_EQ(server_->clients(), 0U);
}

TEST_F(ControlServerTest, AnIdleConnectionDoesNotSpinTheLoop) {
  serve();
  Client client(path_);
  client.write(kStatus);
  client.stop_writing();
  turn();
  (void)taken();
  turn();
  // Half closed: nothing may be ready now.
  const auto begun = std::chrono::steady_clock::now();
  loop_->wait(begun + std::chrono::milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace outrider
