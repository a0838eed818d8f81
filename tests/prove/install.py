"""27: on a clean Debian 12 the .deb, init, doctor and the unit's own command make rows flow.

The long form makes a clean root (root rights and debootstrap), installs the package there by apt,
and runs the unit's own ExecStart as its own user, without capabilities, without new privileges,
without writable executable memory, and with a socket for its notifications; the servers are this
machine's. Each step is timed. The short form looks at package and unit only, as the long one first.
"""

import ctypes
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

from prove.common import say
from support import clean_root, cleanup, debian_package
from support.consumer import Consumer
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster

ROWS = 1_000
# From the package to the first record in Kafka, waiting for apt included.
PATH_S_MAX = 300
_PR_SET_MDWE = 65


def prove(short):
    folder = cleanup.temporary_directory("outrider-install-")
    package = debian_package.DebianPackage(folder)
    _look_at_package(package, folder)
    if short:
        return
    if not clean_root.possible():
        raise AssertionError("the long form needs root rights and debootstrap")
    with PostgresCluster(dead_letters=False) as postgres, KafkaBroker() as kafka:
        _walk(package, clean_root.make(), postgres, kafka)


def _look_at_package(package, folder):
    fields = package.fields()
    size = os.path.getsize(package.path) / 1e6
    say(f"{os.path.basename(package.path)}: {size:.1f} MB, {len(package.files())} files, "
        f"depends on {fields['Depends'].count(',') + 1} packages")
    assert package.missing() == [], f"the package lacks {package.missing()}"
    code, output = debian_package.verify_unit(folder)
    assert code == 0 and "outrider@" not in output, output
    score, _table = debian_package.unit_exposure()
    say(f"systemd-analyze verify: no finding; security --offline=yes: exposure {score} of 10")
    assert score <= debian_package.EXPOSURE_MAX


class Steps:
    """Prints how long each step took."""

    def __init__(self):
        self._began = self._last = time.monotonic()

    def done(self, what):
        now = time.monotonic()
        say(f"{now - self._began:6.1f} s  {what} ({now - self._last:.1f} s)")
        self._last = now

    def total(self):
        return self._last - self._began


def _walk(package, root, postgres, kafka):
    postgres.query("CREATE DATABASE shop")
    subprocess.run(["cp", package.path, os.path.join(root, "tmp/outrider.deb")], check=True)
    steps = Steps()
    clean_root.run(root, "apt-get", "update", "-q")
    told = clean_root.run(root, "apt-get", "install", "-q", "-y", "--no-install-recommends",
                          "/tmp/outrider.deb").stdout
    steps.done("apt install ./outrider.deb")
    assert "systemctl enable --now outrider@NAME" in told
    user = clean_root.run(root, "getent", "passwd", "outrider").stdout.strip().split(":")
    assert user[5:] == ["/nonexistent", "/usr/sbin/nologin"], user
    _nothing_runs(root)

    admin = postgres.dsn("shop")
    clean_root.run(root, "outrider", "init", "--dsn", admin, "--apply")
    postgres.query("ALTER ROLE outrider_relay PASSWORD 'between us'")
    steps.done("outrider init --apply")
    port = cleanup.free_port()
    _configure(root, postgres, kafka, port)
    clean_root.run(root, "outrider", "check-config", "-c", "/etc/outrider/shop.yaml",
                   environment={"RELAY_PASSWORD": "between us"})
    _doctor(root, steps)

    service = Service(root, user, port)
    first = service.wait_for("READY=1")
    steps.done(f"the unit's ExecStart is ready; it said {first.splitlines()}")
    cleanup.wait_until(lambda: service.get("/readyz")[0] == 200, 30, "readyz")
    steps.done(f"readyz: {service.get('/readyz')[1].strip()}")
    postgres.query("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)"
                   " SELECT 'order', i::text, 'OrderPlaced', '{}' FROM generate_series(1, %s) i",
                   (ROWS,), dbname="shop")
    topic = "outbox.event.OrderPlaced"
    reader = Consumer(kafka.bootstrap_servers)
    cleanup.wait_until(lambda: service.metric("outbox_events_published_total") >= ROWS, 60,
                       "rows to be published")
    keys = {record.key for record in reader.read([topic])}
    assert len(keys) == ROWS, f"{len(keys)} of {ROWS} keys in Kafka"
    steps.done(f"{ROWS:,} rows, {len(keys):,} keys in Kafka")
    assert steps.total() <= PATH_S_MAX, f"{steps.total():.0f} s"
    _look_at_running(root, service)
    service.stop()
    steps.done("SIGTERM: STOPPING=1, exit code 0")
    _remove(root)
    steps.done("package removed and purged: the slot is warned of, the configuration stays")


