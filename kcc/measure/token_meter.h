// TokenMeter: from the evidence about one token on both sides to its quantities, by the weaker of
// the two evidence levels; full logits that face a list count in full. One per thread.
#pragma once

#include <optional>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/drift/row_and_list.h"
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

// Train's or infer's, where that side alone has logits and the other lists. None: neither.
std::optional<Side> FullSide(EvidenceLevel train, EvidenceLevel infer);

// What a meter must know of the two sides.
struct MeterSettings {
  EvidenceLevel evidence = EvidenceLevel::kNone;  // what both sides can show
  // The side that holds full logits where the other holds lists alone.
  std::optional<Side> full_side;
  int64_t vocab_size = 0;
  double temperature = 1.0;    // of the compared distributions; log-probs are at it
  double logit_divisor = 1.0;  // logits are divided by it to be at the temperature
  SampledBy sampled_by = SampledBy::kDataset;
  std::optional<double> sampling_temperature;  // 0: greedily; none: not known
  bool sampling_altered = false;               // drawn from less than the distribution

  static MeterSettings Of(const PairedTraces& pair);
};

// The sampled token's log-prob: of full logits the log-softmax at the temperature, else what was
// recorded (NaN: nothing). `side` stands in errors.
Result<double> SampledLogprob(const TokenEvidence& token, int64_t vocab_size, double temperature,
                              std::string_view side);

class TokenMeter {
 public:
  // The target is a matter of speed alone.
  TokenMeter(const MeterSettings& settings, const SlotSet& wanted, Target target = BestTarget());

  // Fails on evidence that is broken: NaN, +inf, a token that neither side could have sampled.
  Result<> Read(const TokenEvidence& train, const TokenEvidence& infer, TokenReading* reading);
  // The same for one token after the other, faster: the tv of a reading, which must stay where it
  // is, is known only after the next Begin that succeeds, or after Finish (drift/simd.h). The
  // caller then asks CheckRow (drift/row_check.h).
  Result<> Begin(const TokenEvidence& train, const TokenEvidence& infer, TokenReading* reading);
  void Finish();
  // For logits that a device has measured: what it said, in the form of a reading. All of it is
  // known at once, and so is what Begin left open.
  Result<> Take(const Result<TokenDrift>& measured, const TokenEvidence& train,
                const TokenEvidence& infer, TokenReading* reading);

 private:
  Result<> ReadLogits(const TokenEvidence& train, const TokenEvidence& infer, TokenDrift* drift);
  Result<> ReadTopK(const TokenEvidence& train, const TokenEvidence& infer, TokenReading* reading);
  Result<> ReadRowAndList(Side full, const TokenEvidence& row, const TokenEvidence& list,
                          TokenReading* reading);
  Result<> ReadSampled(const TokenEvidence& train, const TokenEvidence& infer,
                       TokenReading* reading);
  Result<> PublishSampled(double train_logprob, double infer_logprob, TokenReading* reading);
  Result<double> LogprobOf(const TokenEvidence& token, std::string_view side) const;
  void Unscale(TokenDrift* drift) const;

  MeterSettings settings_;
  SlotSet wanted_;
  Target target_;
  RowScratch scratch_;
  RowAndListMeter row_and_list_;
  bool estimates_ = false;
  double logit_scale_ = 1;  // from the recorded logits' distances to the unscaled ones'
};

}  // namespace kcc
