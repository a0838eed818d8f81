"""Own checks of the Dockerfile, the Compose file and the Kubernetes manifests.

What a schema would say, as far as these files use it, and what it would not: that paths exist, that
names fit together, that nothing runs as root. Each function gives a list of findings.
"""

import os
import re
import shlex

import yaml

from support.relay import ROOT

DOCKERFILE = os.path.join(ROOT, "docker", "Dockerfile")
COMPOSE = os.path.join(ROOT, "docker", "compose.yaml")
KUBERNETES = os.path.join(ROOT, "deploy", "kubernetes")
SIZE_MAX_MB = 100

_SERVICE_KEYS = {"image", "build", "command", "entrypoint", "environment", "ports", "volumes",
                 "healthcheck", "depends_on", "secrets", "stop_grace_period", "restart",
                 "read_only", "tmpfs", "cap_drop", "security_opt"}
_CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
_CONTAINER_KEYS = {"name", "image", "ports", "livenessProbe", "readinessProbe", "resources",
                   "securityContext", "volumeMounts", "args", "env"}
_KINDS = {"Deployment": "apps/v1", "Service": "v1", "ServiceAccount": "v1",
          "PodDisruptionBudget": "policy/v1"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# Dockerfile ---------------------------------------------------------------------------------------


def instructions(text):
    """[(instruction, rest)] of a Dockerfile, continuation lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.strip().split(None, 1)) for line in joined.splitlines() if line.strip()]


def run_scripts(text):
    """The scripts of packaging/ that RUN calls, in order."""
    found = []
    for name, rest in instructions(text):
        if name == "RUN":
            found += re.findall(r"/packaging/([\w.-]+)", re.sub(r"--mount=\S+", "", rest))
    return found


def dockerfile_findings(text):
    findings = []
    steps = instructions(text)
    stages = [rest for name, rest in steps if name == "FROM"]
    if len(stages) < 2:
        findings.append("one stage only: the compiler would be in the image")
    for stage in stages:
        image = stage.split()[0]
        if ":" not in image or image.endswith(":latest"):
            findings.append(f"FROM {image}: name a version")
    last = steps[max(i for i, step in enumerate(steps) if step[0] == "FROM"):]
    users = [rest for name, rest in last if name == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        findings.append("the last USER has to be a number other than 0, with its group")
    for name, rest in steps:
        if name not in ("FROM", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL",
                        "ENTRYPOINT", "CMD"):
            findings.append(f"{name}: not used here")
        if name in ("ENTRYPOINT", "CMD") and not rest.startswith("["):
            findings.append(f"{name}: a shell would take the signals")
        if name == "RUN":
            command = re.sub(r"--mount=\S+\s*", "", rest)
            if not re.fullmatch(r'\[("bash", "-c", )?"[^"]*/packaging/[\w.-]+\.sh [^"&;|]*"\]|'
                                r'\["/src/packaging/[\w.-]+\.sh"(, "[^"]+")*\]', command):
                findings.append(f"RUN calls more than one script of packaging/: {command}")
        if name == "COPY" and "--from" not in rest:
            for source in shlex.split(rest)[:-1]:
                if not os.path.exists(os.path.join(ROOT, source)):
                    findings.append(f"COPY {source}: does not exist")
    for script in run_scripts(text):
        if not os.access(os.path.join(ROOT, "packaging", script), os.X_OK):
            findings.append(f"packaging/{script} is no script that can be run")
    return findings


def image_environment(text):
    """{name: value} of the ENV lines."""
    values = {}
    for name, rest in instructions(text):
        if name == "ENV":
            values.update(word.split("=", 1) for word in shlex.split(rest))
    return values


# Compose ------------------------------------------------------------------------------------------


def compose_findings(text):
    compose = yaml.safe_load(text)
    findings = [f"{key}: not a key of Compose" for key in set(compose) -
                {"name", "services", "secrets", "volumes"}]
    services = compose["services"]
    for name, service in services.items():
        findings += [f"{name}.{key}: not known here" for key in set(service) - _SERVICE_KEYS]
        if "image" not in service:
            findings.append(f"{name}: no image")
        elif not re.search(r":[\w.-]+$", service["image"]) or service["image"].endswith("latest"):
            findings.append(f"{name}: {service['image']} names no version")
        findings += _dependency_findings(name, service, services)
        findings += _volume_findings(name, service, compose)
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                findings.append(f"{name}: port {port} is open to the network")
        for key in ("environment",):
            for variable, value in service.get(key, {}).items():
                if not isinstance(value, str):
                    findings.append(f"{name}: {variable} is no text")
        for secret in service.get("secrets", []):
            if secret not in compose.get("secrets", {}):
                findings.append(f"{name}: there is no secret {secret}")
    return findings


def _dependency_findings(name, service, services):
    findings = []
    for other, how in service.get("depends_on", {}).items():
        if other not in services:
            findings.append(f"{name}: depends on {other}, which is not there")
        elif how["condition"] not in _CONDITIONS:
            findings.append(f"{name}: {how['condition']} is no condition")
        elif how["condition"] == "service_healthy" and "healthcheck" not in services[other]:
            findings.append(f"{name}: waits for the health of {other}, which has no check")
    return findings


def _volume_findings(name, service, compose):
    findings = []
    for volume in service.get("volumes", []):
        source, target = volume.split(":")[:2]
        if source.startswith("."):
            path = os.path.normpath(os.path.join(os.path.dirname(COMPOSE), source))
            if not os.path.isfile(path):
                findings.append(f"{name}: {source} does not exist")
            if not volume.endswith(":ro"):
                findings.append(f"{name}: {source} could be written")
        elif source not in compose.get("volumes", {}):
            findings.append(f"{name}: there is no volume {source}")
        if not target.startswith("/"):
            findings.append(f"{name}: {target} is no path")
    return findings


# Kubernetes ---------------------------------------------------------------------------------------


def manifests(folder):
    """{kind: manifest} of a kustomization's own resources."""
    found = {}
    for name in yaml.safe_load(read(os.path.join(folder, "kustomization.yaml")))["resources"]:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            for one in yaml.safe_load_all(read(path)):
                found[one["kind"]] = one
    return found


def kubernetes_findings(found, overlay):
    findings = []
    for kind, one in found.items():
        if _KINDS.get(kind) != one["apiVersion"]:
            findings.append(f"{kind}: apiVersion {one['apiVersion']}")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", one["metadata"]["name"]):
            findings.append(f"{kind}: the name {one['metadata']['name']}")
    findings += [f"no {kind}" for kind in _KINDS if kind not in found]
    if findings:
        return findings
    deployment = found["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    if deployment["replicas"] != 2:
        findings.append("active and standby are two replicas")
    if pod["serviceAccountName"] != found["ServiceAccount"]["metadata"]["name"]:
        findings.append("the service account is another")
    if pod["automountServiceAccountToken"] is not False:
        findings.append("a token of Kubernetes is mounted")
    if pod["terminationGracePeriodSeconds"] <= 30:
        findings.append("the grace period is not longer than limits.shutdown_timeout_ms")
    if found["PodDisruptionBudget"]["spec"]["minAvailable"] != 1:
        findings.append("the disruption budget")
    if found["Service"]["spec"].get("publishNotReadyAddresses") is not True:
        findings.append("pods that are not ready could not be scraped")
    return findings + _pod_findings(pod) + _source_findings(pod, overlay)


def _pod_findings(pod):
    findings = []
    security = pod["securityContext"]
    if not security.get("runAsNonRoot") or not security.get("runAsUser"):
        findings.append("the pod may run as root")
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        findings.append("no seccomp profile")
    for container in pod["containers"]:
        findings += [f"container key {key}" for key in set(container) - _CONTAINER_KEYS]
        own = container["securityContext"]
        if own.get("allowPrivilegeEscalation") is not False:
            findings.append("privileges may grow")
        if own.get("readOnlyRootFilesystem") is not True:
            findings.append("the root file system can be written")
        if own.get("capabilities") != {"drop": ["ALL"]}:
            findings.append("capabilities are left")
        ports = {port["name"] for port in container["ports"]}
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            get = container[probe]["httpGet"]
            if get["path"] != path or get["port"] not in ports:
                findings.append(f"{probe}: {get}")
        if "memory" not in container["resources"]["limits"]:
            findings.append("no limit on memory")
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        if volumes != mounted:
            findings.append(f"volumes {volumes ^ mounted} are not used or not there")
    return findings


def _source_findings(pod, overlay):
    """The overlay makes what the pod mounts, under the same names."""
    findings = []
    made = {"configMap": {one["name"] for one in overlay.get("configMapGenerator", [])},
            "secret": {one["name"] for one in overlay.get("secretGenerator", [])}}
    for volume in pod["volumes"]:
        if "configMap" in volume and volume["configMap"]["name"] not in made["configMap"]:
            findings.append(f"no configMap {volume['configMap']['name']}")
        if "secret" in volume and volume["secret"]["secretName"] not in made["secret"]:
            findings.append(f"no secret {volume['secret']['secretName']}")
    for kind in ("configMapGenerator", "secretGenerator"):
        for one in overlay.get(kind, []):
            for entry in one["files"]:
                path = os.path.join(KUBERNETES, "example", entry.split("=")[-1])
                if not os.path.isfile(path):
                    findings.append(f"{kind}: {entry} does not exist")
    images = {image["name"] for image in overlay.get("images", [])}
    findings += [f"the overlay names no image {container['image']}"
                 for container in pod["containers"] if container["image"] not in images]
    return findings


def all_findings():
    overlay = yaml.safe_load(read(os.path.join(KUBERNETES, "example", "kustomization.yaml")))
    return (dockerfile_findings(read(DOCKERFILE)) + compose_findings(read(COMPOSE))
            + kubernetes_findings(manifests(os.path.join(KUBERNETES, "base")), overlay))
