#!/usr/bin/env bash
# Makes fuzz/corpus anew from what it holds and what fuzzing found (tools/fuzz.sh leaves it in build/fuzz/work): the
# fewest inputs, the smallest first, that reach everything all of them reach. Where these are less than 200, as for a
# small parser, every input that reaches something the smaller ones do not stays, how often it reaches it included.
#   tools/corpus.sh [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls fuzz/corpus)
for target in "${targets[@]}"; do
  found=build/fuzz/work/$target
  least=build/fuzz/least/$target
  mkdir -p "$found"
  rm -rf "$least" && mkdir -p "$least"
  # Small inputs say what they are about, and keep the repository small.
  merge() { "build/fuzz/fuzz/${target}_fuzz" -merge=1 "$@" -max_len=8192 "$least" "fuzz/corpus/$target" "$found" > "$least.log" 2>&1; }
  merge -set_cover_merge=1
  if [ "$(find "$least" -type f | wc -l)" -lt 200 ]; then merge -use_value_profile=1; fi
  before=$(find "fuzz/corpus/$target" -type f | wc -l)
  # Inputs with a name were written by hand and stay.
  find "fuzz/corpus/$target" -type f -regextype posix-extended -regex '.*/[0-9a-f]{16,40}' -delete
  for named in "fuzz/corpus/$target"/*; do
    [ ! -f "$named" ] || rm -f "$least/$(sha1sum < "$named" | cut -d' ' -f1)"
  done
  find "$least" -type f -exec cp -t "fuzz/corpus/$target/" {} +
  echo "corpus $target: $before -> $(find "fuzz/corpus/$target" -type f | wc -l) inputs, $(du -sk "fuzz/corpus/$target" | cut -f1) KiB"
done
