#include "app/forget_command.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/pipeline.h"
#include "kafka/forget_position.h"
#include "outrider/config/secrets.h"
#include "postgres/conninfo.h"

namespace outrider {
namespace {

Result<const PipelineConfig*> chosen(const Config& config, const std::string& name) {
  if (name.empty() && config.pipelines.size() == 1) {
    return &config.pipelines.front();
  }
  const auto found = std::find_if(config.pipelines.begin(), config.pipelines.end(),
                                  [&](const PipelineConfig& one) { return one.name == name; });
  if (found == config.pipelines.end()) {
    return fail(ErrorKind::configuration,
                name.empty() ? "the configuration has several pipelines"
                             : "there is no pipeline \"" + name + "\"",
                "name one with --pipeline");
  }
  return &*found;
}

Result<std::string> database_of(const PipelineConfig& pipeline, const ForgetFlags& flags) {
  if (!flags.database.empty()) {
    return flags.database;
  }
  OUTRIDER_TRY(const std::string conninfo, resolve_conninfo(pipeline.source.dsn));
  OUTRIDER_TRY(const auto parameters, connection_parameters(conninfo, {}, 0));
  for (const char* name : {"dbname", "user"}) {
    const auto at = parameters.find(name);
    if (at != parameters.end() && !at->second.empty()) {
      return at->second;
    }
  }
  return fail(ErrorKind::configuration, "source.dsn does not name a database",
              "name it with --database");
}

}  // namespace

Result<> forget_command(const LoadRequest& request, const ForgetFlags& flags) {
  OUTRIDER_TRY(const LoadedConfig loaded, load_config(request));
  OUTRIDER_TRY(const PipelineConfig* pipeline, chosen(loaded.config, flags.pipeline));
  OUTRIDER_TRY(const ProducerSettings settings, producer_settings(*pipeline));
  SlotIdentity identity;
  OUTRIDER_TRY(identity.database, database_of(*pipeline, flags));
  identity.slot = pipeline->source.slot;
  OUTRIDER_TRY(forget_position(settings, identity));
  std::printf(
      "the position of slot \"%s\" in database \"%s\" is forgotten: the next start adopts the slot "
      "as it is, and rows it has passed are not looked for\n",
      identity.slot.c_str(), identity.database.c_str());
  return {};
}

}  // namespace outrider