def _nothing_runs(root):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            assert os.readlink(f"/proc/{pid}/root") != root, f"process {pid} runs in the root"
        except OSError:
            continue


def _configure(root, postgres, kafka, port):
    """The example, with the values of here, as the comments in it say."""
    with open(os.path.join(root, "etc/outrider/example.yaml"), encoding="utf-8") as file:
        text = file.read()
    for old, new in (
            ("127.0.0.1:9640", f"127.0.0.1:{port}"), ("outrider-example", "outrider-shop"),
            ("name: example", "name: shop"),
            ("@db.internal/shop?sslmode=verify-full&sslrootcert="
             "/etc/ssl/certs/ca-certificates.crt", f"@127.0.0.1:{postgres.port}/shop"),
            ("kafka-1.internal:9092,kafka-2.internal:9092",
             f"{kafka.bootstrap_servers}\n      topics:\n        create: true\n"
             "        replication_factor: 1")):
        assert old in text, f"the example has no {old!r}"
        text = text.replace(old, new)
    for name, content in (("shop.yaml", text), ("shop.env", "RELAY_PASSWORD=between us\n")):
        path = os.path.join(root, "etc/outrider", name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content)
        os.chmod(path, 0o600 if name.endswith(".env") else 0o640)
    clean_root.run(root, "chgrp", "outrider", "/etc/outrider/shop.yaml")


def _doctor(root, steps):
    if "doctor" not in clean_root.run(root, "outrider", "--help").stdout:
        say("this binary has no doctor")
        return
    done = clean_root.run(root, "outrider", "doctor", "-c", "/etc/outrider/shop.yaml", "--json",
                          environment={"RELAY_PASSWORD": "between us"}, check=False)
    report = json.loads(done.stdout.strip().splitlines()[-1])
    failed = [check for check in report["checks"] if check.get("verdict") == "fail"]
    assert done.returncode == 0 and not failed, done.stdout
    warned = [check["name"] for check in report["checks"] if check.get("verdict") == "warn"]
    steps.done(f"outrider doctor: {len(report['checks'])} checks, 0 failed, "
               f"{len(warned)} warnings {warned}")


