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
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/base/result.h"
#include "outrider/model/change.h"
#include "outrider/model/dead_letter.h"
#include "outrider/model/kafka_record.h"
#include "outrider/relay/position.h"

namespace outrider {

enum class SourceState : std::uint8_t {
  closed,
  opening,    ///< Connecting, checking, creating.
  asking,     ///< The slot is missing: allow_creation() or close().
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

  /// The bytes of the change that next() just refused with kind poison; valid until the next call.
  virtual std::string_view refused_bytes() const = 0;

  /// While reading is off the source takes nothing from the socket, but still drives.
  virtual void set_reading(bool on) = 0;

  /// Queue a status update to the server. Only in state streaming; never blocks.
  virtual Result<> send_status(const StandbyStatus& status, Now now) = 0;

  /// Orderly end: CopyDone after all queued statuses; StreamEnd follows through next().
  virtual void finish() = 0;

  /// Drop the connection at once.
  virtual void close() = 0;

  /// In state asking, and from StreamStart on: whose slot this is.
  virtual const SlotIdentity& identity() const = 0;
  /// Where that timeline ended in the server's history; nothing if it is no ancestor.
  virtual std::optional<Lsn> fork_of(std::uint32_t timeline) const = 0;
  /// In state asking: where the server's WAL ends.
  virtual Lsn wal_end() const = 0;
  /// In state asking: make the slot.
  virtual void allow_creation() = 0;

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

/// Only from a transactional sink, for every record before its Delivered: the broker took it into
/// the open transaction. Tells a record sent alone from a refused one before the commit.
struct Accepted {
  std::uint64_t sequence = 0;
};

/// The broker or the client refused the record, or nobody knows. `error.kind` says which:
/// poison (the record's fault), configuration (topic or permission), transient (outcome unknown).
struct Refused {
  std::uint64_t sequence = 0;
  Error error;
  std::string event_id;  ///< As the record's header says; a batch is refused whole, so this may be
                         ///< an innocent neighbour of the record at fault.
  std::string topic = {};  ///< Of the record.
};

/// The producer as a whole cannot go on (librdkafka's fatal errors); restart() makes a new one.
/// Always follows Refused: what was handed over behind a refused record does not get in.
struct SinkLost {
  Error error;
};

using SinkReport = std::variant<Delivered, Accepted, Refused, SinkLost>;

/// Where records go.
class EventSink {
 public:
  virtual ~EventSink() = default;

  /// Serve topic look-ups, logs and statistics. Each turn. Errors end the pipeline.
  virtual Result<> drive(Now now) = 0;

  /// Hand over one record. All bytes are copied or owned before the call returns. On an error
  /// nothing was taken; kind poison: the row's fault, this record can never be sent (too large,
  /// ill-dated, illegal topic name); kind configuration: the topic's fault (missing, not
  /// authorised), asked about again inside, so that a later call may succeed.
  virtual Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence,
                                        Now now) = 0;

  /// Take one report; false when there is none.
  virtual bool next_report(SinkReport& report) = 0;

  /// Throw away everything in flight and begin anew; no report of an earlier sequence follows.
  virtual void restart(Now now) = 0;

  /// Records become visible by transactions: Accepted comes before Delivered, mark() matters.
  virtual bool transactional() const { return false; }

  // ---- positions kept beside the records (relay/position.h): the defaults are for none ----

  /// The relay holds the slot now: read what is stored about it and, with transactions, fence
  /// whoever produced for it before. After each start of a stream and after each restart().
  virtual void open_session(const SlotIdentity& identity, Now now) {
    static_cast<void>(identity);
    static_cast<void>(now);
  }
  /// The session is open: stored() holds, produce() may be called. Errors come from drive().
  virtual bool session_open() const { return true; }
  /// What was stored when the session was opened; nothing: never anything (for any identity of
  /// this slot name and database).
  virtual std::optional<StoredPosition> stored() const { return std::nullopt; }

  /// All records up to this point were handed over. `whole`: at a transaction's end; else within
  /// one. A sink with transactions may end one here; it reports records as delivered only when
  /// their transaction is committed together with a point that covers them.
  virtual void mark(const ResumePoint& point, bool whole, Now now) {
    static_cast<void>(point);
    static_cast<void>(whole);
    static_cast<void>(now);
  }

  /// The slot shall be confirmed up to `lsn`, which the relay has flushed, as soon as
  /// confirm_limit() allows it. Cheap; the sink decides when to write (about once a second, and
  /// ahead where that is allowed).
  virtual void reserve(Lsn lsn, Now now) {
    static_cast<void>(lsn);
    static_cast<void>(now);
  }
  /// The last position of this session: nothing past it will be confirmed. Once it is written down
  /// confirm_limit() is this very position.
  virtual void reserve_exactly(Lsn lsn, Now now) {
    static_cast<void>(lsn);
    static_cast<void>(now);
  }
  /// By which name this process signs what it stores.
  virtual std::string_view writer() const { return {}; }
  /// The slot may be confirmed up to here: what is durable says so.
  virtual Lsn confirm_limit() const { return Lsn::max(); }

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
  /// A row left its place. `event` may be partly empty.
  virtual void on_dead_letter(const OutboxEvent& event, const RowPlace& row,
                              DeadLetterReason reason, const Error& error) = 0;
  /// A batch was refused: its rows go again, one by one.
  virtual void on_isolation(const Error& error, std::size_t suspects) = 0;
  /// Rows wait because of a topic, or because too many left; told when the reason changes.
  virtual void on_rows_held(const std::string& why) = 0;
  /// What the judge of the slot wants people to know.
  virtual void on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) = 0;
  /// A dead letter was sent again: delivered, or refused once more.
  virtual void on_retried(std::int64_t number, const std::string& event_id,
                          const Error* refused) = 0;
  /// Every record of one PostgreSQL transaction is acknowledged.
  virtual void on_transaction_acked(WallTime commit_time, std::uint64_t records, Now now) = 0;
  /// So many transactions became acknowledged at once; the first record of the oldest was handed
  /// over at `since`.
  virtual void on_group_acked(MonoTime since, std::uint64_t transactions, Now now) {
    static_cast<void>(since);
    static_cast<void>(transactions);
    static_cast<void>(now);
  }
  /// The pipeline ends because of this.
  virtual void on_stop_reason(const Error& error) = 0;
};

}  // namespace outrider
