"""`outrider demo`: what it shows is true, and nothing of it is left behind.

Each run carries a mark in its environment, which every process it starts inherits.
"""

import os
import re
import shutil
import signal
import subprocess
import time
import uuid

import pytest

from support import cleanup
from support.relay import binary

RUN_LIMIT_S = 60


class Demo:
    """One run of the demo, its output so far, and what of it is still there."""

    def __init__(self, *arguments):
        self._mark = f"DEMO_TEST_MARK={uuid.uuid4()}".encode()
        name, value = self._mark.decode().split("=")
        self._output = os.path.join(cleanup.temporary_directory("outrider-demo-test-"), "output")
        with open(self._output, "wb") as out:
            self.process = subprocess.Popen(
                [binary(), "demo", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, name: value}, preexec_fn=cleanup.child_setup())
        cleanup.at_exit(self.process.kill)

    def text(self):
        with open(self._output, encoding="utf-8") as output:
            return output.read()

    def wait(self):
        try:
            return self.process.wait(RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the demo still runs after {RUN_LIMIT_S} s\n{self.text()}") from None

    def wait_for(self, text):
        def seen():
            assert self.process.poll() is None or text in self.text(), self.text()
            return text in self.text()
        cleanup.wait_until(seen, RUN_LIMIT_S, f"{text!r} in the demo's output", 0.01)

    def processes(self):
        """Pids of processes of this run that still exist."""
        found = []
        directory = self.directory()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    marked = self._mark in environ.read().split(b"\0")
                # PostgreSQL's processes write their titles over their environment.
                inside = directory and os.readlink(f"/proc/{pid}/cwd").startswith(directory)
            except OSError:
                continue
            if marked or inside:
                found.append(int(pid))
        return found

    def directory(self):
        found = re.search(r"/\S*/outrider-demo-[A-Za-z0-9]{6}", self.text())
        return found.group(0) if found else None

    def assert_nothing_left(self):
        cleanup.wait_until(lambda: not self.processes(), 10, "the demo's processes to be gone")
        if self.directory():
            assert not os.path.exists(self.directory()), os.listdir(self.directory())


def assert_shows_everything(text):
    assert "WRONG" not in text
    for step in ("1. Orders placed", "2. Transactions rolled back", "3. Event written and deleted",
                 "4. kill -9", "5. Kafka down", "Summary"):
        assert step in text
    relayed = re.search(r"([\d,]+) committed = ([\d,]+) relayed, 0 lost", text)
    assert relayed and relayed.group(1) == relayed.group(2)
    assert int(relayed.group(1).replace(",", "")) > 2_500
    assert "3 events rolled back: 0 records" in text
    assert "rows in the outbox: 0" in text
    assert re.search(r"p50 [\d.]+ ms, p99 [\d.]+ ms", text)
    assert re.search(r"confirmed LSN [0-9A-F]+/[0-9A-F]+ >= ", text)
    assert "outrider init --dsn" in text


@pytest.mark.smoke
def test_shows_the_main_job_and_leaves_nothing_behind():
    demo = Demo()
    cleanup.wait_until(lambda: "outrider demo:" in demo.text(), 1, "the first line")
    code = demo.wait()
    assert code == 0, demo.text()
    assert_shows_everything(demo.text())
    assert re.search(r"down for 3\.\d s; [\d,]+ committed orders were waiting", demo.text())
    demo.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", [
    "starting PostgreSQL", "What runs where", "2. Transactions rolled back", "4. kill -9",
    "5. Kafka down"])
def test_a_signal_at_any_moment_leaves_nothing_behind(moment, number):
    demo = Demo()
    demo.wait_for(moment)
    time.sleep(0.3)
    demo.process.send_signal(number)
    began = time.monotonic()
    code = demo.wait()
    assert code == 130, demo.text()
    assert time.monotonic() - began < 10
    demo.assert_nothing_left()


def test_children_end_with_a_demo_that_is_killed():
    demo = Demo()
    demo.wait_for("2. Transactions rolled back")
    assert len(demo.processes()) >= 8, "the demo, the relay, Kafka and PostgreSQL's own"
    demo.process.kill()
    demo.wait()
    cleanup.wait_until(lambda: not demo.processes(), 15, "the demo's processes to be gone")
    # Nobody is left to remove it.
    shutil.rmtree(demo.directory())


def test_a_reader_that_goes_away_ends_the_demo():
    done = subprocess.run(["sh", "-c", f"'{binary()}' demo | head -n 2"], capture_output=True,
                          text=True, timeout=RUN_LIMIT_S, check=False)
    directory = re.search(r"/\S*/outrider-demo-[A-Za-z0-9]{6}", done.stdout).group(0)
    assert not os.path.exists(directory)


