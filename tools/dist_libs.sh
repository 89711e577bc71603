#!/usr/bin/env bash
# Builds what `make dist` links into the program, as static libraries that fit into a shared one too: Debian has
# them as shared libraries only, or with too much in them (its libcurl needs 25 others).
#   tools/dist_libs.sh [x86_64|aarch64]    into build/dist-libs/ARCH; does nothing when they are there
# The sources are those of the Debian packages that are installed, patches included, so that libraries and headers
# are of one version. OpenSSL and SQLite are Debian's own static libraries. The C library is that of Debian 11: what is linked
# against it runs with any glibc from 2.31 on.
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:-x86_64}
case $arch in
  x86_64) debian=amd64 tool='' root='' multiarch=x86_64-linux-gnu ;;
  aarch64)
    debian=arm64 tool=aarch64-linux-gnu- multiarch=aarch64-linux-gnu
    root=${KCC_ROOTS:-/var/tmp/kcc-roots}/arm64
    ;;
  *)
    echo "dist_libs: unknown architecture '$arch'; use x86_64 or aarch64" >&2
    exit 2
    ;;
esac
for program in "${tool}g++" cmake dpkg-source patch apt-get; do
  command -v "$program" >/dev/null || { echo "dist_libs: there is no $program; run tools/setup.sh dist" >&2; exit 1; }
done
mirror=${KCC_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | sed -n 's#/debian/$##p' | head -n 1)}
out=$PWD/build/dist-libs/$arch
work=$PWD/build/dist-libs/work-$arch
sources=(curl highway simdjson yaml-cpp)
headers=(libcurl4-openssl-dev libhwy-dev libsimdjson-dev libyaml-cpp-dev)

# The version of each installed package's source decides what is built, and whether anything is.
wanted=$(dpkg-query -W -f '${source:Package} ${source:Version}\n' "${headers[@]}" libssl-dev libsqlite3-dev | sort)
[ -f "$out/versions" ] && [ "$wanted" = "$(cat "$out/versions")" ] && exit 0
rm -rf "$out" "$work"
mkdir -p "$out/lib" "$out/licenses" "$work"/{state/lists/partial,cache/archives/partial,parts}

# An apt of its own: the machine's lists and its architectures stay as they are.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
cat >"$work/sources.list" <<LIST
deb-src [signed-by=$keys] $mirror/debian bookworm main
deb-src [signed-by=$keys] $mirror/debian-security bookworm-security main
deb [arch=$debian signed-by=$keys] $mirror/debian bullseye main
LIST
own_apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts="$work/parts" \
    -o Dir::State="$work/state" -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache" \
    -o APT::Architecture="$debian" -o APT::Architectures="$debian" -o APT::Sandbox::User=root "$@"
}
own_apt update
cd "$work"
own_apt download libc6 libc6-dev
# With links kept, since /lib may be one in the packages and none here.
mkdir -p "$out/libc/usr/lib"
ln -s usr/lib "$out/libc/lib"
ln -s usr/lib64 "$out/libc/lib64"
mkdir -p "$out/libc/usr/lib64"
for package in libc6*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$out/libc"
done

find "$out/libc" -lname '/*' | while read -r link; do ln -sfn "$out/libc$(readlink "$link")" "$link"; done

for i in "${!sources[@]}"; do
  version=$(dpkg-query -W -f '${source:Version}' "${headers[$i]}")
  own_apt --download-only source "${sources[$i]}=$version" >/dev/null
  dpkg-source --no-check -x "${sources[$i]}_${version#*:}.dsc" "${sources[$i]}" >/dev/null
  cp "/usr/share/doc/${headers[$i]}/copyright" "$out/licenses/${sources[$i]}"
done
cp /usr/share/doc/libssl-dev/copyright "$out/licenses/openssl"
cp /usr/share/doc/libsqlite3-dev/copyright "$out/licenses/sqlite3"
cp /usr/share/doc/libc6/copyright "$out/licenses/glibc-startup"
cp /usr/share/doc/g++-12/copyright "$out/licenses/libstdc++"
for header in libexpected-dev libcli11-dev libboost-dev; do  # compiled in from headers alone
  [ ! -f "/usr/share/doc/$header/copyright" ] || cp "/usr/share/doc/$header/copyright" "$out/licenses/${header%-dev}"
done

# Names of files in the binaries must not depend on where the checkout lies.
flags=(-O2 -DNDEBUG -fPIC -ffp-contract=off "-ffile-prefix-map=$work=.")
library() { # library NAME INCLUDE-FOLDER SOURCE...
  local name=$1 source include=()
  for source in $2; do include+=(-I "$source"); done
  shift 2
  mkdir -p "$work/objects/$name"
  for source in "$@"; do
    "${tool}g++" -std=c++17 "${flags[@]}" "${include[@]}" -c "$source" -o "$work/objects/$name/$(basename "$source").o"
  done
  "${tool}ar" rcsD "$out/lib/lib$name.a" "$work/objects/$name"/*.o
}
library simdjson "simdjson/include simdjson/src" simdjson/src/simdjson.cpp
library hwy highway highway/hwy/{targets,aligned_allocator,per_target,print}.cc
library yaml-cpp yaml-cpp/include yaml-cpp/src/*.cpp yaml-cpp/src/contrib/*.cpp

# Calls over HTTP/1.1 and TLS, and nothing else.
cross=()
[ -z "$root" ] || cross=(-DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$arch" "-DCMAKE_SYSROOT=$root")
cmake -S curl -B curl-build -G Ninja -DCMAKE_BUILD_TYPE=None "-DCMAKE_C_COMPILER=${tool}gcc" "-DCMAKE_C_FLAGS=${flags[*]}" \
  "${cross[@]}" -DBUILD_SHARED_LIBS=OFF -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DENABLE_MANUAL=OFF \
  -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON -DOPENSSL_USE_STATIC_LIBS=ON -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none \
  -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF \
  -DCURL_ZSTD=OFF -DCURL_DISABLE_NTLM=ON -DCURL_DISABLE_ALTSVC=ON -DCURL_DISABLE_HSTS=ON -DENABLE_UNIX_SOCKETS=OFF >curl-configure.log
cmake --build curl-build --target libcurl -j "${JOBS:-$(nproc)}" >curl-build.log
cp curl-build/lib/libcurl.a "$out/lib/"
cp "$root/usr/lib/$multiarch"/lib{ssl,crypto,sqlite3}.a "$out/lib/"
cd "$out"
rm -rf "$work"
echo "$wanted" >versions
echo "dist_libs: $(ls lib | wc -w) libraries for $arch in $out"
