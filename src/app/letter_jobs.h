// LetterJob: one command about dead letters, carried out a piece a turn.
//
// While a job reads it is the only one at its place (ControlCommands queues them). It writes to the
// client only while there is room, and never waits. A client that goes away ends list and
// discard; a retry that has begun goes on without it. Thread: loop. The target and the server
// outlive the job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/control_target.h"
#include "outrider/control/control_server.h"

namespace outrider {

enum class LetterCommand : std::uint8_t { list, show, retry, discard, release };

struct LetterOrder {
  LetterCommand command = LetterCommand::list;
  DeadLetterFilter filter;
  std::string topic;     ///< Of retry: send there.
  bool dry_run = false;  ///< List what would be done.
};

class LetterJob {
 public:
  virtual ~LetterJob() = default;
  /// Go on; true when there is nothing left to do, also for a client that is gone. `at_place`:
  /// false while another job reads.
  virtual bool step(bool at_place, Now now) = 0;
  /// No other job may be at the place.
  virtual bool reads() const = 0;
  /// When step() is due although no descriptor wakes the loop.
  virtual MonoTime deadline() const = 0;
};

std::unique_ptr<LetterJob> make_letter_job(ControlServer& server, std::uint64_t session,
                                           ControlTarget& target, LetterOrder order, Now now);

/// One letter as JSON; `whole`: with key, payload, headers and the columns as they came.
void append_letter(JsonWriter& json, const StoredLetter& letter, bool whole);

}  // namespace outrider
