// Every f-divergence is a sum of terms f(p, q) >= 0, convex and 0 only where p = q, and merging
// tokens never enlarges it (data processing). So the sum over the tokens known on both sides, plus
// the term of all others merged, is a lower bound; and over boxes [p] x [q] a term is smallest
// where p and q come closest.
#include "kcc/drift/top_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kcc/base/constants.h"
#include "kcc/base/strings.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/drift/top_list_order.h"
#include "kcc/drift/top_list_view.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// The nearest points of two intervals; equal ones where they meet.
struct Nearest {
  double p;
  double q;
};
Nearest NearestOf(const Interval& p, const Interval& q) {
  if (p.lo > q.hi) return {p.lo, q.hi};
  if (q.lo > p.hi) return {p.hi, q.lo};
  const double common = std::max(p.lo, q.lo);
  return {common, common};
}

using Term = double (*)(double p, double q);

double KlTerm(double p, double q) {
  if (p == q) return 0;
  if (p == 0) return q;
  return q == 0 ? kInf : std::max(0.0, p * ExpResidual(Log(q / p)));
}
double ReverseKlTerm(double p, double q) { return KlTerm(q, p); }
double Chi2Term(double p, double q) { return p == q ? 0 : q == 0 ? kInf : (p - q) / q * (p - q); }
double ReverseChi2Term(double p, double q) { return Chi2Term(q, p); }
double TvTerm(double p, double q) { return 0.5 * std::fabs(p - q); }
double HellingerTerm(double p, double q) {
  const double root = std::sqrt(p) - std::sqrt(q);
  return 0.5 * root * root;
}
double JsDivergenceTerm(double p, double q) {
  if (p == q) return 0;
  if (p == 0 || q == 0) return 0.5 * kLn2 * std::max(p, q);
  const double x = Log(q / p);
  return x < 600 ? p * JsTerm(x) : 0.5 * kLn2 * q;
}

double AtNearest(Term term, const Interval& p, const Interval& q) {
  const Nearest at = NearestOf(p, q);
  return term(at.p, at.q);
}

// Over the shared tokens and all others merged; and, finer where the lists differ, with every token
// that one list alone has kept apart.
double LowerBound(Term term, const SideView& p, const SideView& q, const Matched& match) {
  double shared = 0;
  Interval others_p = p.rest;
  Interval others_q = q.rest;
  double apart = 0;
  for (const Shared& token : match.both) shared += AtNearest(term, token.p, token.q);
  double caps_q = 0;
  double caps_p = 0;
  for (const Known& token : match.train_only) {
    others_p.lo += token.p.lo;
    others_p.hi += token.p.hi;
    apart += AtNearest(term, token.p, {0, q.cap});
    caps_q += q.cap;
  }
  for (const Known& token : match.infer_only) {
    others_q.lo += token.p.lo;
    others_q.hi += token.p.hi;
    apart += AtNearest(term, {0, p.cap}, token.p);
    caps_p += p.cap;
  }
  const double merged = AtNearest(term, others_p, others_q);
  apart += AtNearest(term, {std::max(0.0, p.rest.lo - caps_p), p.rest.hi},
                     {std::max(0.0, q.rest.lo - caps_q), q.rest.hi});
  return std::max(0.0, (shared + std::max(merged, apart)) * (1 - kListSumError));
}

// The sharp lower end of KL(p || q) (docs/math.md B.2): the least over everything that the tokens
// known on one side only and the unlisted rest may be, given their caps and masses.
//
// Every hyperplane p ln r + q (1 - r), r > 0, supports the term p ln(p/q) - p + q from below. With
// one ratio for q's unknown mass (`rq`) and one for p's (`rp` <= rq), the least of those planes
// over the boxes is a lower bound whatever the ratios; at the ratios that solve the KKT conditions
// it is the least KL itself. So soundness does not rest on the solver, nor on exact probabilities.
class KlLowerEnd {
 public:
  KlLowerEnd(const SideView& p, const SideView& q, const std::vector<Known>& p_only,
             const std::vector<Known>& q_only)
      : p_(p), q_(q), p_only_(p_only), q_only_(q_only) {}

  // Of all tokens that are not known on both sides.
  double Value() const {
    if (p_.rest.hi == 0 || q_.rest.hi == 0) return 0;
    const double low = RatioWhere([&](double r) { return InferRest(r) >= 0; });  // r_q
    const double high = RatioWhere([&](double r) { return TrainRest(r) < 0; });  // r_p
    if (low >= high) return At(high, low);
    // r q_R(r) rises and p_R(r) falls.
    const double r = std::clamp(
        RatioWhere([&](double x) { return x * InferRest(x) >= TrainRest(x); }), low, high);
    return At(r, r);
  }

