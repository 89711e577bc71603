#include "kcc/contract/policy.h"

#include <algorithm>

#include "kcc/contract/values.h"
#include "kcc/contract/words.h"

namespace kcc {

Enforce PromotionPolicy::EnforceOf(std::string_view clause) const {
  for (const EnforceRule& rule : enforce) {
    if (rule.clause == clause) return rule.mode;
  }
  return Enforce::kOn;
}

std::optional<Stage> PromotionPolicy::StageAfter(Stage which) const {
  for (const Stage next : kStages) {
    if (next > which && stage(next).in_force) return next;
  }
  return {};
}

bool CountsIn(const PromotionPolicy& policy, Stage stage, std::string_view clause,
              ViolationLevel level) {
  if (policy.EnforceOf(clause) != Enforce::kOn) return false;
  const StagePolicy& asked = policy.stage(stage);
  if (!asked.clauses.empty()) {
    return std::find(asked.clauses.begin(), asked.clauses.end(), clause) != asked.clauses.end();
  }
  return std::find(asked.levels.begin(), asked.levels.end(), level) != asked.levels.end();
}

std::string_view Name(DeadlineOutcome outcome) {
  return kDeadlineWords[static_cast<size_t>(outcome)];
}
std::string_view Name(Enforce mode) { return kEnforceWords[static_cast<size_t>(mode)]; }
std::string_view Name(HookPoint point) { return kHookPointWords[static_cast<size_t>(point)]; }

std::string_view Name(StoreRequests store) { return kStoreWords[static_cast<size_t>(store)]; }

std::optional<StoreRequests> ParseStoreRequests(std::string_view word) {
  const auto* const found = std::find(kStoreWords.begin(), kStoreWords.end(), word);
  if (found == kStoreWords.end()) return {};
  return static_cast<StoreRequests>(found - kStoreWords.begin());
}

std::string StorageWords(const RequestStorage& storage) {
  if (storage.store == StoreRequests::kNone) return "nothing";
  const bool full = storage.store == StoreRequests::kFull;
  std::string text = full ? "the token ids of " : "digests of the token ids of ";
  if (storage.flagged) text += "flagged requests";
  if (storage.sample > 0) {
    text += (storage.flagged ? " and " : "") + PercentText(storage.sample) + " of all";
  }
  text += storage.retention_ms ? ", for " + DurationText(*storage.retention_ms)
                               : std::string(", until they are removed");
  return text + (full && storage.text ? "; their texts too" : "; no text");
}

std::string DurationText(int64_t ms) {
  return ms == 0 ? "0s" : WindowText({Window::Kind::kTime, ms});
}

}  // namespace kcc
