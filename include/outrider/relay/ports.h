// The ports of the core: where changes come from, where records go, who is told.
//
// The core pulls. Once a turn it drives both sides, takes what the sink has to report, then pulls
// changes until its budget or its flow gate says stop. Neither port calls back into the core.
// Thread: everything here belongs to the loop thread and nothing here may block.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/base/result.h"
#include "outrider/model/change.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

enum class SourceState : std::uint8_t {
  closed,
  opening,    ///< Connecting, checking, creating.
  waiting,    ///< Healthy standby: the slot is held by another relay.
  streaming,  ///< StreamStart has been or can be pulled.
  finishing,  ///< CopyDone sent, the server's not yet seen.
};

struct StandbyStatus {
  Lsn received_lsn;
  Lsn flushed_lsn;
};

/// Where changes come from: the replication stream, a snapshot, a polling query.
class ChangeSource {
 public:
  virtual ~ChangeSource() = default;

  /// Begin to connect, at once returning. `resume_from`: stream from this position (the relay's own
  /// flushed position); nothing: from the slot's confirmed position. Only in state closed.
  virtual void open(std::optional<Lsn> resume_from, Now now) = 0;

  /// Make progress with whatever is under way: connecting, checks, unsent bytes. Each turn.
  /// An error means the source is closed now; its kind says what to do.
  virtual Result<> drive(Now now) = 0;

  /// Pull the next change; false when there is none now. Views stay valid until the next call.
  /// An error of kind poison leaves the source open (the row is at fault), and so may one of kind
  /// fatal (its table is at fault), so that what came before can be confirmed; others close it.
  virtual Result<bool> next(Change& change, Now now) = 0;

  /// While reading is off the source takes nothing from the socket, but still drives.
  virtual void set_reading(bool on) = 0;

  /// Queue a status update to the server. Only in state streaming; never blocks.
  virtual Result<> send_status(const StandbyStatus& status, Now now) = 0;

  /// Orderly end: CopyDone after all queued statuses; StreamEnd follows through next().
  virtual void finish() = 0;

  /// Drop the connection at once.
  virtual void close() = 0;

  virtual SourceState state() const = 0;

  /// True if next() may have a change without waiting for the socket.
  virtual bool has_buffered() const = 0;

  /// When drive() or next() wants to be called, at the latest, without any descriptor being ready.
  virtual std::optional<MonoTime> deadline() const = 0;
};

enum class ProduceStatus : std::uint8_t {
  accepted,  ///< A report with this sequence will come (unless the sink is restarted).
  busy,      ///< Nothing was taken: queue full, topic being looked up, waiting for a topic.
};

struct Delivered {
  std::uint64_t sequence = 0;
};

/// The broker or the client refused the record, or nobody knows. `error.kind` says which:
/// poison (the record's fault), configuration (topic or permission), transient (outcome unknown).
struct Refused {
  std::uint64_t sequence = 0;
  Error error;
  std::string event_id;  ///< As the record's header says; a batch is refused whole, so this may be
                         ///< an innocent neighbour of the record at fault.
};

/// The producer as a whole cannot go on (librdkafka's fatal errors); restart() makes a new one.
struct SinkLost {
  Error error;
};

using SinkReport = std::variant<Delivered, Refused, SinkLost>;

/// Where records go.
class EventSink {
 public:
  virtual ~EventSink() = default;

  /// Serve topic look-ups, logs and statistics. Each turn. Errors end the pipeline.
  virtual Result<> drive(Now now) = 0;

  /// Hand over one record. All bytes are copied or owned before the call returns. An error of kind
  /// poison: this record can never be sent (too large, illegal topic name); nothing was taken.
  virtual Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence,
                                        Now now) = 0;

  /// Take one report; false when there is none.
  virtual bool next_report(SinkReport& report) = 0;

  /// Throw away everything in flight and begin anew; no report of an earlier sequence follows.
  virtual void restart(Now now) = 0;

  /// At least one broker has answered and no topic is being waited for.
  virtual bool healthy() const = 0;

  /// Why not healthy, for people; empty if healthy.
  virtual std::string trouble() const = 0;

  virtual std::optional<MonoTime> deadline() const = 0;
};

enum class Phase : std::uint8_t {
  starting,
  streaming,
  paused,
  backing_off,
  draining,   ///< Asked to stop: reading to the end of the transaction, waiting for acks.
  finishing,  ///< Everything acknowledged; CopyDone exchange.
  stopped,
};

const char* to_string(Phase phase);

/// Who is told. Implementations log and measure; they never influence the core.
class RelayObserver {
 public:
  virtual ~RelayObserver() = default;

  virtual void on_phase(Phase from, Phase to) = 0;
  /// The stream runs from here.
  virtual void on_stream_start(Lsn from, bool resumed) = 0;
  /// The link was lost; the next try comes after `delay`.
  virtual void on_source_lost(const Error& error, std::chrono::milliseconds delay) = 0;
  /// The producer is being replaced and the stream rewound to `rewind_to`.
  virtual void on_sink_restart(const Error& error, Lsn rewind_to) = 0;
  /// A row could not be decoded, routed or sent. `event` may be partly empty.
  virtual void on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) = 0;
  /// Every record of one PostgreSQL transaction is acknowledged.
  virtual void on_transaction_acked(WallTime commit_time, std::uint64_t records, Now now) = 0;
  /// The pipeline ends because of this.
  virtual void on_stop_reason(const Error& error) = 0;
};

}  // namespace outrider
