#include "kcc/drift/sampled_token.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kcc/base/constants.h"
#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

struct SampledSlots {
  size_t log_ratio = TokenSlot("log_ratio");
  size_t abs_log_ratio = TokenSlot("abs_log_ratio");
  size_t w = TokenSlot("w");
  size_t w_log_w = TokenSlot("w_log_w");
  size_t k1 = TokenSlot("k1");
  size_t k2 = TokenSlot("k2");
  size_t k3 = TokenSlot("k3");
  size_t prob_gap = TokenSlot("prob_gap");
  size_t bit_mismatch = TokenSlot("bit_mismatch");
  size_t ulp_gap = TokenSlot("ulp_gap");
  size_t tv = TokenSlot("tv");
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t js = TokenSlot("js");
  size_t hellinger = TokenSlot("hellinger");
  size_t chi2 = TokenSlot("chi2");
  size_t reverse_chi2 = TokenSlot("reverse_chi2");
};

const SampledSlots& SlotsOf() {
  static const SampledSlots slots;
  return slots;
}

// Floats in order as integers; both zeros map to 0, so they are 0 apart.
int64_t Ordered(float value) {
  const auto bits = std::bit_cast<int32_t>(value);
  return bits >= 0 ? int64_t{bits} : int64_t{std::numeric_limits<int32_t>::min()} - bits;
}

// |p - q| from the larger probability and the ratio, so that close ones do not cancel.
double ProbabilityGap(const SampledToken& token) {
  const double larger = std::max(token.train_logprob, token.infer_logprob);
  return std::fabs(Exp(larger) * Expm1(-std::fabs(token.log_ratio)));
}

}  // namespace

Result<SampledToken> SampledTokenFromLogprobs(double train_logprob, double infer_logprob) {
  const auto refuse = [](const char* side, double value) {
    return BrokenEvidenceError("the sampled token's log-prob in the " + std::string(side) +
                               " trace is " + ShortestNumber(value) + "; a number was expected");
  };
  if (std::isnan(train_logprob) || train_logprob == kInf) return refuse("train", train_logprob);
  if (std::isnan(infer_logprob) || infer_logprob == kInf) return refuse("infer", infer_logprob);
  if (train_logprob == -kInf && infer_logprob == -kInf) {
    return BrokenEvidenceError(
        "the sampled token has probability 0 in both traces: neither kernel can have sampled it");
  }
  return SampledToken{train_logprob, infer_logprob, train_logprob - infer_logprob};
}

void PublishSampledToken(const SampledToken& token, const SlotSet& wanted, TokenDrift* out) {
  out->logprob[static_cast<size_t>(Side::kTrain)] = token.train_logprob;
  out->logprob[static_cast<size_t>(Side::kInfer)] = token.infer_logprob;
  const SampledSlots& slots = SlotsOf();
  const auto set = [&](size_t slot, double value) {
    if (wanted[slot]) out->Set(slot, value);
  };
  const double l = token.log_ratio;
  set(slots.log_ratio, l);
  set(slots.abs_log_ratio, std::fabs(l));
  set(slots.k1, l == 0 ? 0 : -l);
  set(slots.k2, 0.5 * l * l);
  const auto train = static_cast<float>(token.train_logprob);
  const auto infer = static_cast<float>(token.infer_logprob);
  set(slots.bit_mismatch, std::bit_cast<uint32_t>(train) != std::bit_cast<uint32_t>(infer) ? 1 : 0);
  set(slots.ulp_gap, static_cast<double>(std::abs(Ordered(train) - Ordered(infer))));
  // The rest takes exponentials, most of the cost.
  if (wanted[slots.prob_gap]) set(slots.prob_gap, ProbabilityGap(token));
  if (!wanted[slots.w] && !wanted[slots.w_log_w] && !wanted[slots.k3]) return;
  const double w = Exp(l);
  set(slots.w, w);
  set(slots.w_log_w, w == 0 ? 0 : w * l);
  set(slots.k3, l == -kInf ? kInf : w == kInf ? kInf : ExpResidual(l));
}

SlotSet LogprobBitSlots() {
  SlotSet slots;
  slots.set(SlotsOf().bit_mismatch);
  slots.set(SlotsOf().ulp_gap);
  return slots;
}

SlotSet SampledTokenSlots() {
  SlotSet slots;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (SlotQuantity(slot).evidence == EvidenceNeeded::kSampledToken) slots.set(slot);
  }
  return slots;
}

double JsTerm(double x) {
  // With y = x/2: m = e^y cosh y, so the term is e^y (y sinh y - cosh y log cosh y).
  const double y = 0.5 * x;
  if (std::fabs(y) > 1) {
    const double tail = Log1p(Exp(-std::fabs(x)));
    const double smaller = kLn2 - tail;                // log(2 max / (p + q)), p = 1 and q = e^x
    const double larger = kLn2 - std::fabs(x) - tail;  // log(2 min / (p + q))
    return x > 0 ? 0.5 * (Exp(x) * smaller + larger) : 0.5 * (smaller + Exp(x) * larger);
  }
  const double up = Expm1(std::fabs(y));
  const double sinh = 0.5 * (up + up / (up + 1));  // of |y|
  const double cosh_less_1 = 0.5 * CoshResidual(y);
  const double term = std::fabs(y) * sinh - (1 + cosh_less_1) * Log1p(cosh_less_1);
  return std::max(0.0, Exp(y) * term);
}

SampleEstimates EstimateFromSample(const SampledToken& token, const SlotSet& wanted) {
  const SampledSlots& slots = SlotsOf();
  SampleEstimates out;
  // The exponentials are most of the cost: without a quantity that needs them they are not taken.
  static const SlotSet kAll = EstimableSlots();
  if ((wanted & kAll).none()) return out;
  const auto set = [&](size_t slot, double value) {
    if (!wanted[slot]) return;
    out.value[slot] = value;
    out.known.set(slot);
  };
  const double l = token.log_ratio;
  const double excess = Expm1(l);  // w - 1
  const double root = Expm1(0.5 * l);
  const bool overflows = excess == kInf;
  set(slots.tv, std::max(0.0, -excess));
  set(slots.kl, overflows ? kInf
                : l < -40 ? 1.0
                : l > 1   ? (excess + 1) * l - excess
                          : std::max(0.0, l * excess - ExpResidual(l)));
  set(slots.reverse_kl, l == -kInf || overflows ? kInf : ExpResidual(l));
  if (wanted[slots.js]) set(slots.js, l == -kInf ? 0.5 * kLn2 : l > 690 ? kInf : JsTerm(l));
  set(slots.hellinger, 0.5 * root * root);
  set(slots.chi2, excess * excess);
  set(slots.reverse_chi2, CoshResidual(l));
  return out;
}

SlotSet EstimableSlots() {
  SlotSet slots;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (SlotQuantity(slot).estimate != SampleEstimate::kNone) slots.set(slot);
  }
  return slots;
}

}  // namespace kcc
