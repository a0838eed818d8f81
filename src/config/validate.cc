#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "config/layers.h"
#include "config/references.h"
#include "outrider/config/secrets.h"

namespace outrider {
namespace {

constexpr std::size_t kSlotBytesMax = 63;
constexpr int kPortMax = 65'535;
constexpr std::size_t kTopicBytesMax = 249;
constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un, unix(7).

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_pipeline_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '_' || c == '-'; });
}

// ReplicationSlotValidateName in PostgreSQL; NAMEDATALEN is 64.
bool is_slot_name(std::string_view name) {
  return !name.empty() && name.size() <= kSlotBytesMax &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_lower_or_digit(c) || c == '_'; });
}

bool is_port(std::string_view text, int least) {
  int number = -1;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} && end == text.data() + text.size() && number >= least &&
         number <= kPortMax;
}

bool is_listen_address(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) {
    return false;
  }
  std::string_view host = text.substr(0, colon);
  bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (!bracketed && host.find_first_of(":[] ") != std::string_view::npos) {
    return false;
  }
  return is_port(text.substr(colon + 1), 0);
}

/// The value may be a secret somebody put into the wrong line, so it is not shown.
bool is_broker(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !is_listen_address(text)) {
    return false;
  }
  return text.find_first_of("/@ \t") == std::string_view::npos &&
         is_port(text.substr(colon + 1), 1);
}

/// As the broker takes it (Topic.validate in Apache Kafka).
bool is_topic_name(std::string_view name) {
  return !name.empty() && name.size() <= kTopicBytesMax && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
                  c == '-';
         });
}

class Validator {
 public:
  Validator(const std::string& source, bool complete, LoadedConfig& loaded, Problems& problems)
      : source_(source), complete_(complete), loaded_(loaded), problems_(problems) {}

  void run() {
    const std::string& listen = loaded_.config.http.listen;
    if (!listen.empty() && !is_listen_address(listen)) {
      problem("http.listen", "found \"" + listen +
                                 "\"; allowed: host:port or [ipv6]:port with a port up to 65535, "
                                 "or an empty text for no HTTP");
    }
    control_socket(loaded_.config.control.socket);
    if (complete_ && loaded_.config.pipelines.empty() && !problems_.has("pipelines")) {
      problems_.add(source_, "pipelines",
                    "no pipeline is defined; write at least one, with name, source.dsn and "
                    "kafka.bootstrap_servers");
    }
    for (std::size_t i = 0; i < loaded_.config.pipelines.size(); ++i) {
      at_ = "pipelines[" + std::to_string(i) + "]";
      pipeline(i, loaded_.config.pipelines[i]);
    }
  }

 private:
  // Where the value was written, or else where its pipeline begins.
  std::string place_of(const std::string& path) const {
    if (auto found = loaded_.origins.find(path); found != loaded_.origins.end()) {
      return found->second.place();
    }
    auto found = loaded_.origins.find(at_);
    return found == loaded_.origins.end() ? source_ : found->second.place();
  }

  void problem(const std::string& path, const std::string& what) {
    if (!problems_.has(path)) {
      problems_.add(place_of(path), path, what);
    }
  }

  bool is_written(const std::string& path) const { return loaded_.origins.count(path) > 0; }

  void pipeline(std::size_t index, PipelineConfig& config) {
    if (complete_ && !problems_.has(at_)) {
      required_values(index, config);
    }
    names(config);
    exclusions(index, config);
    ordered_pair(".source.confirm_interval_ms", config.source.confirm_interval_ms,
                 ".source.status_interval_ms", config.source.status_interval_ms);
    if (config.source.evict_holder_after_ms != 0 &&
        config.source.evict_holder_after_ms < 2 * config.source.status_interval_ms) {
      problem(at_ + ".source.evict_holder_after_ms",
              "found \"" + std::to_string(config.source.evict_holder_after_ms) +
                  "\"; allowed: 0, or at least twice source.status_interval_ms (" +
                  std::to_string(2 * config.source.status_interval_ms) +
                  "), else a healthy holder would be evicted");
    }
    ordered_pair(".source.reconnect_first_ms", config.source.reconnect_first_ms,
                 ".source.reconnect_max_ms", config.source.reconnect_max_ms);
    brokers(config.kafka.bootstrap_servers);
    if (config.kafka.topics.replication_factor == 0) {
      problem(at_ + ".kafka.topics.replication_factor",
              "found \"0\"; allowed: -1 for the broker's default, or at least 1");
    }
    delivery(config);
    dead_letters(config);
  }

