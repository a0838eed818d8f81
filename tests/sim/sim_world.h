// SimWorld: a seeded world around the real Relay, decoder and mapper. No socket, no clock, no
// thread.
//
// It plays the database (WAL, slot, walsender that can be cut, restarted, or forget its latest
// confirmed position), the broker (partitions, refused batches, lost outcomes, fatal errors,
// outages, late appends of purged records; or transactions whose commit may be in doubt), the
// dead-letter table, and the supervisor (crashes, clean stops, restarts of the relay), one random
// step at a time, and asks Invariants after each. The same seed gives the same trace.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "outrider/decode/decoder.h"
#include "outrider/relay/relay.h"
#include "sim/invariants.h"

namespace outrider::sim {

struct Row {
  bool outbox = true;
  bool poison = false;      ///< The broker refuses whatever batch it is in.
  bool unroutable = false;  ///< Has no event type.
  std::string id;
  std::string key;
  std::string topic;
  std::uint64_t number = 0;  ///< Counts the key's rows in commit order.
};

struct Transaction {
  Lsn commit_lsn;
  Lsn commit_end_lsn;
  WallTime commit_time{};
  std::vector<Row> rows;
};

/// What chance decides in this run.
struct Odds {
  double cut_link = 0, refuse_connection = 0, restart_server = 0, broker_outage = 0;
  double lose_outcome = 0, fatal_producer = 0, crash = 0, clean_stop = 0, busy = 0;
  double poison = 0, unroutable = 0, place_outage = 0;
  bool transactional = false, park_key = false;
  std::uint64_t records_max = 16, bytes_max = 1 << 14;
  int transactions = 40;
};

/// The database: what is committed, and how far the slot is.
struct Database {
  std::vector<Transaction> wal;
  Lsn wal_end = Lsn::from_wire(0x1000);
  Lsn confirmed = Lsn::from_wire(0x1000);
  Lsn saved_confirmed = Lsn::from_wire(0x1000);  ///< What a restart of the server brings back.
  MonoTime down_until{};
};

/// The broker, as far as it outlives the relay.
struct Broker {
  MonoTime down_until{};
  std::optional<StoredPosition> stored;
};

/// The dead-letter table.
struct LetterTable {
  std::set<RowPlace> rows;
  std::map<std::string, RowPlace> parked;
  MonoTime down_until{};
};

class FakeSource final : public ChangeSource {
 public:
  FakeSource(std::mt19937_64& random, Database& database, const Odds& odds, Invariants& invariants,
             Decoder& decoder)
      : random_(random), db_(database), odds_(odds), invariants_(invariants), decoder_(decoder) {}

  void open(std::optional<Lsn> resume_from, Now now) override;
  Result<> drive(Now now) override;
  Result<bool> next(Change& change, Now now) override;
  std::string_view refused_bytes() const override { return {}; }  // It damages no bytes.
  void set_reading(bool on) override { reading_ = on; }
  Result<> send_status(const StandbyStatus& status, Now now) override;
  void finish() override;
  void close() override;
  SourceState state() const override { return state_; }
  const SlotIdentity& identity() const override { return identity_; }
  std::optional<Lsn> fork_of(std::uint32_t) const override { return std::nullopt; }
  Lsn wal_end() const override { return db_.wal_end; }
  void allow_creation() override {}
  bool has_buffered() const override { return state_ == SourceState::streaming && arrived_ > 0; }
  std::optional<MonoTime> deadline() const override { return ready_at_; }

  /// The network: some bytes arrive, some statuses reach the server.
  void exchange(Now now);
  void cut() { cut_ = state_ != SourceState::closed; }

 private:
  Result<bool> next_message(Change& change);
  Result<bool> emit(Change& change, Lsn wal_start, std::string bytes);
  void deliver_statuses(std::size_t count);

  std::mt19937_64& random_;
  Database& db_;
  const Odds& odds_;
  Invariants& invariants_;
  Decoder& decoder_;
  const SlotIdentity identity_{"1", "app", "slot", 1};
  SourceState state_ = SourceState::closed;
  std::optional<Lsn> resume_from_;
  MonoTime ready_at_{};
  bool reading_ = true;
  bool cut_ = false;
  bool start_pending_ = false;
  bool relation_sent_ = false;
  Lsn start_;
  std::uint64_t arrived_ = 0;
  std::size_t transaction_ = 0;
  std::size_t row_ = 0;
  bool begun_ = false;
  std::string buffer_;
  std::deque<StandbyStatus> statuses_;
};

class FakeSink final : public EventSink {
 public:
  FakeSink(std::mt19937_64& random, Broker& broker, const Odds& odds, Invariants& invariants)
      : random_(random), broker_(broker), odds_(odds), invariants_(invariants) {}

