#!/usr/bin/env bash
# Makes the .deb of a binary that was built: make-deb.sh BINARY OUTPUT_FOLDER
#
# Needs cmake, dpkg-dev, binutils and file. The same binary gives the same bytes: times are those of the last
# commit (or of SOURCE_DATE_EPOCH). Prints the package's path.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ $# == 2 ]] || die "usage: make-deb.sh BINARY OUTPUT_FOLDER"
[[ -x $1 ]] || die "there is no binary \"$1\"; build it first"
binary=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mkdir -p "$2"
output=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
  SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || stat -c %Y "$binary")
fi
export SOURCE_DATE_EPOCH
# A folder of the package has the rights that the umask leaves it.
umask 022
strip -o "$work/outrider" "$binary"
cmake -S "$ROOT/packaging" -B "$work/build" -DCMAKE_INSTALL_PREFIX=/usr -DOUTRIDER_PROGRAM="$work/outrider" --log-level=WARNING \
  -Wno-dev >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log" >&2; die "cmake failed"; }
(cd "$work/build" && cpack --config CPackConfig.cmake >"$work/cpack.log" 2>&1) ||
  { cat "$work/cpack.log" >&2; die "cpack failed"; }
cp "$work"/build/*.deb "$output/"
basename -a "$work"/build/*.deb | sed "s|^|$output/|"
