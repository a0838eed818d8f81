"""26: eight broken set-ups: doctor names each, and what it prints as the fix makes the check pass.

A plugin that is refused, a role without REPLICATION, a wrong CA, a missing topic, a missing ACL, a
slot in use, a slot that is lost, a small max_slot_wal_keep_size. In each everything else is right,
and doctor must say so: no other check may fail. The fix is run exactly as it is printed: SQL by
psql, commands by bash, with Kafka's own tools.
"""

import json
import os
import subprocess
import time

from prove.common import say
from support import cleanup
from support.guarded_kafka import PASSWORD, USER, GuardedKafka
from support.kafka_broker import fetch_libs
from support.postgres_cluster import PostgresCluster
from support.relay import Relay, binary, environment, pipeline

_TOOLS = {"kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
          "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
          "kafka-configs.sh": "kafka.admin.ConfigCommand"}
_JAAS = ("org.apache.kafka.common.security.plain.PlainLoginModule required "
         f"user_{USER}=\"{PASSWORD}\" user_admin=\"admin\";")
_ADMIN = ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
          "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
          "username=\"admin\" password=\"admin\";\n")
_TABLE = ("CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type text, aggregate_id text,"
          " event_type text, payload jsonb)")
FIX_PATIENCE_S = 20


def prove(short):
    cases = [_NoReplication, _WrongCa, _TopicMissing, _SlotBusy]
    if not short:
        cases += [_PluginRefused, _AclMissing, _SlotLost, _SmallKeepSize]
    guarded = {"allow.everyone.if.no.acl.found": "false",
               "super.users": "User:ANONYMOUS;User:admin",
               "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS}
    with GuardedKafka(settings=guarded) as kafka, PostgresCluster() as cluster:
        shell = _Shell()
        for number, case in enumerate(cases, 1):
            case(kafka, cluster, f"doctor_{number}", shell).prove()
    say(f"{len(cases)} broken set-ups: each named, and passed after its own fix")


class _Shell:
    """Where commands are run: Kafka's tools by their names, an administrator's login beside."""

    def __init__(self):
        self.directory = cleanup.temporary_directory("outrider-doctor-")
        libs = fetch_libs()
        for name, main in _TOOLS.items():
            path = os.path.join(self.directory, name)
            with open(path, "w", encoding="utf-8") as out:
                out.write(f"#!/bin/sh\nexec java -Xmx128m -cp '{libs}/*' {main} \"$@\"\n")
            os.chmod(path, 0o755)
        with open(os.path.join(self.directory, "admin.properties"), "w", encoding="utf-8") as out:
            out.write(_ADMIN)

    def run(self, command):
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, check=False,
            cwd=self.directory, timeout=120,
            env={**os.environ, "PATH": self.directory + os.pathsep + os.environ["PATH"]})
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


class _Case:
    """A database, slot, publication and topic of its own, all of it right; then break_it()."""

    title = ""
    number = 0
    verdict = "fail"
    also = ()  # Checks that fail for the same reason.

    def __init__(self, kafka, cluster, name, shell):
        self.kafka = kafka
        self.cluster = cluster
        self.name = name
        self.shell = shell
        self.plugin = "pgoutput"
        self.client = {"bootstrap_servers": kafka.bootstrap_servers}

    def break_it(self):
        raise NotImplementedError

    def clean_up(self):
        """Give back what the next case needs."""

    def dsn(self):
        return self.cluster.dsn(self.name, self.name)

    def prove(self):
        self.prepare()
        self.break_it()
        config = pipeline(
            self.dsn(), self.kafka.bootstrap_servers, slot=self.name, plugin=self.plugin,
            topic=self.name, source={"create_slot": False, "create_publication": False},
            kafka={**self.client, "topics": {"create": False, "replication_factor": 1}})
        with Relay({**config, "delivery": {"position_topic": self.name + ".positions"}}) as relay:
            self._prove(relay.config_path)
        self.clean_up()

    def prepare(self):
        cluster = self.cluster
        cluster.query(f"CREATE DATABASE {self.name}")
        cluster.query(f"CREATE ROLE {self.name} LOGIN REPLICATION")
        cluster.query(f"GRANT pg_read_all_settings TO {self.name}")
        cluster.psql(f"{_TABLE}; CREATE PUBLICATION {self.name} FOR TABLE outbox WITH"
                     " (publish = 'insert'); SELECT pg_create_logical_replication_slot("
                     f"'{self.name}', '{self.plugin}')", self.name)
        cluster.install_dead_letters(self.name, self.name)
        self.kafka.create_topics(self.name)

    def _prove(self, config):
        code, checks = doctor(config)
        check = checks[self.number]
        failing = {n for n, one in checks.items() if one["verdict"] == "fail"}
        expected = ({self.number} if self.verdict == "fail" else set()) | set(self.also)
        print(f"   | {self.title}\n   |   {self.number} {check['name']}: {check['verdict']}, "
              f"{check['found']}\n   |   {check['fix']['kind']}: {check['fix']['text']}", flush=True)
        assert check["verdict"] == self.verdict, check
        assert failing == expected, {n: checks[n] for n in failing ^ expected}
        assert code == (1 if failing else 0), code
        for number in sorted({self.number} | failing):
            self.apply(checks[number]["fix"])
        deadline = time.monotonic() + FIX_PATIENCE_S
        while True:
            code, checks = doctor(config)
            wrong = [n for n in sorted({self.number} | failing) if checks[n]["verdict"] != "pass"]
            if code == 0 and not wrong:
                break
            assert time.monotonic() < deadline, [checks[n] for n in wrong] or code
        print(f"   |   after the fix: {checks[self.number]['verdict']}, "
              f"{checks[self.number]['found']}", flush=True)

    def apply(self, fix):
        if fix["kind"] == "sql":
            self.cluster.psql(fix["text"], self.name)
        else:
            assert fix["kind"] == "shell", fix
            self.shell.run(fix["text"])


