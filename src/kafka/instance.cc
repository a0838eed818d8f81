#include "kafka/instance.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace outrider {
namespace {

constexpr std::uint64_t kWakeToken = 1;  // What an eventfd wants to be written.
constexpr int kPurgeAll =
    RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING;

}  // namespace

Result<std::unique_ptr<ClientInstance>> ClientInstance::create(EventLoop& loop, ConfHandle conf,
                                                               rd_kafka_type_t type) {
  rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR |
                                           RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS |
                                           RD_KAFKA_EVENT_FETCH);
  const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd < 0) {
    return fail(ErrorKind::fatal, std::string("cannot create an eventfd: ") + strerror(errno),
                "raise the limit on open files for this process and start it again");
  }
  std::array<char, 512> text{};
  KafkaHandle client(rd_kafka_new(type, conf.get(), text.data(), text.size()));
  if (client == nullptr) {
    close(wake_fd);
    return fail(ErrorKind::configuration,
                std::string("cannot create the Kafka client: ") + text.data(),
                "correct the named setting in kafka.properties");
  }
  static_cast<void>(conf.release());  // Belongs to the client now.
  return std::unique_ptr<ClientInstance>(new ClientInstance(loop, wake_fd, std::move(client)));
}

ClientInstance::ClientInstance(EventLoop& loop, int wake_fd, KafkaHandle client)
    : wake_fd_(wake_fd),
      client_(std::move(client)),
      queue_(rd_kafka_queue_get_main(client_.get())),
      watch_(loop.watch(wake_fd, true, false)) {
  rd_kafka_set_log_queue(client_.get(), queue_.get());
  rd_kafka_queue_io_event_enable(queue_.get(), wake_fd_, &kWakeToken, sizeof(kWakeToken));
}

ClientInstance::~ClientInstance() {
  watch_.reset();
  rd_kafka_queue_io_event_enable(queue_.get(), -1, nullptr, 0);
  // What is purged is never counted as sent; without it the library complains about each record.
  // A consumer has nothing to purge and says so.
  static_cast<void>(rd_kafka_purge(client_.get(), kPurgeAll));
  queue_.reset();
  client_.reset();
  close(wake_fd_);
}

bool ClientInstance::take_wake() {
  if (!watch_->readable()) return false;
  watch_->clear();
  std::uint64_t count = 0;
  // EAGAIN only means that somebody drained it before: the queue is looked at either way.
  static_cast<void>(!read(wake_fd_, &count, sizeof(count)));
  return true;
}

EventHandle ClientInstance::poll() { return EventHandle(rd_kafka_queue_poll(queue_.get(), 0)); }

}  // namespace outrider
