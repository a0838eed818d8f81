// SlotWatch: asks the server about our slot and its WAL, over a connection that others own.
//
// Says when it is due and what to ask; whoever has the control connection sends it and hands the
// answer back. The views it reads are open to every role (no pg_monitor needed); columns are asked
// for by the server's version. Thread: loop. Errors: an answer that is one is told once and leaves
// no value; it never ends a stream. Source: PostgreSQL manual, "pg_replication_slots",
// "pg_stat_replication_slots".
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/model/slot_health.h"
#include "postgres/connection.h"
#include "postgres/notes.h"

namespace outrider {

/// One row, whether the slot exists or not.
std::string slot_health_sql(const std::string& slot, int server_version);

/// Nothing if the answer does not have that form.
std::optional<SlotHealth> read_slot_health(const QueryResult& rows, Now asked);

class SlotWatch {
 public:
  SlotWatch(std::string slot, std::chrono::milliseconds interval, const NoteSink& note)
      : slot_(std::move(slot)), interval_(interval), note_(note) {}

  MonoTime deadline() const { return next_; }
  bool due(MonoTime now) const { return now >= next_; }
  /// The statement to send now; its answer goes to take().
  std::string ask(int server_version, Now now);
  void take(const Answer& answer);
  /// The connection is lost: what it measured is not known any more.
  void lost();

  const std::optional<SlotHealth>& health() const { return health_; }

 private:
  const std::string slot_;
  const std::chrono::milliseconds interval_;
  const NoteSink& note_;
  MonoTime next_{};
  Now asked_{};
  std::optional<SlotHealth> health_;
  std::string trouble_;  ///< The last error, told once.
};

}  // namespace outrider
