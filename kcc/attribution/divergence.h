// The first place at which two kernels of the lab part: request, position, layer and operator,
// from replay signatures; then the tensors themselves at that place.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {

struct FirstDivergence {
  int64_t requests = 0;
  int64_t diverging = 0;  // requests whose signatures differ somewhere
  // Of the first diverging request: its earliest position, and there the earliest point.
  std::string request;
  int64_t position = -1;
  size_t point = 0;
  std::string point_name;     // "layer 0, attention"
  std::string operator_name;  // "attention"
  // The two tensors there.
  size_t width = 0;
  size_t elements = 0;  // that differ
  size_t element = 0;   // the one that differs most
  float train = 0;
  float infer = 0;
  double relative = 0;                          // ||train - infer|| / ||train||
  std::map<std::string, int64_t> first_points;  // of all requests, by name
};

// Both kernels need audit=all. Runs the batch twice on each: for the signatures, for the tensors.
Result<FirstDivergence> FindFirstDivergence(LabKernel& train, LabKernel& infer,
                                            std::span<const KernelRequest> batch);

}  // namespace kcc