  void control_socket(const std::string& path) {
    if (!path.empty() && (path.front() != '/' || path.size() > kSocketPathBytesMax)) {
      problem("control.socket", "found \"" + path + "\"; allowed: an absolute path of at most " +
                                    std::to_string(kSocketPathBytesMax) +
                                    " bytes, or an empty text for no socket");
    }
  }

  void delivery(const PipelineConfig& config) {
    const DeliveryConfig& delivery = config.delivery;
    const bool exactly_once = delivery.guarantee == Delivery::exactly_once;
    topic_name(".delivery.position_topic", delivery.position_topic);
    if (exactly_once && !delivery.witness) {
      problem(at_ + ".delivery.witness",
              "exactly_once keeps its position in Kafka, which is the witness; remove "
              "\"witness: false\", or set guarantee: at_least_once");
    } else if (delivery.on_slot_lost == OnSlotLost::recreate && !delivery.witness) {
      problem(at_ + ".delivery.on_slot_lost",
              "without a witness nobody knows what a new slot leaves out; set witness: true, or "
              "on_slot_lost: stop");
    }
    ordered_pair(".delivery.transaction_ms", delivery.transaction_ms,
                 ".delivery.transaction_max_ms", delivery.transaction_max_ms);
    if (delivery.transaction_max_ms >= delivery.transaction_timeout_ms) {
      const std::string longest = ".delivery.transaction_max_ms";
      const std::string patience = ".delivery.transaction_timeout_ms";
      problem(at_ + (is_written(at_ + longest) ? longest : patience),
              "delivery.transaction_max_ms (" + std::to_string(delivery.transaction_max_ms) +
                  ") must be less than delivery.transaction_timeout_ms (" +
                  std::to_string(delivery.transaction_timeout_ms) +
                  "), or the broker gives up a transaction that is still being written");
    }
  }

  void dead_letters(const PipelineConfig& config) {
    const DeadLetterConfig& letters = config.dead_letters;
    ordered_pair(".dead_letters.retry_first_ms", letters.retry_first_ms,
                 ".dead_letters.retry_max_ms", letters.retry_max_ms);
    if (letters.topic.empty()) {
      return;
    }
    topic_name(".dead_letters.topic", letters.topic);
    if (letters.on_poison == OnPoison::park_key) {
      problem(at_ + ".dead_letters.on_poison",
              "park_key has to read the letters back, which a topic does not give; remove "
              "dead_letters.topic, or set on_poison: dead_letter");
    }
    if (letters.topic == config.delivery.position_topic) {
      problem(at_ + ".dead_letters.topic",
              "\"" + letters.topic +
                  "\" is delivery.position_topic, which is compacted: letters would be deleted; "
                  "name another topic");
    }
  }

  void topic_name(const std::string& key, const std::string& name) {
    if (!is_topic_name(name)) {
      problem(at_ + key, "found \"" + name +
                             "\"; allowed in the name of a topic: 1 to 249 of a-z, A-Z, 0-9, . _ "
                             "and -, but not . or ..");
    }
  }

  // What a reference stands for is known to the environment of the run only.
  void brokers(const SecretText& servers) {
    Result<Glyphs> glyphs = split_references(servers.raw);
    const bool written_out =
        glyphs && std::all_of(glyphs->begin(), glyphs->end(),
                              [](const Glyph& glyph) { return glyph.kind == ReferenceKind::none; });
    if (!written_out || servers.empty()) {
      return;
    }
    if (auto checked = check_bootstrap_servers(servers.raw); !checked) {
      problem(at_ + ".kafka.bootstrap_servers",
              checked.error().message + "; " + checked.error().hint);
    }
  }

