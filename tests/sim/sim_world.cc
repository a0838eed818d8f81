#include "sim/sim_world.h"

#include <algorithm>
#include <utility>

namespace outrider::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t kOutboxOid = 16'400;
constexpr std::uint32_t kOtherOid = 16'500;
constexpr std::int64_t kPostgresEpochUs = 946'684'800'000'000;

void put(std::string& out, std::uint64_t value, int size) {
  for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((value >> shift) & 0xFF));
  }
}

void put_text(std::string& out, const std::string& text) {
  out += text;
  out.push_back('\0');
}

std::string relation_message(std::uint32_t oid, const std::string& table) {
  std::string out = "R";
  put(out, oid, 4);
  put_text(out, "public");
  put_text(out, table);
  out += 'd';
  const std::vector<std::pair<std::string, std::uint32_t>> columns = {{"id", kTextOid},
                                                                      {"aggregate_type", kTextOid},
                                                                      {"aggregate_id", kTextOid},
                                                                      {"event_type", kTextOid},
                                                                      {"payload", kJsonbOid}};
  put(out, columns.size(), 2);
  for (const auto& [name, type] : columns) {
    out.push_back('\0');
    put_text(out, name);
    put(out, type, 4);
    put(out, 0xFFFFFFFF, 4);
  }
  return out;
}

std::string insert_message(const Row& row) {
  std::string out = "I";
  put(out, row.outbox ? kOutboxOid : kOtherOid, 4);
  out += 'N';
  put(out, 5, 2);
  for (const std::string& value :
       {row.id, std::string("order"), row.key, row.topic, "{\"n\": " + row.id + "}"}) {
    out += 't';
    put(out, value.size(), 4);
    out += value;
  }
  return out;
}

std::uint64_t postgres_time(WallTime time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count() - kPostgresEpochUs);
}

std::string begin_message(const Transaction& transaction) {
  std::string out = "B";
  put(out, transaction.commit_lsn.to_wire(), 8);
  put(out, postgres_time(transaction.commit_time), 8);
  put(out, 777, 4);
  return out;
}

std::string commit_message(const Transaction& transaction) {
  std::string out = "C";
  out.push_back('\0');
  put(out, transaction.commit_lsn.to_wire(), 8);
  put(out, transaction.commit_end_lsn.to_wire(), 8);
  put(out, postgres_time(transaction.commit_time), 8);
  return out;
}

Error link_error(const char* what) { return Error{ErrorKind::transient, what, "", ""}; }

std::uint64_t draw(std::mt19937_64& random, std::uint64_t from, std::uint64_t to) {
  return from + random() % (to - from + 1);
}

bool happens(std::mt19937_64& random, double probability) {
  return static_cast<double>(random() % 1'000'000) < probability * 1'000'000;
}

}  // namespace

// ---- the database side -------------------------------------------------------------------------

void FakeSource::open(std::optional<Lsn> resume_from, Now now) {
  if (state_ != SourceState::closed) {
    invariants_.breach("a source is opened while it is not closed");
  }
  state_ = SourceState::opening;
  resume_from_ = resume_from;
  ready_at_ = now.mono + milliseconds(draw(random_, 0, 30));
  cut_ = false;
  reading_ = true;
  arrived_ = 0;
  decoder_.reset();
}

Result<> FakeSource::drive(Now now) {
  if (cut_ || (state_ != SourceState::closed && now.mono < db_.down_until)) {
    close();
    return fail(link_error("the link was cut"));
  }
  if (state_ != SourceState::opening || now.mono < ready_at_) {
    return {};
  }
  if (happens(random_, odds_.refuse_connection)) {
    close();
    return fail(link_error("the server refused the connection"));
  }
  state_ = SourceState::streaming;
  start_ = std::max(resume_from_.value_or(Lsn{}), db_.confirmed);
  transaction_ = static_cast<std::size_t>(
      std::find_if(db_.wal.begin(), db_.wal.end(),
                   [this](const Transaction& t) { return t.commit_lsn >= start_; }) -
      db_.wal.begin());
  row_ = 0;
  begun_ = relation_sent_ = false;
  start_pending_ = true;
  arrived_ = 1;
  invariants_.stream_started(now);
  return {};
}

void FakeSource::exchange(Now) {
  if (state_ != SourceState::streaming && state_ != SourceState::finishing) {
    return;
  }
  arrived_ = std::min<std::uint64_t>(arrived_ + draw(random_, 0, 8), 64);
  deliver_statuses(draw(random_, 0, statuses_.size()));
}

void FakeSource::deliver_statuses(std::size_t count) {
  for (; count > 0 && !statuses_.empty(); --count) {
    db_.confirmed = std::max(db_.confirmed, statuses_.front().flushed_lsn);
    statuses_.pop_front();
  }
}

