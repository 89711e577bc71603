#!/usr/bin/env bash
# Runs every benchmark of bench/; each verifies its answer before it reports a time.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in build/release/bench/*_bench; do
  [ -x "$program" ] || continue
  echo "== $(basename "$program")"
  "$program"
done