  void required_values(std::size_t index, PipelineConfig& config) {
    for (const Option& option : options()) {
      if (!option.rule.required || !option.in_pipeline()) {
        continue;
      }
      Field field = option.field({&loaded_.config, &config, nullptr});
      auto* text = std::get_if<std::string*>(&field);
      auto* secret = std::get_if<SecretText*>(&field);
      if ((text != nullptr && (*text)->empty()) || (secret != nullptr && (*secret)->empty())) {
        problem(option.concrete_path(index), "is required and has no default");
      }
    }
  }

  void names(const PipelineConfig& config) {
    if (!is_pipeline_name(config.name)) {
      problem(at_ + ".name", "found \"" + config.name + "\"; allowed: a-z, 0-9, _ and -");
    }
    const std::string& slot = config.source.slot;
    if (!is_slot_name(slot)) {
      problem(at_ + ".source.slot", "found \"" + slot +
                                        "\"; allowed in the name of a replication slot: 1 to 63 of "
                                        "a-z, 0-9 and _");
    }
    unique(names_, config.name, ".name", "the name of");
    unique(slots_, slot, ".source.slot", "the slot of");
  }

  void unique(std::map<std::string, std::string>& seen, const std::string& value,
              const std::string& key, const std::string& whose) {
    if (value.empty()) {
      return;
    }
    auto [first, is_new] = seen.emplace(value, at_);
    if (!is_new) {
      problem(at_ + key, "\"" + value + "\" is already " + whose + " " + first->second +
                             "; each pipeline needs its own");
    }
  }

  void exclusions(std::size_t index, PipelineConfig& config) {
    for (const Option& option : options()) {
      if (option.rule.excluded_by.empty() || !is_written(option.concrete_path(index))) {
        continue;
      }
      const Option* other = find_option(option.rule.excluded_by);
      Field field = other->field({&loaded_.config, &config, nullptr});
      if (!(*std::get_if<std::string*>(&field))->empty()) {
        problem(option.concrete_path(index),
                "has no effect beside " + std::string(other->key()) + " (" +
                    loaded_.origin_of(other->concrete_path(index)).place() +
                    "); remove one of the two");
      }
    }
  }

  void ordered_pair(const std::string& low, std::int64_t low_value, const std::string& high,
                    std::int64_t high_value) {
    if (low_value <= high_value || problems_.has(at_ + high)) {
      return;
    }
    // Told at the one that was written; both written: at the lower one.
    const std::string& told = is_written(at_ + low) ? low : high;
    problem(at_ + told, low.substr(1) + " (" + std::to_string(low_value) +
                            ") must not be more than " + high.substr(1) + " (" +
                            std::to_string(high_value) + ")");
  }

  const std::string& source_;
  bool complete_;
  LoadedConfig& loaded_;
  Problems& problems_;
  std::string at_;
  std::map<std::string, std::string> names_;
  std::map<std::string, std::string> slots_;
};

}  // namespace

Result<> check_bootstrap_servers(std::string_view servers) {
  std::size_t number = 0;
  while (true) {
    ++number;
    const std::size_t comma = servers.find(',');
    std::string_view one = servers.substr(0, comma);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    one = one.substr(0, one.find_last_not_of(' ') + 1);
    if (!is_broker(one)) {
      const bool scheme = one.find("://") != std::string_view::npos;
      return fail(ErrorKind::configuration,
                  "broker " + std::to_string(number) + " of the list is no host:port" +
                      (scheme ? ", it begins with a scheme" : ""),
                  "write host:port[,host:port…] with ports from 1 to 65535" +
                      std::string(scheme ? "; for TLS or SASL set security.protocol in "
                                           "kafka.properties"
                                         : ""));
    }
    if (comma == std::string_view::npos) {
      return {};
    }
    servers.remove_prefix(comma + 1);
  }
}

void validate(const std::string& source, bool complete, LoadedConfig& loaded, Problems& problems) {
  Validator(source, complete, loaded, problems).run();
}

}  // namespace outrider
