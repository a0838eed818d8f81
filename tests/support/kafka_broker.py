"""A real Apache Kafka broker: one KRaft node under Java 17, on free loopback ports.

Its jars come from Maven Central by pom.xml (fixed versions) into build/kafka/libs, once. Data and
ports survive stop, start and kill; everything is removed at exit.
"""

import base64
import hashlib
import os
import shutil
import signal
import subprocess
import time

from support import cleanup
from support.kafka_admin import KafkaAdmin

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_POM = os.path.join(ROOT, "tests", "support", "pom.xml")
_LIBS = os.path.join(ROOT, "build", "kafka", "libs")
START_TIMEOUT_S = 90

_LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
"""


def fetch_libs():
    """Bring the broker's jars into build/kafka/libs unless they are there; returns the folder."""
    with open(_POM, "rb") as pom:
        stamp = hashlib.sha256(pom.read()).hexdigest()
    stamp_path = os.path.join(_LIBS, ".complete")
    if os.path.exists(stamp_path):
        with open(stamp_path, encoding="ascii") as old:
            if old.read() == stamp:
                return _LIBS
    fresh = f"{_LIBS}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", _POM, "dependency:copy-dependencies",
         "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise RuntimeError("maven could not fetch the test broker:\n" + done.stdout + done.stderr)
    with open(os.path.join(fresh, ".complete"), "w", encoding="ascii") as out:
        out.write(stamp)
    shutil.rmtree(_LIBS, ignore_errors=True)
    os.replace(fresh, _LIBS)
    return _LIBS


class KafkaBroker:
    """Owns one broker process, its data directory and its two ports."""

    def __init__(self, *, auto_create=False, log_append_time=False, message_max_bytes=None,
                 settings=None, heap="512m", start=True):
        self.host = "127.0.0.1"
        self.port = cleanup.free_port()
        self.bootstrap_servers = f"{self.host}:{self.port}"
        self._controller_port = cleanup.free_port()
        self._heap = heap
        self._libs = fetch_libs()
        self.directory = cleanup.temporary_directory("outrider-kafka-")
        self.log_path = os.path.join(self.directory, "server.log")
        self._process = None
        self._log_mark = 0
        self._admin = None
        self._cancel_cleanup = cleanup.at_exit(self._destroy)
        self._write_files(auto_create, log_append_time, message_max_bytes, settings or {})
        self._format()
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    # Life of the broker -----------------------------------------------------------------------

    def start(self, timeout_s=START_TIMEOUT_S):
        """Start and return when the broker answers a metadata request."""
        if self.running():
            return self
        self._log_mark = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", self._path("server.properties"), heap=self._heap),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory,
                start_new_session=True, preexec_fn=cleanup.child_setup())
        deadline = time.monotonic() + timeout_s
        while "Kafka Server started" not in self.log_text()[self._log_mark:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Kafka did not start:\n" + self.log_text()[-3000:])
            time.sleep(0.05)
        return self

    def stop(self, timeout_s=40):
        """Clean stop; data and ports stay for the next start."""
        if not self.running():
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process = None

    def kill(self):
        """SIGKILL."""
        if self.running():
            self._process.kill()
            self._process.wait(20)
        self._process = None

    def freeze(self):
        """SIGSTOP: connections stay open, nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def restart(self):
        self.stop()
        return self.start()

    def running(self):
        return self._process is not None and self._process.poll() is None

    def close(self):
        self._destroy()
        self._cancel_cleanup()

    # Topics -----------------------------------------------------------------------------------

    @property
    def admin(self):
        """Admin calls that take milliseconds (support/kafka_admin.py)."""
        if self._admin is None:
            self._admin = KafkaAdmin(self.bootstrap_servers)
        return self._admin

    def create_topics(self, *names, partitions=6, config=None, exist_ok=False):
        self.admin.create_topics(names, partitions, 1, config, exist_ok)

    def delete_topics(self, *names, missing_ok=False):
        self.admin.delete_topics(names, missing_ok)

    def topics(self):
        return self.admin.topics()

    def end_offsets(self, topic):
        """{partition: end offset}."""
        return {p: high for p, (_low, high) in self.admin.offsets(topic).items()}

    def count(self, *topics):
        """Records in the topics (in a broker without transactions)."""
        return self.admin.count(topics)

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    # Inside -----------------------------------------------------------------------------------

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _java(self, main, *arguments, heap="256m"):
        return ["java", f"-Xmx{heap}", "-Xms64m", "-XX:+ExitOnOutOfMemoryError",
                f"-Dlog4j2.configurationFile={self._path('log4j2.properties')}",
                f"-Dkafka.logs.dir={self.directory}", "-cp", self._libs + "/*", main, *arguments]

    def _write_files(self, auto_create, log_append_time, message_max_bytes, extra):
        settings = {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.bootstrap.servers": f"{self.host}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},"
                         f"CONTROLLER://{self.host}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers},"
                                    f"CONTROLLER://{self.host}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._path("data"),
            "auto.create.topics.enable": str(auto_create).lower(),
            "num.partitions": "6",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            # Seven days of retention must not eat records that a test dates back.
            "log.retention.ms": "-1",
        }
        if log_append_time:
            settings["log.message.timestamp.type"] = "LogAppendTime"
        if message_max_bytes:
            settings["message.max.bytes"] = str(message_max_bytes)
        settings.update(extra)
        with open(self._path("server.properties"), "w", encoding="utf-8") as out:
            out.writelines(f"{name}={value}\n" for name, value in settings.items())
        with open(self._path("log4j2.properties"), "w", encoding="utf-8") as out:
            out.write(_LOG4J)

    def _format(self):
        # A leading letter keeps the id from looking like an option.
        cluster_id = "O" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")[1:]
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c",
                       self._path("server.properties")),
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError("Kafka could not format its storage:\n" + done.stdout + done.stderr)

    def _destroy(self):
        if self._admin is not None:
            self._admin.close()
            self._admin = None
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
