#include "kcc/drift/top_list_view.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kcc/base/constants.h"
#include "kcc/base/strings.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// An ulp of logits below 16 in units of that at temperature 1: it grows with the scaled logit, by
// powers of two.
double UlpScale(double temperature) {
  if (temperature >= 1) return 1;
  int exponent = 0;
  const double fraction = std::frexp(1 / temperature, &exponent);  // in [1/2, 1)
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

// A float32 kernel rounds the scaled logit too, which grows as the temperature falls.
Known Widen(const TopListPair& pair, int32_t id, double logprob) {
  if (logprob == -kInf) return {id, logprob, 0, {0, 0}};
  const double error = pair.rounding * (UlpScale(pair.temperature) + std::fabs(logprob));
  const double least = Exp(logprob - error);
  const double most = Exp(logprob + error);
  if (least < kTinyProbability) return {id, logprob, error, {0, std::max(most, kTinyProbability)}};
  return {id, logprob, error, {std::min(1.0, least), std::min(1.0, most)}};
}

// Unlisted tokens can tie with the last listed one only while their mass lasts.
size_t TiesBeyond(const SideView& view, size_t vocab, const Known* sampled) {
  if (view.exhausted) return 0;
  const size_t unlisted = vocab - view.ranked.size();
  const double last = view.ranked.back().p.lo;
  const size_t token = sampled != nullptr && sampled->p.hi >= last ? 1 : 0;
  const double most = view.rest.hi * (1 + kListSumError) / last;  // +inf where last is 0
  if (!(most < static_cast<double>(unlisted))) return unlisted;
  return std::min(unlisted, static_cast<size_t>(most) + token);
}

// -p log p, which rises up to p = 1/e and falls beyond.
double EntropyTerm(double p) { return p <= 0 ? 0 : -p * Log(p); }

}  // namespace

Result<> CheckTopListPair(const TopListPair& pair) {
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

Result<SideView> ViewOf(const TopListPair& pair, Side side) {
  const bool train = side == Side::kTrain;
  const TopList& list = train ? pair.train : pair.infer;
  const double token_logprob = train ? pair.train_logprob : pair.infer_logprob;
  const auto broken = [&](const std::string& what) {
    return BrokenEvidenceError(std::string("the ") + (train ? "train" : "infer") + " top-k list " +
                               what);
  };
  if (list.ids.empty() || list.ids.size() != list.logprobs.size()) {
    return broken("has " + std::to_string(list.ids.size()) + " ids and " +
                  std::to_string(list.logprobs.size()) + " log-probs");
  }
  SideView view;
  view.ranked.reserve(list.ids.size());
  view.known.reserve(list.ids.size() + 1);
  for (size_t i = 0; i < list.ids.size(); ++i) {
    const int32_t id = list.ids[i];
    const double logprob = list.logprobs[i];
    if (id < 0 || static_cast<size_t>(id) >= pair.vocab) {
      return broken("names token " + std::to_string(id) + ", outside the vocabulary of " +
                    std::to_string(pair.vocab));
    }
    if (std::isnan(logprob) || logprob > 1e-3) {
      return broken("gives token " + std::to_string(id) + " the log-prob " +
                    ShortestNumber(logprob));
    }
    view.known.push_back(Widen(pair, id, logprob));
    if (logprob > -kInf) view.ranked.push_back(view.known.back());
  }
  if (view.ranked.empty()) return broken("gives every token the log-prob -inf");
  const auto likelier = [](const Known& a, const Known& b) { return a.logprob > b.logprob; };
  const auto by_id = [](const Known& a, const Known& b) { return a.id < b.id; };
  const auto same_id = [](const Known& a, const Known& b) { return a.id == b.id; };
  if (!std::is_sorted(view.ranked.begin(), view.ranked.end(), likelier)) {
    std::stable_sort(view.ranked.begin(), view.ranked.end(), likelier);
  }
  view.exhausted = view.ranked.size() < view.known.size();
  std::sort(view.known.begin(), view.known.end(), by_id);
  if (std::adjacent_find(view.known.begin(), view.known.end(), same_id) != view.known.end()) {
    return broken("names a token twice");
  }
  const Known token = Widen(pair, pair.token, token_logprob);
  if (pair.token >= 0 && !std::isnan(token_logprob)) {
    const auto at = std::lower_bound(view.known.begin(), view.known.end(), token, by_id);
    if (at == view.known.end() || at->id != token.id) {
      view.known.insert(at, token);
      view.unlisted = token.id;
    }
  }
  Interval sum;
  for (const Known& known : view.known) {
    sum.lo += known.p.lo;
    sum.hi += known.p.hi;
  }
  if (!view.exhausted && view.known.size() < pair.vocab) {
    view.rest = {std::max(0.0, 1 - sum.hi * (1 + kListSumError)),
                 std::max(kListSumError, 1 - sum.lo * (1 - kListSumError))};
  }
  view.cap = std::min(view.ranked.back().p.hi, view.rest.hi);
  view.ties_beyond = TiesBeyond(view, pair.vocab, view.unlisted >= 0 ? &token : nullptr);
  return view;
}

Matched Match(const SideView& p, const SideView& q) {
  Matched match;
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
      match.both.push_back({a.id, b.logprob - a.logprob, a.error + b.error, a.p, b.p});
    } else if (take_p) {
      match.train_only.push_back(p.known[i++]);
    } else {
      match.infer_only.push_back(q.known[j++]);
    }
  }
  return match;
}

const Known* FindKnown(const SideView& side, int32_t token) {
  const auto at = std::lower_bound(side.known.begin(), side.known.end(), token,
                                   [](const Known& known, int32_t id) { return known.id < id; });
  return at == side.known.end() || at->id != token ? nullptr : &*at;
}

std::optional<double> ListedLogprob(const SideView& side, int32_t token) {
  const Known* const known = FindKnown(side, token);
  return known == nullptr ? std::nullopt : std::optional(known->logprob);
}

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

Interval MarginInterval(const SideView& side, double temperature) {
  const Known& first = side.ranked[0];
  if (side.ranked.size() < 2) return {0, kInf};
  const Known& second = side.ranked[1];
  const double error = first.error + second.error;
  const double margin = first.logprob - second.logprob;
  return {std::max(0.0, margin - error) * temperature, (margin + error) * temperature};
}

}  // namespace kcc