 private:
  static double Middle(const Interval& x) { return 0.5 * (x.lo + x.hi); }

  // The mass that is left for the unlisted tokens at ratio r.
  double InferRest(double r) const {
    double rest = Middle(q_.rest);
    for (const Known& token : p_only_) rest -= std::min(q_.cap, Middle(token.p) / r);
    return rest;
  }
  double TrainRest(double r) const {
    double rest = Middle(p_.rest);
    for (const Known& token : q_only_) rest -= std::min(p_.cap, Middle(token.p) * r);
    return rest;
  }

  // The least ratio with a property that, once it holds, holds beyond; in steps of logarithms.
  template <class Holds>
  static double RatioWhere(Holds holds) {
    constexpr double kLogMax = 690;
    double low = -kLogMax;
    double high = kLogMax;
    for (int step = 0; step < 60; ++step) {
      const double middle = 0.5 * (low + high);
      (holds(Exp(middle)) ? high : low) = middle;
    }
    return Exp(high);
  }

  // The planes at these ratios, least over the boxes: each unknown at the end its coefficient asks
  // for, less what rounding may have added.
  double At(double rp, double rq) const {
    const double log_rp = Log(rp);
    double sum = 0;
    double magnitude = 0;
    const auto add = [&](double coefficient, const Interval& mass) {
      const double term = coefficient * (coefficient >= 0 ? mass.lo : mass.hi);
      sum += term;
      magnitude += std::fabs(term);
    };
    add(log_rp, p_.rest);
    add(1 - rq, q_.rest);
    for (const Known& token : p_only_) {
      const double ratio = std::max(rq, Middle(token.p) / q_.cap);
      add(Log(ratio), token.p);
      add(rq - ratio, {0, q_.cap});
    }
    for (const Known& token : q_only_) {
      const double ratio = std::min(rp, p_.cap / Middle(token.p));
      add(Log(ratio) - log_rp, {0, p_.cap});
      add(1 - ratio, token.p);
    }
    const double least = sum - kListSumError * magnitude;
    return std::isfinite(least) ? std::max(0.0, least) : 0;
  }

  const SideView& p_;
  const SideView& q_;
  const std::vector<Known>& p_only_;
  const std::vector<Known>& q_only_;
};

// The better of both lower ends.
double KlLowerBound(Term term, const SideView& p, const SideView& q, const Matched& match,
                    const KlLowerEnd& unknown) {
  double shared = 0;
  for (const Shared& token : match.both) shared += AtNearest(term, token.p, token.q);
  return std::max(LowerBound(term, p, q, match), (shared + unknown.Value()) * (1 - kListSumError));
}

// Finite only where the lists leave no token unknown: then at the farthest corners.
double UpperBound(Term term, size_t vocab, const Matched& match) {
  if (match.both.size() < vocab) return kInf;
  double sum = 0;
  for (const Shared& token : match.both) {
    sum += std::max(term(token.p.lo, token.q.hi), term(token.p.hi, token.q.lo));
  }
  return sum * (1 + kListSumError);
}

// The divergences with an upper end are c - sum of overlaps, with overlaps that grow with p and q:
// what is unknown can only lower them (docs/math.md B.3).
double HellingerOverlap(double p, double q) { return std::sqrt(p * q); }
double JsOverlap(double p, double q) {  // (p log((p + q) / p) + q log((p + q) / q)) / 2
  const double larger = std::max(p, q);
  const double ratio = std::min(p, q) / larger;
  if (!(ratio > 0)) return 0;
  const double log = Log1p(ratio);
  return 0.5 * larger * (log + ratio * (log - Log(ratio)));
}
double UpperBoundByOverlap(double most, Term overlap, const Matched& match) {
  double sum = 0;
  for (const Shared& token : match.both) sum += overlap(token.p.lo, token.q.lo);
  return std::max(0.0, most - sum * (1 - kListSumError));
}

// docs/math.md B.1: 1 - the largest and the smallest possible overlap of the distributions. Where
// that is lost in the rounding of the log-probs, merging what is unknown is the better lower end.
Interval TotalVariationInterval(const SideView& p, const SideView& q, const Matched& match,
                                size_t vocab) {
  Interval overlap;
  for (const Shared& token : match.both) {
    overlap.lo += std::min(token.p.lo, token.q.lo);
    overlap.hi += std::min(token.p.hi, token.q.hi);
  }
  double x = 0;
  double y = 0;
  for (const Known& token : match.train_only) x += std::min(token.p.hi, q.cap);
  for (const Known& token : match.infer_only) y += std::min(token.p.hi, p.cap);
  x = std::min(x, q.rest.hi);
  y = std::min(y, p.rest.hi);
  const size_t listed = match.both.size() + match.train_only.size() + match.infer_only.size();
  const double unseen = static_cast<double>(vocab - listed) * std::min(p.cap, q.cap);
  overlap.hi += x + y + std::max(0.0, std::min({p.rest.hi - y, q.rest.hi - x, unseen}));
  return {std::max(LowerBound(&TvTerm, p, q, match), 1 - overlap.hi * (1 + kListSumError)),
          std::clamp(1 - overlap.lo * (1 - kListSumError), 0.0, 1.0)};
}

