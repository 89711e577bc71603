#!/usr/bin/env bash
# Makes the root folder of a small Debian, to try in it what was built or to link against its libraries. As root.
#   tools/make_root.sh debian12 | debian11   a system without a compiler, to chroot into
#   tools/make_root.sh debian12-ci           the same with curl and certificates, as a CI runner has them
#   tools/make_root.sh arm64                 the ARM64 libraries that the preset arm64 links to; nothing runs in it
# The roots lie outside of the repository, in KCC_ROOTS (/var/tmp/kcc-roots). One that is there already is left as
# it is, unless it was made of other packages. They come from KCC_DEBIAN_MIRROR, or from where apt has its own.
set -euo pipefail
name=${1:-}
roots=${KCC_ROOTS:-/var/tmp/kcc-roots}
mirror=${KCC_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | sed -n 's#/debian/$##p' | head -n 1)}/debian
root=$roots/$name
options=(--variant=minbase)
# What the preset needs of tools/setup.sh's list.
libraries=libssl-dev,libexpected-dev,libyaml-cpp-dev,libcli11-dev,libsimdjson-dev,libhwy-dev,libcurl4-openssl-dev
libraries+=,libsqlite3-dev,libpq-dev,libboost-dev,libgtest-dev,libgmock-dev,librapidcheck-dev
case $name in
  debian12) suite=bookworm options+=(--include=python3-minimal,libpython3-stdlib) ;;
  debian12-ci) suite=bookworm options+=(--include=ca-certificates,curl) ;;
  debian11) suite=bullseye options+=(--include=python3-minimal,libpython3-stdlib) ;;
  arm64) suite=bookworm options+=(--foreign --arch=arm64 "--include=$libraries") ;;
  *)
    echo "make_root: unknown root '$name'; use debian12, debian12-ci, debian11 or arm64" >&2
    exit 2
    ;;
esac
[ "$(cat "$root/.kcc-complete" 2>/dev/null)" = "${options[*]}" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "make_root: this needs root and debootstrap (apt-get install debootstrap)" >&2
  exit 1
fi
echo "make_root: making $root from $mirror ($suite)"
rm -rf "$root"
mkdir -p "$roots"
if ! debootstrap "${options[@]}" "$suite" "$root" "$mirror" >"$root.log" 2>&1; then
  tail -n 5 "$root.log" >&2
  echo "make_root: debootstrap failed; all of its output is in $root.log" >&2
  exit 1
fi
if [ "$name" = arm64 ]; then
  # The second half of debootstrap would run programs of the other architecture: files are all that is needed.
  # Links to folders are kept: /lib is one to /usr/lib.
  for package in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
  done
fi
echo "${options[*]}" >"$root/.kcc-complete"
