#include "kcc/contract/policy.h"

#include <algorithm>
#include <cmath>

#include "kcc/contract/values.h"
#include "kcc/contract/words.h"

namespace kcc {
namespace {

// 1 - Phi(x).
double NormalTail(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

// The x with NormalTail(x) = tail, for 0 < tail <= 1/2; to the last bits, by halving.
double NormalTailQuantile(double tail) {
  double low = 0;
  double high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (NormalTail(middle) > tail ? low : high) = middle;
  }
  return high;
}

}  // namespace

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

std::string_view Name(Spending spending) { return kSpendingWords[static_cast<size_t>(spending)]; }

std::vector<double> SpentAlphas(Spending spending, const std::vector<int64_t>& requests,
                                double total) {
  std::vector<double> alphas;
  const double bound = NormalTailQuantile(total / 2);
  double spent = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const double share = static_cast<double>(requests[i]) / static_cast<double>(requests.back());
    double until_now = total;  // at the last look all of it, whatever the rounding
    if (i + 1 < requests.size()) {
      until_now = spending == Spending::kEven
                      ? total * static_cast<double>(i + 1) / static_cast<double>(requests.size())
                      : std::min(total, 2 * NormalTail(bound / std::sqrt(share)));
    }
    alphas.push_back(std::max(0.0, until_now - spent));
    spent = until_now;
  }
  return alphas;
}

std::string DurationText(int64_t ms) {
  return ms == 0 ? "0s" : WindowText({Window::Kind::kTime, ms});
}

}  // namespace kcc
