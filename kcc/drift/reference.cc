// Every divergence is a sum over tokens of p f(x), x = log(q/p), with f >= 0 and f(0) = 0
// (docs/design.md section 6): small when x is small, so nothing cancels.
//
// x itself must not cancel either. One token, the pivot, is the train side's most likely; with
// y = Delta - Delta_pivot, e^(-x_pivot) = sum p e^y = 1 + sum p expm1(y), so
//   x_pivot = -log1p(sum over the others p expm1(y)),   x = y + x_pivot,
// which stays exact when the pivot has all but 1e-16 of the mass. Where the pivot's own x is large,
// so are the divergences, and the difference of two log-probs does for every x.
//
// A mask may be a number as large as any float, on one side or both. y is then taken from exact
// differences, and no exponential of a difference of two such numbers: each side's are taken apart.
#include "kcc/drift/reference.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kcc/base/constants.h"
#include "kcc/drift/row_check.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Doubles beyond it leave no room for a logit's digits.
constexpr double kHuge = 1e12;
// Nats apart: e^600 still leaves room for a sum.
constexpr double kApart = 600;

struct Entry {
  int32_t id;
  double train;  // unscaled logits; -inf on one side at most
  double infer;

  bool OnBothSides() const { return train != -kInf && infer != -kInf; }
  LogitDifference Apart() const { return {train, infer}; }
};

// One side of the row: its most likely token, and the mass of the others relative to it.
struct Softmax {
  double top = -kInf;  // the largest logit
  int32_t top_id = -1;
  double others = 0;    // sum over the other tokens of e^((z - top) / temperature)
  double log_mass = 0;  // log(1 + others)
  double temperature = 1;

  double LogProb(double z) const { return (z - top) / temperature - log_mass; }
  double Prob(double z) const { return Exp((z - top) / temperature) / (1 + others); }
};

Error BadEntry(const char* side, size_t i, double value) {
  const std::string text = std::isnan(value) ? "NaN" : "+inf";
  return BrokenEvidenceError(std::string(side) + " logits[" + std::to_string(i) + "] is " + text +
                             "; only finite numbers and -inf masks can be compared");
}

Result<std::vector<Entry>> ReadRow(const RowPair& pair) {
  std::vector<Entry> entries;
  entries.reserve(pair.vocab);
  for (size_t i = 0; i < pair.vocab; ++i) {
    const double train = LoadLogit(pair.train, pair.train_dtype, i);
    const double infer = LoadLogit(pair.infer, pair.infer_dtype, i);
    if (std::isnan(train) || train == kInf) return BadEntry("train", i, train);
    if (std::isnan(infer) || infer == kInf) return BadEntry("infer", i, infer);
    if (train == -kInf && infer == -kInf) continue;  // masked
    entries.push_back({static_cast<int32_t>(i), train, infer});
  }
  return entries;
}

Softmax SoftmaxOf(const std::vector<Entry>& entries, double Entry::*side, double temperature) {
  Softmax softmax;
  softmax.temperature = temperature;
  for (const Entry& entry : entries) {
    if (entry.*side > softmax.top) {
      softmax.top = entry.*side;
      softmax.top_id = entry.id;
    }
  }
  for (const Entry& entry : entries) {
    if (entry.id == softmax.top_id) continue;
    softmax.others += Exp((entry.*side - softmax.top) / temperature);
  }
  softmax.log_mass = Log1p(softmax.others);
  return softmax;
}

double Entropy(const std::vector<Entry>& entries, double Entry::*side, const Softmax& softmax) {
  double sum = 0;
  for (const Entry& entry : entries) {
    const double p = softmax.Prob(entry.*side);
    if (p > 0) sum -= p * softmax.LogProb(entry.*side);
  }
  return sum;
}

// x of the tokens that both sides allow: y + at_pivot, y = (Delta - Delta_pivot) / temperature, or
// the difference of the log-probs, taken from the likeliest tokens of the two sides.
struct LogRatios {
  double temperature = 1;
  LogitDifference pivot;
  double at_pivot = 0;

  double Y(const Entry& entry) const { return entry.Apart().Less(pivot) / temperature; }
  double Of(const Entry& entry) const { return Y(entry) + at_pivot; }
};

