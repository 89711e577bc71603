// The vector targets that kcc's kernels are compiled for. They can be listed, named and forced;
// every kernel gives the same bits on each of them, so a target is a matter of speed alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kcc/base/result.h"

namespace kcc {

enum class Target : uint8_t {
  kScalar,  // one lane at a time, fused multiply-adds by std::fma; on every CPU
  kAvx2,    // AVX2 with FMA and F16C
  kAvx512,  // AVX-512 F, VL, DQ, BW and CD
  kNeon,    // NEON, on every ARM64 CPU
};

// Kernels in double have so many virtual lanes on each of them (double_lanes-inl.h).
inline constexpr size_t kDoubleLanes = 8;

// Every target of every architecture, fastest first.
inline constexpr std::array<Target, 4> kAllTargets = {Target::kAvx512, Target::kAvx2, Target::kNeon,
                                                      Target::kScalar};

std::string_view TargetName(Target target);  // "scalar", "avx2", "avx512", "neon"

// What this CPU can run, fastest first. Never empty.
std::span<const Target> AvailableTargets();
inline Target BestTarget() { return AvailableTargets().front(); }

// Fails, naming the targets there are, if the name is unknown or the CPU cannot run it.
Result<Target> ParseTarget(std::string_view name);

}  // namespace kcc