class Service:
    """What systemd would start: the unit's command line, user, folder, environment, limits."""

    def __init__(self, root, user, port):
        self._root, self._port = root, port
        self._uid, self._gid = int(user[2]), int(user[3])
        os.makedirs(os.path.join(root, "run/outrider-shop"), 0o750)
        os.chown(os.path.join(root, "run/outrider-shop"), self._uid, self._gid)
        # The path of a socket is short, so it is bound from inside the folder.
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        here = os.getcwd()
        os.chdir(os.path.join(root, "run"))
        self._notify.bind("notify")
        os.chmod("notify", 0o666)
        os.chdir(here)
        (command,) = debian_package.unit_values("ExecStart")
        words = command.replace("%i", "shop").split()
        self._log = os.path.join(root, "tmp/relay.log")
        libc = ctypes.CDLL(None, use_errno=True)
        parent_death = cleanup.child_setup()

        def limits():
            parent_death()
            os.umask(0o077)
            if libc.prctl(_PR_SET_MDWE, 1, 0, 0, 0) != 0:
                os.write(2, b"this kernel has no PR_SET_MDWE\n")

        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                clean_root.inside(
                    root, "setpriv", "--reuid=outrider", "--regid=outrider", "--clear-groups",
                    "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *words,
                    environment={"RELAY_PASSWORD": "between us", "NOTIFY_SOCKET": "/run/notify",
                                 "WATCHDOG_USEC": "60000000"}),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=limits)

    @property
    def pid(self):
        return self._process.pid

    def wait_for(self, text, timeout_s=30):
        deadline = time.monotonic() + timeout_s
        self._notify.settimeout(0.5)
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self.log()
            try:
                message = self._notify.recv(65536).decode()
            except TimeoutError:
                continue
            if text in message:
                return message
        raise AssertionError(f"no {text} within {timeout_s} s\n{self.log()}")

    def log(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def get(self, path):
        try:
            url = f"http://127.0.0.1:{self._port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name):
        return sum(float(line.rpartition(" ")[2]) for line in self.get("/metrics")[1].splitlines()
                   if line.startswith((name + "{", name + " ")))

    def stop(self):
        self._process.terminate()
        self.wait_for_end("STOPPING=1")

    def wait_for_end(self, text):
        seen, deadline = "", time.monotonic() + 40
        while self._process.poll() is None and time.monotonic() < deadline:
            self._notify.settimeout(0.2)
            try:
                seen += self._notify.recv(65536).decode()
            except TimeoutError:
                continue
        self._notify.setblocking(False)
        try:
            while True:
                seen += self._notify.recv(65536).decode()
        except BlockingIOError:
            pass
        assert self._process.wait(5) == 0, f"exit code {self._process.returncode}\n{self.log()}"
        assert text in seen, seen


def _look_at_running(root, service):
    with open(f"/proc/{service.pid}/status", encoding="ascii") as file:
        status = dict(re.findall(r"^(\w+):\s*(.*)$", file.read(), flags=re.M))
    uids = status["Uid"].split()
    assert len(set(uids)) == 1 and uids[0] != "0", status["Uid"]
    assert status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    assert int(status["CapBnd"], 16) == 0
    say(f"the process: user {uids[0]}, no capabilities, NoNewPrivs, "
        f"{int(status['VmRSS'].split()[0]) / 1024:.1f} MB resident")
    page = service.get("/")
    if page[0] == 200:
        assert "<html" in page[1].lower() and not re.search(r'(?:src|href)="https?:', page[1])
        say(f"status page: {len(page[1]):,} bytes, nothing from outside")
    told = clean_root.run(root, "outrider", "status", "-c", "/etc/outrider/shop.yaml",
                          environment={"RELAY_PASSWORD": "between us"}).stdout
    say(f"outrider status: {told.strip().splitlines()[0]}")
    _look_at_system_calls(root, service)


def _look_at_system_calls(root, service):
    """What it calls while it works, against the unit's filter."""
    trace = os.path.join(root, "tmp/trace")
    with open(trace + ".err", "wb") as err:
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, "-p", str(service.pid)],
                                  stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        time.sleep(1)
        for _ in range(5):
            service.get("/metrics")
            time.sleep(1)
        tracer.terminate()
        tracer.wait(10)
    with open(trace, encoding="utf-8", errors="replace") as file:
        called = set(re.findall(r"^\d+ +(\w+)\(", file.read(), flags=re.M))
    assert len(called) >= 5, called
    refused = called - debian_package.allowed_system_calls()
    assert not refused, f"SystemCallFilter would refuse {sorted(refused)}"
    say(f"{len(called)} different system calls seen at work, all within SystemCallFilter")


def _remove(root):
    told = clean_root.run(root, "apt-get", "purge", "-q", "-y", "outrider").stdout
    assert "pg_drop_replication_slot" in told and "keeps WAL" in told, told
    left = [name for name in ("usr/bin/outrider", "etc/outrider/example.yaml",
                              "usr/lib/systemd/system/outrider@.service")
            if os.path.exists(os.path.join(root, name))]
    assert not left, left
    assert os.path.exists(os.path.join(root, "etc/outrider/shop.yaml")), "a configuration is gone"
