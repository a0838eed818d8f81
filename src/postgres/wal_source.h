// WalSource: a replication slot as the relay's ChangeSource.
//
// Opens a control connection, runs the preflight on it, waits as a standby while another relay
// holds the slot, creates what it was told to create, opens the walsender's connection and streams.
// The control connection stays open beside the stream (StreamWatch). Owns both connections, the
// decoder and the partition map; the last two live as long as the source, across connections.
// Outlived by the loop. Thread: loop; nothing blocks. Errors that end a connection close the
// source; a server error that comes back at the same place kSameErrorMax times is `fatal`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "outrider/base/stage_timer.h"
#include "outrider/config/config.h"
#include "outrider/decode/decoder.h"
#include "outrider/loop/event_loop.h"
#include "outrider/relay/ports.h"
#include "postgres/catalog_watch.h"
#include "postgres/connection.h"
#include "postgres/notes.h"
#include "postgres/partition_map.h"
#include "postgres/preflight.h"
#include "postgres/replication_protocol.h"
#include "postgres/replication_stream.h"
#include "postgres/silence_judge.h"
#include "postgres/slot_watch.h"
#include "postgres/stream_watch.h"

namespace outrider {

class WalSource final : public ChangeSource {
 public:
  static constexpr int kSameErrorMax = 5;

  /// `leave_nothing` (a dry run): a missing slot is made as a temporary one, which ends with the
  /// connection, and a missing publication is refused rather than made.
  /// Errors: `configuration` for a former partition that is no table name.
  static Result<std::unique_ptr<WalSource>> create(EventLoop& loop, const SourceConfig& source,
                                                   const OutboxConfig& outbox,
                                                   const RouteConfig& route, const DsnProvider& dsn,
                                                   NoteSink note, bool leave_nothing = false);

  void open(std::optional<Lsn> resume_from, Now now) override;
  Result<> drive(Now now) override;
  Result<bool> next(Change& change, Now now) override;
  std::string_view refused_bytes() const override { return refused_bytes_; }
  void set_reading(bool on) override;
  Result<> send_status(const StandbyStatus& status, Now now) override;
  void finish() override;
  void close() override;
  const SlotIdentity& identity() const override { return identity_; }
  std::optional<Lsn> fork_of(std::uint32_t timeline) const override;
  Lsn wal_end() const override { return server_wal_end_; }
  void allow_creation() override;
  SourceState state() const override;
  bool has_buffered() const override;
  std::optional<MonoTime> deadline() const override;

  /// What the last successful preflight found; for logs, metrics and the witness.
  const StartPlan& plan() const { return plan_; }
  int walsender_pid() const { return walsender_pid_; }
  std::uint64_t opens() const { return opens_; }  ///< Less one: reconnects of the stream.
  std::uint64_t control_reconnects() const { return watch_.reconnects(); }
  bool slot_created() const { return slot_created_; }  ///< By this process.
  /// What the server says about the slot, asked every watch_interval_ms while streaming and while
  /// waiting; nothing while there is no control connection.
  const std::optional<SlotHealth>& slot_health() const { return slot_watch_.health(); }
  /// Estimates of the time spent on taking messages from the connection, and on decoding them.
  double receive_seconds() const { return receive_time_.seconds(); }
  double decode_seconds() const { return decode_time_.seconds(); }

 private:
  enum class Step : std::uint8_t {
    closed,
    control_connecting,
    preflight,
    preparing,
    waiting,
    stream_connecting,
    identifying,
    reading_history,
    asking,
    arming,
    creating_slot,
    rechecking,
    starting,
    streaming,
    finishing,
  };

  WalSource(EventLoop& loop, const SourceConfig& source, const OutboxConfig& outbox,
            const RouteConfig& route, const DsnProvider& dsn, NoteSink note,
            PartitionMap partitions, bool leave_nothing);

