"""23: four relays built wrong on purpose are each caught, and the right one passes the same runs.

Delivered when librdkafka has the record; the position outside the records' Kafka transaction; the
slot confirmed past the stored position; no gapless guarantee with several requests under way. Each
is one file of the sources with a checked change (wrong_builds.cmake), linked into a whole relay.
The short form only checks that every change still applies: broken cores run in the simulator (proof
11) each time, the whole relays on demand.
"""

import os
import re
import subprocess
import sys
import time

from prove.common import Progress, say
from support.cleanup import wait_until
from support.kafka_broker import KafkaBroker
from support.postgres_cluster import PostgresCluster
from support.relay import EXIT_FATAL, ROOT, binary
from support.rig import Rig
from support.workload import write_other_wal

_TESTS = os.path.join(ROOT, "tests")
_CHANGES = os.path.join(_TESTS, "prove", "wrong_builds.cmake")
_FOREIGN_MB = 4
_CATCH_S = 180


def prove(short):
    applied = _run(["cmake", "-P", _CHANGES], cwd=ROOT)
    assert applied.returncode == 0, f"a change no longer applies\n{applied.stdout}"
    names = re.findall(r"^-- (\w+): changes", applied.stdout, flags=re.M)
    assert names == [name for name, *_rest in _CATCHES], f"no run would catch one of {names}"
    say(f"{len(names)} wrong builds: every change still applies to the sources")
    if short:
        return
    right, folder = binary(), _build()
    for name, catch, expected in _CATCHES:
        title = name.replace("_", " ")
        began = time.monotonic()
        caught = catch(os.path.join(folder, "outrider_" + name))
        assert caught, f"{title} was NOT caught"
        assert re.search(expected, caught), f"{title} was caught by something else: {caught}"
        took = time.monotonic() - began
        say(f"{title}: caught in {took:.0f} s by {catch.__doc__}: {caught}")
        assert took <= _CATCH_S, f"took longer than {_CATCH_S} s"
        failed = catch(right)
        assert not failed, f"the right relay fails what catches \"{title}\": {failed}"
        say(f"{title}: the right relay passes the same")


# What catches which; each says what failed, or nothing -------------------------------------------

def _audit_of_frozen_brokers(program):
    """the audit, relay killed while the broker is frozen"""
    return _audit(program, "--seed", "136", "--kills", "3", "--only", "broker_freeze",
                  "--guarantee", "at_least_once")


def _audit_of_kills(program):
    """the audit, SIGKILL of the relay"""
    return _audit(program, "--seed", "23", "--kills", "12", "--only", "relay_kill",
                  "--guarantee", "exactly_once")


def _start_after_foreign_wal(program):
    """the relay's own judgement of its slot, killed while the broker was frozen"""
    before = os.environ.get("OUTRIDER_BIN")
    os.environ["OUTRIDER_BIN"] = program
    try:
        with KafkaBroker() as kafka, PostgresCluster() as cluster:
            return _confirmed_too_far(kafka, cluster)
    finally:
        if before is None:
            del os.environ["OUTRIDER_BIN"]
        else:
            os.environ["OUTRIDER_BIN"] = before


def _confirmed_too_far(kafka, cluster):
    """Nothing can be stored while the broker is frozen, so the slot must stand still."""
    r = Rig(cluster, kafka, over={"delivery": {"guarantee": "exactly_once"},
                                  "source": {"status_interval_ms": 200}})
    try:
        r.start()
        r.numbers(10)
        r.wait_confirmed(30)
        kafka.freeze()
        frozen_at = r.slot_state()["confirmed_flush_lsn"]
        write_other_wal(cluster, _FOREIGN_MB, r.dbname)
        target = cluster.current_lsn()
        try:
            wait_until(lambda: _distance(cluster, r.slot, target) <= 0, 5, "the slot", 0.1)
        except TimeoutError:
            pass  # As it should be.
        confirmed = r.slot_state()["confirmed_flush_lsn"]
        passed = _distance(cluster, r.slot, target) <= 0
        r.relay.kill()
        kafka.thaw()
        r.relay.start(wait_ready=False)
        r.numbers(10, start=11)
        what = f"confirmed {frozen_at} to {confirmed} while no position could be stored"
        try:
            r.wait_confirmed(30)
        except RuntimeError:
            assert r.relay.exit_code() == EXIT_FATAL, r.relay.log_text()[-3000:]
            code = re.search(r"SLOT_\w+", r.relay.log_text())
            return f"{code.group(0) if code else 'stopped'}, {what}"
        assert r.values() == [str(i) for i in range(1, 21)], "records are lost or repeated"
        return what if passed else ""
    finally:
        r.close()