Result<bool> FakeSource::next(Change& change, Now) {
  if (cut_) {
    close();
    return fail(link_error("the link was cut"));
  }
  if (state_ == SourceState::finishing) {
    deliver_statuses(statuses_.size());
    change = StreamEnd{};
    return true;
  }
  if (!reading_ && !start_pending_) {
    invariants_.breach("a change was pulled while reading was off");
  }
  if (state_ != SourceState::streaming || arrived_ == 0) {
    return false;
  }
  --arrived_;
  return next_message(change);
}

Result<bool> FakeSource::next_message(Change& change) {
  if (start_pending_) {
    start_pending_ = false;
    change = StreamStart{start_};
    return true;
  }
  if (transaction_ >= db_.wal.size()) {
    arrived_ = 0;
    change = Keepalive{db_.wal_end, happens(random_, 0.2)};
    return true;
  }
  const Transaction& transaction = db_.wal[transaction_];
  if (happens(random_, 0.05)) {
    change = Keepalive{transaction.commit_lsn, happens(random_, 0.5)};
    return true;
  }
  if (!begun_) {
    begun_ = true;
    return emit(change, transaction.commit_lsn, begin_message(transaction));
  }
  if (!relation_sent_ && row_ == 0 && !transaction.rows.empty()) {
    relation_sent_ = true;
    buffer_ = relation_message(kOtherOid, "other");
    OUTRIDER_TRY(decoder_.decode(transaction.commit_lsn, buffer_));
    return emit(change, transaction.commit_lsn, relation_message(kOutboxOid, "outbox"));
  }
  if (row_ < transaction.rows.size()) {
    return emit(change, transaction.commit_lsn, insert_message(transaction.rows[row_++]));
  }
  begun_ = false;
  row_ = 0;
  ++transaction_;
  return emit(change, transaction.commit_end_lsn, commit_message(transaction));
}

Result<bool> FakeSource::emit(Change& change, Lsn wal_start, std::string bytes) {
  buffer_ = std::move(bytes);
  OUTRIDER_TRY(change, decoder_.decode(wal_start, buffer_));
  return true;
}

Result<> FakeSource::send_status(const StandbyStatus& status, Now now) {
  if (state_ != SourceState::streaming) {
    invariants_.breach("a status was sent without a stream");
  }
  if (cut_) {
    close();
    return fail(link_error("the link was cut"));
  }
  invariants_.status_sent(status.flushed_lsn, now);
  statuses_.push_back(status);
  return {};
}

void FakeSource::finish() { state_ = SourceState::finishing; }

void FakeSource::close() {
  // Statuses on the way may or may not have reached the server.
  deliver_statuses(draw(random_, 0, statuses_.size()));
  statuses_.clear();
  state_ = SourceState::closed;
  cut_ = false;
}

// ---- the broker side ---------------------------------------------------------------------------

Result<ProduceStatus> FakeSink::produce(const KafkaRecord& record, std::uint64_t sequence, Now) {
  if (fatal_ || happens(random_, odds_.busy)) {
    return ProduceStatus::busy;
  }
  std::string key(record.key.value_or(""));
  std::size_t partition = std::hash<std::string>{}(key) % partitions_.size();
  partitions_[partition].push_back(Copy{sequence, std::string(record.headers.at(0).value.value()),
                                        key, std::string(record.topic),
                                        std::string(record.value.value_or(""))});
  return ProduceStatus::accepted;
}

void FakeSink::append(const Copy& copy) {
  invariants_.appended(copy.id, copy.topic, copy.key, copy.value);
}

void FakeSink::exchange(Now now) {
  if (!late_.empty() && happens(random_, 0.3)) {
    append(late_.front());
    late_.pop_front();
  }
  if (now.mono < broker_.down_until || fatal_) {
    return;
  }
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    auto& queue = partitions_[partition];
    auto& unreported = unreported_[partition];
    for (std::uint64_t n = draw(random_, 0, queue.size()); n > 0; --n) {
      append(queue.front());
      unreported.push_back(queue.front().sequence);
      queue.pop_front();
    }
    for (std::uint64_t n = draw(random_, 0, unreported.size()); n > 0; --n) {
      reports_.push_back(Delivered{unreported.front()});
      unreported.pop_front();
    }
    if (!queue.empty() && happens(random_, odds_.lose_outcome)) {
      reports_.push_back(Refused{queue.front().sequence, link_error("the outcome is unknown"),
                                 queue.front().id});
      fatal_ = true;
    } else if (happens(random_, odds_.fatal_producer)) {
      reports_.push_back(SinkLost{link_error("out of order sequence")});
      fatal_ = true;
    }
  }
}

