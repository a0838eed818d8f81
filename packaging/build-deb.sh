#!/usr/bin/env bash
# Builds the release binary and its .deb on a clean Debian 12, as root: build-deb.sh OUTPUT_FOLDER
#
# For the image (docker/Dockerfile) and for continuous integration; on a developer's machine
# `./dev package` does the same and more. Installs the packages that the build needs.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ $# == 1 ]] || die "usage: build-deb.sh OUTPUT_FOLDER"
mkdir -p "$1"
output=$(cd "$1" && pwd)

echo "build-deb.sh: installing what the build needs"
# shellcheck disable=SC2046  # Lists of words.
apt_install $(packages_of PACKAGES_BUILD) $(packages_of PACKAGES_PACKAGE)
echo "build-deb.sh: building"
cd "$ROOT" || exit
cmake --preset release -Wno-dev --log-level=WARNING
cmake --build build/release --target outrider
packaging/make-deb.sh build/release/src/app/outrider "$output"
