"""The .deb, the systemd unit with its notifications, and the files of a release."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import time

import pytest

from support import cleanup, debian_package
from support.relay import EXIT_DUPLICATES_POSSIBLE, EXIT_OK, ROOT, Relay, binary, pipeline

WATCHDOG_S = 2.0


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return debian_package.DebianPackage(str(tmp_path_factory.mktemp("package")))


# The package --------------------------------------------------------------------------------------


def test_the_package_holds_what_it_should(package):
    assert package.missing() == []
    files = package.files()
    assert all(owner == "root/root" for _mode, owner in files.values())
    for path, (mode, _owner) in files.items():
        assert mode[5] == "-" and mode[8] == "-", f"{path} may be written by others: {mode}"
        if not mode.startswith("d"):
            assert ("x" in mode) == (path == "/usr/bin/outrider"), f"{path}: {mode}"
            assert path.startswith(("/usr/", "/etc/outrider/")), path


def test_the_package_depends_on_the_libraries_the_binary_loads(package):
    depends = package.fields()["Depends"]
    for library in ("libc6", "libpq5", "librdkafka1", "libspdlog1.10", "libyaml-cpp0.7",
                    "libmicrohttpd12", "libpcre2-8-0", "adduser"):
        entry = rf"(^|, ){re.escape(library)}(-fmt[0-9]+)?( \(>= [^)]+\))?(,|$)"
        assert re.search(entry, depends), f"{library}: {depends}"
    assert "-dev" not in depends


def test_the_version_is_the_binarys_and_sorts_with_the_history(package):
    version = package.fields()["Version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+([~+][A-Za-z0-9.+~]+)?", version), version
    for less, more in (("0.1.0~412.gabc", "0.1.0"), ("0.1.0~9.gabc", "0.1.0~412.gabc"),
                       ("1.2.3", "1.2.3+5.gabc"), ("1.2.3+5.gabc", "1.2.4")):
        subprocess.run(["dpkg", "--compare-versions", less, "lt", more], check=True)


@pytest.mark.parametrize("described, version, deb", [
    ("v1.2.3", "1.2.3", "1.2.3"),
    ("v1.2.3-5-gabc1234", "1.2.3-5-gabc1234", "1.2.3+5.gabc1234"),
    ("v1.2.3-5-gabc1234-dirty", "1.2.3-5-gabc1234-dirty", "1.2.3+5.gabc1234.dirty"),
    ("abc1234", "0.1.0-abc1234", "0.1.0~7.gabc1234"),
    ("abc1234-dirty", "0.1.0-abc1234-dirty", "0.1.0~7.gabc1234.dirty"),
    ("", "0.1.0-unknown", "0.1.0~unknown"),
])
def test_the_version_comes_from_git(tmp_path, described, version, deb):
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text("#!/bin/sh\ncase \"$*\" in *rev-list*) echo 7;; "
                   f"*) [ -n '{described}' ] && echo '{described}';; esac\n")
    git.chmod(0o755)
    script = tmp_path / "v.cmake"
    script.write_text(f"include({ROOT}/cmake/version.cmake)\noutrider_version({tmp_path})\n"
                      "message(\"${OUTRIDER_VERSION} ${OUTRIDER_DEB_VERSION}\")\n")
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": f"{git.parent}:{os.environ['PATH']}"})
    assert done.stderr.split() == [version, deb]


def test_a_source_archive_brings_its_version(tmp_path):
    (tmp_path / "VERSION").write_text("1.2.3-4-gabc\n")
    script = tmp_path / "v.cmake"
    script.write_text(f"include({ROOT}/cmake/version.cmake)\noutrider_version({tmp_path})\n"
                      "message(\"${OUTRIDER_VERSION} ${OUTRIDER_DEB_VERSION}\")\n")
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["1.2.3-4-gabc", "1.2.3+4.gabc"]


def test_the_configuration_stays_when_the_package_is_renewed(package):
    assert package.control("conffiles").split() == ["/etc/outrider/example.yaml"]
    with open(os.path.join(ROOT, "packaging", "example.yaml"), encoding="utf-8") as file:
        text = file.read()
    done = subprocess.run([binary(), "check-config", "-c", "/dev/stdin"], input=text, text=True,
                          capture_output=True, check=False,
                          env={"PATH": "/usr/bin", "RELAY_PASSWORD": "x"})
    assert done.returncode == EXIT_OK, done.stderr
    assert "warning" not in done.stderr


def test_nothing_is_started_and_a_slot_left_behind_is_warned_of(package):
    postinst = package.control("postinst")
    assert not re.search(r"^\s*systemctl.*\b(start|enable|restart)\b", postinst, flags=re.M)
    for script in ("prerm", "postrm"):
        assert "pg_drop_replication_slot" in package.control(script)
        assert "WAL" in package.control(script)
    # Nobody's configuration is deleted.
    assert "rm -r" not in package.control("postrm")


def test_the_same_binary_gives_the_same_package(package, tmp_path):
    again = debian_package.DebianPackage(str(tmp_path))
    with open(package.path, "rb") as one, open(again.path, "rb") as two:
        assert hashlib.sha256(one.read()).digest() == hashlib.sha256(two.read()).digest()


# The unit -----------------------------------------------------------------------------------------


def test_systemd_finds_no_fault_in_the_unit(tmp_path):
    code, output = debian_package.verify_unit(str(tmp_path))
    assert code == 0 and "outrider@" not in output, output


def test_the_unit_can_do_little():
    score, table = debian_package.unit_exposure()
    assert score <= debian_package.EXPOSURE_MAX, table


def test_the_unit_follows_the_exit_codes():
    (prevent,) = debian_package.unit_values("RestartPreventExitStatus")
    operations = open(os.path.join(ROOT, "docs", "OPERATIONS.md"), encoding="utf-8").read()
    stay = {code for code, what in re.findall(r"^\| (\d+) \|[^|]*\| (.*) \|$", operations, re.M)
            if what.startswith("do not restart") and code != "0"}
    assert set(prevent.split()) == stay
    (stop,) = debian_package.unit_values("TimeoutStopSec")
    page = open(os.path.join(ROOT, "docs", "CONFIGURATION.md"), encoding="utf-8").read()
    (default,) = re.findall(r"^\| `shutdown_timeout_ms` \|[^|]*\| `(\d+)`", page, re.M)
    assert int(stop) * 1000 > int(default)


# Notifications ------------------------------------------------------------------------------------


class Manager:
    """What systemd is to the relay: a datagram socket."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)

    def environment(self, watchdog_s):
        return {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}

    def wait_for(self, text, timeout_s=10):
        """All datagrams up to the first with `text`."""
        seen, deadline = [], time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                seen.append(self._socket.recv(65536).decode())
            except TimeoutError:
                break
            if text in seen[-1]:
                return seen
        raise AssertionError(f"no {text!r} in {seen}")

    def silent_for(self, seconds):
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(65536).decode() == ""
        except TimeoutError:
            return True

    def forget(self):
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(65536)
        except BlockingIOError:
            pass


