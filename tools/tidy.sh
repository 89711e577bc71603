#!/usr/bin/env bash
# clang-tidy over our own sources (tests excepted: gtest's macros are not ours), two at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
database=${1:-build/release}
git ls-files 'kcc/*.cc' 'apps/*.cc' 'bench/*.cc' 'fuzz/*.cc' | grep -v '_test\.cc$' |
  xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option 2> >(grep -v 'warnings generated' >&2)
