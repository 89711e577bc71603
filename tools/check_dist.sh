#!/usr/bin/env bash
# Tries what `make dist` made in bare systems without a compiler: a Debian 12 and a Debian 11, whose glibc 2.31 is the
# oldest that is promised. In each: the tarball's program, moved to another folder, judges the example traces and runs the
# lab; the library is loaded; the wheel is installed and asked for a verdict (Debian 11 has Python 3.9, for which the
# package is not made, so the wheel's program and library are tried there alone).
#   tools/check_dist.sh        skips, and says so, where there is no root, no debootstrap or no mirror
set -euo pipefail
cd "$(dirname "$0")/.."
roots=${KCC_ROOTS:-/var/tmp/kcc-roots}
fail() { echo "check_dist: $*" >&2; exit 1; }
tarball=$(echo dist/kcc-*-linux-x86_64.tar.gz)
wheel=$(echo dist/kcc-*manylinux*_x86_64.whl)
[ -f "$tarball" ] && [ -f "$wheel" ] || fail "nothing to try in dist/; run make dist"
name=$(basename "$tarball" .tar.gz)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tarball step again, from the same binaries: the same bytes.
stage=build/dist/stage/$name
if [ -d "$stage" ]; then
  cp -r "$stage" "$work/$name" # other times, another folder
  epoch=$(python3 -c 'import sys, tarfile; print(tarfile.open(sys.argv[1]).next().mtime)' "$tarball")
  SOURCE_DATE_EPOCH=$epoch tools/make_tarball.sh "$work/$name" "$work/again.tar.gz"
  cmp "$tarball" "$work/again.tar.gz" || fail "the same files gave another tarball"
  echo "check_dist: packed twice, the same bytes: $(sha256sum <"$tarball" | cut -d' ' -f1)"
fi

