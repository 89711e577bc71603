// TokenMeter: from the evidence about one token on both sides to its quantities, by the weaker of
// the two evidence levels. One per thread.
#pragma once

#include <optional>

#include "kcc/base/result.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/drift/simd.h"
#include "kcc/drift/token_drift.h"
#include "kcc/numeric/target.h"
#include "kcc/trace/pairing.h"

namespace kcc {

// What one token amounts to.
struct TokenReading {
  TokenDrift drift;
  // One-sample estimates, for tokens that infer sampled and of which only the log-probs are known.
  std::optional<SampleEstimates> estimates;
  int32_t gold = -1;
};

class TokenMeter {
 public:
  // The pair must outlive the meter. The target is a matter of speed alone.
  TokenMeter(const PairedTraces& pair, const SlotSet& wanted, Target target = BestTarget());

  // Fails on evidence that is broken: NaN, +inf, a token that neither side could have sampled.
  Result<> Read(const TokenEvidence& train, const TokenEvidence& infer, TokenReading* reading);

 private:
  Result<> ReadLogits(const TokenEvidence& train, const TokenEvidence& infer, TokenDrift* drift);
  Result<> ReadTopK(const TokenEvidence& train, const TokenEvidence& infer, TokenReading* reading);
  Result<> ReadSampled(const TokenEvidence& train, const TokenEvidence& infer,
                       TokenReading* reading);
  Result<double> LogprobOf(const TokenEvidence& token, std::string_view side) const;

  const PairedTraces& pair_;
  SlotSet wanted_;
  Target target_;
  RowScratch scratch_;
  bool estimates_ = false;
};

}  // namespace kcc
