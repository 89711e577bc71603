#!/usr/bin/env bash
# clang-tidy over our own sources (tests excepted: gtest's macros are not ours), as many at a time as there are cores.
# A file that was clean is not looked at again until it, a header of ours that it includes, the checks or how it is
# compiled change. What it includes is what the build noted; of a file that was not built, every header counts.
set -euo pipefail
cd "$(dirname "$0")/.."
export database=${1:-build/clang}
export clean=$database/tidy
mkdir -p "$clean"
# Lines of a source and a file of ours that it includes, itself among them; ninja names them from the build's folder.
ninja -C "$database" -t deps |
  awk '/#deps/ { source = "" } sub(/^ +\.\.\/\.\.\//, "") { if (source == "") source = $0; print source, $0 }' |
  sort -u > "$clean/includes"
checks=$({ clang-tidy --version; cat .clang-tidy; } | sha256sum)
export checks

tidy_one() {
  local includes stamp
  includes=$(awk -v source="$1" '$1 == source { print $2 }' "$clean/includes")
  [ -n "$includes" ] || includes="$1 $(git ls-files '*.h')"
  # shellcheck disable=SC2086  # a list
  stamp=$clean/$({ echo "$checks"; sha256sum $includes; grep -F "$1\"" "$database/compile_commands.json" || true; } | sha256sum | cut -d' ' -f1)
  [ ! -e "$stamp" ] || return 0
  clang-tidy -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option "$1" 2> >(grep -v 'warnings generated' >&2) || return 1
  echo "$1" > "$stamp"
}
export -f tidy_one
git ls-files 'kcc/*.cc' 'apps/*.cc' 'bench/*.cc' 'fuzz/*.cc' | grep -v '_test\.cc$' |
  xargs -P "$(nproc)" -I{} bash -c 'tidy_one {}'
