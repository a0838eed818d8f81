#include "outrider/relay/slot_judge.h"

namespace outrider {
namespace {

std::string named(const SlotIdentity& identity) { return "slot \"" + identity.slot + "\""; }

std::string between(Lsn from, Lsn to) {
  return "rows committed between " + from.to_string() + " and " + to.to_string();
}

constexpr const char* kRepublishHint =
    "find the rows between the two positions in the outbox table (or a copy of it) and publish "
    "them again, then start once with delivery.on_slot_lost: recreate to go on from the slot";

/// A position of another server, or of a history that this server does not have.
Result<> judge_server(const SlotIdentity& identity, Lsn wal_end, const StoredPosition& stored) {
  if (stored.identity.system_id != identity.system_id) {
    return fail(ErrorKind::fatal,
                "the position stored in Kafka for " + named(identity) +
                    " belongs to another database cluster (system identifier " +
                    stored.identity.system_id + ", this server has " + identity.system_id + ")",
                "point source.dsn at the right server; after a planned move (pg_upgrade, a new "
                "cluster) run \"outrider forget-position\" and start again",
                "OTHER_CLUSTER");
  }
  if (identity.timeline < stored.identity.timeline) {
    return fail(ErrorKind::fatal,
                "the server is on timeline " + std::to_string(identity.timeline) +
                    ", but the relay has already followed timeline " +
                    std::to_string(stored.identity.timeline),
                "this is an old primary or a restored backup: point source.dsn at the server that "
                "was promoted",
                "OLD_TIMELINE");
  }
  if (identity.timeline == stored.identity.timeline && wal_end < stored.flushed) {
    return fail(ErrorKind::fatal,
                "the server's WAL ends at " + wal_end.to_string() + ", before position " +
                    stored.flushed.to_string() +
                    " that was relayed already: it was restored from "
                    "an older copy",
                "records of " + between(wal_end, stored.flushed) +
                    " are in Kafka and not in the database; decide what they are worth, run "
                    "\"outrider forget-position\" and start again",
                "SERVER_RESTORED");
  }
  return {};
}

std::string promotion_warning(const SlotIdentity& identity, Lsn from,
                              const StoredPosition& stored) {
  return "the server was promoted: timeline " + std::to_string(stored.identity.timeline) + " -> " +
         std::to_string(identity.timeline) + "; the slot goes on from " + from.to_string() +
         ", records up to " + stored.flushed.to_string() +
         " were relayed before (rows the new primary never got stay in Kafka as phantoms, rows it "
         "has may come again)";
}

}  // namespace

Result<SlotVerdict> judge_missing_slot(const SlotIdentity& identity, Lsn wal_end,
                                       const std::optional<StoredPosition>& stored,
                                       const SlotPolicy& policy) {
  SlotVerdict verdict;
  if (!policy.create && (!policy.witness || !stored)) {
    return fail(ErrorKind::configuration, "replication " + named(identity) + " does not exist",
                "set source.create_slot: true, or run \"outrider init --apply\"; a new slot sees "
                "only what is committed after it was made");
  }
  if (!policy.witness) {
    return fail(ErrorKind::fatal,
                named(identity) +
                    " does not exist, and without a witness nobody can tell whether "
                    "it is new or was lost",
                "make it by hand (\"outrider init\" prints the statement), or set "
                "delivery.witness: true",
                "SLOT_MISSING");
  }
  if (!stored) {
    verdict.adopted = true;
    return verdict;
  }
  OUTRIDER_TRY(judge_server(identity, wal_end, *stored));
  const std::string gap = between(stored->flushed, wal_end);
  const std::string message =
      named(identity) + " is missing, but was used before: it was dropped" +
      (identity.timeline > stored->identity.timeline ? ", or the server was promoted without it"
                                                     : "") +
      "; " + gap + " may be missing in Kafka";
  if (policy.on_slot_lost == OnSlotLost::stop) {
    return fail(ErrorKind::fatal, message, kRepublishHint, "SLOT_MISSING");
  }
  verdict.warnings.push_back(message +
                             "; a new slot is made because delivery.on_slot_lost says "
                             "recreate");
  return verdict;
}

Result<SlotVerdict> judge_slot(const SlotIdentity& identity, const StreamStart& start,
                               const std::optional<StoredPosition>& stored,
                               const SlotPolicy& policy) {
  SlotVerdict verdict;
  if (!policy.witness) {
    return verdict;
  }
  if (!stored) {
    verdict.adopted = true;
    return verdict;
  }
  OUTRIDER_TRY(judge_server(identity, start.server_wal_end, *stored));
  if (identity.timeline > stored->identity.timeline) {
    verdict.warnings.push_back(promotion_warning(identity, start.slot_confirmed_lsn, *stored));
  }
  if (start.created || start.slot_confirmed_lsn <= stored->point.lsn) {
    return verdict;  // A new one was judged when it was missing.
  }
  const bool made_anew = start.slot_restart_lsn > stored->point.lsn;
  const std::string what =
      identity.timeline > stored->identity.timeline
          ? " is younger than the promotion of this server"
          : (made_anew ? " was dropped and made anew" : " was advanced by somebody else");
  const std::string message =
      named(identity) + what + ": it stands at " + start.slot_confirmed_lsn.to_string() +
      ", the relay confirmed nothing past " + stored->point.lsn.to_string() + "; " +
      between(stored->flushed, start.slot_confirmed_lsn) + " may be missing in Kafka";
  if (policy.on_slot_lost == OnSlotLost::stop) {
    return fail(ErrorKind::fatal, message, kRepublishHint,
                made_anew ? "SLOT_RECREATED" : "SLOT_ADVANCED");
  }
  verdict.warnings.push_back(message + "; going on because delivery.on_slot_lost says recreate");
  return verdict;
}

}  // namespace outrider
