"""What the topics hold against what the database committed, in bounded memory.

Every committed row is one entry of about 200 bytes; records are read once, as a stream. Append
times of the broker (LogAppendTime) say which fault a duplicate belongs to: the last one between the
two copies, or the first of a row of faults that struck before the replay of the one before was
through. A duplicate without a fault between its copies is unprovoked, which is never right.
"""

import array
import bisect
import dataclasses
import hashlib

# Broker and audit share a clock, but not the instant at which they look at it.
SLACK_MS = 30

COUNTS = ("committed", "records", "lost", "duplicates", "unprovoked", "phantoms", "inversions",
          "stale", "wrong_payload", "wrong_key", "wrong_topic", "split_keys", "missing_id")
# What must be 0 whatever the guarantee is.
NEVER = ("lost", "unprovoked", "phantoms", "inversions", "wrong_payload", "wrong_key",
         "wrong_topic", "split_keys", "missing_id")


@dataclasses.dataclass
class FaultWindow:
    """One fault as it happened, in milliseconds. end: its last effect that the audit caused."""

    kind: str
    start_ms: int
    over_ms: int = 0  # The audit had taken the cause away.
    resumed_ms: int = 0  # Records came again.
    end_ms: int = 0
    settled: bool = True  # Everything was confirmed shortly before.
    steady: bool = False  # No backlog, no replay, no large transaction: only the usual load.
    in_bulk: bool = False
    relay_too: bool = False
    note: str = ""
    duplicates: int = 0
    silence_ms: int = 0


class Ledger:
    """All committed events of a database: id -> key, number, type, size and digest."""

    def __init__(self):
        self.index = {}
        self.numbers = array.array("q")
        self.keys = array.array("i")
        self.types = array.array("i")
        self.sizes = array.array("i")
        self.digests = bytearray()
        self.seen_ms = array.array("q")  # Append time of the latest copy; 0: none yet.
        self.names = []
        self._name_index = {}

    def add(self, row_id, key, number, event_type, md5, size):
        self.index[row_id] = len(self.numbers)
        self.numbers.append(number)
        self.keys.append(self._name(key))
        self.types.append(self._name(event_type))
        self.sizes.append(size)
        self.digests += bytes.fromhex(md5)
        self.seen_ms.append(0)

    def _name(self, text):
        at = self._name_index.get(text)
        if at is None:
            at = self._name_index[text] = len(self.names)
            self.names.append(text)
        return at

    @classmethod
    def load(cls, cluster, dbname):
        ledger = cls()
        connection = cluster.connect(dbname, autocommit=False)
        try:
            with connection.cursor("oracle") as cursor:
                cursor.itersize = 20_000
                cursor.execute("SELECT id::text, key, number, event_type, payload_md5,"
                               " payload_bytes FROM workload.oracle")
                for row in cursor:
                    ledger.add(*row)
        finally:
            connection.close()
        return ledger


class Verdict:
    """Counts; examples hold the first case of each fault."""

    def __init__(self):
        for name in COUNTS:
            setattr(self, name, 0)
        self.examples = {}

    def note(self, name, example):
        setattr(self, name, getattr(self, name) + 1)
        self.examples.setdefault(name, example)

    def as_dict(self):
        return {**{name: getattr(self, name) for name in COUNTS}, "examples": self.examples}


def judge(ledger, records, windows, topic_prefix, id_header="id"):
    """Compare. windows (in order of time) get their duplicates and longest silence."""
    result = Verdict()
    result.committed = len(ledger.numbers)
    starts = [window.start_ms for window in windows]
    places = {}  # (topic, key): [partition, highest number, last number]
    instants = set()
    for record in records:
        result.records += 1
        instants.add(record.timestamp_ms)
        raw_id = record.header(id_header)
        if raw_id is None:
            result.note("missing_id", _where(record))
            continue
        row = ledger.index.get(raw_id.decode(errors="replace"))
        if row is None:
            result.note("phantoms", f"{raw_id.decode(errors='replace')} at {_where(record)}")
            continue
        _content(result, ledger, row, record, topic_prefix)
        _order(result, ledger, row, record, places)
        if ledger.seen_ms[row]:
            _duplicate(result, ledger, row, record, windows, starts)
        ledger.seen_ms[row] = record.timestamp_ms
    _at_the_end(result, ledger, places)
    _silences(windows, sorted(instants))
    return result


def _where(record):
    return f"{record.topic}/{record.partition}/{record.offset}"


def _content(result, ledger, row, record, topic_prefix):
    value = record.value or b""
    if (len(value) != ledger.sizes[row] or
            hashlib.md5(value).digest() != ledger.digests[16 * row:16 * row + 16]):
        result.note("wrong_payload", _where(record))
    key = ledger.names[ledger.keys[row]]
    if record.key is None or record.key.decode(errors="replace") != key:
        result.note("wrong_key", f"{record.key!r}, not {key!r}, at {_where(record)}")
    topic = topic_prefix + ledger.names[ledger.types[row]]
    if record.topic != topic:
        result.note("wrong_topic", f"{_where(record)}, not {topic}")


def _order(result, ledger, row, record, places):
    number = ledger.numbers[row]
    place = (record.topic, ledger.keys[row])
    state = places.get(place)
    if state is None:
        places[place] = [record.partition, number, number]
        return
    if state[0] != record.partition:
        result.note("split_keys", f"{_where(record)}, before in partition {state[0]}")
    if number < state[1] and not ledger.seen_ms[row]:
        result.note("inversions", f"{ledger.names[place[1]]}: first copy of {number} after "
                    f"{state[1]}, at {_where(record)}")
    state[1] = max(state[1], number)
    state[2] = number


def _duplicate(result, ledger, row, record, windows, starts):
    before, now = ledger.seen_ms[row], record.timestamp_ms
    result.note("duplicates", _where(record))
    at = bisect.bisect_right(starts, now + SLACK_MS) - 1
    if at >= 0 and windows[at].end_ms + SLACK_MS >= before:
        while (at > 0 and not windows[at].settled
               and windows[at - 1].end_ms + SLACK_MS >= before):
            at -= 1
        windows[at].duplicates += 1
    else:
        result.note("unprovoked", f"{_where(record)}, {now - before} ms after the copy before it, "
                    "no fault between them")


def _at_the_end(result, ledger, places):
    for row_id, row in ledger.index.items():
        if not ledger.seen_ms[row]:
            result.note("lost", f"{row_id} ({ledger.names[ledger.keys[row]]} number "
                        f"{ledger.numbers[row]})")
    for (topic, key), (_partition, highest, last) in places.items():
        if last != highest:
            result.note("stale", f"{ledger.names[key]} in {topic} ends with {last}, newest is "
                        f"{highest}")


def _silences(windows, instants):
    """For each fault the longest time without any record between the blow and the recovery."""
    for window in windows:
        at = max(0, bisect.bisect_left(instants, window.start_ms) - 1)
        longest = 0
        while at + 1 < len(instants) and instants[at] < window.resumed_ms:
            begin = max(instants[at], window.start_ms)
            longest = max(longest, instants[at + 1] - begin)
            at += 1
        window.silence_ms = longest
