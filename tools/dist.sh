#!/usr/bin/env bash
# Builds what is handed out, into dist/: a wheel and a tarball that run on any Linux with glibc 2.31 or newer.
#   tools/dist.sh            both, for x86-64
#   tools/dist.sh arm64      the tarball for ARM64, cross-compiled (tools/setup.sh arm64)
# All libraries but glibc are linked in (cmake/portable.cmake); docs/install.md says which.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
case ${1:-x86_64} in
  x86_64) arch=x86_64 preset=dist ;;
  arm64) arch=aarch64 preset=dist-arm64 ;;
  *)
    echo "dist: unknown word '$1'; use tools/dist.sh [arm64]" >&2
    exit 2
    ;;
esac
version=$(sed -n 's/^project(kcc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
mkdir -p dist

tools/dist_libs.sh "$arch"
cmake --preset "$preset" >/dev/null
cmake --build --preset "$preset" -j "$jobs" --target kcc kcc_shared
name=kcc-$version-linux-$arch
stage=build/$preset/stage/$name
rm -rf "build/$preset/stage"
for component in program library; do
  cmake --install "build/$preset" --prefix "$stage" --component "$component" --strip >/dev/null
done
mkdir -p "$stage/share/kcc/examples" "$stage/LICENSES"
cp -r examples/contract.yaml examples/traces "$stage/share/kcc/examples/"
cp LICENSE "$stage/"
cp "build/dist-libs/$arch/licenses"/* "$stage/LICENSES/"
cp "build/dist-libs/$arch/versions" "$stage/LICENSES/versions"
tools/make_tarball.sh "$stage" "dist/$name.tar.gz"

if [ "$arch" = x86_64 ]; then
  # KCC_DEV and CXX: compiled as the tarball's program was, so that the compiler's cache has every object.
  venv=build/dist-venv
  if ! cmp -s python/requirements-dist.txt "$venv/requirements.stamp"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r python/requirements-dist.txt
    cp python/requirements-dist.txt "$venv/requirements.stamp"
  fi
  rm -rf build/dist/wheel
  CXX=c++ "$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/dist/wheel \
    -C build-dir=build/dist-wheel -C cmake.define.KCC_PORTABLE=ON -C cmake.define.KCC_DEV=ON .
  rm -f dist/kcc-*.whl
  # The tag is stated, so that a symbol of a newer glibc is an error here and not on somebody's machine.
  PATH=$PWD/$venv/bin:$PATH "$venv/bin/auditwheel" repair --plat manylinux_2_31_x86_64 --only-plat --strip \
    --wheel-dir dist build/dist/wheel/kcc-*.whl
fi
(cd dist && sha256sum kcc-* >SHA256SUMS && cat SHA256SUMS)