def doctor(config):
    """(exit code, {number: check}) of outrider doctor --json."""
    done = subprocess.run([binary(), "doctor", "-c", config, "--json"], capture_output=True,
                          text=True, timeout=120, check=False, env=environment())
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    return done.returncode, {one["number"]: one for one in json.loads(done.stdout)["checks"]}


class _PluginRefused(_Case):
    title = "output plugin refused (output_plugin_libraries)"
    number = 35

    def prepare(self):
        self.plugin = "wal2json"
        super().prepare()

    def break_it(self):
        self.cluster.query("ALTER SYSTEM SET output_plugin_libraries = 'pgoutput'")
        self.cluster.reload()
        time.sleep(0.3)

    def clean_up(self):
        self.cluster.query("ALTER SYSTEM RESET output_plugin_libraries")
        self.cluster.reload()


class _NoReplication(_Case):
    title = "role without REPLICATION"
    number = 13

    def break_it(self):
        self.cluster.query(f"ALTER ROLE {self.name} NOREPLICATION")


class _WrongCa(_Case):
    title = "wrong CA: sslrootcert is not the server's"
    number = 10

    def __init__(self, kafka, _shared, name, shell):
        super().__init__(kafka, PostgresCluster(start=False), name, shell)
        self._root = os.path.join(shell.directory, "root.crt")

    def prepare(self):
        self._certificate(os.path.join(self.cluster.directory, "server"))
        self.cluster.append_settings({
            "ssl": "on", "ssl_cert_file": os.path.join(self.cluster.directory, "server.crt"),
            "ssl_key_file": os.path.join(self.cluster.directory, "server.key")})
        self.cluster.start()
        super().prepare()

    def break_it(self):
        self._certificate(self._root.removesuffix(".crt"))

    def dsn(self):
        return f"{super().dsn()} sslmode=verify-full sslrootcert={self._root}"

    def clean_up(self):
        self.cluster.close()

    def _certificate(self, path):
        """Self-signed, for the server's address, owned by whoever owns the cluster."""
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
             "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path + ".key",
             "-out", path + ".crt"], capture_output=True, check=True)
        owner = os.stat(os.path.dirname(path))
        for ending in (".key", ".crt"):
            os.chown(path + ending, owner.st_uid, owner.st_gid)
            os.chmod(path + ending, 0o600)


class _TopicMissing(_Case):
    title = "topic missing, and kafka.topics.create is false"
    number = 62

    def break_it(self):
        self.kafka.delete_topics(self.name)


class _AclMissing(_Case):
    title = "no ACL for the relay's Kafka user"
    number = 62
    also = (61, 66)

    def break_it(self):
        self.client = self.kafka.client()


class _SlotBusy(_Case):
    title = "slot in use by another program"
    number = 32

    def break_it(self):
        self._reader = subprocess.Popen(
            [os.path.join(self.cluster.bin_dir, "pg_recvlogical"), "--no-loop", "-d",
             self.cluster.dsn(self.name), "-S", self.name, "--start", "-o", "proto_version=1",
             "-o", f"publication_names={self.name}", "-f", "/dev/null"],
            stderr=subprocess.DEVNULL, preexec_fn=cleanup.child_setup())
        cleanup.at_exit(self._reader.kill)
        cleanup.wait_until(lambda: self.cluster.slot(self.name)["active"], 15, "the slot to be used")

    def clean_up(self):
        self._reader.wait(20)


class _SlotLost(_Case):
    title = "slot lost to max_slot_wal_keep_size"
    number = 33

    def break_it(self):
        self.cluster.set("max_slot_wal_keep_size", "1MB")

        def lost():
            self.cluster.query("SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000))")
            self.cluster.query("SELECT pg_switch_wal()")
            self.cluster.query("CHECKPOINT")
            return self.cluster.scalar("SELECT wal_status FROM pg_replication_slots"
                                       " WHERE slot_name = %s", (self.name,)) == "lost"

        cleanup.wait_until(lost, 30, "the slot to be lost")
        self.cluster.set("max_slot_wal_keep_size", None)


class _SmallKeepSize(_Case):
    title = "small max_slot_wal_keep_size"
    number = 20
    verdict = "warn"

    def break_it(self):
        self.cluster.set("max_slot_wal_keep_size", "64MB")

    def clean_up(self):
        self.cluster.set("max_slot_wal_keep_size", None)
