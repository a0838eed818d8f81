#include "demo/mock_kafka.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "demo/interrupt.h"

namespace outrider::demo {
namespace {

constexpr char kDown = 'd';
constexpr char kUp = 'u';
constexpr int kStartTimeoutMs = 10'000;
constexpr std::int32_t kAllBrokers = -1;

bool write_all(int fd, const std::string& text) {
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// The child: serve commands until the demo closes its end.
int serve(int fd, const std::vector<std::string>& topics, int partitions) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, nullptr);
  std::array<char, 256> text{};
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text.data(), text.size());
  if (client == nullptr) return 1;
  rd_kafka_mock_cluster_t* cluster = rd_kafka_mock_cluster_new(client, 1);
  if (cluster == nullptr) return 1;
  for (const std::string& topic : topics) {
    if (rd_kafka_mock_topic_create(cluster, topic.c_str(), partitions, 1) != 0) return 1;
  }
  if (!write_all(fd, rd_kafka_mock_cluster_bootstraps(cluster) + std::string("\n"))) return 1;
  for (char command = 0; read(fd, &command, 1) == 1;) {
    const rd_kafka_resp_err_t code = command == kDown
                                         ? rd_kafka_mock_broker_set_down(cluster, kAllBrokers)
                                         : rd_kafka_mock_broker_set_up(cluster, kAllBrokers);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR || write(fd, &command, 1) != 1) return 1;
  }
  return 0;
}

bool readable(int fd, int timeout_ms) {
  pollfd wanted = {fd, POLLIN, 0};
  return poll(&wanted, 1, timeout_ms) == 1;
}

Result<std::string> read_line(int fd) {
  std::string line;
  for (char byte = 0;;) {
    if (!readable(fd, kStartTimeoutMs) || read(fd, &byte, 1) != 1) {
      if (interrupted()) return fail(interrupted_error());
      return fail(ErrorKind::fatal, "the in-process Kafka did not start");
    }
    if (byte == '\n') return line;
    line += byte;
  }
}

}  // namespace

Result<MockKafka> MockKafka::start(const std::vector<std::string>& topics, int partitions) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(ErrorKind::fatal, "no socket pair");
  }
  auto process =
      ChildProcess::fork_body(ends[1], [&] { return serve(ends[1], topics, partitions); });
  close(ends[1]);
  if (!process) {
    close(ends[0]);
    return fail(process.error());
  }
  MockKafka kafka(std::move(*process), ends[0]);
  OUTRIDER_TRY(kafka.bootstrap_servers_, read_line(ends[0]));
  return kafka;
}

MockKafka::~MockKafka() {
  stop();
  if (control_fd_ >= 0) close(control_fd_);
}

MockKafka::MockKafka(MockKafka&& other) noexcept
    : process_(std::move(other.process_)),
      control_fd_(std::exchange(other.control_fd_, -1)),
      bootstrap_servers_(std::move(other.bootstrap_servers_)) {}

Result<> MockKafka::ask(char command) {
  if (send(control_fd_, &command, 1, MSG_NOSIGNAL) != 1) {
    return fail(ErrorKind::fatal, "the in-process Kafka is gone");
  }
  return {};
}

Result<> MockKafka::ask_down() { return ask(kDown); }

Result<> MockKafka::ask_up() { return ask(kUp); }

bool MockKafka::answered() {
  char answer = 0;
  return readable(control_fd_, 0) && read(control_fd_, &answer, 1) == 1;
}

void MockKafka::stop() { process_.kill(); }

}  // namespace outrider::demo
