// Checks 60 to 68: brokers, grants, topics and their settings, the position topic.
#include <algorithm>
#include <array>
#include <utility>

#include "app/doctor_check.h"
#include "app/doctor_input.h"
#include "kafka/position_topic.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kNoKafka[] = "not looked at: no broker was reached (60)";

std::string quoted(const std::string& topic) { return "topic \"" + topic + "\""; }

/// A word for a shell, in quotes where it is not plain.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() &&
                     word.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:=-") ==
                         std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// The head of a command of Kafka's own tools; a cluster with logins wants an administrator's.
std::string tool(const DoctorInput& in, const char* name) {
  return std::string(name) + " --bootstrap-server " + shell_word(in.bootstrap_servers) +
         (in.kafka_login ? " --command-config admin.properties" : "");
}

std::string admin_note(const DoctorInput& in) {
  return in.kafka_login ? "admin.properties holds the login of an administrator of Kafka" : "";
}

std::string grant(const DoctorInput& in, const std::vector<std::string>& operations,
                  const std::string& resource) {
  std::string command = tool(in, "kafka-acls.sh") + " --add --allow-principal " +
                        shell_word(in.kafka_user.empty() ? "User:ANONYMOUS" : in.kafka_user);
  for (const std::string& operation : operations) command += " --operation " + operation;
  return command + " " + resource;
}

Fix grant_fix(const DoctorInput& in, const std::vector<std::string>& operations,
              const std::string& resource) {
  std::string note = admin_note(in);
  if (in.kafka_user.empty() && in.kafka_login) {
    note +=
        "; the name after --allow-principal is the one the brokers give this client, usually "
        "the subject of its certificate";
  }
  return {FixKind::shell, grant(in, operations, resource), note};
}

std::string on_topic(const TopicFacts& topic) { return "--topic " + shell_word(topic.name); }

std::vector<std::string> writing(const TopicFacts& topic) {
  if (topic.use == TopicUse::positions) return {"Read", "Write", "Describe"};
  return {"Write", "Describe", "DescribeConfigs"};
}

std::string create_command(const DoctorInput& in, const TopicFacts& topic) {
  ProducerSettings settings;
  settings.topics = in.pipeline.kafka.topics;
  const TopicConfig config =
      topic.use == TopicUse::positions ? position_topic_config(settings, true) : settings.topics;
  std::string command = tool(in, "kafka-topics.sh") + " --create " + on_topic(topic) +
                        " --partitions " + std::to_string(config.partitions);
  if (config.replication_factor > 0) {
    command += " --replication-factor " + std::to_string(config.replication_factor);
  }
  for (const auto& [name, value] : config.config) {
    command += " --config " + shell_word(name + "=" + value);
  }
  return command;
}

std::string set_command(const DoctorInput& in, const TopicFacts& topic, const std::string& what) {
  return tool(in, "kafka-configs.sh") + " --alter --entity-type topics --entity-name " +
         shell_word(topic.name) + " --add-config " + what;
}

/// What is gathered over several topics: the worst verdict, every text, every command.
class Gathered {
 public:
  explicit Gathered(std::string note) : note_(std::move(note)) {}

  void add(Verdict verdict, const std::string& found, const std::string& command,
           const std::string& note = {}) {
    if (outcome_.verdict != Verdict::fail) outcome_.verdict = verdict;
    outcome_.found += (outcome_.found.empty() ? "" : "; ") + found;
    if (!command.empty()) {
      outcome_.fix.kind = FixKind::shell;
      outcome_.fix.text += (outcome_.fix.text.empty() ? "" : " && ") + command;
    }
    if (!note.empty() && outcome_.fix.note.empty()) outcome_.fix.note = note;
  }

  Outcome or_passed(std::string found) {
    if (outcome_.found.empty()) return passed(std::move(found));
    if (outcome_.fix.kind == FixKind::shell && !note_.empty()) {
      outcome_.fix.note += (outcome_.fix.note.empty() ? "" : "; ") + note_;
    }
    return outcome_;
  }

