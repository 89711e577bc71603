// libkcc_cuda.so at run time: found, opened, checked, and its functions by name. The program and
// libkcc need no CUDA to be built or to run; whoever asks for the device needs the library.
#pragma once

#include <string>
#include <vector>

#include "include/kcc.h"
#include "kcc/base/result.h"

namespace kcc {

// The functions of include/kcc.h that the host side calls.
struct CudaLibrary {
  std::string path;  // where it was found
  decltype(&kcc_cuda_values) values = nullptr;
  decltype(&kcc_cuda_value_name) value_name = nullptr;
  decltype(&kcc_cuda_session_new) session_new = nullptr;
  decltype(&kcc_cuda_session_free) session_free = nullptr;
  decltype(&kcc_cuda_session_begin) session_begin = nullptr;
  decltype(&kcc_cuda_session_add) session_add = nullptr;
  decltype(&kcc_cuda_session_wait) session_wait = nullptr;
  decltype(&kcc_cuda_session_read) session_read = nullptr;
};

// Where it is looked for without a path: beside the library or program that this code is in, beside
// the running program, and by its bare name where the system's loader looks.
std::vector<std::string> CudaLibraryPlaces();

// `path` empty: the first of CudaLibraryPlaces that is there. The library stays loaded for good:
// CUDA does not like to be unloaded. Fails with kIo, naming what is missing or does not fit.
Result<CudaLibrary> LoadCudaLibrary(const std::string& path);

}  // namespace kcc
