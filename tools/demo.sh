#!/usr/bin/env bash
# The main job on the contracts that ship with kcc.
set -euo pipefail
cd "$(dirname "$0")/.."
kcc=build/kcc
say() { printf '\n$ %s\n' "$*"; "$@"; }

say $kcc check contracts/*.yaml
say $kcc explain contracts/fp8-serving.yaml
