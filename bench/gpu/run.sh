#!/usr/bin/env bash
# One command on a GPU machine: builds, verifies, times, compares, writes JSON and the results page.
#   bench/gpu/run.sh [OUTPUT_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/gpu}
bench/gpu/build.sh "$out"
"$out/gpu_verify" | tee "$out/verify.txt"
"$out/gpu_timing" --json "$out/timing.json"
python3 bench/gpu/compare.py --library "$out/libkcc_cuda.so" --json "$out/compare.json"
python3 bench/gpu/results.py "$out" > docs/results/gpu.md
