// Two top-k lists made ready for conclusions: every log-prob widened by its rounding, the mass and
// the caps of what is not listed, and the tokens matched by id. Internal to the top-k backend.
#pragma once

#include <optional>
#include <vector>

#include "kcc/drift/top_k.h"

namespace kcc {

// Sums of up to a few thousand doubles are right to this, relatively.
inline constexpr double kListSumError = 1e-12;

// A probability below it is only known to be so small: quotients of such numbers overflow. It is
// not 0, which makes divergences infinite.
inline constexpr double kTinyProbability = 1e-300;

struct Interval {
  double lo = 0;
  double hi = 0;
};

struct Known {
  int32_t id;
  double logprob;
  double error;  // the true log-prob is so close
  Interval p;    // the probability
};

struct SideView {
  std::vector<Known> ranked;  // the listed tokens that can occur, in the list's order
  std::vector<Known> known;   // the listed tokens and the sampled one, by id
  int32_t unlisted = -1;      // the sampled token, where it is known but not listed
  Interval rest;              // mass of the unknown tokens
  double cap = 1;             // no unknown token is more likely
  bool exhausted = false;     // the list reaches probability 0: no unlisted token can occur
  // So many unlisted tokens may be exactly as likely as the last of the list.
  size_t ties_beyond = 0;
};

// What MeasureTopK asks of a pair beside its lists.
Result<> CheckTopListPair(const TopListPair& pair);

// Reads that side's list alone. Fails as MeasureTopK says.
Result<SideView> ViewOf(const TopListPair& pair, Side side);

// The token if it is listed, or sampled with a recorded log-prob; else null. And its log-prob.
const Known* FindKnown(const SideView& side, int32_t token);
std::optional<double> ListedLogprob(const SideView& side, int32_t token);

// docs/math.md B.3: known terms, and the rest at its cap or spread evenly.
Interval EntropyInterval(const SideView& side, size_t vocab);

// Of the two likeliest tokens, in unscaled logits.
Interval MarginInterval(const SideView& side, double temperature);

// A token that both sides know.
struct Shared {
  int32_t id;
  double difference;  // log q - log p
  double error;
  Interval p;
  Interval q;
};

struct Matched {
  std::vector<Shared> both;
  std::vector<Known> train_only;
  std::vector<Known> infer_only;
};

Matched Match(const SideView& p, const SideView& q);

}  // namespace kcc
