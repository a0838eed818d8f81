"""28: the image's scripts work in a clean Debian 12 root; Dockerfile, Compose, manifests are right.

Docker is not used: the Dockerfile only calls build-deb.sh and image-root.sh of packaging/, and the
long form runs both, each in a clean root made by debootstrap, as the image's two stages would; then
the image's own command as its own user. OUTRIDER_SHIP_PACKAGE may name a .deb, which leaves the
build out. The short form lints the files.
"""

import os
import subprocess
import time
import urllib.request

from prove.common import say
from support import clean_root, cleanup, deploy_files
from support.relay import ROOT


def prove(short):
    _lint()
    if short:
        return
    if not clean_root.possible():
        raise AssertionError("the long form needs root rights and debootstrap")
    package = os.environ.get("OUTRIDER_SHIP_PACKAGE") or _stage_one()
    _stage_two(package)


def _lint():
    findings = deploy_files.all_findings()
    text = deploy_files.read(deploy_files.DOCKERFILE)
    services = len(deploy_files.yaml.safe_load(deploy_files.read(deploy_files.COMPOSE))["services"])
    kinds = sorted(deploy_files.manifests(os.path.join(deploy_files.KUBERNETES, "base")))
    say(f"Dockerfile: {len(deploy_files.instructions(text))} instructions, RUN calls only "
        f"{', '.join(deploy_files.run_scripts(text))}")
    say(f"Compose: {services} services; Kubernetes: {', '.join(kinds)}")
    assert not findings, "\n".join(findings)
    scripts = [os.path.relpath(path, ROOT) for path in
               (os.path.join(ROOT, "packaging", name)
                for name in sorted(os.listdir(os.path.join(ROOT, "packaging"))))
               if path.endswith(".sh")] + ["dev", ".ci/run"]
    done = subprocess.run(["shellcheck", "-x", "-P", "SCRIPTDIR", "-S", "warning", *scripts],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    say(f"shellcheck: {len(scripts)} scripts, no finding")


def _timed(what, root, *command, **more):
    began = time.monotonic()
    done = clean_root.run(root, *command, **more)
    say(f"{what}: {time.monotonic() - began:.0f} s")
    return done.stdout


def _stage_one():
    """FROM debian:bookworm AS build; COPY . /src; RUN build-deb.sh"""
    root = clean_root.make()
    clean_root.clone_into(root, working_tree=True)
    say("building in the clean root (some minutes)")
    told = _timed("build-deb.sh", root, "/src/packaging/build-deb.sh", "/package")
    path = told.strip().splitlines()[-1]
    assert path.startswith("/package/outrider_") and path.endswith(".deb"), told[-500:]
    folder = cleanup.temporary_directory("outrider-ship-")
    subprocess.run(["cp", root + path, folder], check=True)
    return os.path.join(folder, os.path.basename(path))


def _used_mb(root):
    done = subprocess.run(["du", "-sxk", "--exclude=./proc", "--exclude=./src", "."], cwd=root,
                          capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) / 1024


def _stage_two(package):
    """FROM debian:bookworm-slim; RUN image-root.sh; then what the container would run."""
    # Of its own, since the growth of the image is measured.
    root = clean_root.make(include=("apt", "ca-certificates"), copied=False)
    # As in a base image: no package lists.
    clean_root.run(root, "bash", "-c", "apt-get clean; rm -rf /var/lib/apt/lists/*")
    subprocess.run(["cp", package, os.path.join(root, "tmp/outrider.deb")], check=True)
    subprocess.run(["cp", os.path.join(ROOT, "packaging", "image-root.sh"),
                    os.path.join(root, "tmp/")], check=True)
    before = _used_mb(root)
    told = _timed("image-root.sh", root, "/tmp/image-root.sh", "/tmp/outrider.deb")
    grown = _used_mb(root) - before
    say(f"{told.strip().splitlines()[-1]}; the image grows by {grown:.0f} MB beyond its base "
        f"(at most {deploy_files.SIZE_MAX_MB})")
    assert grown <= deploy_files.SIZE_MAX_MB
    _container(root)


def _container(root):
    """USER, ENV and ENTRYPOINT of the Dockerfile; no capability, no new privilege."""
    text = deploy_files.read(deploy_files.DOCKERFILE)
    steps = deploy_files.instructions(text)
    uid, gid = [rest for name, rest in steps if name == "USER"][-1].split(":")
    values = deploy_files.image_environment(text)
    with open(os.path.join(ROOT, "docker", "relay.yaml"), encoding="utf-8") as file:
        config = file.read()
    with open(os.path.join(root, "etc/outrider/outrider.yaml"), "w", encoding="utf-8") as out:
        out.write(config)
    os.makedirs(os.path.join(root, "run/secrets"), exist_ok=True)
    with open(os.path.join(root, "run/secrets/relay_password"), "w", encoding="utf-8") as out:
        out.write("x")
    # A mount of a container is readable for its user; so are the files of here.
    clean_root.run(root, "chown", f"root:{gid}", "/etc/outrider/outrider.yaml")
    port = cleanup.free_port()
    as_user = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs",
               "--bounding-set=-all", "--inh-caps=-all"]
    values["OUTRIDER_HTTP__LISTEN"] = values["OUTRIDER_HTTP__LISTEN"].replace("9640", str(port))
    checked = clean_root.run(root, *as_user, "outrider", "check-config", environment=values)
    assert "configuration is right" in checked.stdout, checked.stdout
    log = os.path.join(root, "tmp/container.log")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            clean_root.inside(root, *as_user, "outrider", "run", environment=values),
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=cleanup.child_setup())
    try:
        def answers():
            assert process.poll() is None, deploy_files.read(log)
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=2) as answer:
                    return answer.read().decode().strip()
            except OSError:
                return ""

        said = cleanup.wait_until(answers, 20, "/livez")
        status = clean_root.run(root, *as_user, "outrider", "status", environment=values).stdout
        say(f"the image's command runs as user {uid}: /livez says {said!r}, outrider status: "
            f"{status.strip().splitlines()[0]}")
    finally:
        process.terminate()
        process.wait(60)
    assert process.returncode in (0, 75), process.returncode
