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

#include "kcc/base/strings.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.6931471805599453;
// Sums of up to a few thousand doubles are right to this, relatively.
constexpr double kSumError = 1e-12;

struct Interval {
  double lo = 0;
  double hi = 0;
};

struct Known {
  int32_t id;
  double logprob;
  Interval p;  // the probability
};

struct SideView {
  std::vector<Known> ranked;  // by log-prob, then id
  std::vector<Known> known;   // the ranked tokens and the sampled one, by id
  Interval rest;              // mass of the unknown tokens
  double cap = 1;             // no unlisted token is more likely
};

Interval Widen(double logprob, double rounding) {
  const double error = rounding * (1 + std::fabs(logprob));
  return {Exp(logprob - error), std::min(1.0, Exp(logprob + error))};
}

Error Broken(const char* side, const std::string& what) {
  return BrokenEvidenceError("the " + std::string(side) + " top-k list " + what);
}

Result<SideView> ViewOf(const TopListPair& pair, const TopList& list, double token_logprob,
                        const char* side) {
  if (list.ids.empty() || list.ids.size() != list.logprobs.size()) {
    return Broken(side, "has " + std::to_string(list.ids.size()) + " ids and " +
                            std::to_string(list.logprobs.size()) + " log-probs");
  }
  SideView view;
  for (size_t i = 0; i < list.ids.size(); ++i) {
    const int32_t id = list.ids[i];
    const double logprob = list.logprobs[i];
    if (id < 0 || static_cast<size_t>(id) >= pair.vocab) {
      return Broken(side, "names token " + std::to_string(id) + ", outside the vocabulary of " +
                              std::to_string(pair.vocab));
    }
    if (std::isnan(logprob) || logprob > 1e-3) {
      return Broken(
          side, "gives token " + std::to_string(id) + " the log-prob " + ShortestNumber(logprob));
    }
    view.ranked.push_back({id, logprob, Widen(logprob, pair.rounding)});
  }
  const auto by_rank = [](const Known& a, const Known& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  const auto by_id = [](const Known& a, const Known& b) { return a.id < b.id; };
  std::sort(view.ranked.begin(), view.ranked.end(), by_rank);
  view.known = view.ranked;
  std::sort(view.known.begin(), view.known.end(), by_id);
  const auto same_id = [](const Known& a, const Known& b) { return a.id == b.id; };
  if (std::adjacent_find(view.known.begin(), view.known.end(), same_id) != view.known.end()) {
    return Broken(side, "names a token twice");
  }
  if (pair.token >= 0 && !std::isnan(token_logprob)) {
    const Known token{pair.token, token_logprob, Widen(token_logprob, pair.rounding)};
    const auto at = std::lower_bound(view.known.begin(), view.known.end(), token, by_id);
    if (at == view.known.end() || at->id != token.id) view.known.insert(at, token);
  }
  Interval sum;
  for (const Known& token : view.known) {
    sum.lo += token.p.lo;
    sum.hi += token.p.hi;
  }
  view.rest = {std::max(0.0, 1 - sum.hi * (1 + kSumError)),
               std::max(0.0, 1 - sum.lo * (1 - kSumError))};
  if (view.known.size() == pair.vocab) view.rest = {0, 0};
  view.cap = std::min(view.ranked.back().p.hi, std::max(view.rest.hi, view.rest.lo));
  return view;
}

struct Shared {
  int32_t id;
  double difference;  // log q - log p
  double error;
  Interval p;
  Interval q;
};

struct Overlapping {
  std::vector<Shared> both;
  std::vector<Known> train_only;
  std::vector<Known> infer_only;
};

Overlapping Match(const SideView& p, const SideView& q, double rounding) {
  Overlapping match;
  size_t i = 0;
  size_t j = 0;
  while (i < p.known.size() || j < q.known.size()) {
    const bool take_p =
        j == q.known.size() || (i < p.known.size() && p.known[i].id <= q.known[j].id);
    const bool take_q =
        i == p.known.size() || (j < q.known.size() && q.known[j].id <= p.known[i].id);
    if (take_p && take_q) {
      const Known& a = p.known[i++];
      const Known& b = q.known[j++];
      match.both.push_back({a.id, b.logprob - a.logprob,
                            rounding * (2 + std::fabs(a.logprob) + std::fabs(b.logprob)), a.p,
                            b.p});
    } else if (take_p) {
      match.train_only.push_back(p.known[i++]);
    } else {
      match.infer_only.push_back(q.known[j++]);
    }
  }
  return match;
}

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
double LowerBound(Term term, const SideView& p, const SideView& q, const Overlapping& match) {
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
  return std::max(0.0, (shared + std::max(merged, apart)) * (1 - kSumError));
}

// The sharp lower end of KL(p || q) (MATH.md B.2): the least over everything that the tokens known
// on one side only and the unlisted rest may be, given their caps and masses.
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
    const double least = sum - kSumError * magnitude;
    return std::isfinite(least) ? std::max(0.0, least) : 0;
  }

  const SideView& p_;
  const SideView& q_;
  const std::vector<Known>& p_only_;
  const std::vector<Known>& q_only_;
};

