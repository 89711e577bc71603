#!/usr/bin/env bash
# The main job on the contracts that ship with kcc.
set -euo pipefail
cd "$(dirname "$0")/.."
kcc=build/kcc
say() { printf '\n$ %s\n' "$*"; "$@"; }

say $kcc check contracts/*.yaml
say $kcc explain contracts/fp8-serving.yaml

# A change under review: one threshold doubled, one budget halved.
changed=$(mktemp --suffix=.yaml)
trap 'rm -f "$changed"' EXIT
sed '0,/atMost: \([0-9.e-]*\)/s//atMost: 9/' contracts/fp8-serving.yaml >"$changed"
printf '\n$ kcc diff contracts/fp8-serving.yaml changed.yaml   # the first threshold raised to 9\n'
$kcc diff contracts/fp8-serving.yaml "$changed" || true
