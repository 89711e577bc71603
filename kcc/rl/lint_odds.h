// The gap between the sides in log-odds, l = log p/(1 - p): the scale on which faults of a
// distribution are straight lines and numerical noise is about as large everywhere.
//
// A quantised kernel moves logits by about the same amount at likely and unlikely tokens, so its
// gap in l hardly follows l. Another temperature T makes l_train = l_rollout / T where two tokens
// compete: the gap is proportional to l, also at tokens so sure that log-probs seem to agree.
// The slope is of l_train - l_rollout on their mean, not on either side: noise in one side then
// leaves it at 0 (Bland and Altman), where the slope on rollout's log-prob is biased.
//
// Which side the tokens were drawn from is a likelihood ratio: sum d, d = log train - log rollout.
// If rollout's numbers are the sampler's, E exp(sum d) = 1, so P(sum d >= log 1/a) <= a whatever
// train is; if train's are, the same holds for -sum d (Ville). No test by sampled tokens has more
// power at the same error (Neyman and Pearson).
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/rl/batch.h"

namespace kcc {

// Running sums for a correlation of pairs.
struct PairSums {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0, abs_gap = 0;

  void Add(double a, double b);
  void Merge(const PairSums& other);
  double Correlation() const;  // 0 where one side is constant
  double Slope() const;        // of y on x
  double MeanGap() const { return n > 0 ? abs_gap / n : 0; }
};

// Above it a token is sure: log-probs in float32 no longer tell the odds.
inline constexpr double kSureLogProb = -3e-5;

// Log-odds of a log-prob, between -20 and the odds of a sure token (10.4).
double LogOdds(double logprob);

// Tokens that one side calls certain (log-prob 0) and the other does not by far: all else was cut.
struct CertainTokens {
  int64_t count = 0;
  int64_t doubted = 0;  // of these, the other side gives it less than half of the mass

  void Merge(const CertainTokens& other);
};

// Of one row.
struct OddsSums {
  double tokens = 0;
  double abs_gap = 0;  // sum of |train's log-odds - rollout's|, sure tokens too
  PairSums gap;        // x: mean of the two log-odds, y: train's minus rollout's; no sure tokens
  // What a gap in log-odds means in log-probs: d is about (1 - p) times it. Sums with the weight
  // (1 - p)^2 of 1, x, y, x^2, xy, y^2, x and y as in `gap`.
  double weighted[6] = {};
  CertainTokens rollout_certain, train_certain;
  double log_likelihood = 0;  // sum d
  int64_t apart = 0;          // tokens whose log-odds differ by more than a half

  // Gives |train's log-odds - rollout's| of every token too.
  void Add(const RlRow& row, std::vector<double>* gaps);
};

// Of the rows that are related.
struct OddsGap {
  int64_t open = 0;        // tokens that neither side is sure of
  double slope = 0;        // of the gap on the mean log-odds
  double slope_z = 0;      // over its standard error, with rows as clusters or without: the smaller
  double explained = 0;    // share of the gap's variance that the slope explains
  double level = 0;        // share of the gap's square that a line through the origin explains
  double level_slope = 0;  // of that line
  double spread = 0;       // standard deviation of the gap
  double log_likelihood = 0;  // sum d: above 0, tokens are likelier under train
  double apart = 0;           // share of the tokens whose log-odds differ by more than a half
  double noise = 0;           // nats of it that are scatter around the slope, not the slope
  // Lower quartile of the rows' mean |gap| over their mean: near 0 if some rows agree and others do
  // not. Negative where there are too few rows to say.
  double even = -1;
  CertainTokens rollout_certain, train_certain;
};
OddsGap SumOdds(const std::vector<const OddsSums*>& rows);

}  // namespace kcc