 private:
  std::string note_;
  Outcome outcome_;
};

bool is_refused(const Error& error) { return error.code.find("AUTHORIZATION") != error.code.npos; }

// Brokers --------------------------------------------------------------------------------------

Outcome reachable(const DoctorInput& in) {
  if (in.kafka.unreachable) {
    Outcome outcome{Verdict::fail, in.kafka.unreachable->message};
    outcome.fix.note = in.kafka.unreachable->hint;
    return outcome;
  }
  return passed(
      std::to_string(in.kafka.brokers) + " broker(s) of cluster " + in.kafka.cluster_id + ", " +
      (in.kafka_login ? "as " + (in.kafka_user.empty() ? "named by certificate" : in.kafka_user)
                      : "without login"));
}

Outcome producer_id(const DoctorInput& in) {
  if (!in.has_kafka()) return skipped(kNoKafka);
  if (!in.kafka.producer_id_fault) return passed("the brokers gave a producer id");
  Outcome outcome{Verdict::fail, in.kafka.producer_id_fault->message};
  outcome.fix.note = in.kafka.producer_id_fault->hint;
  if (is_refused(*in.kafka.producer_id_fault)) {
    outcome.fix = grant_fix(in, {"IdempotentWrite"}, "--cluster");
    outcome.fix.note += std::string(outcome.fix.note.empty() ? "" : "; ") +
                        "not needed from Kafka 3.0 on where any topic may be written (63)";
  }
  return outcome;
}

// Topics ---------------------------------------------------------------------------------------

std::string names_of(const DoctorInput& in) {
  std::vector<std::string> names;
  for (const TopicFacts& topic : in.kafka.topics) {
    if (topic.exists) names.push_back(topic.name);
  }
  constexpr std::size_t kNamed = 5;
  const std::size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(names.size() - more);
  std::string text = join(names, ", ");
  if (more > 0) text += " and " + std::to_string(more) + " more";
  return text;
}

/// The grants of a topic that is refused or cannot be made, whether it is there or not.
std::string grant_all(const DoctorInput& in, const TopicFacts& topic) {
  std::vector<std::string> operations = writing(topic);
  if (topic.use == TopicUse::positions || in.pipeline.kafka.topics.create) {
    operations.emplace_back("Create");
  }
  return grant(in, operations, on_topic(topic));
}

void judge_missing(const DoctorInput& in, const TopicFacts& topic, Gathered& gathered) {
  const std::optional<Error>& fault = topic.fault ? topic.fault : topic.creation;
  if (fault && !topic.exists && is_refused(*fault)) {
    gathered.add(Verdict::fail, fault->message, grant_all(in, topic));
  } else if (topic.fault) {
    gathered.add(Verdict::fail, topic.fault->message, "", topic.fault->hint);
  } else if (topic.sample && !topic.creation_asked) {
    gathered.add(Verdict::warn,
                 "no topic of events is known, and kafka.topics.create is false: rows wait until "
                 "the topic of their type is made",
                 "", "make the topics, and name them with --topic to have them looked at");
  } else if (!topic.exists && !topic.creation_asked) {
    gathered.add(Verdict::fail, quoted(topic.name) + " does not exist", create_command(in, topic));
  } else if (!topic.exists && topic.creation) {
    gathered.add(Verdict::fail, topic.creation->message, create_command(in, topic),
                 topic.creation->hint);
  }
}

Outcome topics(const DoctorInput& in) {
  if (!in.has_kafka()) return skipped(kNoKafka);
  Gathered gathered(admin_note(in));
  for (const TopicFacts& topic : in.kafka.topics) {
    if (topic.use != TopicUse::positions) judge_missing(in, topic, gathered);
  }
  std::string found = names_of(in);
  found = found.empty() ? "none yet; the relay may make them" : "there: " + found;
  if (in.kafka.topics_left_out > 0) {
    found += "; " + std::to_string(in.kafka.topics_left_out) + " more were not looked at";
  }
  return gathered.or_passed(found);
}

