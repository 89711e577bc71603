// Every f-divergence is a sum of terms f(p, q) >= 0, convex and 0 only where p = q, and merging
// tokens never enlarges it (data processing). So the sum over the tokens known on both sides, plus
// the term of all others merged, is a lower bound; and over boxes [p] x [q] a term is smallest
// where p and q come closest.
#include "kcc/drift/top_k.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kcc/base/constants.h"
#include "kcc/drift/divergence_terms.h"
#include "kcc/drift/list_slots.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/drift/top_list_order.h"
#include "kcc/drift/top_list_view.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

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
  for (const Shared& token : match.both) sum += AtFarthest(term, token.p, token.q);
  return sum * (1 + kListSumError);
}

// The divergences with an upper end are c - sum of overlaps, with overlaps that grow with p and q:
// what is unknown can only lower them (docs/math.md B.3).
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

void PublishDivergences(const SideView& p, const SideView& q, const Matched& match, size_t vocab,
                        const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  publish.If(slots.tv, [&] { return TotalVariationInterval(p, q, match, vocab); });
  const auto both_ends = [&](Term term) {
    return Interval{LowerBound(term, p, q, match), UpperBound(term, vocab, match)};
  };
  const KlLowerEnd forward(p, q, match.train_only, match.infer_only);
  const KlLowerEnd reverse(q, p, match.infer_only, match.train_only);
  publish.If(slots.kl, [&] {
    return Interval{KlLowerBound(&KlTerm, p, q, match, forward), UpperBound(&KlTerm, vocab, match)};
  });
  publish.If(slots.reverse_kl, [&] {
    return Interval{KlLowerBound(&ReverseKlTerm, p, q, match, reverse),
                    UpperBound(&ReverseKlTerm, vocab, match)};
  });
  publish.If(slots.chi2, [&] { return both_ends(&Chi2Term); });
  publish.If(slots.reverse_chi2, [&] { return both_ends(&ReverseChi2Term); });
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

}  // namespace

Result<> MeasureTopK(const TopListPair& pair, const SlotSet& wanted, TokenDrift* out) {
  KCC_TRY_VOID(CheckTopListPair(pair));
  KCC_TRY(const SideView p, ViewOf(pair, Side::kTrain));
  KCC_TRY(const SideView q, ViewOf(pair, Side::kInfer));
  const Matched match = Match(p, q);
  const Publisher publish(wanted, out);
  const ListSlots& slots = ListSlotsOf();
  PublishDivergences(p, q, match, pair.vocab, publish);
  PublishDistances(pair, match, publish);

  PublishSides({EntropyInterval(p, pair.vocab), MarginInterval(p, pair.temperature)},
               {EntropyInterval(q, pair.vocab), MarginInterval(q, pair.temperature)}, publish);
  publish(slots.top1_overlap, OverlapInterval(p, q, 1, pair.vocab));
  publish(slots.top5_overlap, OverlapInterval(p, q, 5, pair.vocab));
  publish(slots.top10_overlap, OverlapInterval(p, q, 10, pair.vocab));
  if (pair.token < 0) return {};
  publish(slots.rank, RankInterval(q, pair.token, pair.vocab));
  publish(slots.train_rank, RankInterval(p, pair.token, pair.vocab));
  const std::optional<double> train = ListedLogprob(p, pair.token);
  const std::optional<double> infer = ListedLogprob(q, pair.token);
  if (!train || !infer) return {};
  KCC_TRY(const SampledToken token, SampledTokenFromLogprobs(*train, *infer));
  PublishSampledToken(token, wanted, out);
  return {};
}

}  // namespace kcc
