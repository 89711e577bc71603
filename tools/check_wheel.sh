#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh environment away from the checkout, and asks it for a
# verdict. The environment sees no compiler, and the package none of the libraries that the build links to; the program
# uses this machine's (a wheel for other machines is `make dist`). It finds the lab's model in the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The library alone must be configured without what tests need. It is then compiled as `make build` does, with which it
# shares every object in the compiler's cache.
cmake -S . -B "$work/alone" -G Ninja >/dev/null
CXX=c++ .venv/bin/pip wheel --quiet --no-deps --wheel-dir "$work" -C cmake.define.KCC_DEV=ON .
ls -l "$work"/*.whl
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$work"/*.whl
cd "$work"
for library in "$work"/venv/lib/python3*/site-packages/kcc/libkcc.so; do
  # Everything but the C and C++ runtimes must come from the wheel itself.
  if ldd "$library" | grep -vE 'linux-vdso|ld-linux|libc\.so|libm\.so|libstdc\+\+|libgcc_s|libpthread|libdl' |
      grep -v "$work"; then
    echo "check_wheel: the library needs what the wheel does not hold" >&2
    exit 1
  fi
done
status=0
env -i PATH="$work/venv/bin" "$work/venv/bin/python" -m kcc >verdict || status=$?
cat verdict
[ "$status" -eq 1 ] && grep -q VIOLATED verdict
env -i PATH="$work/venv/bin" kcc --version
head -n 1 venv/share/kcc/models/kcc-lab/eval.jsonl >one.jsonl
env -i PATH="$work/venv/bin" kcc score lab:bf16 --requests one.jsonl -o trace
