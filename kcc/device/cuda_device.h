// The CUDA backend as a RowDevice (measure/row_device.h), through libkcc_cuda.so.
#pragma once

#include <memory>
#include <string>

#include "kcc/base/result.h"
#include "kcc/measure/row_device.h"

namespace kcc {

// `path`: of the library; empty: where LoadCudaLibrary looks. Runs keep their memory on the device
// for the next one, until the device is destroyed, which outlives its runs. Any number of threads
// may begin runs.
Result<std::unique_ptr<RowDevice>> OpenCudaDevice(const std::string& path = {});

}  // namespace kcc
