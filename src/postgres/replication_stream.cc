#include "postgres/replication_stream.h"

#include <libpq-fe.h>

#include <utility>

#include "outrider/base/check.h"
#include "postgres/replication_protocol.h"

namespace outrider {

void ReplicationStream::FreeBuffer::operator()(char* buffer) const { PQfreemem(buffer); }

ReplicationStream::ReplicationStream(EventLoop& loop, ConnectionOptions options,
                                     std::chrono::microseconds pause)
    : connection_(loop, std::move(options)), pacer_(pause) {}

ReplicationStream::~ReplicationStream() = default;

void ReplicationStream::begin(Now now) {
  OUTRIDER_CHECK(connection_.state() == Connection::State::copy_both, "the copy has begun");
  last_heard_ = now.mono;
  buffered_ = true;  // What came behind the answer is in libpq's buffer already.
  pacer_.reset();
  update_interest();
}

void ReplicationStream::close() {
  buffer_.reset();
  pending_status_.reset();
  buffered_ = tls_more_ = broken_ = unflushed_ = false;
  ending_ = finish_wanted_ = copy_done_sent_ = false;
  connection_.close();
}

tl::unexpected<Error> ReplicationStream::lost() {
  Error error = connection_.lost("lost the replication stream");
  close();
  return fail(std::move(error));
}

void ReplicationStream::update_interest() {
  bool reads = (reading_ || finish_wanted_) && !broken_;
  connection_.set_interest(reads && pacer_.wants_readiness(), unflushed_);
}

void ReplicationStream::set_reading(bool on) {
  reading_ = on;
  if (connection_.state() == Connection::State::copy_both) {
    pacer_.reset();
    update_interest();
  }
}

std::optional<MonoTime> ReplicationStream::deadline() const {
  return reading_ || finish_wanted_ ? pacer_.deadline() : std::nullopt;
}

Result<> ReplicationStream::drive(Now) {
  if (connection_.state() != Connection::State::copy_both || ending_ || broken_) {
    return {};
  }
  FdWatch* watch = connection_.watch();
  bool reads = reading_ || finish_wanted_;
  if (!reads && watch != nullptr && watch->readable()) {
    watch->clear();
    if (connection_.hung_up()) {
      return lost();
    }
  }
  if (unflushed_ || pending_status_ || (finish_wanted_ && !copy_done_sent_)) {
    OUTRIDER_TRY(flush());
    OUTRIDER_TRY(put_pending());
  }
  update_interest();
  return {};
}

Result<> ReplicationStream::flush() {
  int left = PQflush(connection_.raw());
  if (left < 0) {
    broken_ = true;  // The reason may wait among what was received.
    unflushed_ = false;
    buffered_ = true;
    return {};
  }
  unflushed_ = left > 0;
  return {};
}

Result<> ReplicationStream::put_pending() {
  if (broken_) {
    return {};
  }
  if (pending_status_) {
    int put = PQputCopyData(connection_.raw(), pending_status_->data(),
                            static_cast<int>(pending_status_->size()));
    if (put == 0) {
      return {};
    }
    pending_status_.reset();
    broken_ = put < 0;
  }
  if (finish_wanted_ && !copy_done_sent_ && !broken_) {
    int put = PQputCopyEnd(connection_.raw(), nullptr);
    copy_done_sent_ = put == 1;
    broken_ = put < 0;
  }
  buffered_ = buffered_ || broken_;
  return broken_ ? Result<>() : flush();
}

Result<> ReplicationStream::send_status(const StandbyStatus& status, bool reply_requested,
                                        Now now) {
  OUTRIDER_CHECK(!finish_wanted_, "no status after CopyDone");
  auto bytes =
      encode_standby_status(status.received_lsn, status.flushed_lsn, now.wall, reply_requested);
  bool reply_waits = pending_status_ && pending_status_->back() != '\0';
  pending_status_ = std::string(bytes.data(), bytes.size());
  if (reply_waits) {
    pending_status_->back() = '\1';
  }
  if (ending_ || broken_) {
    return {};
  }
  OUTRIDER_TRY(put_pending());
  update_interest();
  return {};
}

Result<> ReplicationStream::finish() {
  finish_wanted_ = true;
  if (ending_ || broken_) {
    return {};
  }
  pacer_.reset();
  OUTRIDER_TRY(put_pending());
  update_interest();
  return {};
}

bool ReplicationStream::may_read(Now now) const {
  if (broken_ || !(reading_ || finish_wanted_)) {
    return false;
  }
  const FdWatch* watch = connection_.watch();
  return tls_more_ || pacer_.may_read(now.mono, watch == nullptr || watch->readable());
}

void ReplicationStream::read(Now now) {
  if (FdWatch* watch = connection_.watch()) {
    watch->clear();
  }
  Connection::Read read = connection_.read_input();
  broken_ = !read.ok;
  tls_more_ = read.more;
  buffered_ = true;
  if (read.bytes > 0) {
    last_heard_ = now.mono;
  }
  pacer_.on_read(now.mono, read.bytes);
  update_interest();
}

Result<ReplicationStream::Pulled> ReplicationStream::pull(Now now) {
  buffer_.reset();
  if (connection_.state() != Connection::State::copy_both) {
    return Pulled{};
  }
  for (;;) {
    if (ending_) {
      return resolve_end(now);
    }
    char* raw = nullptr;
    int size = PQgetCopyData(connection_.raw(), &raw, 1);
    if (size > 0) {
      buffer_.reset(raw);
      if (finish_wanted_) {
        continue;
      }
      return Pulled{Pulled::What::message, std::span<char>(raw, static_cast<std::size_t>(size))};
    }
    if (size < 0) {
      ending_ = true;
      continue;
    }
    buffered_ = tls_more_;
    if (broken_) {
      ending_ = true;
      continue;
    }
    if (!may_read(now)) {
      return Pulled{};
    }
    read(now);
  }
}

// After the copy: an ErrorResponse says why the server ended it; CommandComplete follows either our
// CopyDone or, at shutdown, comes without one.
Result<ReplicationStream::Pulled> ReplicationStream::resolve_end(Now now) {
  PGconn* conn = connection_.raw();
  if (PQisBusy(conn) != 0 && !broken_) {
    FdWatch* watch = connection_.watch();
    connection_.set_interest(true, unflushed_);
    if (watch != nullptr && !watch->readable()) {
      buffered_ = false;
      return Pulled{};
    }
    read(now);
  }
  buffered_ = false;
  bool ended_by_server = false;
  while (broken_ || PQisBusy(conn) == 0) {
    std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(conn), &PQclear);
    if (result == nullptr) {
      break;
    }
    ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_FATAL_ERROR) {
      Error error = classify_server_error("the server ended the replication stream",
                                          server_error_of(result.get()));
      close();
      return fail(std::move(error));
    }
    if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
      ended_by_server = true;
      break;
    }
  }
  if (broken_) {
    return lost();
  }
  if (PQisBusy(conn) != 0) {
    return Pulled{};
  }
  if (copy_done_sent_ && !ended_by_server) {
    return Pulled{Pulled::What::ended, {}};
  }
  close();
  return fail(ErrorKind::transient, "the server ended the replication stream",
              "the server is shutting down or its slot is being moved; the relay tries again");
}

}  // namespace outrider