@pytest.fixture
def manager():
    return Manager(cleanup.temporary_directory("outrider-notify-"))


def unreachable():
    """A pipeline whose two servers are away."""
    return pipeline(f"host=127.0.0.1 port={cleanup.free_port()} dbname=none user=nobody",
                    f"127.0.0.1:{cleanup.free_port()}", name="shop")


def test_an_outage_at_the_start_is_no_failed_start(relay_factory, manager):
    relay = relay_factory(unreachable(), env=manager.environment(WATCHDOG_S))
    relay.start(wait_ready=False)
    first = manager.wait_for("READY=1")[-1]
    assert "STATUS=shop: " in first and "WATCHDOG=1" in first
    # And none later: the watchdog is fed while both servers are away.
    beats, began = 0, time.monotonic()
    while time.monotonic() - began < 2 * WATCHDOG_S:
        manager.wait_for("WATCHDOG=1", WATCHDOG_S)
        beats += 1
    assert beats >= 3
    assert relay.running()
    manager.forget()
    relay._process.send_signal(signal.SIGTERM)
    manager.wait_for("STOPPING=1")
    assert relay.wait() in (EXIT_OK, EXIT_DUPLICATES_POSSIBLE)


def test_the_watchdog_barks_when_the_loop_does_not_turn(relay_factory, manager):
    relay = relay_factory(unreachable(), env=manager.environment(WATCHDOG_S))
    relay.start(wait_ready=False)
    manager.wait_for("READY=1")
    relay.freeze()
    manager.forget()
    assert manager.silent_for(2 * WATCHDOG_S)
    relay.thaw()
    manager.wait_for("WATCHDOG=1", WATCHDOG_S)
    relay.stop()


