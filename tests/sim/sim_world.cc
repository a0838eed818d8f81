#include "sim/sim_world.h"

#include <utility>

#include "sim/chance.h"

namespace outrider::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

}  // namespace

SimWorld::SimWorld(std::uint64_t seed) : seed_(seed), random_(seed), key_numbers_(7, 0) {
  now_ = Now{MonoTime{} + std::chrono::hours(1), WallTime{microseconds{1'800'000'000'000'000}}};
  draw_odds();
  invariants_.expect_followers(odds_.park_key);
  invariants_.expect_transactions(odds_.transactional);
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
  odds_.poison = sometimes(0.05);
  odds_.unroutable = sometimes(0.05);
  odds_.place_outage = sometimes(0.02);
  odds_.transactional = chance(0.3);
  odds_.park_key = chance(0.3);
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
  options.dead_letters.burst = 1'000'000;
  options.dead_letters.on_poison = odds.park_key ? OnPoison::park_key : OnPoison::dead_letter;
  options.dead_letters.automatic_retry = AutomaticRetry::off;
  return options;
}

}  // namespace

void SimWorld::start_relay() {
  source_ = std::make_unique<FakeSource>(random_, db_, odds_, invariants_, *decoder_);
  sink_ = std::make_unique<FakeSink>(random_, broker_, odds_, invariants_);
  place_ = std::make_unique<FakePlace>(random_, letters_, invariants_);
  relay_ = std::make_unique<Relay>(options_for(odds_, seed_), *source_, *sink_, *mapper_, *this,
                                   place_.get());
  invariants_.process_started(now_);
}

void SimWorld::stop_relay() {
  const bool clean =
      relay_->phase() == Phase::stopped && relay_->confirmed_all() && !relay_->stop_error();
  if (!clean && !odds_.transactional) {
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
      row.poison = chance(odds_.poison);
      row.unroutable = !row.poison && chance(odds_.unroutable);
    }
    transaction.rows.push_back(std::move(row));
    position += chance(0.5) ? pick(0, 100) : 0;
  }
  transaction.commit_lsn = Lsn::from_wire(position);
  transaction.commit_end_lsn = Lsn::from_wire(position + 40);
  transaction.commit_time = now_.wall;
  db_.wal_end = transaction.commit_end_lsn;
  std::uint64_t index = 0;
  for (const Row& row : transaction.rows) {
    if (row.outbox) {
      invariants_.committed(row.id, "outbox.event." + row.topic, row.key, row.number,
                            RowPlace{transaction.commit_lsn, index++});
      if (row.poison || row.unroutable) {
        invariants_.bad_row(row.id, row.poison);
      }
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
  if (chance(odds_.place_outage)) {
    letters_.down_until = now_.mono + milliseconds(pick(0, 500));
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
  place_->exchange(now_);
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
      if (!odds_.transactional) {
        invariants_.excuse_duplicates();
      }
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
      odds_ = Odds{.transactional = odds_.transactional,
                   .park_key = odds_.park_key,
                   .records_max = odds_.records_max,
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

void SimWorld::on_phase(Phase, Phase to) {
  invariants_.trace(static_cast<std::uint64_t>(to));
  if (to == Phase::finishing) {
    sink_->expect_no_more();
  }
}

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
void SimWorld::on_dead_letter(const OutboxEvent&, const RowPlace& row, DeadLetterReason,
                              const Error&) {
  invariants_.trace(row.commit_lsn.to_wire() + row.index);
}
void SimWorld::on_transaction_acked(WallTime, std::uint64_t records, Now) {
  invariants_.trace(records);
}
void SimWorld::on_stop_reason(const Error& error) {
  invariants_.breach("the relay wants to stop: " + describe(error));
}

}  // namespace outrider::sim