LogRatios LogRatiosOf(const std::vector<Entry>& entries, const Softmax& p, const Softmax& q) {
  LogRatios ratios;
  ratios.temperature = p.temperature;
  const Entry* pivot = nullptr;
  for (const Entry& entry : entries) {
    if (!entry.OnBothSides()) continue;
    if (pivot == nullptr || entry.train > pivot->train) pivot = &entry;
  }
  if (pivot == nullptr) return ratios;  // disjoint supports: no token has a finite x
  ratios.pivot = pivot->Apart();
  double largest = 0;
  double sum = 0;
  for (const Entry& entry : entries) {
    if (&entry == pivot) continue;
    const double weight = Exp((entry.train - p.top) / p.temperature);
    if (entry.infer == -kInf) {
      sum -= weight;
      continue;
    }
    const double y = entry.train == -kInf ? kInf : ratios.Y(entry);
    if (y < 1) {
      sum += weight * Expm1(y);
      continue;
    }
    // e^y may overflow where its product with a small weight does not; beyond kApart, y may have
    // lost the logit that counts.
    const double below_pivot = (entry.infer - pivot->infer) / p.temperature;
    sum += Exp(y <= kApart ? (entry.train - p.top) / p.temperature + y
                           : (pivot->train - p.top) / p.temperature + below_pivot) -
           weight;
    largest = std::max(largest, below_pivot);
  }
  // e^-x_pivot - 1. Where the pivot is nearly impossible on one side and not on the other, x is
  // large and the plain form exact.
  const double less = sum / (1 + p.others);
  if (largest > kApart || (pivot->train - p.top) / p.temperature < -kApart || !(less > -0.999)) {
    ratios.pivot = LogitDifference(p.top, q.top);
    ratios.at_pivot = p.log_mass - q.log_mass;
  } else {
    ratios.at_pivot = -Log1p(less);
  }
  return ratios;
}

// A share of 0 of whatever it is.
double Share(double share, double of) { return share == 0 ? 0 : share * of; }

struct Divergences {
  double kl = 0;
  double reverse_kl = 0;
  double js = 0;
  double tv = 0;
  double hellinger = 0;
  double chi2 = 0;
  double reverse_chi2 = 0;
  double logit_change = 0;  // sum (q - p) logit
  bool all_near = true;

  // |x| <= 1: the residual forms. p f(x) with f >= 0 and f ~ x^2.
  void AddNear(double p, double x, double logit) {
    const double excess = Expm1(x);
    const double residual = ExpResidual(x);
    const double root = Expm1(0.5 * x);
    kl += p * residual;
    reverse_kl += p * std::max(0.0, x * excess - residual);
    js += p * JsTerm(x);
    tv += 0.5 * p * std::fabs(excess);
    hellinger += 0.5 * p * root * root;
    chi2 += p * CoshResidual(x);
    reverse_chi2 += p * excess * excess;
    logit_change += p * excess * logit;
  }

  // |x| > 1: p and q differ, so the definitions are exact; ratios of tiny numbers through logs.
  void AddFar(double log_p, double log_q, double x) {
    all_near = false;
    const double p = Exp(log_p);
    const double q = Exp(log_q);
    const double root = std::sqrt(p) - std::sqrt(q);
    const double tail = Log1p(Exp(-std::fabs(x)));
    const double log_share_p = kLn2 - tail - std::max(x, 0.0);  // log(2p / (p + q))
    const double log_share_q = kLn2 - tail + std::min(x, 0.0);
    kl += (q - p) - Share(p, x);
    reverse_kl += (p - q) + Share(q, x);
    js += 0.5 * (Share(p, log_share_p) + Share(q, log_share_q));
    tv += 0.5 * std::fabs(q - p);
    hellinger += 0.5 * root * root;
    const double shrink = Expm1(-std::fabs(x));  // (smaller - larger) / larger
    const double larger = std::max(log_p, log_q);
    const double squared = Exp(larger) * shrink * shrink;  // (p - q)^2 / larger
    const double magnified = Exp(larger + std::fabs(x)) * shrink * shrink;
    chi2 += x > 0 ? squared : magnified;
    reverse_chi2 += x > 0 ? magnified : squared;
  }

  // A token with probability `mass` on one side and 0 on the other.
  void AddOneSided(double mass, bool on_train) {
    all_near = false;
    (on_train ? kl : reverse_kl) = kInf;
    (on_train ? chi2 : reverse_chi2) = kInf;
    (on_train ? reverse_kl : kl) += mass;
    (on_train ? reverse_chi2 : chi2) += mass;
    js += 0.5 * mass * kLn2;
    tv += 0.5 * mass;
    hellinger += 0.5 * mass;
  }
};

Divergences DivergencesOf(const std::vector<Entry>& entries, const Softmax& p, const Softmax& q,
                          const LogRatios& ratios) {
  Divergences sums;
  for (const Entry& entry : entries) {
    const double log_p = p.LogProb(entry.train);
    const double log_q = q.LogProb(entry.infer);
    if (log_p < kLogProbLeast && log_q < kLogProbLeast) continue;  // as good as masked
    if (!entry.OnBothSides()) {
      const bool on_train = entry.train != -kInf;
      sums.AddOneSided(on_train ? p.Prob(entry.train) : q.Prob(entry.infer), on_train);
      continue;
    }
    const double x = ratios.Of(entry);
    if (std::fabs(x) <= 1) {
      sums.AddNear(p.Prob(entry.train), x, (entry.train - p.top) / p.temperature);
    } else {
      sums.AddFar(log_p, log_q, x);
    }
  }
  sums.js = std::min(sums.js, kLn2);
  sums.tv = std::min(sums.tv, 1.0);
  sums.hellinger = std::min(sums.hellinger, 1.0);
  return sums;
}

