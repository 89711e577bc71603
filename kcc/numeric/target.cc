#include "kcc/numeric/target.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "kcc/base/strings.h"
#include "kcc/numeric/highway_targets.h"
// After the choice of targets.
#include "hwy/targets.h"

namespace kcc {

std::string_view TargetName(Target target) {
  constexpr std::array<std::string_view, kAllTargets.size()> kNames = {"scalar", "avx2", "avx512",
                                                                       "neon"};
  return kNames[static_cast<size_t>(target)];
}

std::span<const Target> AvailableTargets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> made;
    const int64_t supported = hwy::SupportedTargets();
    if (supported & HWY_AVX3) made.push_back(Target::kAvx512);
    if (supported & HWY_AVX2) made.push_back(Target::kAvx2);
    // Part of every ARM64, while Highway's library says so only where there is AES as well.
    if (HWY_TARGETS & HWY_NEON) made.push_back(Target::kNeon);
    made.push_back(Target::kScalar);
    return made;
  }();
  return targets;
}

Result<Target> ParseTarget(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Target target : AvailableTargets()) {
    if (TargetName(target) == name) return target;
    names.push_back(TargetName(target));
  }
  return InvalidError("unknown vector target '" + std::string(name) + "'; this CPU has " +
                      JoinWords(names));
}

}  // namespace kcc
