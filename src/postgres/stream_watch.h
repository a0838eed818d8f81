// StreamWatch: the control connection's work while the stream runs.
//
// Asks once in a while whether the walsender counts as synchronous (then every commit of the
// database would wait for us: leave at once) and what it is doing (so that silence can be judged),
// asks about the slot for SlotWatch, looks at the catalogue for CatalogWatch, and answers look-ups
// of partitions in between. Uses, does not own, the control connection and both watches: opens it
// again when it is lost, without disturbing the stream; only a server that shuts down ends the
// stream, and a catalogue that drifted. Thread: loop. Errors: whatever drive() returns must close
// the stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "postgres/catalog_watch.h"
#include "postgres/connection.h"
#include "postgres/notes.h"
#include "postgres/slot_watch.h"

namespace outrider {

/// What the walsender was doing when last asked.
enum class WalsenderActivity : std::uint8_t {
  unknown,  ///< No answer newer than the question.
  working,  ///< Decoding or reading: it will answer when it gets to it.
  waiting,  ///< For us, or for new WAL: it would have answered.
  gone,     ///< No such process.
};

/// From pg_stat_activity's wait_event.
WalsenderActivity activity_of(bool exists, const std::string& wait_event);

class StreamWatch {
 public:
  /// The catalogue is looked at every so many watch_interval_ms.
  static constexpr int kCatalogTurns = 3;

  StreamWatch(Connection& control, const SourceConfig& source, CatalogWatch& catalog,
              SlotWatch& slot, const NoteSink& note);

  void begin(int walsender_pid, std::string application_name, Now now);
  void end();

  Result<> drive(Now now);

  /// Ask the catalogue once the connection is free; asked again if the connection is lost.
  void look_up(std::string sql) { lookup_ = std::move(sql); }
  std::optional<QueryResult> take_lookup();

  /// Ask soon; `activity_since` tells when the answer is there.
  void ask_now(Now now) { next_ask_ = now.mono; }
  WalsenderActivity activity_since(MonoTime asked) const;

  /// Look at the catalogue from now on.
  void watch_catalog(Now now);
  /// Look as soon as the connection is free; `looked_since` tells when the answer is there.
  void look_now(Now now) { next_look_ = now.mono; }
  bool looked_since(MonoTime asked) const { return answered_look_at_ >= asked; }

  /// The timeline that the server writes, when last asked; 0: not asked yet, or it is a standby.
  std::uint32_t timeline() const { return timeline_; }

  std::optional<MonoTime> deadline() const;
  std::uint64_t reconnects() const { return reconnects_; }

 private:
  enum class Asking : std::uint8_t { nothing, state, lookup, catalog, slot };

  Result<> on_control_lost(const Error& error, Now now);
  Result<> on_answer(Answer answer, Now now);
  Result<> on_state(const QueryResult& rows, Now now);
  Result<> on_catalog(const Answer& answer);
  void release_waiting_commits(Now now);
  Result<> ask(Now now);
  std::string state_sql() const;

  Connection& control_;
  const SourceConfig& source_;
  CatalogWatch& catalog_;
  SlotWatch& slot_;
  const NoteSink& note_;
  int walsender_pid_ = 0;
  std::string application_name_;
  Asking asking_ = Asking::nothing;
  std::optional<std::string> lookup_;
  std::optional<QueryResult> lookup_rows_;
  MonoTime next_ask_{};
  MonoTime next_open_{};
  MonoTime asked_at_{};
  MonoTime answered_question_at_{};
  std::optional<MonoTime> next_look_;  ///< Nothing: the catalogue is not watched yet.
  MonoTime looked_at_{};
  MonoTime answered_look_at_{};
  std::string look_trouble_;  ///< The last look's error, told once.
  WalsenderActivity activity_ = WalsenderActivity::unknown;
  std::uint32_t timeline_ = 0;
  int gone_answers_ = 0;
  bool shutdown_suspected_ = false;
  bool down_noted_ = false;
  bool fresh_connection_ = false;
  std::uint64_t reconnects_ = 0;
};

}  // namespace outrider
