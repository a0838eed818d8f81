#include "outrider/observe/http_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "observe/listen_socket.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A client's socket in the same loop; it speaks in raw bytes.
class Client {
 public:
  Client(EventLoop& loop, std::uint16_t port) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // The kernel completes the connection by itself: nobody has to accept yet.
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    watch_ = loop.watch(fd_, true, false);
  }
  ~Client() {
    watch_.reset();
    close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(std::string_view text) const {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  void receive() {
    watch_->clear();
    std::string buffer(65536, '\0');
    while (!closed_) {
      const ssize_t size = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size < 0 && errno == EAGAIN) {
        return;
      }
      closed_ = size <= 0;
      answer_.append(buffer, 0, size > 0 ? static_cast<std::size_t>(size) : 0);
    }
    watch_->set_interest(false, false);
  }

  bool closed() const { return closed_; }
  const std::string& answer() const { return answer_; }

 private:
  int fd_ = -1;
  std::unique_ptr<FdWatch> watch_;
  bool closed_ = false;
  std::string answer_;
};

class HttpEndpointTest : public testing::Test {
 protected:
  HttpEndpointTest() {
    loop_ = std::move(*EventLoop::create());
    endpoint_ = std::move(*HttpEndpoint::create(*loop_, "127.0.0.1:0"));
    endpoint_->add_route("/livez", [](const HttpRequest&) {
      return HttpResponse{200, "a/b", "ok\n"};
    });
    endpoint_->add_route("/readyz", [](const HttpRequest&) {
      return HttpResponse{503, "text/plain", "connecting\n"};
    });
  }

  Now now() const { return Now{steady_clock::now() + skipped_, WallTime{}}; }

  void turn(Client& client) {
    std::optional<MonoTime> deadline = endpoint_->deadline();
    loop_->wait(deadline ? *deadline - skipped_ : steady_clock::now() + seconds(1));
    endpoint_->drive(now());
    client.receive();
  }

  /// Turn until the client has been closed; the limit is for a broken server only.
  void serve(Client& client) {
    const auto give_up = steady_clock::now() + seconds(20);
    while (!client.closed() && steady_clock::now() < give_up) {
      turn(client);
    }
    EXPECT_TRUE(client.closed());
  }

  std::string exchange(std::string_view request) {
    Client client(*loop_, endpoint_->port());
    client.say(request);
    serve(client);
    return client.answer();
  }

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<HttpEndpoint> endpoint_;
  milliseconds skipped_{0};
};

TEST_F(HttpEndpointTest, AnswersGetAndCloses) {
  const std::string answer = exchange("GET /livez?verbose=1 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: a/b\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nok\n"));
}

TEST_F(HttpEndpointTest, GivesTheStatusOfTheHandler) {
  EXPECT_THAT(exchange("GET /readyz HTTP/1.0\r\n\r\n"), HasSubstr(" 503 "));
}

TEST_F(HttpEndpointTest, AnswersHeadWithoutABody) {
  const std::string answer = exchange("HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
}

TEST_F(HttpEndpointTest, RefusesToChangeAnything) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string answer = exchange(
        std::string(method) + " /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    EXPECT_THAT(answer, HasSubstr(" 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n")) << method;
  }
}

TEST_F(HttpEndpointTest, ListsItsPathsForAnUnknownOne) {
  const std::string answer = exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr(" 404 "));
  EXPECT_THAT(answer, EndsWith("there are:\n/livez\n/readyz\n"));
}

TEST_F(HttpEndpointTest, AnswersGarbageAndOversizedHeadersWithAnError) {
  EXPECT_THAT(exchange("\x16\x03\x01 nonsense\r\n\r\n"), Not(HasSubstr(" 200 ")));
  const std::string big(2 * kHttpConnectionBytesMax, 'a');
  EXPECT_THAT(exchange("GET /livez HTTP/1.1\r\nHost: a\r\nX: " + big + "\r\n\r\n"),
              Not(HasSubstr(" 200 ")));
  EXPECT_THAT(exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr(" 200 "));
}

TEST_F(HttpEndpointTest, SendsALongAnswerWhole) {
  const std::string body(3'000'000, 'm');
  endpoint_->add_route("/metrics", [&](const HttpRequest&) {
    return HttpResponse{200, "text/plain", body};
  });
  const std::string answer = exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_GT(answer.size(), body.size());
  EXPECT_TRUE(answer.ends_with("\r\n\r\n" + body));
}

