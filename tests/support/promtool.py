"""promtool, which checks rules, runs their unit tests and parses queries.

The one on PATH, or the one of Debian's package `prometheus`, unpacked into build/promtool and not
installed: the package would start a server. A machine that cannot fetch it fails the test.
"""

import glob
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FOLDER = os.path.join(ROOT, "build", "promtool")


def fetch():
    """Path of promtool; brings it when it is not there."""
    own = os.path.join(_FOLDER, "usr", "bin", "promtool")
    if shutil.which("promtool"):
        return shutil.which("promtool")
    if not os.path.exists(own):
        fresh = f"{_FOLDER}.{os.getpid()}"
        os.makedirs(fresh)
        try:
            _download(fresh)
            shutil.rmtree(_FOLDER, ignore_errors=True)
            os.replace(fresh, _FOLDER)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return own


def _download(folder):
    got = _apt_download(folder)
    if got.returncode != 0 and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
        got = _apt_download(folder)
    packages = glob.glob(os.path.join(folder, "prometheus_*.deb"))
    if got.returncode != 0 or not packages:
        raise RuntimeError("promtool is missing and Debian's package prometheus could not be "
                           "fetched; run: sudo apt-get update\n" + got.stderr)
    subprocess.run(["dpkg-deb", "-x", packages[0], folder], check=True)
    os.remove(packages[0])
    # The rest of the package is 100 MB that nobody needs.
    os.remove(os.path.join(folder, "usr", "bin", "prometheus"))


def _apt_download(folder):
    return subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=folder,
                          capture_output=True, text=True, check=False)


def run(*arguments):
    """CompletedProcess of one promtool command, its output together in stdout."""
    return subprocess.run([fetch(), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
