#!/usr/bin/env python3
"""A small relay, right or wrong on purpose: shows that the audit can fail (test_audit.py).

It peeks at the slot by SQL, produces through librdkafka, and advances the slot after the
acknowledgements. `--wrong MODE` makes one mistake at the so-manieth row of a process:
drop it, repeat it, corrupt its payload, send it a second time under a foreign id (phantom), or with
a wrong key; or always: send what one look brings in reverse, or advance before producing (early).
"""

import argparse
import ctypes
import json
import signal
import sys
import time
import uuid
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_void_p

import psycopg2

MODES = ("none", "drop", "repeat", "reverse", "corrupt", "phantom", "key", "early")
_TOPIC, _VALUE, _KEY, _FLAGS, _HEADER, _END = 1, 4, 5, 7, 9, 0
_COPY = 0x2
_PEEK = ("SELECT lsn::text, data FROM pg_logical_slot_peek_changes(%s, NULL, 1000,"
         " 'format-version', '2', 'add-tables', %s)")


class Producer:
    """librdkafka through ctypes; send() copies, flush() waits for the acknowledgements."""

    def __init__(self, bootstrap_servers):
        self._lib = ctypes.CDLL("librdkafka.so.1")
        self._lib.rd_kafka_conf_new.restype = c_void_p
        self._lib.rd_kafka_new.restype = c_void_p
        error = ctypes.create_string_buffer(512)
        conf = c_void_p(self._lib.rd_kafka_conf_new())
        for name, value in {"bootstrap.servers": bootstrap_servers, "enable.idempotence": "true",
                            "linger.ms": "2", "log_level": "0"}.items():
            self._lib.rd_kafka_conf_set(conf, name.encode(), value.encode(), error, c_size_t(512))
        self._handle = c_void_p(self._lib.rd_kafka_new(0, conf, error, c_size_t(512)))
        if not self._handle:
            raise RuntimeError(error.value.decode())

    def send(self, topic, row_id, key, value):
        # The C function has no fixed arguments, so each one carries its type.
        code = self._lib.rd_kafka_producev(
            self._handle, c_int(_TOPIC), c_char_p(topic.encode()), c_int(_VALUE), c_char_p(value),
            c_size_t(len(value)), c_int(_KEY), c_char_p(key), c_size_t(len(key)), c_int(_HEADER),
            c_char_p(b"id"), c_char_p(row_id), c_ssize_t(len(row_id)), c_int(_FLAGS), c_int(_COPY),
            c_int(_END))
        if code:
            raise RuntimeError(f"librdkafka refused a record: {code}")

    def flush(self):
        while self._lib.rd_kafka_flush(self._handle, c_int(1000)):
            pass


class FakeRelay:
    """One pass takes up to 1,000 changes, whole transactions."""

    def __init__(self, settings, wrong, at):
        self._settings = settings
        self._wrong = wrong
        self._at = at
        self._rows = 0
        self._connection = psycopg2.connect(settings["dsn"])
        self._connection.autocommit = True
        self._producer = Producer(settings["bootstrap_servers"])
        slot = settings["slot"]
        if not self._query("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", slot):
            self._query("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", slot)

    def turn(self):
        seen = self._query("SELECT pg_current_wal_flush_lsn()::text")[0][0]
        changes = self._query(_PEEK, self._settings["slot"], self._settings["table"])
        rows, end = [], None if changes else seen
        for lsn, text in changes:
            change = json.loads(text)
            if change["action"] == "I":
                rows.append({c["name"]: c["value"] for c in change["columns"]})
            elif change["action"] == "C":
                end = lsn
        if self._wrong == "early" and end:
            self._advance(end)
            for at, row in enumerate(rows):
                if at == max(0, len(rows) - 5):
                    # Whoever sees records flow and kills us then finds the last ones missing.
                    self._producer.flush()
                    time.sleep(0.3)
                self._send(row)
            self._producer.flush()
            return bool(rows)
        # Long transactions write several rows of one key and type.
        for row in reversed(rows) if self._wrong == "reverse" else rows:
            self._take(row)
        self._producer.flush()
        if end:
            self._advance(end)
        return bool(rows)

    def _take(self, row):
        self._rows += 1
        if self._rows != self._at or self._wrong in ("none", "early", "reverse"):
            self._send(row)
        elif self._wrong != "drop":
            changed = dict(row)
            if self._wrong == "corrupt":
                changed["payload"] = row["payload"].replace("number", "NUMBER")
            elif self._wrong == "phantom":
                changed["id"] = str(uuid.uuid4())
                self._send(row)
            elif self._wrong == "key":
                changed["aggregate_id"] = "another"
            self._send(changed)
            if self._wrong == "repeat":
                self._producer.flush()
                self._send(row)

    def _send(self, row):
        self._producer.send(self._settings["topic_prefix"] + row["event_type"],
                            row["id"].encode(), row["aggregate_id"].encode(),
                            row["payload"].encode())

    def _advance(self, lsn):
        self._query("SELECT pg_replication_slot_advance(%s, %s)", self._settings["slot"], lsn)

    def _query(self, sql, *parameters):
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--wrong", choices=MODES, default="none")
    parser.add_argument("--at", type=int, default=60)
    arguments = parser.parse_args()
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_unused: stopping.append(True))
    with open(arguments.config, encoding="utf-8") as file:
        relay = FakeRelay(json.load(file), arguments.wrong, arguments.at)
    while not stopping:
        if not relay.turn():
            time.sleep(0.02)
    return 0


if __name__ == "__main__":
    sys.exit(main())
