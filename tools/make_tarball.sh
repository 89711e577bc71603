#!/usr/bin/env bash
# Packs a folder so that the same files give the same bytes, whoever packs them, when and where.
#   tools/make_tarball.sh FOLDER FILE.tar.gz
# Names are sorted, owners and modes are set, and every time is SOURCE_DATE_EPOCH, which must be there.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: tools/make_tarball.sh FOLDER FILE.tar.gz" >&2; exit 2; }
: "${SOURCE_DATE_EPOCH:?make_tarball: set it to the time of the commit, in seconds}"
LC_ALL=C tar --create --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  --mode=u+rwX,go+rX,go-w --directory "$(dirname "$1")" "$(basename "$1")" | gzip --no-name --best >"$2.part"
mv "$2.part" "$2"
