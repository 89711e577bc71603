#!/usr/bin/env bash
# Builds the CUDA library, its checks and its timings with nvcc and g++ alone.
#   bench/gpu/build.sh [--library] [OUTPUT_FOLDER] [extra nvcc flags]
# With --library the library alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
sources=(kcc/drift/cuda/*.cu bench/gpu/*.cu)
truth=(bench/gpu/truth.cc)
if [ "${1:-}" = --library ]; then
  sources=(kcc/drift/cuda/*.cu) truth=()
  shift
fi
out=${1:-build/gpu}
shift || true
mkdir -p "$out"
flags=(-std=c++20 -O3 -fmad=false -I. -Xcompiler=-fPIC,-ffp-contract=off "$@")
arch=${KCC_CUDA_ARCH:--gencode=arch=compute_90a,code=sm_90a}
build() { echo "nvcc $1" >&2; nvcc "${flags[@]}" $arch -c "$1" -o "$out/$(basename "$1").o"; }
jobs=()
for source in "${sources[@]}"; do build "$source" & jobs+=($!); done
for source in kcc/base/dtype.cc kcc/base/check.cc kcc/numeric/exact_sum.cc "${truth[@]}"; do
  g++ -std=c++20 -O2 -ffp-contract=off -fPIC -I. -c "$source" -o "$out/$(basename "$source").o" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
library=("$out"/*_cuda.cu.o "$out/dtype.cc.o" "$out/check.cc.o" "$out/exact_sum.cc.o")
nvcc $arch -shared -o "$out/libkcc_cuda.so" "${library[@]}"
if [ ${#truth[@]} = 0 ]; then exit; fi
nvcc $arch -o "$out/gpu_verify" "$out/verify.cu.o" "$out/truth.cc.o" "${library[@]}"
nvcc $arch -o "$out/gpu_timing" "$out/timing.cu.o" "${library[@]}"