def _distance(cluster, slot, target):
    return cluster.scalar("SELECT %s::pg_lsn - confirmed_flush_lsn FROM pg_replication_slots"
                          " WHERE slot_name = %s", (target, slot))


def _refused_row(program):
    """an oversize row among neighbours of its key (test_refused_rows.py)"""
    test = ("integration/test_refused_rows.py::"
            "test_one_oversize_row_among_neighbours_of_its_key_leaves_alone[at_least_once]")
    done = _run([sys.executable, "-m", "pytest", "-c", "pytest.ini", test],
                cwd=_TESTS, env={**os.environ, "OUTRIDER_BIN": program})
    if done.returncode == 0:
        return ""
    assert done.returncode == 1, f"the test was not carried out\n{done.stdout[-3000:]}"
    return "; ".join(line[1:].strip() for line in done.stdout.splitlines()
                     if line.startswith("E  "))[:300]


_CATCHES = [
    ("confirms_on_produce", _audit_of_frozen_brokers, r"\d lost"),
    ("position_outside_the_transaction", _audit_of_kills, r"\d duplicates"),
    ("slot_past_the_position", _start_after_foreign_wal, "SLOT_ADVANCED"),
    ("no_gapless_guarantee", _refused_row, r"\d+ of \d+: at \d+"),
]


# Building and running ----------------------------------------------------------------------------

def _build():
    """Folder of the wrong relays: beside the one under test if that build has tests, else our own.
    """
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(binary()))))
    if not _makes_tests_of_ours(folder):
        folder = os.path.join(ROOT, "build", "test")
        done = _run(["cmake", "--preset", "test", "-Wno-dev", "--log-level=WARNING"], cwd=ROOT)
        assert done.returncode == 0, done.stdout[-3000:]
    began = time.monotonic()
    progress = Progress("seconds of building the wrong relays")
    log = os.path.join(folder, "wrong_builds.log")
    with open(log, "w", encoding="utf-8") as out:
        with subprocess.Popen(["cmake", "--build", folder, "--target", "wrong_builds"],
                              stdin=subprocess.DEVNULL, stdout=out, stderr=out) as building:
            while building.poll() is None:
                time.sleep(0.5)
                progress(round(time.monotonic() - began))
    with open(log, encoding="utf-8", errors="replace") as text:
        assert building.returncode == 0, "the wrong relays do not build\n" + text.read()[-3000:]
    say(f"built in {time.monotonic() - began:.0f} s")
    return os.path.join(folder, "tests", "prove")


def _makes_tests_of_ours(folder):
    try:
        with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as cache:
            text = cache.read()
    except OSError:
        return False
    return ("\nOUTRIDER_TESTS:BOOL=ON\n" in text
            and f"\nCMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" in text)


def _audit(program, *words):
    """Run ./dev audit; what does not hold, in its words."""
    for _attempt in range(2):  # A machine that is busy with other things may not let it begin.
        done = _run([sys.executable, "-m", "audit", "--binary", program, "--plugin", "pgoutput",
                     "--bulk-share", "0", "--duplicates-per-kill", "1000", *words], cwd=_TESTS)
        if done.returncode in (0, 1):
            break
    assert done.returncode in (0, 1), f"the audit was not carried out\n{done.stdout[-3000:]}"
    found = [line.split(":", 1)[1].strip() for line in done.stdout.splitlines()
             if line.startswith("DOES NOT HOLD")]
    assert bool(found) == (done.returncode == 1), done.stdout[-3000:]
    return "; ".join(found)


def _run(command, **options):
    """Run to the end, with a line every five seconds."""
    began = time.monotonic()
    progress = Progress(f"seconds of {os.path.basename(command[0])} {command[2][:40]}")
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **options) as child:
        while True:
            try:
                output, _none = child.communicate(timeout=1)
                return subprocess.CompletedProcess(command, child.returncode, output)
            except subprocess.TimeoutExpired:
                progress(round(time.monotonic() - began))
