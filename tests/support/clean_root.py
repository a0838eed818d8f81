"""A clean Debian 12 root in a throw-away folder below build/, for proofs of an empty machine.

Made by debootstrap, so it needs root rights and the package mirror of this machine;
OUTRIDER_CLEAN_ROOT_BASE may name a folder with a root made before, which is copied instead. Network
and clock are this machine's. Everything is unmounted and removed at exit.
"""

import os
import shutil
import subprocess
import tempfile

from support import cleanup
from support.relay import ROOT


def possible():
    return os.geteuid() == 0 and shutil.which("debootstrap") is not None


def make(include=("ca-certificates",), copied=True):
    """The path of a new root, with /proc and /dev/shm, in which apt works.

    copied=False: a root made before may hold more than `include`, so it is not taken.
    """
    # On the file system of build/, because /tmp may be small or mounted without devices.
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    root = tempfile.mkdtemp(prefix="clean-root-", dir=os.path.join(ROOT, "build"))
    cleanup.at_exit(lambda: _remove(root))
    os.chmod(root, 0o755)
    mirror = _mirror()
    base = os.environ.get("OUTRIDER_CLEAN_ROOT_BASE")
    if base and copied:
        print(f"   copying the clean Debian 12 root {base}", flush=True)
        subprocess.run(["cp", "-a", base + "/.", root], check=True)
    else:
        print("   making a clean Debian 12 root (two minutes)", flush=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=" + ",".join(include),
                        "bookworm", root, mirror], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(root, "etc/apt/sources.list"), "w", encoding="utf-8") as out:
        out.write(f"deb {mirror} bookworm main\ndeb {mirror} bookworm-updates main\n"
                  f"deb {mirror}-security bookworm-security main\n")
    # How this machine reaches its mirrors holds for the root too.
    for path in ("etc/apt/apt.conf.d", "etc/resolv.conf", "etc/hosts",
                 "usr/local/share/ca-certificates", "etc/ssl/certs/ca-certificates.crt"):
        source, target = "/" + path, os.path.join(root, path)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif os.path.exists(source):
            shutil.copy(source, target)
    # debootstrap made the device files; nothing of this machine is mounted where rmtree may come.
    for kind, folder in (("proc", "proc"), ("tmpfs", "dev/shm")):
        target = os.path.join(root, folder)
        os.makedirs(target, exist_ok=True)
        subprocess.run(["mount", "-t", kind, kind, target], check=True)
    subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)
    return root


def clone_into(root, working_tree=False):
    """The repository as /src; with working_tree, what is not committed too."""
    target = os.path.join(root, "src")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, target], check=True)
    if working_tree:
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
                               check=True, capture_output=True).stdout.split(b"\0")
        there = b"\0".join(name for name in files
                           if name and os.path.exists(os.path.join(os.fsencode(ROOT), name)))
        packed = subprocess.run(["tar", "-C", ROOT, "--null", "-T", "-", "-cf", "-"], input=there,
                                check=True, capture_output=True).stdout
        subprocess.run(["tar", "-C", target, "-xf", "-"], input=packed, check=True)


def inside(root, *command, environment=None):
    """The command line that runs `command` in the root, with a small environment."""
    values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LC_ALL": "C.UTF-8",
              "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
    return ["chroot", root, "/usr/bin/env", "-i", *(f"{k}={v}" for k, v in values.items()),
            *command]


def run(root, *command, environment=None, check=True):
    """CompletedProcess, its output together in stdout."""
    done = subprocess.run(inside(root, *command, environment=environment), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    assert not check or done.returncode == 0, (
        f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-3000:]}")
    return done


def _mounts(root):
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        return [line.split()[1] for line in mounts if line.split()[1].startswith(root + "/")]


def _remove(root):
    """Unmount what we or an interrupted debootstrap mounted below, and only then remove."""
    for target in sorted(_mounts(root), reverse=True):
        subprocess.run(["umount", "-l", target], check=False)
    if _mounts(root):
        raise RuntimeError(f"something is still mounted below {root}; it was left there")
    shutil.rmtree(root, ignore_errors=True)


def _mirror():
    """The Debian mirror this machine itself installs from, without the slash at the end."""
    for folder, _dirs, files in os.walk("/etc/apt"):
        for name in files:
            if not name.endswith((".list", ".sources")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as lines:
                for word in lines.read().split():
                    if "://" in word and word.rstrip("/").endswith("/debian"):
                        return word.rstrip("/")
    raise RuntimeError("no Debian mirror in /etc/apt")