TEST_F(HttpEndpointTest, AnswersASecondClientWhileTheFirstDawdles) {
  Client slow(*loop_, endpoint_->port());
  slow.say("GET /livez HT");
  turn(slow);
  EXPECT_THAT(exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"), HasSubstr(" 200 "));
  EXPECT_FALSE(slow.closed());
  slow.say("TP/1.1\r\nHost: a\r\n\r\n");
  serve(slow);
  EXPECT_THAT(slow.answer(), HasSubstr(" 200 "));
}

TEST_F(HttpEndpointTest, CutsOffAClientThatDripsForTooLong) {
  Client slow(*loop_, endpoint_->port());
  slow.say("GET /livez HTTP/1.1\r\n");
  turn(slow);
  ASSERT_TRUE(endpoint_->deadline().has_value());
  skipped_ = kHttpConnectionAgeMax - seconds(1);
  slow.say("X: y\r\n");
  turn(slow);
  EXPECT_FALSE(slow.closed());
  skipped_ = kHttpConnectionAgeMax + seconds(1);
  slow.say("X: y\r\n");
  serve(slow);
  EXPECT_EQ(slow.answer(), "");
}

TEST_F(HttpEndpointTest, LetsWaitingClientsInWhenSlowOnesAreCutOff) {
  std::vector<std::unique_ptr<Client>> slow;
  for (unsigned i = 0; i < kHttpConnectionsMax; ++i) {
    slow.push_back(std::make_unique<Client>(*loop_, endpoint_->port()));
    slow.back()->say("G");
    turn(*slow.back());
  }
  Client good(*loop_, endpoint_->port());
  good.say("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  loop_->wait(steady_clock::now());
  endpoint_->drive(now());
  good.receive();
  EXPECT_EQ(good.answer(), "");
  skipped_ = kHttpConnectionAgeMax + seconds(1);
  serve(good);
  EXPECT_THAT(good.answer(), HasSubstr(" 200 "));
}

TEST_F(HttpEndpointTest, AsksForNothingWhenIdle) {
  EXPECT_FALSE(endpoint_->deadline().has_value());
  (void)exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  // The library may want one more look to clean up.
  const auto give_up = steady_clock::now() + seconds(5);
  while (endpoint_->deadline() && steady_clock::now() < give_up) {
    loop_->wait(endpoint_->deadline());
    endpoint_->drive(now());
  }
  EXPECT_FALSE(endpoint_->deadline().has_value());
}

TEST_F(HttpEndpointTest, ClosesItsClientsWhenItGoes) {
  Client client(*loop_, endpoint_->port());
  client.say("GET /li");
  turn(client);
  endpoint_.reset();
  loop_->wait(std::nullopt);
  client.receive();
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpEndpointTest, SaysWhoseAddressIsInUse) {
  const std::string address = "127.0.0.1:" + std::to_string(endpoint_->port());
  auto second = HttpEndpoint::create(*loop_, address);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::configuration);
  EXPECT_EQ(second.error().message, "cannot listen on \"" + address + "\": Address already in use");
  EXPECT_THAT(second.error().hint, HasSubstr("http.listen"));
}

TEST_F(HttpEndpointTest, BindsItsPortAgainRightAfterAStop) {
  const std::string address = "127.0.0.1:" + std::to_string(endpoint_->port());
  (void)exchange("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  endpoint_.reset();
  EXPECT_TRUE(HttpEndpoint::create(*loop_, address).has_value());
}

TEST(ListenAddress, TakesHostsAndBracketedV6) {
  auto v4 = parse_listen_address("0.0.0.0:9640");
  ASSERT_TRUE(v4.has_value());
  EXPECT_EQ(v4->host, "0.0.0.0");
  EXPECT_EQ(v4->port, "9640");
  auto v6 = parse_listen_address("[::1]:0");
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->host, "::1");
  auto all = parse_listen_address(":9640");
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->host, "");
}

TEST(ListenAddress, RefusesWhatItCannotRead) {
  for (const char* text : {"", "9640", "localhost", "a:", "a:65536", "a:-1", "a:1x", "::1:9640",
                           "[::1]", "[]:1", "[::1:9640", "a]:1", "a: 1"}) {
    auto address = parse_listen_address(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().kind, ErrorKind::configuration);
    EXPECT_THAT(address.error().hint, HasSubstr("host:port"));
  }
}

TEST(ListenSocket, NamesAnAddressThatIsNotOurs) {
  auto socket = open_listen_socket("192.0.2.1:0");
  ASSERT_FALSE(socket.has_value());
  EXPECT_THAT(socket.error().message, HasSubstr("\"192.0.2.1:0\""));
  EXPECT_THAT(socket.error().hint, HasSubstr("address of this machine"));
}

}  // namespace
}  // namespace outrider
