#include "postgres/conninfo.h"

#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

namespace outrider {
namespace {

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> items(1);
  for (char c : text) {
    if (c == ',') {
      items.emplace_back();
    } else {
      items.back() += c;
    }
  }
  return items;
}

void rotate_list(std::string& text, std::size_t rotation) {
  std::vector<std::string> items = split_commas(text);
  if (items.size() < 2) {
    return;
  }
  std::rotate(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(rotation % items.size()),
              items.end());
  text.clear();
  for (const std::string& item : items) {
    text += (&item == &items.front() ? "" : ",") + item;
  }
}

void add_keepalives(std::map<std::string, std::string>& values, std::chrono::milliseconds dead) {
  // Idle third, then probes over the rest: about `dead` in all.
  auto seconds = std::max<std::chrono::seconds::rep>(
      std::chrono::duration_cast<std::chrono::seconds>(dead).count(), 4);
  values.try_emplace("keepalives", "1");
  values.try_emplace("keepalives_idle", std::to_string(seconds / 4));
  values.try_emplace("keepalives_interval", std::to_string(seconds / 4));
  values.try_emplace("keepalives_count", "3");
  values.try_emplace("tcp_user_timeout", std::to_string(dead.count()));
}

}  // namespace

Result<std::map<std::string, std::string>> connection_parameters(const std::string& dsn,
                                                                 const ConnectionOptions& options,
                                                                 std::size_t rotation) {
  char* complaint = nullptr;
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(dsn.c_str(), &complaint), &PQconninfoFree);
  PQfreemem(complaint);  // It may quote a piece of a password.
  if (parsed == nullptr) {
    return fail(ErrorKind::configuration,
                "\"" + options.dsn_name + "\" is no valid PostgreSQL connection string",
                "write it as postgresql://user@host:port/database or as key=value pairs, with "
                "special characters percent-encoded or quoted");
  }
  std::map<std::string, std::string> values;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) {
      values[option->keyword] = option->val;
    }
  }
  bool several = false;
  for (const char* list : {"host", "hostaddr", "port"}) {
    if (auto found = values.find(list); found != values.end()) {
      several = several || found->second.find(',') != std::string::npos;
      rotate_list(found->second, rotation);
    }
  }
  add_keepalives(values, options.dead_after);
  values["client_encoding"] = "UTF8";
  if (options.durable_writes && several) {
    values.try_emplace("target_session_attrs", "read-write");
  }
  if (options.replication) {
    values["replication"] = "database";
    values["application_name"] = options.application_name;
  } else {
    values.erase("replication");
    values.try_emplace("application_name", options.application_name);
  }
  values.erase("connect_timeout");  // libpq leaves it to the caller of PQconnectPoll.
  return values;
}

}  // namespace outrider