// -p log p, which rises up to p = 1/e and falls beyond.
double EntropyTerm(double p) { return p <= 0 ? 0 : -p * Log(p); }

Interval EntropyInterval(const SideView& side, size_t vocab) {
  constexpr double kPeak = 0.36787944117144233;
  Interval sum;
  for (const Known& token : side.known) {
    const double a = EntropyTerm(token.p.lo);
    const double b = EntropyTerm(token.p.hi);
    sum.lo += std::min(a, b);
    sum.hi += token.p.lo < kPeak && token.p.hi > kPeak ? kPeak : std::max(a, b);
  }
  const auto unknown = static_cast<double>(vocab - side.known.size());
  // Below: every unknown token is at most the cap. Above: the rest spread evenly.
  if (unknown > 0 && side.cap > 0) {
    sum.lo += std::max(0.0, -side.rest.lo * Log(side.cap));
    const double mass = std::min(side.rest.hi, unknown * kPeak);
    sum.hi += unknown * EntropyTerm(mass / unknown);
  }
  return {sum.lo * (1 - kListSumError), sum.hi * (1 + kListSumError)};
}

struct ListSlots {
  size_t tv = TokenSlot("tv");
  size_t kl = TokenSlot("kl");
  size_t reverse_kl = TokenSlot("reverse_kl");
  size_t chi2 = TokenSlot("chi2");
  size_t reverse_chi2 = TokenSlot("reverse_chi2");
  size_t hellinger = TokenSlot("hellinger");
  size_t js = TokenSlot("js");
  size_t logit_span = TokenSlot("logit_span");
  size_t logit_linf = TokenSlot("logit_linf");
  size_t logit_l2 = TokenSlot("logit_l2");
  size_t train_entropy = TokenSlot("train_entropy");
  size_t entropy = TokenSlot("entropy");
  size_t entropy_gap = TokenSlot("entropy_gap");
  size_t margin = TokenSlot("margin");
  size_t train_margin = TokenSlot("train_margin");
  size_t top1_overlap = TokenSlot("top1_overlap");
  size_t top5_overlap = TokenSlot("top5_overlap");
  size_t top10_overlap = TokenSlot("top10_overlap");
  size_t rank = TokenSlot("rank");
  size_t train_rank = TokenSlot("train_rank");
};

const ListSlots& ListSlotsOf() {
  static const ListSlots slots;
  return slots;
}

class Publisher {
 public:
  Publisher(const SlotSet& wanted, TokenDrift* out) : wanted_(wanted), out_(out) {}
  bool Wants(size_t slot) const { return wanted_[slot]; }
  void operator()(size_t slot, const Interval& value) const {
    if (wanted_[slot]) out_->SetInterval(slot, value.lo, value.hi);
  }

 private:
  const SlotSet& wanted_;
  TokenDrift* out_;
};

void PublishDivergences(const SideView& p, const SideView& q, const Matched& match, size_t vocab,
                        const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  publish(slots.tv, TotalVariationInterval(p, q, match, vocab));
  const auto both_ends = [&](Term term) {
    return Interval{LowerBound(term, p, q, match), UpperBound(term, vocab, match)};
  };
  const KlLowerEnd forward(p, q, match.train_only, match.infer_only);
  const KlLowerEnd reverse(q, p, match.infer_only, match.train_only);
  publish(slots.kl,
          {KlLowerBound(&KlTerm, p, q, match, forward), UpperBound(&KlTerm, vocab, match)});
  publish(slots.reverse_kl, {KlLowerBound(&ReverseKlTerm, p, q, match, reverse),
                             UpperBound(&ReverseKlTerm, vocab, match)});
  publish(slots.chi2, both_ends(&Chi2Term));
  publish(slots.reverse_chi2, both_ends(&ReverseChi2Term));
  const auto with_overlap = [&](size_t slot, Term term, double most, Term overlap) {
    if (!publish.Wants(slot)) return;
    const Interval ends = both_ends(term);
    publish(slot, {ends.lo, std::min(ends.hi, UpperBoundByOverlap(most, overlap, match))});
  };
  with_overlap(slots.hellinger, &HellingerTerm, 1, &HellingerOverlap);
  with_overlap(slots.js, &JsDivergenceTerm, kLn2, &JsOverlap);
}

