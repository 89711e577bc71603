#!/usr/bin/env bash
# What kcc monitor writes about its example, into a folder: the decision log, the state, what it prints, and the pages of
# explain and simulate. The same files from every build and every machine (tools/same_bytes.sh, tools/check_arm64.sh).
#   tools/monitor_files.sh FOLDER PROGRAM [ARGUMENTS that come first]
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: tools/monitor_files.sh FOLDER PROGRAM..." >&2; exit 2; }
cd "$(dirname "$0")/.."
out=$1
shift
example=examples/monitor
policy=(--policy "$example/policy.yaml")
mkdir -p "$out"
"$@" monitor run "$example/contract.yaml" "$example/observations.jsonl" "${policy[@]}" --log "$out/log.jsonl" \
  --state "$out/state" >"$out/run.txt"
"$@" monitor replay "$out/log.jsonl" --contract "$example/contract.yaml" "${policy[@]}" >"$out/replay.txt"
"$@" monitor explain "$example/contract.yaml" "${policy[@]}" --json >"$out/explain.json"
"$@" monitor simulate "$example/contract.yaml" "${policy[@]}" --clause N-1 --runs 20 --observations 2000 -o "$out" --json \
  >"$out/simulate.json"
