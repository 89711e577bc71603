#!/usr/bin/env bash
# The slow matrix. Every step runs, whatever became of those before it, so that one run names everything that
# fails; it ends with a table of the steps and their minutes. The output of a step is in build/test-all/STEP.log.
#   tools/test_all.sh            all steps
#   tools/test_all.sh lint wheel only these, to try again what failed
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
logs=build/test-all
mkdir -p "$logs"

# A step is a function: one exit code for all of it, since a function that runs in a condition ignores set -e.
step_test() { make --no-print-directory test; }
step_asan() { make --no-print-directory test-asan; }
step_tsan() { make --no-print-directory test-tsan; }
step_clang() {
  cmake --preset clang >/dev/null && cmake --build --preset clang -j "$jobs" &&
    ctest --test-dir build/clang --output-on-failure --no-tests=error -j "$jobs" -LE slow
}
step_lint() { make --no-print-directory lint; }
step_same_bytes() { tools/same_bytes.sh build/release build/clang; }
step_slow_ctest() {
  tools/servers.sh && ctest --test-dir build/release --output-on-failure --no-tests=error -j "$jobs" -L slow
}
step_slow_pytest() { make --no-print-directory test-slow-python; }
step_wheel() { tools/check_wheel.sh; }
step_dist() { make --no-print-directory dist && tools/check_dist.sh; }
step_arm64() { tools/check_arm64.sh build/release; }
step_fuzz() { tools/fuzz.sh 60; }

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=(test asan tsan clang lint same_bytes slow_ctest slow_pytest wheel dist arm64 fuzz)
for name in "${steps[@]}"; do
  declare -F "step_$name" >/dev/null || { echo "test_all: no step '$name'" >&2; exit 2; }
done

passed=0
failed=0
table=
for name in "${steps[@]}"; do
  echo "test-all: $name"
  begin=$SECONDS
  if "step_$name" >"$logs/$name.log" 2>&1 </dev/null; then
    outcome=passed
    passed=$((passed + 1))
  else
    outcome=FAILED
    failed=$((failed + 1))
    tail -n 40 "$logs/$name.log"
  fi
  spent=$((SECONDS - begin))
  table+=$(printf '  %-12s %-6s %3d min %02d s' "$name" "$outcome" $((spent / 60)) $((spent % 60)))$'\n'
done
printf 'test-all: %d min in all; the output is in %s\n%s' $((SECONDS / 60)) "$logs" "$table"
# What a step could not try here is no success.
(cd "$logs" && grep -h ': SKIPPED' "${steps[@]/%/.log}") || true
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
