#!/usr/bin/env bash
# The gateway's tests of relaying, routes, attacks and reloads against a program built with a sanitizer; what it reports
# is on the standard error of a process, and fails the test that started it. The kernels behind it are of the release build.
#   tools/gateway_sanitized.sh asan
#   tools/gateway_sanitized.sh tsan [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/gateway_sanitized.sh asan|tsan [PYTEST ARGUMENTS]}
shift
case $preset in asan | tsan) ;; *) echo "gateway_sanitized: '$preset' is neither asan nor tsan" >&2; exit 2 ;; esac
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" --target kcc
export ASAN_OPTIONS=exitcode=66:detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=exitcode=66
# KCC_GATEWAY_BINARY: for `kcc gateway` alone (tools/gateway_processes.py); the lab is slow under a sanitizer.
export KCC_GATEWAY_BINARY="$PWD/build/$preset/apps/kcc/kcc"
tests=(tests/gateway/test_relay.py tests/gateway/test_routes.py tests/gateway/test_attacks.py tests/gateway/test_reload.py)
exec tools/in_memory.sh .venv/bin/python -m pytest -q -x "${tests[@]}" "$@"
