#include "demo/real_topics.h"

#include <librdkafka/rdkafka.h>

#include <array>
#include <memory>

namespace outrider::demo {
namespace {

constexpr int kTimeoutMs = 10'000;
constexpr int kBrokersDefault = -1;

template <auto kRelease>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};
using Client = std::unique_ptr<rd_kafka_t, Release<rd_kafka_destroy>>;
using Queue = std::unique_ptr<rd_kafka_queue_t, Release<rd_kafka_queue_destroy>>;
using Event = std::unique_ptr<rd_kafka_event_t, Release<rd_kafka_event_destroy>>;
using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, Release<rd_kafka_NewTopic_destroy>>;
using DeleteTopic = std::unique_ptr<rd_kafka_DeleteTopic_t, Release<rd_kafka_DeleteTopic_destroy>>;

Result<Client> make_client(const std::string& bootstrap_servers) {
  std::array<char, 256> text{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, nullptr);
  if (rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap_servers.c_str(), text.data(),
                        text.size()) != RD_KAFKA_CONF_OK) {
    rd_kafka_conf_destroy(conf);
    return fail(ErrorKind::configuration, text.data());
  }
  Client client(rd_kafka_new(RD_KAFKA_PRODUCER, conf, text.data(), text.size()));
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    return fail(ErrorKind::configuration, text.data());
  }
  return client;
}

Error topic_error(const std::string& what, rd_kafka_resp_err_t code, const char* text) {
  return Error{ErrorKind::configuration,
               what + ": " + (text != nullptr ? text : rd_kafka_err2str(code)),
               "check the broker's address and what its ACLs allow on topics outrider-demo.*",
               rd_kafka_err2name(code)};
}

/// Judge the answer by topic; `accepted` is an error that is none here.
Result<> judge(const rd_kafka_topic_result_t* const* results, std::size_t count,
               rd_kafka_resp_err_t accepted, const std::string& what) {
  for (std::size_t i = 0; i < count; ++i) {
    const rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != accepted) {
      return fail(topic_error(what + " \"" + rd_kafka_topic_result_name(results[i]) + "\"", code,
                              rd_kafka_topic_result_error_string(results[i])));
    }
  }
  return {};
}

Result<Event> answer(const Queue& queue, const std::string& what) {
  Event event(rd_kafka_queue_poll(queue.get(), kTimeoutMs));
  if (event == nullptr) {
    return fail(topic_error(what, RD_KAFKA_RESP_ERR__TIMED_OUT, nullptr));
  }
  if (const rd_kafka_resp_err_t code = rd_kafka_event_error(event.get());
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return fail(topic_error(what, code, rd_kafka_event_error_string(event.get())));
  }
  return event;
}

}  // namespace

Result<> create_topics(const std::string& bootstrap_servers, const std::vector<std::string>& topics,
                       int partitions) {
  const std::string what = "cannot create topic";
  OUTRIDER_TRY(Client client, make_client(bootstrap_servers));
  std::array<char, 256> text{};
  std::vector<NewTopic> owned;
  std::vector<rd_kafka_NewTopic_t*> wanted;
  for (const std::string& topic : topics) {
    owned.emplace_back(rd_kafka_NewTopic_new(topic.c_str(), partitions, kBrokersDefault,
                                             text.data(), text.size()));
    if (owned.back() == nullptr) return fail(ErrorKind::configuration, text.data());
    wanted.push_back(owned.back().get());
  }
  const Queue queue(rd_kafka_queue_new(client.get()));
  rd_kafka_CreateTopics(client.get(), wanted.data(), wanted.size(), nullptr, queue.get());
  OUTRIDER_TRY(Event event, answer(queue, what));
  std::size_t count = 0;
  const auto* results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  return judge(results, count, RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS, what);
}

Result<> remove_topics(const std::string& bootstrap_servers,
                       const std::vector<std::string>& topics) {
  const std::string what = "cannot delete topic";
  OUTRIDER_TRY(Client client, make_client(bootstrap_servers));
  std::vector<DeleteTopic> owned;
  std::vector<rd_kafka_DeleteTopic_t*> wanted;
  for (const std::string& topic : topics) {
    owned.emplace_back(rd_kafka_DeleteTopic_new(topic.c_str()));
    wanted.push_back(owned.back().get());
  }
  const Queue queue(rd_kafka_queue_new(client.get()));
  rd_kafka_DeleteTopics(client.get(), wanted.data(), wanted.size(), nullptr, queue.get());
  OUTRIDER_TRY(Event event, answer(queue, what));
  std::size_t count = 0;
  const auto* results =
      rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event.get()), &count);
  return judge(results, count, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, what);
}

}  // namespace outrider::demo