Outcome write_grants(const DoctorInput& in) {
  if (!in.has_kafka()) return skipped(kNoKafka);
  if (in.kafka.mock) return skipped("a mock cluster has no grants");
  Gathered gathered(admin_note(in));
  std::size_t asked = 0;
  for (const TopicFacts& topic : in.kafka.topics) {
    if (!topic.write_asked || topic.use == TopicUse::positions) continue;
    ++asked;
    if (!topic.write) continue;
    const bool refused = is_refused(*topic.write);
    gathered.add(Verdict::fail, topic.write->message,
                 refused ? grant(in, writing(topic), on_topic(topic)) : "",
                 refused ? "" : topic.write->hint);
  }
  if (asked == 0) return skipped("no topic is there to ask for (62)");
  return gathered.or_passed("may write to " + std::to_string(asked) +
                            " topic(s); nothing was written");
}

Outcome size_limits(const DoctorInput& in) {
  if (!in.has_kafka()) return skipped(kNoKafka);
  Gathered gathered(admin_note(in));
  std::size_t known = 0;
  const std::int64_t own = in.kafka.client_message_bytes_max;
  for (const TopicFacts& topic : in.kafka.topics) {
    if (!topic.exists || topic.use == TopicUse::positions) continue;
    if (topic.settings_fault) {
      gathered.add(
          Verdict::warn, topic.settings_fault->message,
          is_refused(*topic.settings_fault) ? grant(in, {"DescribeConfigs"}, on_topic(topic)) : "");
      continue;
    }
    ++known;
    if (topic.message_bytes_max && *topic.message_bytes_max < own) {
      gathered.add(Verdict::warn,
                   quoted(topic.name) + " takes records of " +
                       std::to_string(*topic.message_bytes_max) +
                       " bytes, and the relay sends up "
                       "to " +
                       std::to_string(own) + ": rows between become dead letters",
                   set_command(in, topic, "max.message.bytes=" + std::to_string(own)));
    }
  }
  if (known == 0) return gathered.or_passed("no topic is there to ask for (62)");
  return gathered.or_passed("records of up to " + std::to_string(own) +
                            " bytes (message.max.bytes) fit every topic");
}

void judge_replicas(const DoctorInput& in, const TopicFacts& topic, Gathered& gathered) {
  const std::int64_t least = topic.in_sync_min.value_or(1);
  const std::string of = quoted(topic.name) + " has " + std::to_string(topic.replicas) +
                         " replica(s), " + std::to_string(topic.in_sync) + " in sync, and " +
                         "min.insync.replicas " + std::to_string(least);
  const std::string more_replicas =
      "3 replicas with min.insync.replicas 2 survive the loss of one broker: "
      "kafka-reassign-partitions.sh adds replicas to a topic";
  if (topic.in_sync < least) {
    const bool enough = topic.replicas >= least;
    gathered.add(
        Verdict::fail, of + ": every record is refused",
        enough ? ""
               : set_command(in, topic, "min.insync.replicas=" + std::to_string(topic.replicas)),
        enough ? "bring the brokers of the missing replicas back" : more_replicas);
  } else if (topic.replicas < 2) {
    gathered.add(Verdict::warn, of + ": an acknowledged record stands on one broker only", "",
                 more_replicas);
  } else if (least < 2) {
    gathered.add(Verdict::warn, of + ": an acknowledgement may mean one broker only",
                 set_command(in, topic, "min.insync.replicas=2"));
  } else if (least >= topic.replicas) {
    gathered.add(Verdict::warn, of + ": one broker down, and every record is refused", "",
                 more_replicas);
  }
}

Outcome in_sync(const DoctorInput& in) {
  if (!in.has_kafka()) return skipped(kNoKafka);
  Gathered gathered(admin_note(in));
  std::size_t known = 0;
  for (const TopicFacts& topic : in.kafka.topics) {
    if (!topic.exists || !topic.settings_known) continue;
    ++known;
    judge_replicas(in, topic, gathered);
  }
  if (known == 0) return skipped("no topic is there whose settings may be read (62, 64)");
  return gathered.or_passed("the relay asks for acks=all, and every topic has replicas for that");
}

