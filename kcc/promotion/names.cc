// The words of phases, events and commands, and what follows from a deployment or a count alone.
#include <array>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/promotion/promotion.h"

namespace kcc {
namespace {

template <class Enum, size_t kCount>
std::string_view WordOf(Enum value, const std::array<std::string_view, kCount>& words) {
  KCC_CHECK(static_cast<size_t>(value) < kCount);
  return words[static_cast<size_t>(value)];
}

}  // namespace

std::string_view Name(Phase phase) {
  return WordOf<Phase, kPhases>(phase, {"proposed", "offline", "shadow", "canary", "full",
                                        "rejected", "rolled-back", "frozen", "superseded"});
}

std::string_view Name(ChangedPart part) {
  return WordOf<ChangedPart, 5>(part,
                                {"weights", "kernel build", "routing", "hardware", "contract"});
}

std::string_view Name(TestKind test) {
  return WordOf<TestKind, 3>(test, {"exact", "fixed", "anytime"});
}

std::string_view Name(PromotionEventKind kind) {
  return WordOf<PromotionEventKind, kPromotionEventKinds>(
      kind, {"start", "evaluation", "tick", "approval", "hook-answer", "freeze", "unfreeze",
             "abort", "superseded", "incident"});
}

std::string_view Name(CommandKind kind) {
  return WordOf<CommandKind, 8>(kind, {"route", "evaluate", "run-hook", "tell-hook", "guard",
                                       "unguard", "settle", "start-next"});
}

std::string_view Name(HookState state) {
  return WordOf<HookState, 3>(state, {"asked", "yes", "no"});
}

std::vector<ChangedPart> ChangedParts(const Deployment& before, const Deployment& after) {
  std::vector<ChangedPart> parts;
  if (before.model != after.model) parts.push_back(ChangedPart::kWeights);
  if (before.train != after.train || before.infer != after.infer) {
    parts.push_back(ChangedPart::kKernel);
  }
  if (before.routing != after.routing) parts.push_back(ChangedPart::kRouting);
  if (before.hardware != after.hardware) parts.push_back(ChangedPart::kHardware);
  if (before.contract != after.contract) parts.push_back(ChangedPart::kContract);
  return parts;
}

bool IsOver(Phase phase) {
  return phase == Phase::kRejected || phase == Phase::kRolledBack || phase == Phase::kSuperseded;
}

double ExcludedRate(int64_t clean, double confidence) {
  KCC_CHECK(clean > 0);
  // 1 - x^(1/n) without cancellation.
  return -std::expm1(std::log1p(-confidence) / static_cast<double>(clean));
}

}  // namespace kcc
