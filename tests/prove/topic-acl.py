"""15: one topic's ACL is gone for 5 minutes under 100,000 rows: few dead letters, then all arrives.

The policy is the dangerous one, on_topic_error: dead_letter. The breaker has to keep the backlog
out of the table: fewer than 200 letters, the relay paused, readiness red with the cause named. With
the ACL back everything else arrives in order, and the letters by `outrider dead-letters retry`.
"""

import time

from prove.common import EVENT_TYPES, audit_topics, say, sleep_with_progress, stop_cleanly
from support import audit as audits
from support.cleanup import wait_until
from support.control import obeyed, socket_in
from support.guarded_kafka import GuardedKafka
from support.postgres_cluster import PostgresCluster
from support.rig import Rig
from support.workload import Workload

LETTERS_MAX = 200
PREFIX = "acl."
FORBIDDEN = PREFIX + EVENT_TYPES[1]
TOPICS = [PREFIX + event for event in EVENT_TYPES]


def prove(short):
    seconds, rows = (5, 2_000) if short else (300, 100_000)
    with PostgresCluster() as cluster, GuardedKafka() as kafka:
        r = Rig(cluster, kafka, table=None, create_topic=False, over={
            "route": {"topic": "", "replacement": PREFIX + "${routedByValue}"},
            "kafka": {**kafka.client(), "topics": {"create": False}},
            "dead_letters": {"on_topic_error": "dead_letter"}})
        socket_in(r.relay)
        kafka.create_topics(*TOPICS)
        load = Workload(cluster, r.dbname)
        r.start()
        try:
            _forbidden(r, load, seconds, rows)
            _allowed(r, load)
        finally:
            load.stop()
            r.close()


def _letters(r):
    """[(event id, reason, code)] of the table, oldest first."""
    return r.sql("SELECT event_id, reason, code FROM outrider.outbox_dead_letters ORDER BY number")


def _forbidden(r, load, seconds, rows):
    load.start(rows, writers=4, rate=rows / seconds)
    time.sleep(0.5)
    r.kafka.forbid(FORBIDDEN)
    began = time.monotonic()
    wait_until(lambda: "become dead letters faster" in r.relay.get("/readyz")[1], 30,
               "the breaker to pause the relay")
    status, reason = r.relay.get("/readyz")
    say(f"paused {time.monotonic() - began:.1f} s after the ACL went, with {len(_letters(r))} dead "
        f"letters; /readyz {status}: {reason.strip()}")
    assert status == 503 and "TOPIC_AUTHORIZATION_FAILED" in reason and FORBIDDEN in reason, reason
    assert FORBIDDEN in r.relay.log_text()
    assert r.relay.get("/livez")[0] == 200
    sleep_with_progress(seconds - (time.monotonic() - began), "no ACL",
                        lambda: f"({len(_letters(r))} dead letters, {load.committed():,} rows)")
    assert r.relay.get("/readyz")[0] == 503, "ready while a topic is forbidden"


def _allowed(r, load):
    r.kafka.allow(FORBIDDEN)
    began = time.monotonic()
    load.join()
    r.wait_confirmed(120)
    say(f"ACL back: {load.events():,} rows written, all confirmed after "
        f"{time.monotonic() - began:.1f} s")
    wait_until(r.relay.ready, 20, "ready")
    letters = _letters(r)
    say(f"dead letters: {len(letters)} (fewer than {LETTERS_MAX} allowed), reasons "
        f"{sorted({letter[1:] for letter in letters})}")
    assert 0 < len(letters) < LETTERS_MAX
    assert {letter[1] for letter in letters} == {"not_authorised"}
    oracle = audits.load_oracle(r.cluster, r.dbname)
    audit_topics(r.cluster, r.kafka.bootstrap_servers, TOPICS, title="all but the letters",
                 oracle={key: row for key, row in oracle.items()
                         if key not in {letter[0] for letter in letters}},
                 topic_of=audits.by_event_type(PREFIX))
    result = obeyed(r.relay, "dead-letters", "retry", "--all")
    say(f"retry: {result}")
    assert result["delivered"] == len(letters) and _letters(r) == []
    late = {key: row for key, row in oracle.items() if key in {letter[0] for letter in letters}}
    records = [record for record in r.consumer.stream([FORBIDDEN])
               if record.header("id").decode() in late]
    say("audit of the letters after the retry: "
        + audits.audit(late, records).check().table().split("\n")[1].strip())
    stop_cleanly(r.relay)
