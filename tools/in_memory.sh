#!/usr/bin/env bash
# Runs a command whose temporary files lie in memory: the tests write tens of thousands of small files, and a disk
# makes each of them wait (those of kcc/trace take 28 s on ext4 and 1.4 s so).
#   tools/in_memory.sh COMMAND...
# The command runs with the temporary folder that it has where TMPDIR is set (TMPDIR=/tmp make test tries a disk), and
# where /dev/shm has too little room, as in many containers.
set -euo pipefail
room_kb=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1 || true)
runs_programs() { # many containers mount it without
  local script
  script=$(mktemp /dev/shm/kcc-XXXXXX) && echo '#!/bin/sh' >"$script" && chmod 700 "$script" && "$script"
  local code=$?
  rm -f "$script"
  return $code
}
if [ -n "${TMPDIR:-}" ] || [ "${room_kb:-0}" -lt $((4 * 1024 * 1024)) ] || ! runs_programs 2>/dev/null; then exec "$@"; fi
folder=$(mktemp -d /dev/shm/kcc-XXXXXX)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder" # some tests become another user
TMPDIR=$folder "$@"