// The better of both lower ends.
double KlLowerBound(Term term, const SideView& p, const SideView& q, const Overlapping& match,
                    const KlLowerEnd& unknown) {
  double shared = 0;
  for (const Shared& token : match.both) shared += AtNearest(term, token.p, token.q);
  return std::max(LowerBound(term, p, q, match), (shared + unknown.Value()) * (1 - kSumError));
}

// Finite only where the lists leave no token unknown: then at the farthest corners.
double UpperBound(Term term, size_t vocab, const Overlapping& match) {
  if (match.both.size() < vocab) return kInf;
  double sum = 0;
  for (const Shared& token : match.both) {
    sum += std::max(term(token.p.lo, token.q.hi), term(token.p.hi, token.q.lo));
  }
  return sum * (1 + kSumError);
}

// MATH.md B.1: 1 - the largest and the smallest possible overlap of the distributions.
Interval TotalVariationInterval(const SideView& p, const SideView& q, const Overlapping& match,
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
  return {std::max(0.0, 1 - overlap.hi * (1 + kSumError)),
          std::clamp(1 - overlap.lo * (1 - kSumError), 0.0, 1.0)};
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
  return {sum.lo * (1 - kSumError), sum.hi * (1 + kSumError)};
}

// Which tokens are surely, and which possibly, among the first k.
struct FirstTokens {
  std::vector<int32_t> sure;
  std::vector<int32_t> possible;
  bool unlisted_possible = false;
};

FirstTokens First(const SideView& side, size_t k, size_t vocab) {
  FirstTokens first;
  const auto& ranked = side.ranked;
  const size_t listed = ranked.size();
  for (size_t i = 0; i < std::min(k, listed); ++i) first.sure.push_back(ranked[i].id);
  first.possible = first.sure;
  if (k > listed) {
    first.unlisted_possible = listed < vocab;
    return first;
  }
  // A tie that reaches the end of the list may go on beyond it.
  const bool tied_end =
      listed > 1 && listed < vocab && ranked[listed - 1].logprob == ranked[listed - 2].logprob;
  if (!tied_end || ranked[k - 1].logprob != ranked[listed - 1].logprob) return first;
  std::erase_if(first.sure, [&](int32_t id) {
    const auto at = std::find_if(ranked.begin(), ranked.end(),
                                 [&](const Known& token) { return token.id == id; });
    return at->logprob == ranked[listed - 1].logprob;
  });
  first.possible.clear();
  for (const Known& token : ranked) first.possible.push_back(token.id);
  first.unlisted_possible = true;
  return first;
}

// Beyond the end of the lists: each side's first k hold its list and further tokens, which may be
// the other list's, the same unlisted ones, or all different while there are enough of them.
Interval OverlapBeyondLists(const SideView& p, const SideView& q, size_t k, size_t vocab) {
  size_t both = 0;
  for (const Known& a : p.ranked) {
    both += static_cast<size_t>(std::count_if(q.ranked.begin(), q.ranked.end(),
                                              [&](const Known& b) { return a.id == b.id; }));
  }
  const size_t free_p = k > p.ranked.size() ? k - p.ranked.size() : 0;
  const size_t free_q = k > q.ranked.size() ? k - q.ranked.size() : 0;
  const size_t from_q = std::min(free_p, q.ranked.size() - both);  // p takes of q's list
  const size_t from_p = std::min(free_q, p.ranked.size() - both);
  const size_t unlisted = vocab - (p.ranked.size() + q.ranked.size() - both);
  const size_t most =
      both + from_q + from_p + std::min({free_p - from_q, free_q - from_p, unlisted});
  const size_t least = std::max(both, 2 * k > vocab ? 2 * k - vocab : 0);
  const auto of = static_cast<double>(k);
  return {static_cast<double>(least) / of, static_cast<double>(std::min(k, most)) / of};
}

Interval OverlapInterval(const SideView& p, const SideView& q, size_t k_asked, size_t vocab) {
  const size_t k = std::min(k_asked, vocab);
  if (k > p.ranked.size() && k > q.ranked.size()) return OverlapBeyondLists(p, q, k, vocab);
  const FirstTokens a = First(p, k, vocab);
  const FirstTokens b = First(q, k, vocab);
  const auto shared = [](const std::vector<int32_t>& x, const std::vector<int32_t>& y) {
    return std::count_if(x.begin(), x.end(),
                         [&](int32_t id) { return std::find(y.begin(), y.end(), id) != y.end(); });
  };
  const auto of = static_cast<double>(k);
  const double lo = static_cast<double>(shared(a.sure, b.sure)) / of;
  if (a.unlisted_possible || b.unlisted_possible) return {lo, 1};
  return {lo, std::min(1.0, static_cast<double>(shared(a.possible, b.possible)) / of)};
}

