#!/usr/bin/env bash
# Packs what the host side needs into build/gpu_host, for a GPU machine that has Python, PyTorch, nvcc
# and g++ but not the packages that kcc is built with: libkcc.so, the program, the libraries they are
# linked to (the C and C++ runtimes are the machine's), and pytest.
#   make build && bench/gpu/pack.sh [--library]
# With --library libkcc.so alone and what it is linked to: enough for experiments that measure from Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=build/gpu_host
rm -rf "$out"
mkdir -p "$out/python" "$out/lib"
cp -L build/release/kcc/api/libkcc.so "$out/libkcc.so"
packed=("$out/libkcc.so")
if [ "${1:-}" != --library ]; then
  cp -L build/release/apps/kcc/kcc "$out/kcc"
  packed+=("$out/kcc")
fi
for file in "${packed[@]}"; do
  ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so' |
  while read -r library; do cp -L "$library" "$out/lib/"; done
if [ "${1:-}" = --library ]; then
  du -sh "$out"
  exit
fi
packages=$(.venv/bin/python -c 'import pathlib, pytest; print(pathlib.Path(pytest.__file__).parents[1])')
for name in pytest _pytest pluggy iniconfig packaging pygments; do
  if [ -e "$packages/$name" ]; then cp -r "$packages/$name" "$out/python/"; fi
done
find "$out/python" -name __pycache__ -prune -exec rm -r {} +
du -sh "$out"
