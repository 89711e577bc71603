# KCC_HAVE_CUDA and KCC_CUDA_FLAGS, where the CUDA backend is asked for (KCC_CUDA) and nvcc is there.
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA backend: skipped, since there is no nvcc")
  return()
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)  # named below: the cluster kernels need sm_90a
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(KCC_HAVE_CUDA ON)

# CMake 3.25 does not know CUDA C++20; -fmad=false, since fused multiply-adds are written out.
# On sm_80 a row has one block, since there are no clusters.
set(KCC_CUDA_FLAGS -std=c++20 -O3 -fmad=false --threads 2 -gencode=arch=compute_80,code=sm_80
    -gencode=arch=compute_90a,code=sm_90a)
