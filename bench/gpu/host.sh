# Sourced, on a GPU machine, in the checkout's root: where the CUDA library is, and what bench/gpu/pack.sh packed.
#   source bench/gpu/host.sh [FOLDER_OF_THE_CUDA_LIBRARY]
kcc_gpu=${1:-build/gpu}
export KCC_CUDA_LIBRARY=$PWD/$kcc_gpu/libkcc_cuda.so
if [ -e build/gpu_host/libkcc.so ]; then
  export KCC_LIBRARY=$PWD/build/gpu_host/libkcc.so KCC_PROGRAM=$PWD/build/gpu_host/kcc
  # Of the packed libraries those that the machine lacks: its own fit its Python better.
  rm -rf "$kcc_gpu/lib" && mkdir -p "$kcc_gpu/lib"
  for library in build/gpu_host/lib/*; do
    ldconfig -p | grep -qF "$(basename "$library") " || ln -s "$PWD/$library" "$kcc_gpu/lib/"
  done
  export LD_LIBRARY_PATH=$PWD/$kcc_gpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export PYTHONPATH=$PWD/build/gpu_host/python${PYTHONPATH:+:$PYTHONPATH}
fi
