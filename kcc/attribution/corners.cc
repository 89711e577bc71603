#include "kcc/attribution/corners.h"

#include <algorithm>
#include <utility>

namespace kcc {
namespace {

Result<CornerSet> LabCorners(const std::string& train_uri, const std::string& infer_uri,
                             const ShippedModel& shipped) {
  KCC_TRY(const LabUri train, ParseLabUri(train_uri));
  KCC_TRY(const LabUri infer, ParseLabUri(infer_uri));
  KCC_TRY(const std::string model, train.ModelDirectory(shipped));
  KCC_TRY(const std::string other_model, infer.ModelDirectory(shipped));
  if (model != other_model) {
    return InvalidError("attribution compares two kernels of one model, but train has " + model +
                        " and infer " + other_model);
  }
  KCC_TRY(LabSwitches from, ResolveSwitches(train.kernel, train.options));
  KCC_TRY(const LabSwitches to, ResolveSwitches(infer.kernel, infer.options));
  KCC_TRY(Checkpoint checkpoint, ReadCheckpoint(model));
  CornerSet set;
  set.repeatable = true;
  const NamedValues before = SwitchTexts(from);
  const NamedValues after = SwitchTexts(to);
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].second == after[i].second) continue;
    const ErrorSource source = SwitchTable()[i].source;
    if (source == ErrorSource::kNone) {
      // What shapes the engine is infer's on both sides: it is not what is asked about.
      KCC_TRY_VOID(SetSwitch(after[i].first, after[i].second, &from));
    } else {
      set.active |= 1u << static_cast<unsigned>(source);
    }
  }
  KCC_TRY(set.train, LabKernel::Make(checkpoint, from));
  set.open = [from, to, checkpoint = std::move(checkpoint)](
                 unsigned mask) -> Result<std::unique_ptr<Kernel>> {
    LabSwitches corner = from;
    for (size_t i = 0; i < kErrorSources.size(); ++i) {
      if ((mask >> i) & 1u) corner = WithSource(corner, to, kErrorSources[i]);
    }
    KCC_TRY(std::unique_ptr<LabKernel> kernel, LabKernel::Make(checkpoint, corner));
    return std::unique_ptr<Kernel>(std::move(kernel));
  };
  return set;
}

}  // namespace

Result<CornerSet> CornersBetween(const std::string& train, const std::string& infer,
                                 const KernelOpenOptions& options,
                                 std::span<const KernelScheme> schemes,
                                 const ShippedModel& shipped) {
  KCC_TRY(const KernelUri train_uri, ParseKernelUri(train));
  KCC_TRY(const KernelUri infer_uri, ParseKernelUri(infer));
  if (train_uri.scheme != infer_uri.scheme) {
    return InvalidError("attribution needs two settings of one kernel, but train is " +
                        train_uri.scheme + ": and infer " + infer_uri.scheme + ":");
  }
  if (train_uri.scheme == "lab") return LabCorners(train, infer, shipped);
  if (train_uri.scheme != "exec") {
    return InvalidError("only lab: and exec: kernels can be switched source by source; " +
                        train_uri.scheme + ": cannot");
  }
  CornerSet set;
  KCC_TRY(set.train, OpenKernel(train, options, schemes));
  KCC_TRY(const std::unique_ptr<Kernel> other, OpenKernel(infer, options, schemes));
  KCC_TRY(set.active, DifferingSources(set.train->info(), other->info()));
  // What both sides have in common stays unsaid: a program need not take every value it reports.
  std::vector<KernelOption> wanted;
  for (const KernelOption& option : other->info().options) {
    const auto& before = set.train->info().options;
    const bool differs = std::none_of(before.begin(), before.end(), [&](const KernelOption& same) {
      return same.name == option.name && same.value == option.value;
    });
    if (differs) wanted.push_back(option);
  }
  const std::vector<KernelScheme> table(schemes.begin(), schemes.end());
  set.open = [train, wanted, options, table](unsigned mask) {
    std::string command = train;
    for (const KernelOption& option : wanted) {
      for (size_t i = 0; i < kErrorSources.size(); ++i) {
        if (((mask >> i) & 1u) && option.source == Name(kErrorSources[i])) {
          command += " --" + option.name + "=" + option.value;
        }
      }
    }
    return OpenKernel(command, options, table);
  };
  return set;
}

}  // namespace kcc
