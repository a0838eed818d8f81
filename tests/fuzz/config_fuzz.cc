// Any text as a configuration file: loads or is refused, never crashes, and what loads prints as
// text that loads again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "config/layers.h"
#include "outrider/base/check.h"
#include "outrider/config/load.h"
#include "outrider/config/secrets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  (void)outrider::mask_conninfo(text);
  outrider::Result<outrider::LoadedConfig> loaded = outrider::load_config_text("fuzz", text);
  if (loaded) {
    std::string printed = outrider::effective_config_text(*loaded);
    OUTRIDER_CHECK(outrider::load_config_text("printed", printed).has_value(),
                   "an effective configuration must load again");
  }
  return 0;
}
