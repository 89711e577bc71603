#!/usr/bin/env bash
# The slow matrix, but for fuzzing (make fuzz). Every step runs, whatever became of the others, so that one run names
# everything that fails; it ends with a table of the steps, their minutes and what they cost in CPU time. The output of a
# step is in build/test-all/STEP.log.
#   tools/test_all.sh            all steps
#   tools/test_all.sh lint wheel only these, to try again what failed
#   LANES=1 tools/test_all.sh    one step after the other
# Two steps run at a time, since most have a part that keeps one core busy or waits for a disk. Each may use all cores,
# so that the last one is not left with half of them.
set -uo pipefail
set -m # a step has a process group of its own, so that it can be ended with all that it started
cd "$(dirname "$0")/.."
jobs=$(nproc)
lanes=${LANES:-2}
logs=build/test-all
export FRESH=1 # every test runs, whether or not it passed before (tools/unless_passed.py)
mkdir -p "$logs"

# A step is a function: one exit code for all of it, since a function that runs in a condition ignores set -e.
step_test() { make --no-print-directory test; }
ctest_in() { tools/in_memory.sh ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$jobs" "${@:2}"; }
step_timed() { ctest --test-dir build/release --output-on-failure --no-tests=error -L timed; }
step_servers() { tools/servers.sh; }
step_slow_pytest() { make --no-print-directory test-slow-python; }
step_slow_ctest() { ctest_in build/release -L slow -LE timed; }
step_asan() { make --no-print-directory test-asan; }
step_tsan() { make --no-print-directory test-tsan; }
step_clang() {
  cmake --preset clang >/dev/null && cmake --build --preset clang -j "$jobs" && ctest_in build/clang -LE slow
}
step_lint() { make --no-print-directory lint; }
step_same_bytes() { tools/same_bytes.sh build/release build/clang; }
step_dist() { make --no-print-directory dist && tools/check_dist.sh; }
step_arm64() { tools/check_arm64.sh build/release; }
step_wheel() { tools/check_wheel.sh; }

# In the order in which they start: those that download first, the longest before the short ones.
all=(test timed servers slow_pytest slow_ctest clang lint asan dist tsan arm64 wheel same_bytes)

# after STEP: the steps that must have ended before. What a step leaves for another and what two of them write is all here:
# build/release, which all but a few use, build/asan and build/clang. The first two have the machine for themselves: the
# minutes of `make test` are a promise, and the others measure time.
after() {
  case $1 in
    test) ;;
    timed) echo test ;;
    slow_pytest | slow_ctest) echo test timed servers ;;
    lint | same_bytes) echo test timed clang ;;
    *) echo test timed ;;
  esac
}

steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${all[@]}")
waiting=()
declare -A open=() # the steps that have not ended
for name in "${steps[@]}"; do
  declare -F "step_$name" >/dev/null || { echo "test_all: no step '$name'" >&2; exit 2; }
  [ -n "${open[$name]:-}" ] || waiting+=("$name")
  open[$name]=1
done
is_ready() {
  local other
  for other in $(after "$1"); do
    [ -z "${open[$other]:-}" ] || return 1
  done
}

minutes() { printf '%3d min %02d s' $(($1 / 60)) $(($1 % 60)); }
TIMEFORMAT='%0U %0S' # CPU seconds, of the step and all that it started
declare -A running=() begin=()
trap 'for pid in "${!running[@]}"; do kill -- "-$pid"; done 2>/dev/null' EXIT
trap 'exit 130' INT TERM
passed=0
failed=0
table=
while [ ${#open[@]} -gt 0 ]; do
  later=()
  for name in "${waiting[@]}"; do
    if [ ${#running[@]} -lt "$lanes" ] && is_ready "$name"; then
      echo "test-all: $name"
      begin[$name]=$SECONDS
      { time "step_$name" >"$logs/$name.log" 2>&1 </dev/null; } 2>"$logs/$name.cpu" &
      running[$!]=$name
    else
      later+=("$name")
    fi
  done
  waiting=("${later[@]}")
  if wait -n -p pid; then outcome=passed; else outcome=FAILED; fi
  name=${running[$pid]}
  unset "running[$pid]" "open[$name]"
  spent=$((SECONDS - begin[$name]))
  read -r user system <"$logs/$name.cpu" # nothing, if the step was killed
  cpu=$((${user:-0} + ${system:-0}))
  row=$(printf '  %-12s %-6s %s, CPU %s' "$name" "$outcome" "$(minutes "$spent")" "$(minutes "$cpu")")
  table+=$row$'\n'
  echo "test-all:$row"
  if [ "$outcome" = passed ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 40 "$logs/$name.log"
  fi
done
printf 'test-all: %d min in all; the output is in %s\n%s' $((SECONDS / 60)) "$logs" "$table"
# What a step could not try here is no success.
(cd "$logs" && grep -h ': SKIPPED' "${steps[@]/%/.log}") || true
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
