"""The audit: what an independent consumer saw against what the database committed.

Knows lost, duplicated and unknown ids, wrong payload bytes, wrong keys and topics, a key spread
over partitions, and inversions: the first appearances of a topic and key must have rising numbers,
the numbers being taken under a row lock in the transaction itself (support/workload.py).
"""

import dataclasses
import hashlib


@dataclasses.dataclass(slots=True)
class Expected:
    """One committed event."""

    key: str
    number: int
    event_type: str
    payload_md5: str
    payload_bytes: int


@dataclasses.dataclass
class AuditResult:
    """Counts, and for each kind of fault a few examples."""

    committed: int = 0
    records: int = 0
    lost: int = 0
    duplicates: int = 0
    unknown: int = 0
    inversions: int = 0
    wrong_payload: int = 0
    wrong_key: int = 0
    wrong_topic: int = 0
    split_keys: int = 0
    missing_id: int = 0
    digest: str = ""
    examples: dict = dataclasses.field(default_factory=dict)
    # Ids that came more than once: {id: [(topic, partition, offset, timestamp_ms), …]}.
    repeated: dict = dataclasses.field(default_factory=dict)

    _FAULTS = ("lost", "unknown", "inversions", "wrong_payload", "wrong_key", "wrong_topic",
               "split_keys", "missing_id")

    def ok(self, duplicates_max=0):
        return (self.duplicates <= duplicates_max
                and all(getattr(self, name) == 0 for name in self._FAULTS))

    def check(self, duplicates_max=0):
        """AssertionError with the table unless everything is as it must be."""
        assert self.ok(duplicates_max), (
            f"audit failed (at most {duplicates_max} duplicates allowed)\n{self.table()}")
        return self

    def table(self):
        rows = [("committed", self.committed), ("records", self.records), ("lost", self.lost),
                ("duplicates", self.duplicates)]
        rows += [(name.replace("_", " "), getattr(self, name)) for name in self._FAULTS[1:]]
        lines = [f"  {name:<14}{value:>10,}" + ("   e.g. " + self.examples[name]
                                               if name in self.examples else "")
                 for name, value in rows]
        return "\n".join(lines)

    def note(self, fault, example):
        setattr(self, fault, getattr(self, fault) + 1)
        self.examples.setdefault(fault.replace("_", " "), example)


def load_oracle(cluster, dbname="postgres", where="true"):
    """{event id: Expected} of all committed events, read in portions."""
    connection = cluster.connect(dbname, autocommit=False)
    oracle = {}
    types = {}
    try:
        with connection.cursor("oracle") as cursor:
            cursor.itersize = 20_000
            cursor.execute("SELECT id::text, key, number, event_type, payload_md5, payload_bytes"
                           f" FROM workload.oracle WHERE {where}")
            for row_id, key, number, event, digest, size in cursor:
                oracle[row_id] = Expected(types.setdefault(key, key), number,
                                          types.setdefault(event, event), digest, size)
    finally:
        connection.close()
    return oracle


def by_event_type(prefix="outbox.event."):
    """Topic rule of the default route."""
    return lambda expected: prefix + expected.event_type


def one_topic(topic):
    """Topic rule of a fixed topic."""
    return lambda expected: topic


def audit(oracle, records, topic_of=None, id_header="id", logical_topic=None):
    """Compare; records may be a generator and is read once.

    topic_of(expected) names the topic a row must be in. The digest covers, per topic and partition,
    all records in offset order (key, value, headers, timestamp): equal digests mean identical
    records. logical_topic(topic) renames topics in the digest, so that two runs can be compared.
    """
    result = AuditResult(committed=len(oracle))
    seen = {}
    last_number = {}
    partition_of = {}
    digests = {}
    for record in records:
        result.records += 1
        where = (record.topic, record.partition, record.offset, record.timestamp_ms)
        _digest(digests, record, logical_topic)
        raw_id = record.header(id_header)
        if raw_id is None:
            result.note("missing_id", str(where))
            continue
        event_id = raw_id.decode()
        expected = oracle.get(event_id)
        if expected is None:
            result.note("unknown", f"{event_id} at {where}")
            continue
        if event_id in seen:
            result.note("duplicates", f"{event_id} at {where}")
            result.repeated.setdefault(event_id, [seen[event_id]]).append(where)
        else:
            seen[event_id] = where
            _check_order(result, record, expected, last_number, partition_of)
        _check_content(result, record, expected, topic_of)
    for event_id, expected in oracle.items():
        if event_id not in seen:
            result.note("lost", f"{event_id} ({expected.key} number {expected.number})")
    total = hashlib.sha256()
    for place in sorted(digests):
        total.update(f"{place} {digests[place].hexdigest()}\n".encode())
    result.digest = total.hexdigest()
    return result


def _check_order(result, record, expected, last_number, partition_of):
    place = (record.topic, expected.key)
    if partition_of.setdefault(place, record.partition) != record.partition:
        result.note("split_keys", f"{place} in {partition_of[place]} and {record.partition}")
    if expected.number <= last_number.get(place, 0):
        result.note("inversions", f"{place}: {expected.number} after {last_number[place]}")
    else:
        last_number[place] = expected.number


def _check_content(result, record, expected, topic_of):
    value = record.value or b""
    if (len(value) != expected.payload_bytes
            or hashlib.md5(value).hexdigest() != expected.payload_md5):
        result.note("wrong_payload", f"{record.topic}/{record.partition}/{record.offset}: "
                    f"{len(value)} bytes, not {expected.payload_bytes}")
    if record.key is None or record.key.decode() != expected.key:
        result.note("wrong_key", f"{record.key!r}, not {expected.key!r}")
    if topic_of is not None and record.topic != topic_of(expected):
        result.note("wrong_topic", f"{record.topic}, not {topic_of(expected)}")


def _digest(digests, record, logical_topic):
    name = logical_topic(record.topic) if logical_topic else record.topic
    digest = digests.get((name, record.partition))
    if digest is None:
        digest = digests[(name, record.partition)] = hashlib.sha256()
    key = b"null" if record.key is None else b"%d %s" % (len(record.key), record.key)
    digest.update(b"%s|%d|%s|" % (key, record.timestamp_ms, record.headers_raw))
    digest.update(b"null" if record.value is None else b"%d " % len(record.value))
    digest.update(record.value or b"")
