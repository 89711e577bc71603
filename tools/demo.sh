#!/usr/bin/env bash
# The main job on the contracts that ship with kcc.
set -euo pipefail
cd "$(dirname "$0")/.."
kcc=build/kcc
say() { printf '\n$ %s\n' "$*"; "$@"; }

say $kcc check contracts/*.yaml
say $kcc explain contracts/fp8-serving.yaml N-1

# A change under review: one threshold doubled, one budget halved.
changed=$(mktemp --suffix=.yaml)
trap 'rm -f "$changed"' EXIT
sed '0,/atMost: \([0-9.e-]*\)/s//atMost: 9/' contracts/fp8-serving.yaml >"$changed"
printf '\n$ kcc diff contracts/fp8-serving.yaml changed.yaml   # the first threshold raised to 9\n'
$kcc diff contracts/fp8-serving.yaml "$changed" || true

# Two kernels under a contract: close on average, far apart on long prompts. Violated is the point.
say $kcc trace info examples/traces/infer
say $kcc run examples/contract.yaml --train trace:examples/traces/train --infer trace:examples/traces/infer \
  --report build/demo || true
echo
echo "open build/demo/report.html"

# The lab: one binary, no torch, no server. FP8 passes on average and fails where it matters; then
# which source of error brings the drift, and the first operator at which the two kernels part.
if [ -f models/kcc-lab/model.safetensors ]; then
  requests=models/kcc-lab/eval.jsonl
  say $kcc run contracts/lab.yaml --train lab:train --infer lab:fp8 --requests $requests --batch 64 \
    --report build/demo-lab || true
  say $kcc attribute --train lab:train --infer lab:fp8 --requests $requests --max-requests 40 \
    --contract contracts/lab.yaml --quantity kl
  say $kcc attribute --train lab:train --infer lab:fp8 --requests $requests --max-requests 8 --first-divergence
  echo
  echo "open build/demo-lab/report.html"
fi