def test_keep_can_be_read_and_written_by_others():
    demo = Demo("--keep")
    demo.wait_for("Everything keeps running")
    time.sleep(0.2)
    kept = demo.text().rpartition("Everything keeps running")[2]
    servers, topic = re.search(r"kcat -b (\S+) -C -t (\S+)", kept).groups()
    socket = re.search(r"psql -h (\S+) -U postgres", kept).group(1)
    subprocess.run(
        ["psql", "-X", "-q", "-h", socket, "-U", "postgres", "-c",
         "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)"
         " VALUES ('customer', 'by-hand', 'OrderPlaced', '{\"number\": 1}')"], check=True)

    def keys():
        return subprocess.run(["kcat", "-b", servers, "-C", "-e", "-q", "-t", topic, "-f", "%k\n"],
                              capture_output=True, text=True, check=True).stdout.split()

    cleanup.wait_until(lambda: "by-hand" in keys(), 10, "the row written by hand")
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 0, demo.text()
    demo.assert_nothing_left()


def test_uses_real_servers_and_removes_its_own_there(kafka, postgres, database, consumer):
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    before = postgres.query(schemas, dbname=database)
    topics_before = _topics(kafka)
    demo = Demo("--kafka", kafka.bootstrap_servers, "--dsn", postgres.dsn(database))
    code = demo.wait()
    assert code == 0, demo.text()
    assert_shows_everything(demo.text())
    assert "skipped: the broker is yours" in demo.text()
    assert postgres.query(schemas, dbname=database) == before
    assert postgres.query("SELECT pubname FROM pg_publication", dbname=database) == []
    assert postgres.slot("outrider_demo") is None
    cleanup.wait_until(lambda: _topics(kafka) == topics_before, 10, "the topics to be removed")
    demo.assert_nothing_left()


def test_a_signal_removes_its_own_from_real_servers(kafka, postgres, database):
    demo = Demo("--kafka", kafka.bootstrap_servers, "--dsn", postgres.dsn(database))
    demo.wait_for("4. kill -9")
    time.sleep(0.5)
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 130, demo.text()
    assert postgres.slot("outrider_demo") is None
    assert postgres.query("SELECT 1 FROM pg_namespace WHERE nspname = 'outrider_demo'",
                          dbname=database) == []
    demo.assert_nothing_left()


def test_own_database_with_the_in_process_kafka(postgres, database):
    demo = Demo("--dsn", postgres.dsn(database))
    assert demo.wait() == 0, demo.text()
    assert_shows_everything(demo.text())
    assert re.search(r"down for 3\.\d s", demo.text())
    assert postgres.slot("outrider_demo") is None
    demo.assert_nothing_left()


def test_a_second_demo_on_a_database_is_refused_and_leaves_the_first_alone(postgres, database):
    first = Demo("--dsn", postgres.dsn(database))
    first.wait_for("What runs where")
    second = Demo("--dsn", postgres.dsn(database))
    assert second.wait() == 1
    assert 'slot "outrider_demo" is in use' in second.text()
    assert first.wait() == 0, first.text()
    for demo in (first, second):
        demo.assert_nothing_left()


def test_what_a_killed_demo_left_in_a_database_is_taken_over(postgres, database):
    killed = Demo("--dsn", postgres.dsn(database))
    killed.wait_for("2. Transactions rolled back")
    killed.process.kill()
    killed.wait()
    cleanup.wait_until(lambda: not postgres.slot("outrider_demo")["active"], 10, "the slot")
    shutil.rmtree(killed.directory())
    demo = Demo("--dsn", postgres.dsn(database))
    assert demo.wait() == 0, demo.text()
    assert postgres.slot("outrider_demo") is None


def test_fails_when_the_relay_ends_by_itself():
    demo = Demo()
    demo.wait_for("1. Orders placed")
    os.kill(int(re.search(r"relay +pid (\d+)", demo.text()).group(1)), signal.SIGKILL)
    assert demo.wait() == 1
    assert "the relay ended with 137" in demo.text()
    demo.assert_nothing_left()


def test_says_what_is_missing_without_a_server(database, postgres):
    demo = Demo("--dsn", f"host={postgres.host} port=1 user=postgres connect_timeout=2")
    assert demo.wait() == 1
    assert "cannot connect to the database" in demo.text()
    demo.assert_nothing_left()


def _topics(kafka):
    listed = subprocess.run(["kcat", "-L", "-b", kafka.bootstrap_servers], capture_output=True,
                            text=True, check=True).stdout
    return sorted(re.findall(r'topic "(outrider-demo\.[^"]*)"', listed))
