#!/usr/bin/env bash
# Every allocation and every start of a thread fails in turn, in a small run of every command and every C function: all of
# the first 2,000 places of a run and 2,000 of the others (tests/faults). Hours of CPU time; the subjects are shared out
# over as many processes as there are cores. The output of a part is in build/faults/K.log, and the sums are printed.
#   tools/faults.sh [GTEST_FILTER]
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
logs=build/faults
test=build/release/tests/kcc_faults_test
[ -x "$test" ] || { echo "faults: there is no $test; run make first" >&2; exit 2; }
rm -rf "$logs"
mkdir -p "$logs"
# More parts than processes, since subjects differ in cost a hundredfold.
parts=$((jobs * 4))
seq "$parts" | xargs -P "$jobs" -I{} sh -c \
  'KCC_FAULTS=full KCC_FAULTS_PART=$1/$2 "$3" --gtest_filter="$4" >"$5/$1.log" 2>&1 || echo "$1" >>"$5/failed"' \
  faults {} "$parts" "$test" "${1:-*}" "$logs"
awk '/^(commands|C calls), / {
       split($0, words, ":"); n = split(words[2] words[3], w, /[ ,]+/)
       for (i = 2; i < n; i += 2) { sum[words[1], w[i + 1]] += w[i]; kinds[words[1]] }
     }
     END { for (k in kinds) printf "%s: %d subjects, %d points, %d tried: %d errors, %d unharmed, %d aborts\n", k,
             sum[k, "subjects"], sum[k, "points"], sum[k, "tried"], sum[k, "errors"], sum[k, "unharmed"], sum[k, "aborts"] }' \
  "$logs"/*.log | sort
if [ -e "$logs/failed" ]; then
  for part in $(sort -n "$logs/failed"); do
    echo "faults: part $part failed: $logs/$part.log"
    grep -h -A 12 'Failure' "$logs/$part.log" | head -n 40
  done
  exit 1
fi
