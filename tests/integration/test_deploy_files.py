"""Dockerfile, Compose file, Kubernetes manifests and scripts: lint, and that the lint can fail."""

import copy
import glob
import json
import os
import re
import subprocess

import pytest
import yaml

from support import deploy_files, promtool
from support.relay import ROOT, binary, environment

SCRIPTS = (["dev", ".ci/run"] + sorted(
    os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "packaging", "*.sh"))
    + [os.path.join(ROOT, "packaging", "debian", name) for name in ("postinst", "prerm", "postrm")]))


def overlay():
    return yaml.safe_load(deploy_files.read(
        os.path.join(deploy_files.KUBERNETES, "example", "kustomization.yaml")))


def base():
    return deploy_files.manifests(os.path.join(deploy_files.KUBERNETES, "base"))


def test_nothing_is_found_in_the_files():
    assert deploy_files.all_findings() == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_shellcheck_finds_nothing(script):
    done = subprocess.run(["shellcheck", "-x", "-P", "SCRIPTDIR", "-S", "warning", script],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    mode = os.stat(os.path.join(ROOT, script)).st_mode
    assert (mode & 0o111 != 0) == (not script.endswith("common.sh"))


# The Dockerfile -----------------------------------------------------------------------------------


def test_the_image_is_made_by_scripts_that_the_proof_runs():
    text = deploy_files.read(deploy_files.DOCKERFILE)
    assert deploy_files.run_scripts(text) == ["build-deb.sh", "image-root.sh"]
    proof = deploy_files.read(os.path.join(ROOT, "tests", "prove", "ship-files.py"))
    for script in deploy_files.run_scripts(text):
        assert script in proof


@pytest.mark.parametrize("old, new", [
    ("USER 10001:10001", "USER root"), ("USER 10001:10001", ""), ("debian:bookworm AS", "debian AS"),
    ('ENTRYPOINT ["/usr/bin/outrider"]', "ENTRYPOINT /usr/bin/outrider"),
    ('RUN ["/src/packaging/build-deb.sh", "/package"]', "RUN apt-get install -y g++"),
    ("COPY . /src", "COPY nowhere /src"),
])
def test_a_worse_dockerfile_is_noticed(old, new):
    text = deploy_files.read(deploy_files.DOCKERFILE)
    assert old in text
    assert deploy_files.dockerfile_findings(text.replace(old, new))


def test_the_image_finds_its_configuration():
    """With the environment of the image and the configuration of Compose and of Kubernetes."""
    values = deploy_files.image_environment(deploy_files.read(deploy_files.DOCKERFILE))
    assert values["OUTRIDER_HTTP__LISTEN"] == "0.0.0.0:9640"
    for path in ("docker/relay.yaml", "deploy/kubernetes/example/outrider.yaml"):
        done = subprocess.run(
            [binary(), "check-config", "--print"], capture_output=True, text=True, check=False,
            env={**environment(), **values, "OUTRIDER_CONFIG": os.path.join(ROOT, path)})
        assert done.returncode == 0, done.stderr
        assert "0.0.0.0:9640" in done.stdout
        assert re.search(r"socket.*/run/outrider/control\.sock", done.stdout), path


def test_the_user_of_the_image_is_the_one_of_the_manifests():
    script = deploy_files.read(os.path.join(ROOT, "packaging", "image-root.sh"))
    (number,) = re.findall(r"^readonly ID=(\d+)$", script, flags=re.M)
    assert f"USER {number}:{number}" in deploy_files.read(deploy_files.DOCKERFILE)
    assert base()["Deployment"]["spec"]["template"]["spec"]["securityContext"][
        "runAsUser"] == int(number)
    assert f"uid={number},gid={number}" in deploy_files.read(deploy_files.COMPOSE)


# Compose ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old, new", [
    ("postgres:17", "postgres"), ("./relay.yaml:", "./relays.yaml:"),
    ('"127.0.0.1:9640:9640"', '"9640:9640"'), ("service_healthy", "service_wealthy"),
    ("postgres: {condition", "postgrse: {condition"), ("read_only:", "readonly:"),
    ("relay.yaml:/etc/outrider/outrider.yaml:ro", "relay.yaml:/etc/outrider/outrider.yaml"),
    ("secrets: [relay_password]", "secrets: [other]"),
])
def test_a_worse_compose_file_is_noticed(old, new):
    text = deploy_files.read(deploy_files.COMPOSE)
    assert old in text
    assert deploy_files.compose_findings(text.replace(old, new))