class Publisher {
 public:
  Publisher(const SlotSet& wanted, TokenDrift* out) : wanted_(wanted), out_(out) {}
  void operator()(const char* name, const Interval& value) const {
    const size_t slot = TokenSlot(name);
    if (wanted_[slot]) out_->SetInterval(slot, value.lo, value.hi);
  }

 private:
  const SlotSet& wanted_;
  TokenDrift* out_;
};

void PublishDivergences(const SideView& p, const SideView& q, const Overlapping& match,
                        size_t vocab, const Publisher& publish) {
  const Interval tv = TotalVariationInterval(p, q, match, vocab);
  publish("tv", tv);
  const auto both_ends = [&](Term term) {
    return Interval{LowerBound(term, p, q, match), UpperBound(term, vocab, match)};
  };
  const KlLowerEnd forward(p, q, match.train_only, match.infer_only);
  const KlLowerEnd reverse(q, p, match.infer_only, match.train_only);
  publish("kl", {KlLowerBound(&KlTerm, p, q, match, forward), UpperBound(&KlTerm, vocab, match)});
  publish("reverse_kl", {KlLowerBound(&ReverseKlTerm, p, q, match, reverse),
                         UpperBound(&ReverseKlTerm, vocab, match)});
  publish("chi2", both_ends(&Chi2Term));
  publish("reverse_chi2", both_ends(&ReverseChi2Term));
  // 1 - BC <= TV and JS <= ln 2 TV.
  publish("hellinger", {LowerBound(&HellingerTerm, p, q, match), tv.hi});
  publish("js", {LowerBound(&JsDivergenceTerm, p, q, match), kLn2 * tv.hi});
}

void PublishDistances(const TopListPair& pair, const Overlapping& match, const Publisher& publish) {
  double lowest = kInf;  // the largest that the smallest difference can be
  double highest = -kInf;
  double low_end = kInf;
  double high_end = -kInf;
  for (const Shared& token : match.both) {
    if (!std::isfinite(token.difference)) continue;
    lowest = std::min(lowest, token.difference + token.error);
    highest = std::max(highest, token.difference - token.error);
    low_end = std::min(low_end, token.difference - token.error);
    high_end = std::max(high_end, token.difference + token.error);
  }
  const double span = std::max(0.0, highest - lowest);
  const bool complete = match.both.size() == pair.vocab;
  const double span_end = complete ? high_end - low_end : kInf;
  publish("logit_span", {span, span_end});
  publish("logit_linf", {0.5 * span * pair.temperature, 0.5 * span_end * pair.temperature});
  publish("logit_l2", {span * pair.temperature / std::sqrt(2.0) * (1 - kSumError), kInf});
}

Interval MarginInterval(const SideView& side, const TopListPair& pair) {
  const Known& first = side.ranked[0];
  if (side.ranked.size() < 2) return {0, kInf};
  const Known& second = side.ranked[1];
  const double error = pair.rounding * (2 + std::fabs(first.logprob) + std::fabs(second.logprob));
  const double margin = first.logprob - second.logprob;
  return {std::max(0.0, margin - error) * pair.temperature, (margin + error) * pair.temperature};
}

Interval RankInterval(const SideView& side, const TopListPair& pair) {
  for (size_t i = 0; i < side.ranked.size(); ++i) {
    if (side.ranked[i].id == pair.token) return {static_cast<double>(i), static_cast<double>(i)};
  }
  return {static_cast<double>(side.ranked.size()), static_cast<double>(pair.vocab - 1)};
}

}  // namespace

Result<> MeasureTopK(const TopListPair& pair, const SlotSet& wanted, TokenDrift* out) {
  KCC_TRY(const SideView p, ViewOf(pair, pair.train, pair.train_logprob, "train"));
  KCC_TRY(const SideView q, ViewOf(pair, pair.infer, pair.infer_logprob, "infer"));
  const Overlapping match = Match(p, q, pair.rounding);
  const Publisher publish(wanted, out);
  PublishDivergences(p, q, match, pair.vocab, publish);
  PublishDistances(pair, match, publish);

  const Interval train_entropy = EntropyInterval(p, pair.vocab);
  const Interval entropy = EntropyInterval(q, pair.vocab);
  publish("train_entropy", train_entropy);
  publish("entropy", entropy);
  publish("entropy_gap",
          {std::max({0.0, entropy.lo - train_entropy.hi, train_entropy.lo - entropy.hi}),
           std::max(entropy.hi - train_entropy.lo, train_entropy.hi - entropy.lo)});
  publish("margin", MarginInterval(q, pair));
  publish("train_margin", MarginInterval(p, pair));
  publish("top1_overlap", OverlapInterval(p, q, 1, pair.vocab));
  publish("top5_overlap", OverlapInterval(p, q, 5, pair.vocab));
  publish("top10_overlap", OverlapInterval(p, q, 10, pair.vocab));
  if (pair.token < 0) return {};
  publish("rank", RankInterval(q, pair));
  publish("train_rank", RankInterval(p, pair));
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
