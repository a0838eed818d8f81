"""The servers of the audit, alive over many faults: PostgreSQL, Kafka, and a proxy between.

Each episode gets a database, a slot and topics of its own. Where root may mount, the broker's log
lies on a small disk that can be filled.
"""

import os
import shutil
import subprocess
import time

import psycopg2

from support import cleanup
from support.kafka_admin import KafkaAdmin, KafkaError
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.tcp_proxy import TcpProxy

# Compilers and other proofs may share the machine: waits are long, and end when the thing is there.
PATIENCE_S = 180
_DISK_MB = 1_024

_BROKER = {
    # A killed broker may not come back before the session of its last life is over.
    "broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200",
    "log.segment.bytes": str(16 * 1024 * 1024), "log.index.size.max.bytes": "65536",
    "log.cleaner.dedupe.buffer.size": "4194304", "file.delete.delay.ms": "1000",
    "log.segment.delete.delay.ms": "1000", "initial.broker.registration.timeout.ms": "120000",
}


class SmallDisk:
    """A tmpfs of fixed size; fill() leaves no free byte, clear() gives them back."""

    def __init__(self):
        self.directory = cleanup.temporary_directory("outrider-audit-disk-")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs",
                               self.directory], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip())
        self._cancel_cleanup = cleanup.at_exit(self._unmount)
        self._filler = os.path.join(self.directory, "filler")

    def fill(self):
        with open(self._filler, "wb", buffering=0) as out:
            size = 1024 * 1024
            while size >= 512:
                try:
                    out.write(b"\0" * size)
                except OSError:
                    size //= 2

    def clear(self):
        os.remove(self._filler)

    def close(self):
        self._unmount()
        self._cancel_cleanup()

    def _unmount(self):
        subprocess.run(["umount", "-l", self.directory], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def small_disk():
    """A SmallDisk, or None where mounting is not allowed."""
    if os.geteuid() != 0:
        return None
    try:
        return SmallDisk()
    except OSError:
        return None


class Stage:
    """Owns the servers of one worker."""

    def __init__(self, disk=True):
        self.disk = small_disk() if disk else None
        settings = dict(_BROKER)
        if self.disk:
            settings["log.dirs"] = os.path.join(self.disk.directory, "log")
        self.kafka = KafkaBroker(log_append_time=True, settings=settings)
        self.cluster = PostgresCluster(settings={"max_wal_size": "1GB"})
        self.proxy = TcpProxy(self.cluster.port)
        self._numbers = 0

    def close(self):
        self.proxy.close()
        self.cluster.close()
        self.kafka.close()
        if self.disk:
            self.disk.close()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    def heal(self):
        """Everything up and unhindered, whatever the last fault left."""
        self.proxy.latency_s = 0.0
        self.proxy.restore()
        if self.kafka.running():
            self.kafka.thaw()
        self.kafka.start()
        self.cluster.start()
        self.wait_database()

    def wait_database(self, timeout_s=PATIENCE_S):
        """Until PostgreSQL takes connections (it may be in crash recovery)."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.cluster.connect().close()
                return
            except psycopg2.OperationalError:
                if time.monotonic() > deadline or not self.cluster.running():
                    raise
                time.sleep(0.03)

    def new_name(self):
        """A name no other episode of this stage has; good as database, slot and topic."""
        self._numbers += 1
        return f"audit_{os.getpid()}_{self._numbers}"

    def walsender(self, slot):
        """Process that holds the slot, or None (also while the server is away)."""
        try:
            return self.cluster.scalar(
                "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (slot,))
        except psycopg2.Error:
            return None

    def remove(self, name, topics):
        """Drop what an episode has made."""
        self.heal()
        cleanup.wait_until(lambda: self._slot_gone(name), PATIENCE_S, f"slot {name} to be free")
        self.cluster.query(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.kafka.delete_topics(*topics, missing_ok=True)

    def _slot_gone(self, name):
        for active_pid, in self.cluster.query(
                "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (name,)):
            if active_pid is not None:
                self.cluster.query("SELECT pg_terminate_backend(%s)", (active_pid,))
                return False
            try:
                self.cluster.query("SELECT pg_drop_replication_slot(%s)", (name,))
            except psycopg2.Error:
                return False
        return True


class Flow:
    """How many offsets the topics hold, looked up at the broker: is anything flowing?"""

    def __init__(self, bootstrap_servers, topics, look):
        self._admin = KafkaAdmin(bootstrap_servers, timeout_s=2)
        self._topics = list(topics)
        self._look = look  # Called at every poll; raises when waiting has no sense any more.

    def close(self):
        self._admin.close()

    def count(self):
        """Sum of the end offsets, or None while the broker does not answer."""
        try:
            return sum(high for topic in self._topics
                       for _low, high in self._admin.offsets(topic).values())
        except KafkaError:
            return None

    def now(self, timeout_s=PATIENCE_S):
        """Like count, but waits for the broker."""
        deadline = time.monotonic() + timeout_s
        while (held := self.count()) is None:
            self._look()
            if time.monotonic() > deadline:
                raise TimeoutError("the broker does not answer")
            time.sleep(0.05)
        return held

    def wait_more(self, than, by=1, timeout_s=PATIENCE_S):
        """Until the count is at least `than` + `by`; returns it."""
        deadline = time.monotonic() + timeout_s
        while (held := self.now(timeout_s)) < than + by:
            self._look()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no records for {timeout_s} s: {held - than} since the fault")
            time.sleep(0.01)
        return held
