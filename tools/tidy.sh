#!/usr/bin/env bash
# clang-tidy over our own sources (tests excepted: gtest's macros are not ours), as many at a time as there are cores.
# A file that was clean is not looked at again until it, a header of ours, the checks or how it is compiled change.
set -euo pipefail
cd "$(dirname "$0")/.."
export database=${1:-build/release}
export clean=$database/tidy
mkdir -p "$clean"
shared=$({ clang-tidy --version; cat .clang-tidy; git ls-files '*.h' | sort | xargs sha256sum; } | sha256sum)
export shared

tidy_one() {
  local stamp
  stamp=$clean/$({ echo "$shared"; sha256sum "$1"; grep -F "$1\"" "$database/compile_commands.json" || true; } | sha256sum | cut -d' ' -f1)
  [ ! -e "$stamp" ] || return 0
  clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option "$1" 2> >(grep -v 'warnings generated' >&2) || return 1
  echo "$1" > "$stamp"
}
export -f tidy_one
git ls-files 'kcc/*.cc' 'apps/*.cc' 'bench/*.cc' 'fuzz/*.cc' | grep -v '_test\.cc$' |
  xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}'
