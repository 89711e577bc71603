#!/usr/bin/env bash
# A private PostgreSQL server for tests: postgres.sh DIR
# Makes DIR, starts a server in it that listens on a socket there and nowhere else, prints its URI, and
# stops it when standard input ends: with whoever started it, however that ends. The server refuses root,
# so as root it runs as nobody. Exit code 1 with a reason where there is no server to start.
set -euo pipefail
dir=$1
as=()
mkdir -p "$dir"
if [ "$(id -u)" -eq 0 ]; then
  as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
  chown nobody:nogroup "$dir"
fi
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
if [ -z "$bin" ]; then
  echo "postgres.sh: no PostgreSQL server under /usr/lib/postgresql; run tools/setup.sh" >&2
  exit 1
fi
cd "$dir"
pg_ctl() { "${as[@]}" "$bin/pg_ctl" -D "$dir/data" -s "$@" >>"$dir/log" 2>&1; }
settings() {
  # One user whose password is asked for: "locked".
  sed -i '1i local all locked scram-sha-256' "$dir/data/pg_hba.conf"
  cat >>"$dir/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$dir'
fsync = off
max_connections = 60
END
}
# Signals that a terminal or a test runner sends to the whole group are for the tests, not for this.
trap '' INT HUP
if ! "${as[@]}" "$bin/initdb" -D "$dir/data" -U kcc -A trust -E UTF8 --locale=C --no-sync >"$dir/log" 2>&1 ||
  ! settings || ! pg_ctl -w start; then
  cat "$dir/log" >&2
  exit 1
fi
"${as[@]}" "$bin/createdb" -h "$dir" -U kcc kcc
"${as[@]}" "$bin/psql" -q -h "$dir" -U kcc kcc -c "CREATE ROLE locked LOGIN PASSWORD 'opensesame'"
server=$(head -1 "$dir/data/postmaster.pid")
echo "postgresql://kcc@/kcc?host=$dir"
while read -r word; do
  case $word in
    stop) pg_ctl -w -m immediate stop && echo stopped ;;
    start) pg_ctl -w start && server=$(head -1 "$dir/data/postmaster.pid") && echo started ;;
  esac
done
# By its number: the folder may be gone already.
kill -QUIT "$server" 2>/dev/null || true
rm -rf "$dir"
