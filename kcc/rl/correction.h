// Corrections of the gap between trainer and rollout engine: weights, rejection, veto and batch
// normalisation, in canonical words (docs/rl.md); frameworks' words are dialects (dialect.h).
//
// Order, which matters: raw ratio of the weight's level -> truncate, clip or mask -> rejection
// rules (all on raw ratios; a token stays if every rule keeps it) -> veto -> normalisation by the
// mean weight over valid tokens. A rejected token has weight 0 and mask 0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/diagnostics.h"

namespace kcc {

enum class RlWeightMode : uint8_t {
  kOff,       // weight 1
  kFull,      // w
  kTruncate,  // min(w, high)
  kClip,      // min(max(w, low), high); the paper's w-hat is token clip at 1 -+ eps
  kMask,      // w inside [low, high], 0 outside (IcePop); the loss mask stays
};
std::string_view RlWeightModeName(RlWeightMode mode);

struct RlWeightRule {
  RlWeightMode mode = RlWeightMode::kOff;
  RlLevel level = RlLevel::kToken;
  double low = 0;   // > 0 where used; ignored by kTruncate
  double high = 2;  // >= low
  // Divides by the mean weight: over valid tokens, at sequence levels over sequences. A mean below
  // 1e-8 is left alone, as in verl.
  bool batch_normalize = false;

  bool operator==(const RlWeightRule&) const = default;
};

enum class RlStatistic : uint8_t {
  kRatio,  // log w, compared with log low and log high; at kSequenceMax: max |log w|
  kK1,     // -log w: as kRatio with the band of 1/w
  kK2,     // (log w)^2 / 2, at most high
  kK3,     // w - 1 - log w, at most high
};
std::string_view RlStatisticName(RlStatistic statistic);

enum class RlAggregate : uint8_t {
  kTokenwise,
  kSequenceSum,
  kSequenceMean,
  kSequenceMax,
  kSegmentSum
};
std::string_view RlAggregateName(RlAggregate aggregate);
// Of a level's own unit: geometric weights have the mean over their sequence.
RlAggregate RlAggregateOf(RlLevel level);

// Keeps a token (or all tokens of a unit) if the statistic lies in [low, high]. Bands of ratios
// are ratios (0.5, 2.0), not logs; equality keeps.
struct RlRejectRule {
  RlStatistic statistic = RlStatistic::kRatio;
  RlAggregate aggregate = RlAggregate::kTokenwise;
  double low = 0;  // of ratio bands; 0: none
  double high = 2;

  bool operator==(const RlRejectRule&) const = default;
};

// Rejects the whole sequence if any of its tokens has a ratio outside [low, high].
struct RlVeto {
  double low = 1e-4;
  double high = 0;  // 0: none

  bool operator==(const RlVeto&) const = default;
};

struct RlCorrection {
  std::string name;  // free text for reports; empty: made from the rules
  RlWeightRule weight;
  std::vector<RlRejectRule> reject;
  std::optional<RlVeto> veto;

  bool operator==(const RlCorrection&) const = default;
};

// "token truncate 2; reject sequence-mean k1 [0.999, 1.001]; veto below 1e-4".
std::string DescribeCorrection(const RlCorrection& correction);
// The paper's w-hat = clip(w, 1 - eps, 1 + eps) per token.
RlCorrection PaperCorrection(double eps);
Result<> CheckCorrection(const RlCorrection& correction);

// A correction from JSON: {"weight": {"mode": "truncate", "level": "token", "high": 2},
// "reject": [{"statistic": "k1", "aggregate": "sequence_mean", "low": …, "high": …}],
// "veto": {"low": 1e-4}}. Unknown keys are errors that name the nearest key.
Result<RlCorrection> ParseCorrection(std::string_view json);

// What a correction does to one slice (or to everything: slice empty).
struct RlCorrectionMetrics {
  std::string slice;
  // Loss denominators before and after rejection: token mean divides by the one or the other
  // depending on the framework, which changes the effective learning rate.
  int64_t tokens = 0, tokens_kept = 0;
  int64_t rows = 0, rows_kept = 0;  // non-empty rows; with a token left
  int64_t units_outside = 0;        // truncated, clipped or masked units of the weight's level
  double mean_weight = 0;           // over tokens before rejection, after the weight rule
  double mean_weight_kept = 0;
  double normalizer = 1;  // what weights were divided by
  // (sum phi)^2 / (n sum phi^2) over valid tokens, rejected ones as 0: in (0, 1], 0 if no token has
  // a weight. Metrics are computed at any size; beyond double's range they are infinite or 0.
  double ess = 0;
  // E|w - phi(w)| per token, phi the final weight and w the token's own ratio: bias per unit of
  // A G if only the token's context counts (docs/math.md A.7, one context). Sequence: E|W - phi|
  // against the whole sequence's ratio, the measure for outcome advantages.
  double bias_token = 0, bias_sequence = 0;
  double variance = 0;  // E phi^2 over valid tokens; full IS: 1 + chi2
  bool everything_rejected() const { return tokens > 0 && tokens_kept == 0; }
};

// Writes the final weights and the mask after rejection into the caller's arrays, laid out as the
// batch's train array with stride `columns` (padded) or packed. Padding gets weight 0 and mask 0.
// Either may be empty. Returns the metrics of everything, then by slice.
struct RlCorrectOutput {
  std::span<float> weights;
  std::span<double> weights_double;  // instead of `weights`, for those who want them
  std::span<uint8_t> mask;
};
Result<std::vector<RlCorrectionMetrics>> CorrectRl(const RlBatch& batch,
                                                   const RlCorrection& correction,
                                                   const RlCorrectOutput& output, int threads = 1);

// Diagnoses into `summary` and corrects in one visit of the arrays: the same state as
// RlSummary::Add leaves, and what CorrectRl gives. On an error nothing was added.
Result<std::vector<RlCorrectionMetrics>> StepRl(const RlBatch& batch,
                                                const RlCorrection& correction,
                                                const RlCorrectOutput& output, int threads,
                                                RlSummary* summary);

// The expression that bounds the estimator's bias, as text for people: "A G E(w - 2)+".
std::string BiasExpression(const RlCorrection& correction);

}  // namespace kcc