  Result<> drive(Now) override { return {}; }
  Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence,
                                Now now) override;
  bool next_report(SinkReport& report) override;
  void restart(Now now) override;
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }
  bool transactional() const override { return odds_.transactional; }
  void open_session(const SlotIdentity& identity, Now now) override;
  bool session_open() const override { return session_ == Session::open; }
  std::optional<StoredPosition> stored() const override { return stored_; }
  void mark(const ResumePoint& point, bool whole, Now now) override;
  void reserve(Lsn lsn, Now now) override;
  void reserve_exactly(Lsn lsn, Now now) override;
  Lsn confirm_limit() const override { return limit_; }

  /// The broker works: records are appended, acknowledged, refused; purged ones may still land.
  void exchange(Now now);
  /// The relay process is gone: what is in flight may still be appended, reports never come.
  void abandon();
  /// The relay has sent its last status: nothing may be handed over any more.
  void expect_no_more() { no_more_ = true; }

 private:
  enum class Session : std::uint8_t { none, opening, open };
  struct Copy {
    std::uint64_t sequence;
    std::string id, key, topic, value;
  };
  void append(const Copy& copy);
  void purge();
  void take_batch(std::size_t partition);
  bool refuse_batch(std::size_t partition, std::size_t size);
  void accept(Copy copy, std::size_t partition);
  void store(const ResumePoint& point, Lsn flushed);
  void work_on_transaction();
  void commit();

  std::mt19937_64& random_;
  Broker& broker_;
  const Odds& odds_;
  Invariants& invariants_;
  std::vector<std::deque<Copy>> partitions_{3};
  std::vector<std::deque<Copy>> unreported_{3};
  std::deque<Copy> late_;  ///< Purged by the client, still on the way to the broker.
  std::deque<SinkReport> reports_;
  bool fatal_ = false;
  bool no_more_ = false;

  Session session_ = Session::none;
  SlotIdentity identity_;
  std::optional<StoredPosition> stored_;
  Lsn limit_;
  std::optional<Lsn> wanted_;  ///< The last position asked for by reserve().
  std::optional<Lsn> exact_;   ///< And by reserve_exactly().

  std::vector<Copy> transaction_;  ///< In the open Kafka transaction, accepted.
  std::optional<ResumePoint> committing_;
  std::optional<ResumePoint> tail_;  ///< The last mark, with nothing behind it.
};

class FakePlace final : public DeadLetterPlace {
 public:
  FakePlace(std::mt19937_64& random, LetterTable& table, Invariants& invariants)
      : random_(random), table_(table), invariants_(invariants) {}

  void open(const SlotIdentity&, Now) override { open_ = true; }
  bool ready() const override { return open_ && up_; }
  const std::vector<ParkedKey>& parked_keys() const override;
  Result<> drive(Now) override { return {}; }
  Result<ProduceStatus> store(const DeadLetter& letter, std::uint64_t sequence, Now now) override;
  bool next_stored(std::uint64_t& sequence) override;
  void fetch(const DeadLetterFilter&, std::int64_t, std::uint32_t, Now) override {}
  std::optional<std::vector<StoredLetter>> take_fetched() override {
    return std::vector<StoredLetter>{};
  }
  void resolve(const RetryOutcome&, Now) override {}
  void discard(std::int64_t, Now) override {}
  std::size_t unresolved() const override { return 0; }
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }

  void exchange(Now now);

 private:
  struct Pending {
    std::uint64_t sequence;
    RowPlace row;
    std::optional<std::string> key;
  };
  std::mt19937_64& random_;
  LetterTable& table_;
  Invariants& invariants_;
  std::deque<Pending> pending_;
  std::deque<std::uint64_t> stored_;
  mutable std::vector<ParkedKey> parked_;
  bool open_ = false;
  bool up_ = true;
};

class SimWorld final : public RelayObserver {
 public:
  explicit SimWorld(std::uint64_t seed);
  ~SimWorld() override;

  /// Run to the end; empty if every invariant held, else what broke and where.
  std::string run();
  std::uint64_t trace_hash() const { return invariants_.trace_hash(); }

  void on_phase(Phase from, Phase to) override;
  void on_stream_start(Lsn from, bool resumed) override;
  void on_source_lost(const Error& error, std::chrono::milliseconds delay) override;
  void on_sink_restart(const Error& error, Lsn rewind_to) override;
  void on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) override;
  void on_transaction_acked(WallTime commit_time, std::uint64_t records, Now now) override;
  void on_stop_reason(const Error& error) override;
  void on_dead_letter(const OutboxEvent&, const RowPlace& row, DeadLetterReason reason,
                      const Error&) override;
  void on_isolation(const Error&, std::size_t suspects) override { invariants_.trace(suspects); }
  void on_rows_held(const std::string&) override {}
  void on_slot_verdict(bool, const std::vector<std::string>&) override {}
  void on_retried(std::int64_t, const std::string&, const Error*) override {}

 private:
  bool chance(double probability);
  std::uint64_t pick(std::uint64_t from, std::uint64_t to);
  void draw_odds();
  void start_relay();
  void stop_relay();
  void commit_something();
  void commit_transaction();
  void faults();
  void step();
  bool finished() const;

  std::uint64_t seed_;
  std::mt19937_64 random_;
  Odds odds_;
  Now now_;
  Database db_;
  Broker broker_;
  LetterTable letters_;
  Invariants invariants_;
  std::unique_ptr<RecordMapper> mapper_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<FakeSource> source_;
  std::unique_ptr<FakeSink> sink_;
  std::unique_ptr<FakePlace> place_;
  std::unique_ptr<Relay> relay_;
  std::vector<std::uint64_t> key_numbers_;
  int committed_ = 0;
  std::uint64_t next_id_ = 1;
  bool calm_ = false;  ///< The last part of a run: no more faults, everything must arrive.
};

}  // namespace outrider::sim
