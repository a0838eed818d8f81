// ControlTarget: one pipeline as the commands of the control socket see it.
//
// What a command may ask of a pipeline and no more, so that the commands can be tested without a
// database and a broker. Thread: loop. The adapter over a real pipeline is in control_status.h.
#pragma once

#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/json_writer.h"
#include "outrider/relay/dead_letter_place.h"
#include "outrider/relay/dead_letter_retry.h"

namespace outrider {

class ControlTarget {
 public:
  virtual ~ControlTarget() = default;

  virtual const std::string& name() const = 0;
  /// One JSON object; its fields are documented in docs/adr/0016-control-socket.md.
  virtual void append_status(JsonWriter& json, Now now) const = 0;

  virtual void pause(Now now) = 0;
  virtual void resume(Now now) = 0;

  /// The commands' seat at the table of dead letters; null when there is none.
  virtual DeadLetterPlace* letters() = 0;
  /// Why there is none.
  virtual Error no_letters() const = 0;

  virtual bool start_retry(const RetryRequest& request) = 0;
  virtual RetryProgress retry_progress() const = 0;
};

}  // namespace outrider