def test_a_wrong_configuration_is_never_ready(manager, tmp_path):
    (tmp_path / "bad.yaml").write_text("version: 1\npipelines: []\n")
    done = subprocess.run([binary(), "run", "-c", str(tmp_path / "bad.yaml")], check=False,
                          capture_output=True, text=True, timeout=20,
                          env={"PATH": "/usr/bin", **manager.environment(WATCHDOG_S)})
    assert done.returncode == 78, done.stderr
    assert manager.silent_for(0.2)


# A release ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("release"))
    done = subprocess.run([os.path.join(ROOT, "packaging", "release-files.sh"), binary(), folder],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_a_release_has_checksums_of_all_its_files(release):
    done = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=release, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = {line.split(":")[0] for line in done.stdout.splitlines()}
    assert named == set(os.listdir(release)) - {"SHA256SUMS"}
    assert {"outrider.spdx.json", "THIRD-PARTY-NOTICES.txt", "outrider-deployment.tar.gz"} < named


def test_the_sbom_names_every_library_that_is_loaded(release):
    with open(os.path.join(release, "outrider.spdx.json"), encoding="utf-8") as file:
        sbom = json.load(file)
    assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
    ids = [package["SPDXID"] for package in sbom["packages"]]
    assert len(set(ids)) == len(ids)
    versions = {package["name"]: package["versionInfo"] for package in sbom["packages"]}
    for line in subprocess.run(["ldd", binary()], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        path = re.search(r"=> (/\S+)", line)
        if path:
            real = os.path.realpath(path.group(1))
            owner = subprocess.run(f"dpkg -S {real} || dpkg -S {real.removeprefix('/usr')}",
                                   shell=True, capture_output=True, text=True,
                                   check=True).stdout.split(":")[0]
            known = subprocess.run(["dpkg-query", "-W", "-f=${Version}\n", owner], check=True,
                                   capture_output=True, text=True).stdout.split("\n")[0]
            assert versions[owner] == known
    for compiled in ("prometheus-cpp-dev", "libcli11-dev", "libexpected-dev"):
        assert compiled in versions
    for relation in sbom["relationships"]:
        assert relation["relatedSpdxElement"] in ids
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", sbom["creationInfo"]["created"])


def test_the_notices_hold_the_copyright_of_each_package(release):
    with open(os.path.join(release, "THIRD-PARTY-NOTICES.txt"), encoding="utf-8") as file:
        notices = file.read()
    with open(os.path.join(release, "outrider.spdx.json"), encoding="utf-8") as file:
        others = [p for p in json.load(file)["packages"] if p["name"] != "outrider"]
    for package in others:
        assert f"\n{package['name']} {package['versionInfo']}\n" in notices
    with open("/usr/share/doc/libpq5/copyright", encoding="utf-8") as file:
        assert file.read().rstrip() in notices


def test_the_deployment_files_are_in_the_release(release):
    with tarfile.open(os.path.join(release, "outrider-deployment.tar.gz")) as archive:
        names = archive.getnames()
    for name in ("docker/Dockerfile", "docker/compose.yaml", "sql/outbox_table.sql",
                 "deploy/kubernetes/base/deployment.yaml",
                 "monitoring/prometheus/outrider-alerts.yaml", "monitoring/grafana/outrider.json"):
        assert name in names
    assert not [name for name in names if "__pycache__" in name]


def test_an_install_elsewhere_leaves_the_system_alone(tmp_path):
    """A plain cmake --install touches nothing outside its prefix."""
    if not shutil.which("ninja"):
        pytest.fail("ninja is missing: run ./dev setup test")
    build = tmp_path / "build"
    subprocess.run(["cmake", "-S", os.path.join(ROOT, "packaging"), "-B", str(build),
                    f"-DOUTRIDER_PROGRAM={binary()}", "-DOUTRIDER_PLAIN=ON",
                    f"-DCMAKE_INSTALL_PREFIX={tmp_path}/prefix"], check=True, capture_output=True)
    done = subprocess.run(["cmake", "--install", str(build)], check=True, capture_output=True,
                          text=True).stdout
    for path in re.findall(r"-- (?:Installing|Up-to-date): (\S+)", done):
        assert path.startswith(f"{tmp_path}/prefix"), path
    assert os.access(tmp_path / "prefix" / "bin" / "outrider", os.X_OK)
