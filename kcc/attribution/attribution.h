// Attribution: which of the four error sources brings which part of the drift between two kernels,
// per quantity and slice (paper 5.2).
//
// The sixteen corners between the kernels are run on the same batches: a corner takes the options
// of some sources from infer and the rest from train. Each corner is measured against train, token
// by token; shares are Shapley values of the means over a slice's tokens, their confidence
// intervals a bootstrap over requests. Kernels enter through a function, so that anything that says
// which option belongs to which source can be attributed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kcc/attribution/shapley.h"
#include "kcc/base/interval.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/kernel/kernel.h"
#include "kcc/lab/switches.h"

namespace kcc {

// Opens the kernel whose sources in `mask` (bit i: kErrorSources[i]) are infer's.
using CornerOpener = std::function<Result<std::unique_ptr<Kernel>>(unsigned mask)>;

struct AttributionOptions {
  std::vector<Slice> slices;            // besides `all`
  std::vector<std::string> quantities;  // token slots; empty: DefaultAttributed()
  // Sources in which the two kernels differ: the others change nothing and are not run.
  unsigned active = 15;
  // Also runs the corner of no source, for kernels that may not repeat themselves.
  bool measure_base = false;
  int64_t batch_requests = 64;
  std::string scratch = "/tmp";
  double confidence = 0.95;
  int resamples = 1000;
  std::function<void(int64_t done, int64_t total)> progress;  // corners of batches
};
std::vector<std::string> DefaultAttributed();

struct AttributedCell {
  std::string quantity;
  std::string slice;
  int64_t requests = 0;
  int64_t tokens = 0;
  ShapleyShares shapley;                           // of means over tokens
  std::array<Interval, kShapleySources> interval;  // of the shares
};

struct Attribution {
  std::string train_fingerprint;
  std::string infer_fingerprint;
  unsigned active = 0;
  double confidence = 0.95;
  std::vector<AttributedCell> cells;  // by slice, then quantity
  double linf_max = 0;  // largest |z_infer - z_train| of any logit, after the best shift
  std::array<double, kCorners> corner_linf_max{};
};

Result<Attribution> Attribute(Kernel& train, const CornerOpener& open,
                              std::span<const KernelRequest> requests,
                              const AttributionOptions& options);

// The sources in which two kernels' declared options differ. Fails where they do not declare the
// same options, or a differing option belongs to no source.
Result<unsigned> DifferingSources(const KernelInfo& train, const KernelInfo& infer);

}  // namespace kcc
