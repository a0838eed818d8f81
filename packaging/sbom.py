#!/usr/bin/python3
"""SPDX SBOM and third-party notices of a binary, from Debian's own records.

Usage: sbom.py BINARY VERSION OUTPUT_FOLDER. Writes outrider.spdx.json (SPDX 2.3) with every package
whose library the binary loads, directly or not, and every package whose headers or static library
became part of it; and THIRD-PARTY-NOTICES.txt with their copyright files as Debian ships them. Times
are SOURCE_DATE_EPOCH's, so the same binary on the same machine gives the same bytes.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

# Compiled into the binary: headers only, or a static library.
COMPILED_IN = ("libcli11-dev", "libexpected-dev", "libspdlog-dev", "libfmt-dev",
               "prometheus-cpp-dev", "libstdc++-12-dev")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def loaded_libraries(binary):
    """Real paths of all shared libraries, as the dynamic linker finds them."""
    paths = re.findall(r"=> (/\S+)|^\s*(/\S+) \(", output("ldd", binary), flags=re.M)
    found = sorted({os.path.realpath(a or b) for a, b in paths})
    if "not found" in output("ldd", binary) or not found:
        raise SystemExit(f"sbom.py: \"{binary}\" lacks a library on this machine")
    return found


def owner(path):
    """The package that owns a file; dpkg may know it by its place before the merge of /usr."""
    for candidate in (path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise SystemExit(f"sbom.py: no package owns \"{path}\"")


def package(name, how):
    fields = "${Package}\\t${Version}\\t${Architecture}\\t${Homepage}\\t${source:Package}"
    line = output("dpkg-query", "-W", f"-f={fields}\\n", name).splitlines()[0].split("\t")
    return {**dict(zip(("name", "version", "architecture", "homepage", "source"), line)),
            "how": how}


def packages(binary):
    found = {}
    for path in loaded_libraries(binary):
        name = owner(path)
        found[name] = package(name, "DYNAMIC_LINK")
    for name in COMPILED_IN:
        known = subprocess.run(["dpkg-query", "-W", name], capture_output=True, check=False)
        if known.returncode == 0:
            found[name] = package(name, "STATIC_LINK")
    return [found[name] for name in sorted(found)]


def spdx_id(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def sbom(binary, version, found):
    with open(binary, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")),
                                           datetime.timezone.utc)
    own = {"SPDXID": "SPDXRef-outrider", "name": "outrider", "versionInfo": version,
           "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
           "copyrightText": "NOASSERTION", "primaryPackagePurpose": "APPLICATION",
           "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]}
    others = [{"SPDXID": spdx_id(one["name"]), "name": one["name"], "versionInfo": one["version"],
               "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
               "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
               "copyrightText": "NOASSERTION", "supplier": "Organization: Debian",
               **({"homepage": one["homepage"]} if one["homepage"] else {}),
               "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                 "referenceLocator": f"pkg:deb/debian/{one['name']}@"
                                 f"{one['version'].replace(':', '%3A').replace('+', '%2B')}"
                                 f"?arch={one['architecture']}"}]} for one in found]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"outrider-{version}",
        "documentNamespace": f"urn:outrider:{version}:{digest}",
        "creationInfo": {"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: outrider-packaging-sbom"]},
        "packages": [own] + others,
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                           "relatedSpdxElement": "SPDXRef-outrider"}]
        + [{"spdxElementId": "SPDXRef-outrider", "relationshipType": one["how"],
            "relatedSpdxElement": spdx_id(one["name"])} for one in found],
    }


def notices(version, found):
    parts = [f"Third-party notices of outrider {version}\n\nThe program loads or contains the "
             "following packages of Debian. Their copyright files, as Debian ships\nthem, follow; "
             "licences they name by reference are in /usr/share/common-licenses of a Debian "
             "system.\n"]
    for one in found:
        path = f"/usr/share/doc/{one['name']}/copyright"
        if not os.path.exists(path):
            raise SystemExit(f"sbom.py: \"{path}\" is missing; documentation was left out when "
                             "the package was installed")
        with open(path, encoding="utf-8", errors="replace") as file:
            parts.append(f"{'=' * 79}\n{one['name']} {one['version']}\n{'=' * 79}\n\n"
                         + file.read().rstrip() + "\n")
    return "\n".join(parts)


def main():
    if len(sys.argv) != 4:
        raise SystemExit("usage: sbom.py BINARY VERSION OUTPUT_FOLDER")
    binary, version, folder = sys.argv[1:]
    found = packages(binary)
    with open(os.path.join(folder, "outrider.spdx.json"), "w", encoding="utf-8") as out:
        json.dump(sbom(binary, version, found), out, indent=1)
        out.write("\n")
    with open(os.path.join(folder, "THIRD-PARTY-NOTICES.txt"), "w", encoding="utf-8") as out:
        out.write(notices(version, found))
    print(f"sbom.py: {len(found)} packages, "
          f"{sum(one['how'] == 'STATIC_LINK' for one in found)} of them compiled in")


if __name__ == "__main__":
    main()