  // wal_source_open.cc: from closed to streaming. Each step says whether it moved on.
  Result<> drive_opening(Now now);
  Result<bool> advance(Now now);
  Result<bool> on_control_connected(Now now);
  Result<bool> on_preflight(Now now);
  Result<bool> on_judged(Now now);
  Result<> check_dry_run() const;
  Result<bool> begin_preparing(Now now);
  Result<bool> on_preparing(Now now);
  Result<bool> on_waiting(Now now);
  Result<bool> begin_preflight(Now now);
  Result<bool> send_statement(Now now);
  Result<bool> on_stream_connected(Now now);
  Result<bool> on_identified(Now now);
  Result<bool> on_history(Now now);
  Result<> check_promotion() const;
  Result<bool> begin_slot(Now now);
  Result<bool> on_allowed(Now now);
  Result<bool> on_armed(Now now);
  Result<bool> on_creating_slot(Now now);
  Result<bool> on_slot_refused(const ServerError& error, Now now);
  Result<> watch_slot_creation(Now now);
  Result<bool> begin_recheck(Now now);
  Result<bool> on_rechecked(Now now);
  Result<bool> on_started(Now now);
  Result<> choose_decoder();
  void wait_for_slot(Now now, const std::string& holder_pid);
  Error replication_error(const ServerError& error) const;

  // wal_source.cc: the stream, and the slot's health beside the wait.
  Result<> ask_about_slot(Now now);
  bool take_slot_answer(const Answer& answer);
  Result<> drive_streaming(Now now);
  Result<> judge_silence(Now now);
  Result<bool> pull_change(Change& change, Now now);
  Result<bool> on_message(std::span<char> message, Change& change, Now now);
  bool on_keepalive(const PrimaryKeepalive& keepalive, Change& change, Now now);
  tl::unexpected<Error> close_with(Error error);
  Result<bool> on_change(Change& change, Now now);
  bool must_look_first(const Insert& insert, Now now);
  Result<bool> on_held(Change& change, Now now);
  Result<bool> on_lookup(Change& change);
  Error with_last_good(Error error) const;
  void apply_reading();
  Error judge_repeated(Error error);
  void note(LogLevel level, std::string message,
            std::vector<std::pair<std::string, std::string>> fields = {}) const;

  SourceConfig source_;
  OutboxConfig outbox_;
  RouteConfig route_;
  NoteSink note_;
  bool leave_nothing_ = false;
  Connection control_;
  ReplicationStream stream_;
  CatalogWatch catalog_;
  SlotWatch slot_watch_;
  StreamWatch watch_;
  PartitionMap partitions_;
  SilenceJudge silence_;

  Step step_ = Step::closed;
  std::optional<Lsn> resume_from_;
  std::unique_ptr<Preflight> preflight_;
  StartPlan plan_;
  std::size_t statement_ = 0;
  std::string application_name_;

  // Waiting for the slot, or for its creation.
  MonoTime next_poll_{};
  MonoTime next_note_{};
  bool recheck_sent_ = false;
  bool slot_asked_ = false;  ///< SlotWatch's question is under way while waiting.
  bool slot_created_ = false;
  bool slot_created_now_ = false;  ///< Since open().
  bool creation_allowed_ = false;
  SlotIdentity identity_;
  std::uint32_t streamed_timeline_ = 0;  ///< Of the last stream.
  std::map<std::uint32_t, Lsn> forks_;   ///< Where each ancestor of our timeline ended.
  Lsn slot_restart_lsn_;
  Lsn server_wal_end_;  ///< When the stream's connection was made.

  // The stream.
  std::unique_ptr<Decoder> decoder_;
  StageTimer receive_time_;
  StageTimer decode_time_;
  Plugin decoder_plugin_ = Plugin::pgoutput;
  Lsn started_from_;
  bool start_pending_ = false;
  bool waited_ = false;  ///< For the slot, since open().
  bool reading_ = true;
  int walsender_pid_ = 0;
  Lsn transaction_;  ///< Commit position of the transaction being received, for errors.
  std::string_view refused_bytes_;         ///< Of the message that the decoder has just refused.
  std::optional<Insert> held_;             ///< Waits for the catalogue's answer.
  std::optional<MonoTime> held_for_look_;  ///< Since when `held_` waits for CatalogWatch's look.
  bool table_at_fault_ = false;  ///< The last error of next() is about a table, not the link.
  std::optional<Keepalive> deferred_reply_;
  MonoTime reply_allowed_{};
  StandbyStatus last_status_;
  Lsn told_flushed_lsn_;  ///< Highest ever, over all connections.
  std::uint64_t opens_ = 0;

  // Judging an error that comes again and again.
  Lsn furthest_;
  Lsn error_at_;
  std::string error_code_;
  int same_errors_ = 0;
};

}  // namespace outrider
