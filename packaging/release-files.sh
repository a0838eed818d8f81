#!/usr/bin/env bash
# All that a release consists of: release-files.sh BINARY OUTPUT_FOLDER
#
# The .deb, the SBOM, the third-party notices, a bundle of the deployment files, and SHA256SUMS over
# them, which `sha256sum -c SHA256SUMS` checks.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ $# == 2 ]] || die "usage: release-files.sh BINARY OUTPUT_FOLDER"
mkdir -p "$2"
output=$(cd "$2" && pwd)
rm -f "$output"/outrider* "$output"/THIRD-PARTY-NOTICES.txt "$output"/SHA256SUMS
version=$("$1" --version)
version=${version#outrider }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null ||
  stat -c %Y "$1")}
export SOURCE_DATE_EPOCH

"$ROOT/packaging/make-deb.sh" "$1" "$output"
"$ROOT/packaging/sbom.py" "$1" "$version" "$output"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  --exclude=__pycache__ -C "$ROOT" -cf - docker deploy monitoring sql |
  gzip -9n >"$output/outrider-deployment.tar.gz"
(cd "$output" && sha256sum outrider* THIRD-PARTY-NOTICES.txt >SHA256SUMS)
echo "release-files.sh: in $output:"
cat "$output/SHA256SUMS"
