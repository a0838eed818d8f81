#include "outrider/control/control_request.h"

#include <utility>

#include "outrider/base/json_reader.h"
#include "outrider/base/json_writer.h"

namespace outrider {
namespace {

constexpr char kHint[] = "use the outrider of the same version as the running relay";

tl::unexpected<Error> malformed(std::string why) {
  return fail(ErrorKind::configuration, "the request is malformed: " + std::move(why), kHint);
}

/// The text of a value that may stand in an argument; false for null, fractions and nested ones.
bool text_of(const JsonValue& value, std::string& text) {
  switch (value.kind) {
    case JsonValue::Kind::string:
      text = value.text;
      return true;
    case JsonValue::Kind::number:
      text = value.text;
      return text.find_first_of(".eE") == std::string::npos;
    case JsonValue::Kind::boolean:
      text = value.truth ? "true" : "false";
      return true;
    case JsonValue::Kind::null:
    case JsonValue::Kind::nested:
      return false;
  }
  return false;
}

class RequestReader {
 public:
  explicit RequestReader(std::span<char> line) : json_(line) {}

  Result<ControlRequest> read() {
    bool first = true;
    std::string_view key;
    if (json_.open('{')) {
      while (json_.next_member(first, key)) {
        if (!member(std::string(key))) {
          break;
        }
      }
      if (json_.ok() && why_.empty()) {
        (void)json_.finish();
      }
    }
    if (!json_.ok()) {
      return malformed(std::string(json_.why()) + " at byte " + std::to_string(json_.at()));
    }
    if (!why_.empty()) {
      return malformed(why_);
    }
    if (version_ != std::to_string(kControlVersion)) {
      return fail(ErrorKind::configuration,
                  "protocol version \"" + version_ + "\" is not known, this relay speaks " +
                      std::to_string(kControlVersion),
                  kHint);
    }
    if (request_.command.empty()) {
      return malformed("it has no command");
    }
    return std::move(request_);
  }

 private:
  bool member(const std::string& key) {
    if (key == "arguments") {
      return arguments();
    }
    JsonValue value;
    if (!json_.value(value)) {
      return false;
    }
    if (key == "v" && value.kind == JsonValue::Kind::number) {
      version_ = value.text;
    } else if (key == "command" && value.kind == JsonValue::Kind::string) {
      request_.command = value.text;
    } else {
      why_ = "\"" + key + "\" is unknown or of the wrong type";
    }
    return why_.empty();
  }

  bool arguments() {
    bool first = true;
    std::string_view key;
    if (!json_.open('{')) {
      return false;
    }
    while (json_.next_member(first, key)) {
      const std::string name(key);
      const auto [argument, is_new] = request_.arguments.try_emplace(name);
      if (!is_new) {
        why_ = "argument \"" + name + "\" is there twice";
        return false;
      }
      if (!values(name, argument->second)) {
        return false;
      }
    }
    return json_.ok();
  }

  bool values(const std::string& name, std::vector<std::string>& texts) {
    if (!json_.at_bracket('[')) {
      return one(name, texts);
    }
    bool first = true;
    (void)json_.open('[');
    while (json_.next_element(first)) {
      if (!one(name, texts)) {
        return false;
      }
    }
    return json_.ok();
  }

  bool one(const std::string& name, std::vector<std::string>& texts) {
    JsonValue value;
    if (!json_.value(value)) {
      return false;
    }
    if (!text_of(value, texts.emplace_back())) {
      why_ = "argument \"" + name + "\" is neither a text nor a whole number nor true or false";
    }
    return why_.empty();
  }

  JsonReader json_;
  ControlRequest request_;
  std::string version_ = "none";
  std::string why_;
};

}  // namespace

Result<ControlRequest> parse_control_request(std::span<char> line) {
  return RequestReader(line).read();
}

std::string control_request_line(std::string_view command, const ControlArguments& arguments) {
  JsonWriter json;
  json.open_object().name("v").number(std::int64_t{kControlVersion});
  json.name("command").text(command).name("arguments").open_object();
  for (const auto& [name, texts] : arguments) {
    json.name(name).open_array();
    for (const std::string& text : texts) {
      json.text(text);
    }
    json.close_array();
  }
  return json.close_object().close_object().json();
}

std::string control_error_line(const Error& error) {
  JsonWriter json;
  json.open_object().name("error").open_object();
  json.name("kind").text(to_string(error.kind)).name("message").text(error.message);
  json.name("hint").text(error.hint);
  if (!error.code.empty()) {
    json.name("code").text(error.code);
  }
  return json.close_object().close_object().json();
}

}  // namespace outrider