# What is asked of the system: glibc's own libraries and the unwinder, none newer than the floor.
mkdir "$work/unpacked"
tar -xzf "$tarball" -C "$work/unpacked"
tree=$work/unpacked/$name
for file in "$tree/bin/kcc" "$tree"/lib/libkcc.so.1; do
  needed=$(objdump -p "$file" | awk '/NEEDED/ {print $2}' | grep -vE '^(libc|libm|libpthread|libdl|libgcc_s|ld-linux-x86-64)\.so' || true)
  [ -z "$needed" ] || fail "$(basename "$file") needs $needed"
  newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
  [ "$(printf '%s\nGLIBC_2.31\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.31 ] ||
    fail "$(basename "$file") needs $newest, which is newer than the floor of 2.31"
  echo "check_dist: $(basename "$file") needs $newest and nothing but glibc"
done
python3 -m zipfile -l "$wheel" >"$work/in-wheel"
for license in curl highway openssl simdjson yaml-cpp libstdc++; do
  [ -s "$tree/LICENSES/$license" ] || fail "the licence of $license is not in the tarball"
  grep -qF "share/kcc/LICENSES/$license " "$work/in-wheel" || fail "the licence of $license is not in the wheel"
done

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "check_dist: SKIPPED the bare systems: they need root and debootstrap (tools/setup.sh dist)"
  exit 0
fi

if ! unshare --mount true 2>/dev/null; then
  echo "check_dist: SKIPPED the bare systems: mounts of one's own are not allowed here (a container without CAP_SYS_ADMIN)"
  exit 0
fi

# in_root ROOT COMMAND...: as a user who is not root, with an environment of its own, and with /proc, which every system
# and every container has. The mount ends with the command.
in_root() {
  local root=$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp unshare --mount bash -c \
    'mount -t proc proc "$0/proc" && exec chroot --userspec=65534:65534 "$0" "$@"' "$root" "$@"
}
verdict() { # verdict ROOT KCC EXAMPLES: the example must be violated, by exit code and by word
  local status=0
  in_root "$1" "$2" run "$3/contract.yaml" --train "$3/traces/train" --infer "$3/traces/infer" >"$work/out" 2>&1 || status=$?
  { [ "$status" -eq 1 ] && grep -q VIOLATED "$work/out"; } || { cat "$work/out" >&2; fail "kcc run ended with $status in $1"; }
}

for system in debian12 debian11; do
  if ! tools/make_root.sh "$system"; then
    echo "check_dist: SKIPPED $system: its root could not be made"
    continue
  fi
  root=$roots/$system
  ! chroot "$root" sh -c 'command -v gcc || command -v c++' >/dev/null || fail "$root has a compiler"
  rm -rf "$root/opt/kcc" "$root/opt/wheel"
  mkdir -p "$root/opt"
  cp -r "$tree" "$root/opt/kcc" # and not under its own name
  glibc=$(chroot "$root" ldd --version | sed -n '1s/.* //p')
  printed=$(in_root "$root" /opt/kcc/bin/kcc --version)
  verdict "$root" /opt/kcc/bin/kcc /opt/kcc/share/kcc/examples
  # The lab finds its model beside the program.
  in_root "$root" sh -c 'cd "$(mktemp -d)" && head -n 1 /opt/kcc/share/kcc/models/kcc-lab/eval.jsonl >one.jsonl &&
    /opt/kcc/bin/kcc score lab:bf16 --requests one.jsonl -o trace >/dev/null'
  in_root "$root" python3 -c 'import ctypes; print(ctypes.CDLL("/opt/kcc/lib/libkcc.so.1").kcc_abi_version())' >/dev/null
  echo "check_dist: $system, glibc $glibc: $printed; kcc run, the lab and libkcc.so work"

  # The wheel, installed by pip's rules for the root's own Python.
  python=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [ "$(printf '%s\n3.10\n' "$python" | sort -V | head -n 1)" = 3.10 ]; then
    .venv/bin/pip install --quiet --disable-pip-version-check --target "$root/opt/wheel" --python-version "$python" \
      --only-binary :all: --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
      --platform manylinux2014_x86_64 "$wheel"
    status=0
    in_root "$root" env PYTHONPATH=/opt/wheel python3 -m kcc >"$work/out" 2>&1 || status=$?
    { [ "$status" -eq 1 ] && grep -q VIOLATED "$work/out"; } || { cat "$work/out" >&2; fail "python -m kcc ended with $status"; }
    what="import kcc gives a verdict and "
  else
    mkdir "$root/opt/wheel"
    python3 -m zipfile -e "$wheel" "$root/opt/wheel"
    mv "$root"/opt/wheel/kcc-*.data/scripts "$root/opt/wheel/bin"
    mv "$root"/opt/wheel/kcc-*.data/data/share "$root/opt/wheel/share"
    chmod +x "$root/opt/wheel/bin/kcc"
    in_root "$root" python3 -c 'import ctypes; ctypes.CDLL("/opt/wheel/kcc/libkcc.so")'
    what="Python $python is too old to import it; "
  fi
  verdict "$root" /opt/wheel/bin/kcc /opt/kcc/share/kcc/examples
  in_root "$root" sh -c 'cd /tmp && /opt/wheel/bin/kcc lab list' >/dev/null
  echo "check_dist: $system, the wheel: ${what}its kcc works"
done

# The job of docs/ci.md, step by step as the page has it; a Debian with curl stands in for a runner's Ubuntu.
if ! tools/make_root.sh debian12-ci; then
  echo "check_dist: SKIPPED the CI job: its root could not be made"
  exit 0
fi
root=$roots/debian12-ci
rm -rf "$root/opt/job"
mkdir -p "$root/opt/job"/{steps,temp,work/contracts}
cp "$tarball" "$root/opt/job/kcc.tar.gz"
cp examples/contract.yaml "$root/opt/job/work/contracts/serving.yaml"
cp -r examples/traces "$root/opt/job/work/"
steps=$(.venv/bin/python tools/ci_steps.py "$root/opt/job/steps")
[ "$steps" -ge 3 ] || fail "docs/ci.md has $steps steps that run something"
chown -R 65534:65534 "$root/opt/job"
cat >"$root/opt/job/runner" <<'RUNNER'
cd /opt/job/work
touch "$GITHUB_PATH"
for step in /opt/job/steps/*.sh; do
  status=0
  PATH=$(tr '\n' : <"$GITHUB_PATH")$PATH bash -eo pipefail "$step" || status=$?
  echo "$(basename "$step") ended with $status"
done
RUNNER
in_root "$root" env KCC_URL=file:///opt/job/kcc.tar.gz "KCC_SHA256=$(sha256sum <"$tarball" | cut -d' ' -f1)" \
  RUNNER_TEMP=/opt/job/temp GITHUB_PATH=/opt/job/path GITHUB_STEP_SUMMARY=/opt/job/summary bash /opt/job/runner >"$work/out" 2>&1
# The example is violated: its step fails the job, and the later ones still have a report to show.
for line in '1.sh ended with 0' '2.sh ended with 1' '3.sh ended with 0'; do
  grep -qx "$line" "$work/out" || { cat "$work/out" >&2; fail "the CI job: no '$line'"; }
done
grep -q '^#.*violated' -i "$root/opt/job/summary" && [ -s "$root/opt/job/work/out/report.sarif" ] ||
  fail "the CI job left no summary or no report.sarif"
echo "check_dist: the job of docs/ci.md: installs kcc, fails on the violated example, leaves its report"
