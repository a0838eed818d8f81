# Shared by the scripts of this folder: where things are, and installing packages of Debian.
# shellcheck shell=bash
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive

die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# apt_install <package…>: quietly, without recommended packages.
apt_install() {
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends "$@" >/dev/null
}

# packages_of <name>: one of the lists in ./dev, so that there is one list.
packages_of() {
  awk -v name="$1" '
    $0 ~ "^readonly " name "=\"" { inside = 1; sub(/^[^"]*"/, "") }
    inside { line = $0; last = sub(/"$/, "", line); sub(/\\$/, "", line); printf "%s ", line }
    inside && last { exit }' "$ROOT/dev"
}
