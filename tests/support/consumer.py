"""An independent consumer: reads records back through the kcat binary, byte for byte.

kcat prints lengths before the bytes, so keys and values may hold anything (newlines, zero bytes,
900 kB); length -1 is null. Headers come as kcat prints them (name=value, joined by commas), so a
header value with a comma followed by text with "=" cannot be told apart; tests that need such
values read them with headers_raw.
"""

import dataclasses
import subprocess
import threading
import time

from support import cleanup
from support.kafka_admin import KafkaAdmin

# Ends a record's headers; three control characters that no test writes in this order.
_END = b"\x1e\x1d\n"
_FORMAT = r"%t %p %o %T %K %S\n%k%s%h\x1e\x1d\n"


@dataclasses.dataclass(slots=True)
class Record:
    """One Kafka record. key and value are bytes, or None for null."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers_raw: bytes

    @property
    def headers(self):
        """[(name, value bytes)]; kcat prints a null value as NULL."""
        result = []
        if not self.headers_raw:
            return result
        for part in self.headers_raw.split(b","):
            name, equals, value = part.partition(b"=")
            if not equals and result:
                result[-1] = (result[-1][0], result[-1][1] + b"," + part)
            else:
                result.append((name.decode(), value))
        return result

    def header(self, name):
        """Value of the first header of that name as bytes, or None."""
        prefix = name.encode() + b"="
        if self.headers_raw.startswith(prefix) and b"," not in self.headers_raw:
            return self.headers_raw[len(prefix):]
        return next((value for key, value in self.headers if key == name), None)


class Consumer:
    """Reads topics of one cluster. read_committed hides open and aborted transactions."""

    def __init__(self, bootstrap_servers, read_committed=False, properties=None):
        self._bootstrap_servers = bootstrap_servers
        self._properties = {
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "check.crcs": "true", "fetch.message.max.bytes": "4194304",
            "queued.max.messages.kbytes": "16384", "reconnect.backoff.max.ms": "500",
            "fetch.wait.max.ms": "50",
            **(properties or {}),
        }

    def stream(self, topics, partition=None):
        """Yield every record of the topics from the beginning to the end at this moment.

        Topic after topic; within a partition in offset order. Memory does not grow with the number
        of records. A topic that does not exist yields nothing.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        with KafkaAdmin(self._bootstrap_servers) as admin:
            known = admin.topics()
        for topic in names:
            if topic in known:
                yield from self._run(topic, ["-e"], partition)

    def read(self, topics):
        """All records up to the current end as a list."""
        return list(self.stream(topics))

    def wait_for(self, topics, count, timeout_s=60, progress=None):
        """Wait until the topics hold at least count records together; returns how many they do."""
        names = [topics] if isinstance(topics, str) else list(topics)
        deadline = time.monotonic() + timeout_s
        with KafkaAdmin(self._bootstrap_servers) as admin:
            while True:
                known = admin.topics()
                held = sum(admin.count(name) for name in names if name in known)
                if progress:
                    progress(held)
                if held >= count:
                    return held
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{held} of {count} records after {timeout_s} s")
                time.sleep(0.1)

    def read_until(self, topics, count, timeout_s=60):
        """Wait for count records, then read all there are."""
        self.wait_for(topics, count, timeout_s)
        return self.read(topics)

    def _command(self, topic, extra, partition):
        command = ["kcat", "-C", "-q", "-b", self._bootstrap_servers, "-t", topic, "-o",
                   "beginning", "-f", _FORMAT]
        for name, value in self._properties.items():
            command += ["-X", f"{name}={value}"]
        if partition is not None:
            command += ["-p", str(partition)]
        return command + extra

    def _run(self, topic, extra, partition):
        process = subprocess.Popen(self._command(topic, extra, partition),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=1 << 20,
                                   preexec_fn=cleanup.child_setup())
        cancel = cleanup.at_exit(process.kill)
        try:
            yield from parse(process.stdout)
            error = process.stderr.read()
            if process.wait() != 0:
                raise RuntimeError(f"kcat failed: {error.decode(errors='replace')}")
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
            cancel()


def parse(stream):
    """Records from kcat's output in _FORMAT."""
    names = {}
    while True:
        head = stream.readline()
        if not head:
            return
        topic, partition, offset, timestamp, key_size, value_size = head.split(b" ")
        key = _exactly(stream, int(key_size))
        value = _exactly(stream, int(value_size))
        headers = stream.readline()
        while not headers.endswith(_END):
            more = stream.readline()
            if not more:
                raise RuntimeError("kcat's output ends in the middle of a record")
            headers += more
        name = names.get(topic)
        if name is None:
            name = names[topic] = topic.decode()
        yield Record(name, int(partition), int(offset), int(timestamp), key, value,
                     headers[:-len(_END)])


def _exactly(stream, size):
    if size < 0:
        return None
    data = stream.read(size)
    if len(data) != size:
        raise RuntimeError("kcat's output ends in the middle of a record")
    return data


class Tail:
    """Follows one topic from its current end in the background and notes when each record came.

    Reads committed records only. For latencies: arrivals() gives (record, monotonic seconds of
    arrival).
    """

    def __init__(self, bootstrap_servers, topic):
        command = ["kcat", "-C", "-q", "-u", "-b", bootstrap_servers, "-t", topic, "-o", "end",
                   "-f", _FORMAT, "-X", "fetch.wait.max.ms=5", "-X",
                   "isolation.level=read_committed"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                         preexec_fn=cleanup.child_setup())
        self._cancel = cleanup.at_exit(self._process.kill)
        self._arrivals = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        try:
            for record in parse(self._process.stdout):
                self._arrivals.append((record, time.monotonic()))
        except (RuntimeError, ValueError):
            return  # Ended in the middle of a record by close().

    def arrivals(self):
        return list(self._arrivals)

    def close(self):
        self._process.kill()
        self._process.wait()
        self._thread.join(5)
        self._process.stdout.close()
        self._cancel()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()
