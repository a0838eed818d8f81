// The database as the relay sees it: a walsender that speaks pgoutput, and its slot.
#include <algorithm>
#include <utility>

#include "sim/chance.h"
#include "sim/sim_world.h"

namespace outrider::sim {
namespace {

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
    if (row.unroutable && value == row.topic) {
      out += 'n';
      continue;
    }
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

}  // namespace

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
    change = StreamStart{start_, {}, false, false, db_.wal_end, db_.confirmed, db_.confirmed};
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

}  // namespace outrider::sim
