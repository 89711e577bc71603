// The corners between two kernels, for attribution: how a kernel with some sources taken from
// infer and the rest from train is opened.
//
// lab: kernels are made from their switches. Any other kernel that declares which option belongs to
// which source is opened as train's command line with `--name=value` added for every option that
// differs and comes from infer: the last one given counts.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kcc/attribution/attribution.h"
#include "kcc/base/result.h"
#include "kcc/kernel/kernel.h"
#include "kcc/kernel/uri.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc {

struct CornerSet {
  std::unique_ptr<Kernel> train;
  CornerOpener open;
  unsigned active = 0;      // sources that differ
  bool repeatable = false;  // the same kernel gives the same bits twice
};

// Fails if the kernels are of different kinds or models, or differ in what belongs to no source.
Result<CornerSet> CornersBetween(const std::string& train, const std::string& infer,
                                 const KernelOpenOptions& options,
                                 std::span<const KernelScheme> schemes,
                                 const ShippedModel& shipped = nullptr);

}  // namespace kcc
