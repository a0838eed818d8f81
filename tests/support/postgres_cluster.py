"""A throw-away PostgreSQL cluster on a free loopback port.

PostgreSQL refuses to run as root, so a root caller gets a server under an unprivileged user, in a
directory of that user. wal_level is logical, and output_plugin_libraries is set where the server
knows it (since 15.19 and 18.6; older servers do not start with it). Everything is removed at exit.
"""

import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import time

import psycopg2

from support import cleanup

START_TIMEOUT_S = 60
_DEAD_LETTERS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))), "sql", "dead_letters.sql")
_PLUGINS = "pgoutput, test_decoding, wal2json"


def find_binaries(major=None):
    """Directory of the newest server >= 14 (or of the asked major version).

    OUTRIDER_PG_BIN overrides the search.
    """
    override = os.environ.get("OUTRIDER_PG_BIN")
    if override and major is None:
        return override
    found = {}
    for path in glob.glob("/usr/lib/postgresql/*/bin"):
        match = re.fullmatch(r".*/(\d+)/bin", path)
        if match and os.path.exists(os.path.join(path, "initdb")):
            found[int(match.group(1))] = path
    wanted = [v for v in found if (v == major if major else v >= 14)]
    if not wanted:
        raise RuntimeError(f"no PostgreSQL server {major or '14 or later'} under "
                           "/usr/lib/postgresql; run ./dev setup test")
    return found[max(wanted)]


