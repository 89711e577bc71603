#include "kcc/drift/full_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr double kLeast = std::numeric_limits<double>::denorm_min();

}  // namespace

Result<> FullRow::Read(const void* logits, DType dtype, size_t vocab, double divisor,
                       std::string_view side) {
  logits_.resize(vocab);
  p_.resize(vocab);
  divisor_ = divisor;
  top_ = TopTokens();
  possible_ = 0;
  for (size_t i = 0; i < vocab; ++i) {
    const float z = LoadLogit(logits, dtype, i);
    if (std::isnan(z) || z == kFloatInf) {
      return BrokenEvidenceError(std::string(side) + " logits[" + std::to_string(i) + "] is " +
                                 (std::isnan(z) ? "NaN" : "+inf") +
                                 "; only finite numbers and -inf masks can be compared");
    }
    logits_[i] = static_cast<double>(z);
    if (z == -kFloatInf) continue;
    ++possible_;
    top_.Offer(z, static_cast<int32_t>(i));
  }
  if (possible_ == 0) {
    return BrokenEvidenceError(std::string(side) +
                               " logits are all -inf: the row has no distribution");
  }
  top_logit_ = static_cast<double>(top_.entries[0].logit);
  double others = 0;
  const auto top_id = static_cast<size_t>(top_.entries[0].id);
  for (size_t i = 0; i < vocab; ++i) {
    p_[i] = Exp((logits_[i] - top_logit_) / divisor);
    if (i != top_id) others += p_[i];
  }
  log_mass_ = Log1p(others);
  entropy_ = 0;
  const double share = 1 / (1 + others);
  for (size_t i = 0; i < vocab; ++i) {
    if (logits_[i] == -kInf) continue;
    entropy_ -= p_[i] * share * ((logits_[i] - top_logit_) / divisor - log_mass_);
    p_[i] = std::max(p_[i] * share, kLeast);
  }
  // Each of the additions rounds by 2^-53; the exponential and its argument, which ends at -745, by
  // less than 2^-43 in all.
  error_ = 0x1p-42 + static_cast<double>(vocab) * 0x1p-52;
  return {};
}

double FullRow::Logprob(int32_t id) const {
  return (logits_[static_cast<size_t>(id)] - top_logit_) / divisor_ - log_mass_ + 0.0;
}

Interval FullRow::Box(double p) const {
  if (p == 0) return {0, 0};
  if (p < kTinyProbability) return {0, kTinyProbability};
  return {p * (1 - error_), std::min(1.0, p * (1 + error_))};
}

Interval FullRow::SumBox(double sum) const {
  if (sum == 0) return {0, 0};
  if (sum < kTinyProbability) return {0, kTinyProbability * static_cast<double>(vocab())};
  return {sum * (1 - error_), std::min(1.0, sum * (1 + error_))};
}

SideView FullRow::FirstTokens() const {
  SideView view;
  for (size_t i = 0; i < top_.count; ++i) {
    const int32_t id = top_.entries[i].id;
    // Logits in place of log-probs: both are there for their order, and log-probs might round two
    // into one.
    view.ranked.push_back({id, logits_[static_cast<size_t>(id)], 0, BoxOf(id)});
  }
  view.known = view.ranked;
  std::sort(view.known.begin(), view.known.end(),
            [](const Known& a, const Known& b) { return a.id < b.id; });
  view.exhausted = top_.count == possible_;
  if (!view.exhausted) {
    view.cap = view.ranked.back().p.hi;
    for (const Known& known : view.known) view.rest.hi += known.p.lo;
    view.rest.hi = std::max(0.0, 1 - view.rest.hi);
  }
  return view;
}

Interval FullRow::RankOf(int32_t id) const {
  const double z = logits_[static_cast<size_t>(id)];
  size_t ahead = 0;
  size_t masked_below = 0;
  for (size_t i = 0; i < vocab(); ++i) {
    const bool below = i < static_cast<size_t>(id);
    ahead += logits_[i] > z || (below && logits_[i] == z && z > -kInf) ? 1 : 0;
    masked_below += below && logits_[i] == -kInf ? 1 : 0;
  }
  const auto rank = static_cast<double>(ahead);
  return {rank, z == -kInf ? rank + static_cast<double>(masked_below) : rank};
}

}  // namespace kcc
