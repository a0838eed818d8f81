"""16: 10 minutes without a broker, max_attempts: 5, letters due all the time: no attempt is burned.

Before the outage some keys are parked (a row too large for its topic, with followers) and some rows
without a key lie refused by a compacted topic; their causes are fixed just before the broker goes.
Their automatic retries come due again and again while it is away, and fresh rows are written. No
letter may be added, none may lose an attempt or be given up; all arrive by themselves afterwards.
"""

import time

from prove.common import audit_topics, say, sleep_with_progress, stop_cleanly
from support import audit as audits
from support.cleanup import wait_until
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.rig import Rig
from support.workload import Workload

FRESH, SMALL, LEDGER = "outage.fresh", "outage.small", "outage.ledger"
PARKED_KEYS = 5
ROWS_OF_A_KEY = 4
WITHOUT_KEY = 3
MAX_ATTEMPTS = 5


def prove(short):
    seconds, first_ms, max_ms, rate = ((10, 2_000, 2_000, 200) if short
                                       else (600, 5_000, 20_000, 100))
    with PostgresCluster() as cluster, KafkaBroker() as kafka:
        r = Rig(cluster, kafka, table=None, create_topic=False, over={
            "route": {"topic": "", "replacement": "${routedByValue}"},
            "kafka": {"properties": {"compression.codec": "none"}},
            "dead_letters": {"on_poison": "park_key", "max_attempts": MAX_ATTEMPTS,
                             "retry_first_ms": first_ms, "retry_max_ms": max_ms}})
        kafka.create_topics(FRESH, partitions=6)
        kafka.create_topics(SMALL, partitions=1, config={"max.message.bytes": 20_000})
        kafka.create_topics(LEDGER, partitions=1, config={"cleanup.policy": "compact"})
        load = Workload(cluster, r.dbname, payload="text", event_types=[FRESH])
        r.sql("ALTER TABLE outbox ALTER aggregate_id DROP NOT NULL")
        r.start()
        try:
            _letters_are_made(r)
            _outage(r, load, seconds, rate, first_ms)
            _afterwards(r, load)
        finally:
            load.stop()
            r.close()


def _letters(r):
    """{number: attempts}."""
    return dict(r.sql("SELECT number, attempts FROM outrider.dead_letters ORDER BY number"))


def _letters_are_made(r):
    for key in range(PARKED_KEYS):
        r.sql("INSERT INTO outbox (event_type, aggregate_id, payload) SELECT %s, %s, i || ' ' ||"
              " repeat('x', CASE i WHEN 1 THEN 50000 ELSE 10 END) FROM generate_series(1, %s) AS i",
              (SMALL, f"parked-{key}", ROWS_OF_A_KEY))
    for number in range(WITHOUT_KEY):
        r.sql("INSERT INTO outbox (event_type, payload) VALUES (%s, %s)", (LEDGER, str(number)))
    total = PARKED_KEYS * ROWS_OF_A_KEY + WITHOUT_KEY
    wait_until(lambda: len(_letters(r)) == total, 30, f"{total} dead letters")
    # Now the client knows the topic's old limit.
    r.sql("INSERT INTO outbox (event_type, aggregate_id, payload) VALUES (%s, 'small', '1')",
          (SMALL,))
    r.consumer.wait_for(SMALL, 1)


def _outage(r, load, seconds, rate, first_ms):
    """The causes are fixed and the broker goes, before the first retry is due if that is near."""
    r.kafka.admin.alter_topic(SMALL, {"max.message.bytes": 1_000_000})
    r.kafka.admin.alter_topic(LEDGER, {"cleanup.policy": "delete"})
    r.kafka.stop()
    began = time.monotonic()
    before = _letters(r)
    say(f"{len(before)} dead letters with attempts {sorted(before.values())}, causes fixed, broker "
        f"gone; max_attempts {MAX_ATTEMPTS}, retries from {first_ms / 1000:g} s on")
    assert before, "the letters went before the outage began"
    # At first nothing else is under way, so that a retry has its turn.
    sleep_with_progress(seconds / 2, "outage, no fresh rows", lambda: (
        f"(attempts {sorted(_letters(r).values())[-1]} at most)"))
    load.start(10_000_000, writers=2, rate=rate)
    sleep_with_progress(seconds / 2, "outage", lambda: (
        f"({load.committed():,} fresh rows, attempts {sorted(_letters(r).values())[-1]} at most)"))
    due = r.sql("SELECT count(*) FROM outrider.dead_letters WHERE retry_after <= now()")[0][0]
    after = _letters(r)
    say(f"end of the outage after {time.monotonic() - began:.0f} s: {len(after)} dead letters with "
        f"attempts {sorted(after.values())}, {due} of them due, {load.committed():,} fresh rows; "
        f"/readyz {r.relay.get('/readyz')}")
    assert due > 0, "no letter was due in the outage, which then proves nothing"
    assert after == before, f"letters and attempts were {before}, are {after}"
    assert r.relay.get("/readyz")[0] == 503
    r.kafka.start()


def _afterwards(r, load):
    began = time.monotonic()
    time.sleep(1)
    load.stop()
    wait_until(lambda: not _letters(r), 120, "the letters to be delivered by themselves")
    say(f"all dead letters delivered {time.monotonic() - began:.1f} s after the broker was back")
    r.wait_confirmed(120)
    wait_until(r.relay.ready, 20, "ready")
    oracle = audits.load_oracle(r.cluster, r.dbname)
    audit_topics(r.cluster, r.kafka.bootstrap_servers, [FRESH], title="the fresh rows",
                 oracle=oracle, duplicates_max=_in_doubt(r))
    places = {}
    for record in r.consumer.read(SMALL):
        places.setdefault(record.key.decode(), []).append(int(record.value.split(b" ")[0]))
    assert places.pop("small") == [1]
    assert places == {f"parked-{key}": list(range(1, ROWS_OF_A_KEY + 1))
                      for key in range(PARKED_KEYS)}, places
    ledger = sorted(record.value.decode() for record in r.consumer.read(LEDGER))
    assert ledger == [str(number) for number in range(WITHOUT_KEY)], ledger
    say(f"{PARKED_KEYS} parked keys with {ROWS_OF_A_KEY} rows each, in order and once; "
        f"{WITHOUT_KEY} rows without a key, once")
    stop_cleanly(r.relay)


def _in_doubt(r):
    """What was under way when a producer had to be replaced may come again."""
    return int(r.relay.metric("outbox_producer_restarts_total")
               * r.relay.metric("outbox_in_flight_records_limit"))
