#!/usr/bin/env bash
# Compiles the program for ARM64 and demands the bits of x86 from it: runs the tests of what computes under qemu-user, on
# NEON and on the scalar target, then measures, judges and scores the same things with both programs and compares
# every file that they wrote, byte by byte.
#   tools/check_arm64.sh [BUILD]    BUILD: the x86 build to compare with, build/release unless told
# Installs what it needs, as root; skips, and says so, where there is no cross compiler, emulator or root of libraries.
set -euo pipefail
cd "$(dirname "$0")/.."
here=${1:-build/release}
[ "$(id -u)" -ne 0 ] || tools/setup.sh arm64 || true # what is missing then is named below
roots=${KCC_ROOTS:-/var/tmp/kcc-roots}
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
if ! command -v aarch64-linux-gnu-g++ >/dev/null || [ -z "$qemu" ] || [ ! -f "$roots/arm64/.kcc-complete" ]; then
  echo "check_arm64: SKIPPED: the cross compiler, qemu-user or $roots/arm64 is missing; run tools/setup.sh arm64 as root"
  exit 0
fi
jobs=${JOBS:-$(nproc)}
tests=(numeric drift summary stats monitor monitorlog)
cmake --preset arm64 >/dev/null
programs=("${tests[@]/#/kcc_}")
cmake --build --preset arm64 -j "$jobs" --target kcc kcc_monitor_digests "${programs[@]/%/_test}"
ctest --test-dir build/arm64 --output-on-failure --no-tests=error -j "$jobs" -R "^($(IFS='|'; echo "${tests[*]}"))$"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$PWD
here=$(realpath "$here")
x86() { "$here/apps/kcc/kcc" "$@"; }
arm() { "$qemu" -L "$roots/arm64" "$top/build/arm64/apps/kcc/kcc" "$@"; }
traces=(examples/traces/train examples/traces/infer)

# A summary of each side, and on ARM64 by each of its targets.
x86 measure "${traces[@]}" -c examples/contract.yaml -o "$work/x86.kccs" >/dev/null
for target in neon scalar; do
  arm measure "${traces[@]}" -c examples/contract.yaml --target "$target" -o "$work/$target.kccs" >/dev/null
  cmp "$work/x86.kccs" "$work/$target.kccs"
done
echo "check_arm64: summaries identical: $(sha256sum <"$work/x86.kccs" | cut -d' ' -f1)"

# Reports in every format; and traces that the lab's engine computed, in formats that round differently.
head -n 2 models/kcc-lab/eval.jsonl >"$work/two.jsonl"
for side in x86 arm; do
  mkdir "$work/$side"
  status=0
  (cd "$work/$side" && "$side" run "$top/examples/contract.yaml" --train "$top/${traces[0]}" --infer "$top/${traces[1]}" \
    --report report --sarif >printed.txt) || status=$?
  [ "$status" -eq 1 ] || { echo "check_arm64: kcc run ended with $status on $side" >&2; exit 1; }
  for kernel in f32 bf16 fp8; do
    "$side" score "lab:$kernel" --requests "$work/two.jsonl" -o "$work/$side/$kernel" >/dev/null
  done
  "$side" rl diagnose examples/rl/step.safetensors --json >"$work/$side/rl.json"
done
# The monitor: its log, state and pages, and the digests of a stream that each vector target measured.
tools/monitor_files.sh "$work/x86/monitor" "$here/apps/kcc/kcc"
tools/monitor_files.sh "$work/arm/monitor" "$qemu" -L "$roots/arm64" "$top/build/arm64/apps/kcc/kcc"
digests() { "$@" | sed 's/^[^ ]* //' | sort -u; }
digests "$here/tests/kcc_monitor_digests" >"$work/x86/monitor/digests.txt"
digests "$qemu" -L "$roots/arm64" "$top/build/arm64/tests/kcc_monitor_digests" >"$work/arm/monitor/digests.txt"
[ "$(wc -l <"$work/arm/monitor/digests.txt")" -eq 2 ] || { echo "check_arm64: NEON and scalar decide differently" >&2; exit 1; }
diff -r "$work/x86" "$work/arm"
echo "check_arm64: $(find "$work/x86" -type f | wc -l) files identical: reports, the lab's traces, RL diagnostics, the monitor's" \
  "decisions and state"
