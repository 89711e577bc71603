#!/usr/bin/env bash
# Runs every fuzz target for the given seconds on a copy of its corpus; stops at the first finding.
#   tools/fuzz.sh 600            all targets
#   tools/fuzz.sh 600 contract   one
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "$(nproc)"
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find build/fuzz/fuzz -maxdepth 1 -name '*_fuzz' -type f -executable -printf '%f\n' | sed 's/_fuzz$//' | sort)
fi
for target in "${targets[@]}"; do
  work=build/fuzz/work/$target
  mkdir -p "$work"
  # -timeout: nothing may take over a second; -rss_limit_mb: nor much memory.
  "build/fuzz/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=1024 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="$work/" "$work" "fuzz/corpus/$target" 2>&1 | tail -n 12
  echo "fuzz $target: $seconds s, no finding"
done