// Positions ------------------------------------------------------------------------------------

const TopicFacts* positions(const DoctorInput& in) {
  for (const TopicFacts& topic : in.kafka.topics) {
    if (topic.use == TopicUse::positions) return &topic;
  }
  return nullptr;
}

Outcome position_topic(const DoctorInput& in) {
  if (!stores_positions(in.pipeline)) return skipped("delivery.witness is false");
  if (!in.has_kafka()) return skipped(kNoKafka);
  const TopicFacts* topic = positions(in);
  if (topic == nullptr) return skipped(kNoKafka);
  Gathered gathered(admin_note(in));
  judge_missing(in, *topic, gathered);
  if (topic->exists && topic->settings_known && !topic->compacts) {
    gathered.add(
        in.pipeline.delivery.guarantee == Delivery::exactly_once ? Verdict::fail : Verdict::warn,
        quoted(topic->name) + " is not compacted: positions are lost when they are old",
        set_command(in, *topic, "cleanup.policy=compact"));
  }
  if (topic->exists && topic->partitions > 1) {
    gathered.add(Verdict::warn,
                 quoted(topic->name) + " has " + std::to_string(topic->partitions) +
                     " partitions: the relay uses the first only",
                 "");
  }
  return gathered.or_passed(quoted(topic->name) +
                            (topic->exists ? " is there, compacted" : " is made at the start"));
}

Outcome position_grants(const DoctorInput& in) {
  if (!stores_positions(in.pipeline)) return skipped("delivery.witness is false");
  if (!in.has_kafka()) return skipped(kNoKafka);
  if (in.kafka.mock) return skipped("a mock cluster has no grants");
  const TopicFacts* topic = positions(in);
  if (topic == nullptr || !topic->exists)
    return skipped("the position topic is not there yet (66)");
  Gathered gathered(admin_note(in));
  for (const std::optional<Error>& fault : {topic->write, topic->read}) {
    if (!fault) continue;
    const bool refused = is_refused(*fault);
    gathered.add(Verdict::fail, fault->message,
                 refused ? grant(in, writing(*topic), on_topic(*topic)) : "",
                 refused ? "" : fault->hint);
    if (refused) break;  // The command grants both.
  }
  return gathered.or_passed("may write and read " + quoted(topic->name));
}

Outcome transactions(const DoctorInput& in) {
  if (in.pipeline.delivery.guarantee != Delivery::exactly_once) {
    return skipped("delivery.guarantee is at_least_once");
  }
  if (!in.has_kafka()) return skipped(kNoKafka);
  Outcome outcome = skipped(
      "not asked: an answer would fence a relay that runs. Where Kafka has ACLs the relay needs "
      "WRITE and DESCRIBE on transactional ids that begin with outrider-");
  outcome.fix = grant_fix(in, {"Write", "Describe"},
                          "--transactional-id outrider- --resource-pattern-type prefixed");
  return outcome;
}

constexpr char kKafka[] = "Kafka";

constexpr std::array kKafkaRows = {
    CheckRow{60, kKafka, "brokers reachable", reachable},
    CheckRow{61, kKafka, "producer id", producer_id},
    CheckRow{62, kKafka, "topics", topics},
    CheckRow{63, kKafka, "right to write", write_grants},
    CheckRow{64, kKafka, "size limits", size_limits},
    CheckRow{65, kKafka, "replicas and acks", in_sync},
    CheckRow{66, kKafka, "position topic", position_topic},
    CheckRow{67, kKafka, "rights on positions", position_grants},
    CheckRow{68, kKafka, "transactional id", transactions},
};

}  // namespace

std::span<const CheckRow> kafka_checks() { return kKafkaRows; }

}  // namespace outrider