bool FakeSink::next_report(SinkReport& report) {
  if (reports_.empty()) {
    return false;
  }
  report = std::move(reports_.front());
  reports_.pop_front();
  return true;
}

void FakeSink::purge() {
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    auto& queue = partitions_[partition];
    // A frozen broker that thaws still appends a prefix of what it had been sent.
    for (std::uint64_t n = draw(random_, 0, queue.size()); n > 0; --n) {
      invariants_.excuse(queue.front().id);
      late_.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    queue.clear();
    unreported_[partition].clear();
  }
  reports_.clear();
  fatal_ = false;
}

void FakeSink::restart(Now) {
  invariants_.excuse_duplicates();
  purge();
}

void FakeSink::abandon() { purge(); }

// ---- the world ---------------------------------------------------------------------------------

SimWorld::SimWorld(std::uint64_t seed)
    : seed_(seed), random_(seed), key_numbers_(7, 0) {
  now_ = Now{MonoTime{} + std::chrono::hours(1), WallTime{microseconds{1'800'000'000'000'000}}};
  draw_odds();
  decoder_ = make_pgoutput_decoder();
  mapper_ = std::move(make_record_mapper(OutboxConfig{}, RouteConfig{}).value());
  start_relay();
}

SimWorld::~SimWorld() = default;

bool SimWorld::chance(double probability) { return happens(random_, probability); }
std::uint64_t SimWorld::pick(std::uint64_t from, std::uint64_t to) {
  return draw(random_, from, to);
}

void SimWorld::draw_odds() {
  auto sometimes = [this](double odds) { return chance(0.5) ? odds : 0.0; };
  odds_.cut_link = sometimes(0.02);
  odds_.refuse_connection = sometimes(0.3);
  odds_.restart_server = sometimes(0.01);
  odds_.broker_outage = sometimes(0.02);
  odds_.lose_outcome = sometimes(0.01);
  odds_.fatal_producer = sometimes(0.003);
  odds_.crash = sometimes(0.01);
  odds_.clean_stop = sometimes(0.02);
  odds_.busy = sometimes(0.1);
  odds_.records_max = pick(2, 40);
  odds_.bytes_max = pick(1'000, 30'000);
  odds_.transactions = static_cast<int>(pick(5, 60));
}

namespace {

RelayOptions options_for(const Odds& odds, std::uint64_t seed) {
  RelayOptions options;
  options.in_flight_records_max = odds.records_max;
  options.in_flight_bytes_max = odds.bytes_max;
  options.status_interval = milliseconds(500);
  options.confirm_interval = milliseconds(5);
  options.reconnect_first = milliseconds(10);
  options.reconnect_max = milliseconds(200);
  options.shutdown_timeout = milliseconds(60'000);
  options.sink_losses_max = 1'000'000;
  options.random_seed = seed;
  return options;
}

}  // namespace

void SimWorld::start_relay() {
  source_ = std::make_unique<FakeSource>(random_, db_, odds_, invariants_, *decoder_);
  sink_ = std::make_unique<FakeSink>(random_, broker_, odds_, invariants_);
  relay_ = std::make_unique<Relay>(options_for(odds_, seed_), *source_, *sink_, *mapper_, *this);
  invariants_.process_started(now_);
}

void SimWorld::stop_relay() {
  const bool clean = relay_->phase() == Phase::stopped && relay_->confirmed_all() &&
                     !relay_->stop_error();
  if (!clean) {
    invariants_.excuse_duplicates();
  }
  if (source_->state() != SourceState::closed) {
    source_->close();
  }
  sink_->abandon();
  relay_.reset();
  start_relay();
}

void SimWorld::commit_something() {
  if (committed_ >= odds_.transactions || !chance(0.3)) {
    return;
  }
  ++committed_;
  // Sometimes foreign WAL lies between; sometimes a commit record begins exactly at the WAL end
  // that a keepalive has just named.
  if (chance(0.4)) {
    db_.wal_end = Lsn::from_wire(db_.wal_end.to_wire() + pick(1, 500));
  }
  commit_transaction();
}

void SimWorld::commit_transaction() {
  Transaction transaction;
  const std::uint64_t size = chance(0.1) ? pick(20, 80) : pick(0, 4);
  std::uint64_t position = db_.wal_end.to_wire();
  for (std::uint64_t i = 0; i < size; ++i) {
    Row row;
    row.outbox = chance(0.8);
    row.id = std::to_string(next_id_++);
    const std::size_t key = pick(0, key_numbers_.size() - 1);
    row.key = "k" + std::to_string(key);
    row.topic = "t" + std::to_string(key % 2);
    if (row.outbox) {
      row.number = ++key_numbers_[key];
    }
    transaction.rows.push_back(std::move(row));
    position += chance(0.5) ? pick(0, 100) : 0;
  }
  transaction.commit_lsn = Lsn::from_wire(position);
  transaction.commit_end_lsn = Lsn::from_wire(position + 40);
  transaction.commit_time = now_.wall;
  db_.wal_end = transaction.commit_end_lsn;
  for (const Row& row : transaction.rows) {
    if (row.outbox) {
      invariants_.committed(row.id, "outbox.event." + row.topic, row.key, row.number,
                            transaction.commit_lsn);
    }
  }
  db_.wal.push_back(std::move(transaction));
}

void SimWorld::faults() {
  if (chance(odds_.cut_link)) {
    source_->cut();
  }
  if (chance(odds_.restart_server)) {
    source_->cut();
    db_.confirmed = db_.saved_confirmed;
    db_.down_until = now_.mono + milliseconds(pick(0, 300));
  }
  if (chance(0.05)) {
    db_.saved_confirmed = db_.confirmed;  // A checkpoint.
  }
  if (chance(odds_.broker_outage)) {
    broker_.down_until = now_.mono + milliseconds(pick(0, 1'000));
  }
  if (chance(odds_.crash)) {
    stop_relay();
  } else if (chance(odds_.clean_stop)) {
    relay_->request_stop(now_);
  }
}

void SimWorld::step() {
  if (!calm_) {
    commit_something();
    faults();
  }
  source_->exchange(now_);
  sink_->exchange(now_);
  if (calm_ || chance(0.9)) {
    relay_->turn(now_);
  }
  invariants_.after_step(*relay_, options_for(odds_, seed_), now_);
  if (relay_->phase() == Phase::stopped) {
    if (relay_->stop_error()) {
      invariants_.breach("the relay stopped: " + describe(*relay_->stop_error()));
    }
    // A server that forgets confirmed positions while no relay lives makes honest repeats.
    if (db_.confirmed > db_.saved_confirmed && chance(odds_.restart_server)) {
      invariants_.excuse_duplicates();
      db_.confirmed = db_.saved_confirmed;
    } else {
      db_.saved_confirmed = db_.confirmed;
    }
    stop_relay();
  }
  microseconds passed{pick(0, 20'000)};
  now_.mono += passed;
  now_.wall += passed;
}

bool SimWorld::finished() const {
  return calm_ && invariants_.missing() == 0 && relay_->phase() == Phase::streaming &&
         relay_->tracker().idle() && relay_->confirmed_lsn() >= db_.wal_end;
}

std::string SimWorld::run() {
  constexpr int kStepsMax = 20'000;
  constexpr int kCalmStepsMax = 5'000;
  int calm_steps = 0;
  for (int steps = 0; steps < kStepsMax && invariants_.first_breach().empty(); ++steps) {
    step();
    if (!calm_ && committed_ >= odds_.transactions && steps > odds_.transactions * 8) {
      calm_ = true;
      odds_ = Odds{.records_max = odds_.records_max,
                   .bytes_max = odds_.bytes_max,
                   .transactions = odds_.transactions};
    }
    if (finished()) {
      break;
    }
    if (calm_ && ++calm_steps > kCalmStepsMax) {
      invariants_.breach("no end is reached although every fault is over: phase " +
                         std::string(to_string(relay_->phase())) + ", confirmed " +
                         relay_->confirmed_lsn().to_string() + " of " + db_.wal_end.to_string());
    }
  }
  invariants_.at_end();
  return invariants_.first_breach();
}

void SimWorld::on_phase(Phase, Phase to) { invariants_.trace(static_cast<std::uint64_t>(to)); }
void SimWorld::on_stream_start(Lsn from, bool) { invariants_.trace(from.to_wire()); }
void SimWorld::on_source_lost(const Error&, std::chrono::milliseconds delay) {
  invariants_.trace(static_cast<std::uint64_t>(delay.count()));
}
void SimWorld::on_sink_restart(const Error&, Lsn rewind_to) {
  invariants_.trace(rewind_to.to_wire());
}
void SimWorld::on_row_refused(const OutboxEvent&, Lsn, const Error& error) {
  invariants_.breach("a row was refused: " + describe(error));
}
void SimWorld::on_transaction_acked(WallTime, std::uint64_t records, Now) {
  invariants_.trace(records);
}
void SimWorld::on_stop_reason(const Error& error) {
  invariants_.breach("the relay wants to stop: " + describe(error));
}

}  // namespace outrider::sim
