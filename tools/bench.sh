#!/usr/bin/env bash
# Runs every benchmark of bench/; each verifies its answer before it reports a time.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in build/release/bench/*_bench; do
  [ -x "$program" ] || continue
  echo "== $(basename "$program")"
  "$program"
done

# The lab beside llama.cpp on the same model, where its npm package is installed.
if [ -f models/kcc-lab/model.safetensors ]; then
  echo "== lab and llama.cpp"
  .venv/bin/python tools/bench_lab.py
fi
