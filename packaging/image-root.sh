#!/usr/bin/env bash
# Turns a Debian 12 root into the one of the image, as root: image-root.sh PACKAGE.deb
#
# The user has a fixed number, since Kubernetes' runAsNonRoot has to know it. What apt leaves behind
# is removed, so that the image grows only by the package and its libraries.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: image-root.sh PACKAGE.deb" >&2; exit 64; }
export DEBIAN_FRONTEND=noninteractive
readonly ID=10001

addgroup --system --quiet --gid "$ID" outrider
adduser --system --quiet --uid "$ID" --ingroup outrider --no-create-home --home /nonexistent \
  --gecos "Outrider relay" outrider
apt-get update -q >/dev/null
# ca-certificates: for servers whose certificates are signed by a public authority.
apt-get install -q -y --no-install-recommends ca-certificates "$(realpath "$1")" >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log
# Where control.socket may stand; Kubernetes and Compose mount a memory file system here.
install -d -o outrider -g outrider -m 0750 /run/outrider
outrider --version
