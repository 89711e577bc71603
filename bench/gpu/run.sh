#!/usr/bin/env bash
# One command on a GPU machine: builds, verifies, tests, times, compares, writes JSON and the results
# page. libkcc is the one that `make build` left, or what bench/gpu/pack.sh packed into build/gpu_host
# for a machine without the packages that kcc is built with.
#   bench/gpu/run.sh [OUTPUT_FOLDER]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/gpu}
bench/gpu/build.sh "$out"
source bench/gpu/host.sh "$out"
"$out/gpu_verify" | tee "$out/verify.txt"
python3 -m pytest -q -p no:cacheprovider --confcutdir=tests/cuda -rs tests/cuda/test_gpu_summaries.py | tee "$out/tests.txt"
"$out/gpu_timing" --json "$out/timing.json"
python3 bench/gpu/compare.py --library "$out/libkcc_cuda.so" --json "$out/compare.json"
python3 bench/gpu/results.py "$out" > docs/results/gpu.md
