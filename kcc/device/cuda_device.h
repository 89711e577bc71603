// The CUDA backend as a RowDevice (measure/row_device.h), through libkcc_cuda.so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kcc/base/result.h"
#include "kcc/measure/row_device.h"

namespace kcc {

// Where the library is, if it is in one of the places that OpenCudaDevice looks at by itself;
// whether it works is another matter.
std::optional<std::string> FindCudaLibrary();

// `path`: of the library; empty: where LoadCudaLibrary looks. Runs keep their memory on the device
// for the next one, until the device is destroyed, which outlives its runs. Any number of threads
// may begin runs.
Result<std::unique_ptr<RowDevice>> OpenCudaDevice(const std::string& path = {});

}  // namespace kcc