def unprivileged_user():
    """The passwd entry the server must run under, or None when the caller is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("no unprivileged user to run PostgreSQL")


class PostgresCluster:
    """Owns one data directory and one postmaster. Not thread-safe, connections are."""

    def __init__(self, *, fsync=False, auth="trust", password="outrider-test", settings=None,
                 bin_dir=None, major=None, port=None, start=True, dead_letters=True):
        self.host = "127.0.0.1"
        self.port = port or cleanup.free_port()
        self.superuser = "postgres"
        self.password = password
        self.auth = auth
        self.bin_dir = bin_dir or find_binaries(major)
        self._user = unprivileged_user()
        owner = (self._user.pw_uid, self._user.pw_gid) if self._user else None
        self.directory = cleanup.temporary_directory("outrider-pg-", owner)
        self.data_dir = os.path.join(self.directory, "data")
        self.log_path = os.path.join(self.directory, "server.log")
        self._process = None
        self._cancel_cleanup = cleanup.at_exit(self._destroy)
        self.version = self._server_version()
        self._initdb()
        self.knows_plugin_list = self._knows("output_plugin_libraries")
        self.has_wal2json = os.path.exists(
            os.path.join(os.path.dirname(self.bin_dir), "lib", "wal2json.so"))
        self._write_settings(fsync, settings or {})
        self._dead_letters = dead_letters
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    # Life of the server -----------------------------------------------------------------------

    def start(self, timeout_s=START_TIMEOUT_S):
        """Start the postmaster and return when it accepts connections."""
        if self.running():
            return self
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                [self._tool("postgres"), "-D", self.data_dir], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd=self.directory, start_new_session=True,
                preexec_fn=cleanup.child_setup(signal.SIGQUIT), **self._identity())
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.connect().close()
                break
            except psycopg2.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("PostgreSQL did not start:\n" + self.log_text()[-3000:])
                time.sleep(0.03)
        if self._dead_letters:
            # So that every database has it, as every relay by default needs it.
            self._dead_letters = False
            for dbname in ("template1", "postgres"):
                self.install_dead_letters(dbname)
        return self

    def install_dead_letters(self, dbname, role="outrider_relay"):
        """Run sql/dead_letters.sql, again for a role that was made later."""
        with open(_DEAD_LETTERS, encoding="utf-8") as file:
            self.psql(f"\\set role {role}\n" + file.read(), dbname)

    def stop(self, mode="fast", timeout_s=60):
        """Stop as pg_ctl stop -m MODE does; past the limit an immediate stop and TimeoutError."""
        if not self.running():
            return
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT,
                  "immediate": signal.SIGQUIT}[mode]
        self._process.send_signal(number)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(20)
            raise TimeoutError(f"PostgreSQL did not stop ({mode}) within {timeout_s} s") from None
        self._process = None

    def restart(self, mode="fast", timeout_s=60):
        self.stop(mode, timeout_s)
        return self.start()

    def kill(self):
        """Power cut: SIGKILL for the postmaster and all its children."""
        if not self.running():
            return
        children = self._children()
        self._process.kill()
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(20)
        self._process = None
        cleanup.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in children), 20,
                           "backends to end")

    def reload(self):
        self._process.send_signal(signal.SIGHUP)

    def running(self):
        return self._process is not None and self._process.poll() is None

    def close(self):
        """Stop and remove everything."""
        self._destroy()
        self._cancel_cleanup()

    # Talking to it ----------------------------------------------------------------------------

    def dsn(self, dbname="postgres", user=None, password=None, **more):
        """A libpq conninfo of the form key=value."""
        parts = {"host": self.host, "port": self.port, "dbname": dbname,
                 "user": user or self.superuser}
        if self.auth != "trust":
            parts["password"] = password or self.password
        parts.update(more)
        return " ".join(f"{name}={value}" for name, value in parts.items())

    def connect(self, dbname="postgres", user=None, password=None, autocommit=True):
        connection = psycopg2.connect(
            self.dsn(dbname, user, password, connect_timeout=10, application_name="test"))
        connection.autocommit = autocommit
        return connection

    def _connect_when_recovered(self, dbname):
        """A server that has crashed refuses for a moment (57P03); other errors are errors."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self.connect(dbname)
            except psycopg2.OperationalError as error:
                refused = any(text in str(error) for text in
                              ("not yet accepting", "starting up", "in recovery mode"))
                if not refused or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def query(self, sql, parameters=None, dbname="postgres"):
        """Rows of one statement in a connection of its own; [] for a statement without rows."""
        connection = self._connect_when_recovered(dbname)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def scalar(self, sql, parameters=None, dbname="postgres"):
        """First column of the first row, or None."""
        rows = self.query(sql, parameters, dbname)
        return rows[0][0] if rows else None

    def psql(self, sql, dbname="postgres", user=None):
        """Run a script through the real psql and return its unaligned output."""
        return subprocess.run(
            [self._tool("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", self.dsn(dbname, user)],
            input=sql, text=True, capture_output=True, check=True).stdout

    def set(self, name, value):
        """ALTER SYSTEM and reload; value None resets."""
        if value is None:
            self.query(f"ALTER SYSTEM RESET {name}")
        else:
            self.query(f"ALTER SYSTEM SET {name} = %s", (str(value),))
        self.reload()
        time.sleep(0.1)

    def append_settings(self, settings):
        """Add lines to postgresql.conf; they count from the next start or reload."""
        with open(os.path.join(self.data_dir, "postgresql.conf"), "a", encoding="utf-8") as conf:
            for name, value in settings.items():
                conf.write(f"{name} = '{value}'\n")

    def walsender_pids(self):
        return [row[0] for row in self.query(
            "SELECT pid FROM pg_stat_replication ORDER BY backend_start")]

    def current_lsn(self):
        return self.scalar("SELECT pg_current_wal_lsn()::text")

    def slot(self, name):
        """State of a slot as a dict, with distances in bytes to the current position; or None."""
        rows = self.query(
            "SELECT active, active_pid, plugin, confirmed_flush_lsn::text, restart_lsn::text,"
            " pg_current_wal_lsn() - confirmed_flush_lsn, pg_current_wal_lsn() - restart_lsn"
            " FROM pg_replication_slots WHERE slot_name = %s", (name,))
        if not rows:
            return None
        names = ("active", "active_pid", "plugin", "confirmed_flush_lsn", "restart_lsn",
                 "confirmed_distance", "restart_distance")
        state = dict(zip(names, rows[0]))
        for key in ("confirmed_distance", "restart_distance"):
            state[key] = None if state[key] is None else int(state[key])
        return state

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def log_contains(self, text):
        return text in self.log_text()

    # Inside -----------------------------------------------------------------------------------

    def _tool(self, name):
        return os.path.join(self.bin_dir, name)

    def _identity(self):
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": [],
                "env": {**os.environ, "HOME": self.directory, "LC_ALL": "C.UTF-8"}}

    def _run(self, *command):
        return subprocess.run(command, capture_output=True, text=True, cwd=self.directory,
                              check=False, **self._identity())

    def _server_version(self):
        text = self._run(self._tool("postgres"), "--version").stdout
        return int(re.search(r"(\d+)", text).group(1))

    def _initdb(self):
        password_file = os.path.join(self.directory, "password")
        with open(password_file, "w", encoding="utf-8") as out:
            out.write(self.password + "\n")
        if self._user:
            os.chown(password_file, self._user.pw_uid, self._user.pw_gid)
        done = self._run(self._tool("initdb"), "-D", self.data_dir, "-U", self.superuser,
                         "-E", "UTF8", "--locale=C", "--no-sync", f"--auth={self.auth}",
                         f"--pwfile={password_file}")
        os.remove(password_file)
        if done.returncode != 0:
            raise RuntimeError("initdb failed:\n" + done.stderr)

    def _knows(self, setting):
        return self._run(self._tool("postgres"), "-D", self.data_dir, "-C",
                         setting).returncode == 0

    def _write_settings(self, fsync, extra):
        settings = {
            "listen_addresses": self.host, "port": self.port, "unix_socket_directories": "",
            "wal_level": "logical", "max_replication_slots": 20, "max_wal_senders": 20,
            "max_connections": 60, "fsync": "on" if fsync else "off",
            "shared_buffers": "128MB", "max_wal_size": "2GB", "log_min_messages": "warning",
            "log_line_prefix": "%m [%p] %q%a ", "log_replication_commands": "on",
        }
        if self.knows_plugin_list:
            settings["output_plugin_libraries"] = _PLUGINS
        settings.update(extra)
        self.append_settings({k: v for k, v in settings.items() if v is not None})

    def _children(self):
        if not self.running():
            return []
        path = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        try:
            with open(path, encoding="ascii") as children:
                return [int(pid) for pid in children.read().split()]
        except OSError:
            return []

    def _destroy(self):
        if self.running():
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        self._process = None
        shutil.rmtree(self.directory, ignore_errors=True)