void MeasureDistances(const std::vector<Entry>& entries, double temperature, RowQuantities* row) {
  LogitDifference low;
  LogitDifference high;
  double sum = 0;
  double squares = 0;
  bool one_sided = false;
  for (const Entry& entry : entries) {
    one_sided = one_sided || !entry.OnBothSides();
    const LogitDifference d = entry.Apart();
    const bool first = &entry == &entries.front();
    if (first || d.Less(low) < 0) low = d;
    if (first || d.Less(high) > 0) high = d;
    squares += d.high * d.high;
  }
  if (one_sided) {
    row->span = row->linf = row->l2 = row->raw_linf = row->raw_l2 = kInf;
    return;
  }
  const double apart = high.Less(low);
  row->span = apart / temperature;
  row->linf = 0.5 * apart;
  row->raw_linf = std::max(std::fabs(low.high), std::fabs(high.high));
  row->raw_l2 = std::sqrt(squares);
  // Where a side is a huge constant throughout, the differences are seen from one of them.
  const LogitDifference origin = row->raw_linf > kHuge ? low : LogitDifference();
  for (const Entry& entry : entries) sum += entry.Apart().Less(origin);
  const double mean = sum / static_cast<double>(entries.size());
  double centred = 0;
  for (const Entry& entry : entries) {
    const double d = entry.Apart().Less(origin) - mean;
    centred += d * d;
  }
  // Rounding of the mean must not make a distance out of a constant shift.
  row->l2 = apart == 0 ? 0 : std::sqrt(centred);
}

double RankOf(const std::vector<Entry>& entries, double Entry::*side, const Entry& token) {
  double before = 0;
  for (const Entry& entry : entries) {
    const bool ahead =
        entry.*side > token.*side || (entry.*side == token.*side && entry.id < token.id);
    before += ahead ? 1 : 0;
  }
  return before;
}

Result<> MeasureToken(const std::vector<Entry>& entries, int32_t id, const Softmax& p,
                      const Softmax& q, const LogRatios& ratios, RowQuantities* row) {
  const auto token = std::lower_bound(entries.begin(), entries.end(), id,
                                      [](const Entry& entry, int32_t at) { return entry.id < at; });
  if (token == entries.end() || token->id != id) {
    return BrokenEvidenceError("the sampled token " + std::to_string(id) +
                               " is masked (-inf) on both sides: it cannot have been sampled");
  }
  row->has_token = true;
  // Adding 0 turns a log-prob of -0 into 0.
  row->token.train_logprob = p.LogProb(token->train) + 0.0;
  row->token.infer_logprob = q.LogProb(token->infer) + 0.0;
  row->token.log_ratio = token->OnBothSides() ? 0.0 - ratios.Of(*token)
                                              : row->token.train_logprob - row->token.infer_logprob;
  row->rank = {RankOf(entries, &Entry::infer, *token), RankOf(entries, &Entry::train, *token)};
  return {};
}

}  // namespace

Result<> MeasureRowReference(const RowPair& pair, const SlotSet& wanted, TokenDrift* out) {
  KCC_TRY_VOID(CheckRowPair(pair));
  KCC_TRY(const std::vector<Entry> entries, ReadRow(pair));

  const Softmax p = SoftmaxOf(entries, &Entry::train, pair.temperature);
  const Softmax q = SoftmaxOf(entries, &Entry::infer, pair.temperature);
  for (const Softmax* side : {&p, &q}) {
    if (side->top_id >= 0) continue;
    return BrokenEvidenceError(std::string(side == &p ? "train" : "infer") +
                               " logits are all -inf: the row has no distribution");
  }

  RowQuantities row;
  MeasureDistances(entries, pair.temperature, &row);
  const LogRatios ratios = LogRatiosOf(entries, p, q);
  const Divergences sums = DivergencesOf(entries, p, q, ratios);
  row.kl = sums.kl;
  row.reverse_kl = sums.reverse_kl;
  row.js = sums.js;
  row.tv = sums.tv;
  row.hellinger = sums.hellinger;
  row.chi2 = sums.chi2;
  row.reverse_chi2 = sums.reverse_chi2;
  row.entropy = {Entropy(entries, &Entry::infer, q), Entropy(entries, &Entry::train, p)};
  // H(q) - H(p) = -sum (q - p) log p - KL(q || p): exact where the entropies' difference cancels.
  row.entropy_gap = std::fabs(sums.all_near ? sums.logit_change + sums.reverse_kl
                                            : row.entropy[kInfer] - row.entropy[kTrain]);
  row.confidence = {q.Prob(q.top), p.Prob(p.top)};
  for (const Entry& entry : entries) {
    if (entry.train != -kInf) row.top[kTrain].Offer(static_cast<float>(entry.train), entry.id);
    if (entry.infer != -kInf) row.top[kInfer].Offer(static_cast<float>(entry.infer), entry.id);
  }
  if (pair.token >= 0) {
    KCC_TRY_VOID(MeasureToken(entries, pair.token, p, q, ratios, &row));
  }
  Publish(row, wanted, out);
  return CheckRow(*out);
}

}  // namespace kcc