def test_prometheus_of_compose_takes_its_configuration():
    text = deploy_files.read(os.path.join(ROOT, "docker", "prometheus.yaml"))
    done = promtool.run("check", "config", "--syntax-only",
                        os.path.join(ROOT, "docker", "prometheus.yaml"))
    assert done.returncode == 0, done.stdout
    compose = yaml.safe_load(deploy_files.read(deploy_files.COMPOSE))
    parsed = yaml.safe_load(text)
    (target,) = parsed["scrape_configs"][0]["static_configs"][0]["targets"]
    assert target.split(":")[0] in compose["services"]
    (rules,) = parsed["rule_files"]
    assert any(volume.split(":")[1] == rules for volume in
               compose["services"]["prometheus"]["volumes"])


# Kubernetes ---------------------------------------------------------------------------------------


def _without(path):
    def change(found):
        at = found
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]
    return change


_POD = ("Deployment", "spec", "template", "spec")


@pytest.mark.parametrize("change", [
    lambda found: found["Deployment"]["spec"].update(replicas=1),
    lambda found: found.pop("PodDisruptionBudget"),
    lambda found: found["Deployment"].update(apiVersion="apps/v1beta1"),
    _without((*_POD, "securityContext", "runAsNonRoot")),
    _without((*_POD, "containers", 0, "securityContext", "readOnlyRootFilesystem")),
    _without((*_POD, "containers", 0, "resources", "limits", "memory")),
    _without((*_POD, "volumes", 0)),
    _without(("Service", "spec", "publishNotReadyAddresses")),
], ids=range(8))
def test_worse_manifests_are_noticed(change):
    found = copy.deepcopy(base())
    change(found)
    assert deploy_files.kubernetes_findings(found, overlay())


def test_the_overlay_brings_what_the_pod_mounts():
    without = overlay()
    del without["secretGenerator"]
    assert deploy_files.kubernetes_findings(base(), without)
    config = yaml.safe_load(deploy_files.read(
        os.path.join(deploy_files.KUBERNETES, "example", "outrider.yaml")))
    dsn = config["pipelines"][0]["source"]["dsn"]
    mounts = base()["Deployment"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    folders = [mount["mountPath"] for mount in mounts]
    (secret,) = re.findall(r"\$\{file:([^}]+)\}", dsn)
    assert os.path.dirname(secret) in folders
    assert os.path.dirname(config["control"]["socket"]) in folders
    (made,) = overlay()["secretGenerator"][0]["files"]
    assert made.split("=")[0] == os.path.basename(secret)
    assert "sslmode=verify-full" in dsn


def test_no_file_holds_a_real_secret():
    secret = deploy_files.read(os.path.join(deploy_files.KUBERNETES, "example", "secrets",
                                            "relay_password"))
    assert secret == "replace-me"
    compose = deploy_files.read(deploy_files.COMPOSE)
    for line in compose.splitlines():
        if "PASSWORD" in line and not line.lstrip().startswith("#"):
            assert ":?" in line or "environment: RELAY_PASSWORD" in line or "ALTER" in line, line


def test_grafana_of_compose_is_given_files_that_parse():
    for name in ("grafana-datasource.yaml", "grafana-dashboards.yaml"):
        assert yaml.safe_load(deploy_files.read(os.path.join(ROOT, "docker", name)))[
            "apiVersion"] == 1
    json.loads(deploy_files.read(os.path.join(ROOT, "monitoring", "grafana", "outrider.json")))
