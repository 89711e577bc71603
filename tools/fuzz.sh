#!/usr/bin/env bash
# Runs every fuzz target for the given seconds on a copy of its corpus, with its words (fuzz/TARGET.dict) where it has
# some, as many at a time as there are cores; fails if one finds something.
#   tools/fuzz.sh 600            all targets
#   tools/fuzz.sh 600 contract   one
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
targets=("$@")
cmake --preset fuzz >/dev/null
built=("${targets[@]/%/_fuzz}")
cmake --build --preset fuzz --target "${built[@]:-fuzzers}" -j "$(nproc)"
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find build/fuzz/fuzz -maxdepth 1 -name '*_fuzz' -type f -executable -printf '%f\n' | sed 's/_fuzz$//' | sort)
fi

# -timeout: nothing may take over a second; -rss_limit_mb: nor much memory.
fuzz_one() {
  local work=build/fuzz/work/$2
  local words=()
  [ ! -f "fuzz/$2.dict" ] || words=(-dict="fuzz/$2.dict")
  mkdir -p "$work"
  if ! "build/fuzz/fuzz/$2_fuzz" -max_total_time="$1" -timeout=1 -rss_limit_mb=1024 -max_len=65536 "${words[@]}" \
    -print_final_stats=1 -artifact_prefix="$work/" "$work" "fuzz/corpus/$2" > "$work.log" 2>&1; then
    tail -n 40 "$work.log"
    echo "fuzz $2: a finding, in $work; the whole log is $work.log"
    return 1
  fi
  echo "fuzz $2: $1 s, no finding; $(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$work.log" | tail -n 1)"
}
export -f fuzz_one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c "fuzz_one $seconds {}"