// Differences of log-probs are those of logits over the temperature, up to a constant.
void PublishDistances(const TopListPair& pair, const Matched& match, const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  double lowest = kInf;  // the largest that the smallest difference can be
  double highest = -kInf;
  double low_end = kInf;
  double high_end = -kInf;
  bool one_sided = false;  // impossible on one side only
  for (const Shared& token : match.both) {
    one_sided = one_sided || std::isinf(token.difference);
    if (!std::isfinite(token.difference)) continue;
    lowest = std::min(lowest, token.difference + token.error);
    highest = std::max(highest, token.difference - token.error);
    low_end = std::min(low_end, token.difference - token.error);
    high_end = std::max(high_end, token.difference + token.error);
  }
  const double span = one_sided ? kInf : std::max(0.0, highest - lowest);
  const bool complete = match.both.size() == pair.vocab;
  const double span_end = complete && !one_sided ? high_end - low_end : kInf;
  publish(slots.logit_span, {span, span_end});
  publish(slots.logit_linf, {0.5 * span * pair.temperature, 0.5 * span_end * pair.temperature});
  publish(slots.logit_l2, {span * pair.temperature / std::sqrt(2.0) * (1 - kListSumError), kInf});
}

Interval MarginInterval(const SideView& side, double temperature) {
  const Known& first = side.ranked[0];
  if (side.ranked.size() < 2) return {0, kInf};
  const Known& second = side.ranked[1];
  const double error = first.error + second.error;
  const double margin = first.logprob - second.logprob;
  return {std::max(0.0, margin - error) * temperature, (margin + error) * temperature};
}

Result<> CheckPair(const TopListPair& pair) {
  if (!(pair.temperature > 0) || !std::isfinite(pair.temperature)) {
    return InvalidError("temperature " + ShortestNumber(pair.temperature) +
                        " is not a positive number");
  }
  if (pair.token >= 0 && static_cast<size_t>(pair.token) >= pair.vocab) {
    return BrokenEvidenceError("sampled token " + std::to_string(pair.token) +
                               " is outside the vocabulary of " + std::to_string(pair.vocab));
  }
  return {};
}

}  // namespace

Result<> MeasureTopK(const TopListPair& pair, const SlotSet& wanted, TokenDrift* out) {
  KCC_TRY_VOID(CheckPair(pair));
  KCC_TRY(const SideView p, ViewOf(pair, Side::kTrain));
  KCC_TRY(const SideView q, ViewOf(pair, Side::kInfer));
  const Matched match = Match(p, q);
  const Publisher publish(wanted, out);
  const ListSlots& slots = ListSlotsOf();
  PublishDivergences(p, q, match, pair.vocab, publish);
  PublishDistances(pair, match, publish);

  const Interval train_entropy = EntropyInterval(p, pair.vocab);
  const Interval entropy = EntropyInterval(q, pair.vocab);
  publish(slots.train_entropy, train_entropy);
  publish(slots.entropy, entropy);
  publish(slots.entropy_gap,
          {std::max({0.0, entropy.lo - train_entropy.hi, train_entropy.lo - entropy.hi}),
           std::max(entropy.hi - train_entropy.lo, train_entropy.hi - entropy.lo)});
  publish(slots.margin, MarginInterval(q, pair.temperature));
  publish(slots.train_margin, MarginInterval(p, pair.temperature));
  publish(slots.top1_overlap, OverlapInterval(p, q, 1, pair.vocab));
  publish(slots.top5_overlap, OverlapInterval(p, q, 5, pair.vocab));
  publish(slots.top10_overlap, OverlapInterval(p, q, 10, pair.vocab));
  if (pair.token < 0) return {};
  publish(slots.rank, RankInterval(q, pair.token, pair.vocab));
  publish(slots.train_rank, RankInterval(p, pair.token, pair.vocab));
  const auto shared = std::find_if(match.both.begin(), match.both.end(),
                                   [&](const Shared& token) { return token.id == pair.token; });
  if (shared == match.both.end()) return {};
  const auto logprob = [&](const SideView& side) {
    return std::find_if(side.known.begin(), side.known.end(),
                        [&](const Known& token) { return token.id == pair.token; })
        ->logprob;
  };
  KCC_TRY(const SampledToken token, SampledTokenFromLogprobs(logprob(p), logprob(q)));
  PublishSampledToken(token, wanted, out);
  return {};
}

}  // namespace kcc
