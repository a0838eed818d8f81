// StreamWatch: the control connection's work while the stream runs.
//
// Asks once in a while whether the walsender counts as synchronous (then every commit of the
// database would wait for us: leave at once) and what it is doing (so that silence can be judged),
// and answers look-ups of partitions in between. Uses, does not own, the control connection: opens
// it again when it is lost, without disturbing the stream; only a server that shuts down ends the
// stream. Thread: loop. Errors: whatever drive() returns must close the stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "postgres/connection.h"
#include "postgres/notes.h"

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
  StreamWatch(Connection& control, const SourceConfig& source, const NoteSink& note);

  void begin(int walsender_pid, std::string application_name, Now now);
  void end();

  Result<> drive(Now now);

  /// Ask the catalogue once the connection is free; asked again if the connection is lost.
  void look_up(std::string sql) { lookup_ = std::move(sql); }
  std::optional<QueryResult> take_lookup();

  /// Ask soon; `activity_since` tells when the answer is there.
  void ask_now(Now now) { next_ask_ = now.mono; }
  WalsenderActivity activity_since(MonoTime asked) const;

  std::optional<MonoTime> deadline() const;
  std::uint64_t reconnects() const { return reconnects_; }

 private:
  enum class Asking : std::uint8_t { nothing, state, lookup };

  Result<> on_control_lost(const Error& error, Now now);
  Result<> on_answer(Answer answer, Now now);
  Result<> on_state(const QueryResult& rows, Now now);
  void release_waiting_commits(Now now);
  Result<> ask(Now now);
  std::string state_sql() const;

  Connection& control_;
  const SourceConfig& source_;
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
  WalsenderActivity activity_ = WalsenderActivity::unknown;
  int gone_answers_ = 0;
  bool shutdown_suspected_ = false;
  bool down_noted_ = false;
  bool fresh_connection_ = false;
  std::uint64_t reconnects_ = 0;
};

}  // namespace outrider
