"""The .deb of the binary under test, made by the script that makes the real one; and its unit."""

import os
import re
import shutil
import subprocess

from support.relay import ROOT, binary

UNIT = os.path.join(ROOT, "packaging", "systemd", "outrider@.service")
# Every file of the package that is always there; what the binary prints about itself comes on top.
WANTED = (
    "/usr/bin/outrider", "/etc/outrider/example.yaml", "/usr/lib/systemd/system/outrider@.service",
    "/usr/share/doc/outrider/copyright", "/usr/share/doc/outrider/changelog.gz",
    "/usr/share/doc/outrider/README.md", "/usr/share/doc/outrider/OPERATIONS.md",
    "/usr/share/doc/outrider/SECURITY.md", "/usr/share/outrider/sql/outbox_table.sql",
    "/usr/share/outrider/sql/uninstall.sql",
    "/usr/share/outrider/monitoring/prometheus/outrider-alerts.yaml",
    "/usr/share/outrider/monitoring/grafana/outrider.json")
GENERATED = {("man",): "/usr/share/man/man1/outrider.1",
             ("completion", "bash"): "/usr/share/bash-completion/completions/outrider"}
# systemd-analyze's measure of what a service could do: 0 nothing, 10 everything.
EXPOSURE_MAX = 2.0


class DebianPackage:
    """Made in `folder`; nothing is compiled."""

    def __init__(self, folder):
        done = subprocess.run([os.path.join(ROOT, "packaging", "make-deb.sh"), binary(), folder],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        self.path = done.stdout.strip().splitlines()[-1]

    def fields(self):
        text = _output("dpkg-deb", "--field", self.path)
        return dict(re.findall(r"^([\w-]+): (.*)$", text, flags=re.M))

    def files(self):
        """{path: (mode, owner)} as ls shows them."""
        found = {}
        for line in _output("dpkg-deb", "--contents", self.path).splitlines():
            mode, owner, _size, _date, _time, path = line.split(None, 5)
            found[path.split(" -> ")[0].lstrip(".").rstrip("/") or "/"] = (mode, owner)
        return found

    def control(self, name):
        return _output("dpkg-deb", "--info", self.path, name)

    def missing(self):
        """What it should hold and does not, the pages included that this binary can print."""
        wanted = set(WANTED)
        for command, path in GENERATED.items():
            knows = subprocess.run([binary(), *command], capture_output=True, check=False)
            if knows.returncode == 0:
                wanted.add(path)
        return sorted(wanted - set(self.files()))


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def unit_text():
    with open(UNIT, encoding="utf-8") as file:
        return file.read()


def unit_values(name):
    """All values of a setting of the unit, in its order."""
    return re.findall(rf"^{name}=(.*)$", unit_text(), flags=re.M)


def verify_unit(folder):
    """(exit code, output) of systemd-analyze verify; it wants the program to be there."""
    root = os.path.join(folder, "root")
    for path, source in (("usr/lib/systemd/system/outrider@.service", UNIT),
                         ("usr/bin/outrider", binary()), ("bin/sh", "/bin/sh")):
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        shutil.copy(source, os.path.join(root, path))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", f"--root={root}",
         "outrider@shop.service"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    return done.returncode, done.stdout


def unit_exposure():
    """(score, table) of systemd-analyze security, without a running systemd."""
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", UNIT],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    score = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert score, done.stdout
    return float(score.group(1)), done.stdout


def allowed_system_calls():
    """What SystemCallFilter of the unit leaves."""
    allowed = set()
    for line in unit_values("SystemCallFilter"):
        taken = line.startswith("~")
        names = set()
        for word in line.lstrip("~").split():
            names |= _expand(word)
        allowed = allowed - names if taken else allowed | names
    return allowed


def _expand(word):
    if not word.startswith("@"):
        return {word}
    names = set()
    for line in _output("systemd-analyze", "syscall-filter", word).splitlines()[1:]:
        member = line.split("#")[0].strip()
        if member:
            names |= _expand(member)
    return names
