#!/usr/bin/env bash
# Measures the example traces with the programs of two builds, on every vector target and with one
# and two threads, and demands the same summary file, byte by byte; then the same of the monitor: its
# decision log, its state and its curves, and the digests of a stream that each target measured.
#   tools/same_bytes.sh build/release build/clang
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: tools/same_bytes.sh BUILD BUILD ..." >&2; exit 2; }
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for build in "$@"; do
  for target in scalar avx2 avx512; do
    [ "$target" = scalar ] || grep -qw "${target/avx512/avx512f}" /proc/cpuinfo || continue
    for threads in 1 2; do
      out="$scratch/${build//\//-}-$target-$threads.kccs"
      "$build/apps/kcc/kcc" measure examples/traces/train \
        examples/traces/infer -c examples/contract.yaml --target "$target" --threads "$threads" \
        -o "$out" >/dev/null
      first=${first:-$out}
      cmp "$first" "$out"
    done
  done
done
echo "summary files identical: $(sha256sum < "$first" | cut -d' ' -f1)"

for build in "$@"; do
  out="$scratch/${build//\//-}-monitor"
  tools/monitor_files.sh "$out" "$build/apps/kcc/kcc"
  "$build/tests/kcc_monitor_digests" | sed 's/^[^ ]* //' | sort -u > "$out/digests.txt"
  monitor=${monitor:-$out}
  diff -r "$monitor" "$out"
done
[ "$(wc -l < "$monitor/digests.txt")" -eq 2 ] || { echo "same_bytes: the vector targets decide differently" >&2; exit 1; }
echo "monitor files identical: $(sha256sum < "$monitor/log.jsonl" | cut -d' ' -f1)"
