// K are the tokens that the list side knows, listed or sampled: each has an exact p and a q in a
// box. U are all others. Every divergence is the sum over K, at the near or the far corners of the
// boxes, and what U can add (unlisted_tokens.h).
#include "kcc/drift/row_and_list.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kcc/base/constants.h"
#include "kcc/drift/divergence_terms.h"
#include "kcc/drift/full_row.h"
#include "kcc/drift/list_slots.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/sampled_token.h"
#include "kcc/drift/top_list_order.h"
#include "kcc/drift/unlisted_tokens.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// A token of K: p is the full side's, q the list's.
struct KnownPair {
  Interval p;
  Interval q;
};

class DivergenceEnds {
 public:
  DivergenceEnds(const FullRow& row, const SideView& list, UnlistedTokens* unlisted)
      : unlisted_(*unlisted), error_(kListSumError + row.error()) {
    for (const Known& token : list.known) known_.push_back({row.BoxOf(token.id), token.p});
    rest_ = list.rest;
  }

  double Least(Term term) const {
    double sum = unlisted_.Least(term);
    for (const KnownPair& token : known_) sum += AtNearest(term, token.p, token.q);
    return std::max(0.0, sum * (1 - error_));
  }

  double Most(Term term) {
    double sum = unlisted_.Most(term);
    for (const KnownPair& token : known_) sum += AtFarthest(term, token.p, token.q);
    return sum * (1 + error_);
  }

  // Of divergences that are `most` less a sum of overlaps; both forms hold, and which one is the
  // better depends on what rounding the list's log-probs have.
  double MostByOverlap(Term term, double most, Term overlap) {
    double sum = unlisted_.LeastOverlap(overlap);
    for (const KnownPair& token : known_) sum += overlap(token.p.lo, token.q.lo);
    return std::clamp(most - sum * (1 - error_), 0.0, std::min(most, Most(term)));
  }

  // tv is what p has more than q, and what q has more than p. On U these are at least what is left
  // of either mass after min(p, cap).
  double LeastTv() const {
    double p_more =
        std::max(0.0, unlisted_.mass().lo - std::min(rest_.hi, unlisted_.capped_sum().hi));
    double q_more = std::max(0.0, rest_.lo - unlisted_.capped_sum().hi);
    for (const KnownPair& token : known_) {
      p_more += std::max(0.0, token.p.lo - token.q.hi);
      q_more += std::max(0.0, token.q.lo - token.p.hi);
    }
    return std::min(1.0, std::max(p_more, q_more) * (1 - error_));
  }

 private:
  UnlistedTokens& unlisted_;
  const double error_;
  Interval rest_;
  std::vector<KnownPair> known_;
};

// term(p, q), p the full side's: a divergence and its reverse change places with the sides.
void PublishDivergences(const RowAndList& pair, DivergenceEnds* sums, const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  const bool train = pair.full == Side::kTrain;
  const auto both_ends = [&](size_t slot, Term term) {
    if (publish.Wants(slot)) publish(slot, {sums->Least(term), sums->Most(term)});
  };
  both_ends(train ? slots.kl : slots.reverse_kl, &KlTerm);
  both_ends(train ? slots.reverse_kl : slots.kl, &ReverseKlTerm);
  both_ends(train ? slots.chi2 : slots.reverse_chi2, &Chi2Term);
  both_ends(train ? slots.reverse_chi2 : slots.chi2, &ReverseChi2Term);
  const auto with_overlap = [&](size_t slot, Term term, double most, Term overlap) {
    if (!publish.Wants(slot)) return;
    const double least = term == &TvTerm ? sums->LeastTv() : sums->Least(term);
    publish(slot, {least, std::max(least, sums->MostByOverlap(term, most, overlap))});
  };
  with_overlap(slots.tv, &TvTerm, 1, &TvOverlap);
  with_overlap(slots.hellinger, &HellingerTerm, 1, &HellingerOverlap);
  with_overlap(slots.js, &JsDivergenceTerm, kLn2, &JsOverlap);
}

// The differences log q - log p of the tokens that both sides allow: their extremes, and their
// distance from their mean.
struct LogRatioRange {
  double low_at_most = kInf;  // the least difference is at most this
  double high_at_least = -kInf;
  double low_end = kInf;  // where all tokens are known: no difference is below it
  double high_end = -kInf;
  double norm = 0;  // of the known ones, about their mean
  double norm_error = 0;
  bool one_sided = false;  // a token is impossible on one side only

  void AddKnown(double difference, double error) {
    low_at_most = std::min(low_at_most, difference + error);
    high_at_least = std::max(high_at_least, difference - error);
    low_end = std::min(low_end, difference - error);
    high_end = std::max(high_end, difference + error);
  }
};

LogRatioRange LogRatioRangeOf(const FullRow& row, const SideView& list) {
  LogRatioRange found;
  std::vector<double> known;
  double errors = 0;
  double sum = 0;
  for (const Known& token : list.known) {
    const double logprob = row.Logprob(token.id);
    const bool possible = logprob > -kInf;
    found.one_sided = found.one_sided || possible != (token.logprob > -kInf);
    if (!possible || token.logprob == -kInf) continue;
    // Both log-probs and their difference are rounded.
    const double error =
        token.error + row.error() + 0x1p-50 * (std::fabs(logprob) + std::fabs(token.logprob));
    found.AddKnown(token.logprob - logprob, error);
    known.push_back(token.logprob - logprob);
    errors += error * error;
    sum += known.back();
  }
  const double mean = known.empty() ? 0 : sum / static_cast<double>(known.size());
  double squares = 0;
  for (const double difference : known) squares += (difference - mean) * (difference - mean);
  found.norm = std::sqrt(squares);
  found.norm_error = std::sqrt(errors);
  return found;
}

// U says of the differences: the likeliest of its tokens is at most at the cap, the masses have a
// ratio that one token is not above and one not below.
void AddUnlisted(const UnlistedTokens& unlisted, const SideView& list, double error,
                 LogRatioRange* found) {
  if (unlisted.count() == 0 || unlisted.likeliest() == 0) return;
  // The list reaches probability 0, and the full side has something there.
  if (list.exhausted) {
    found->one_sided = true;
    return;
  }
  const double at_cap = Log(list.cap) - Log(unlisted.likeliest());
  const double of_masses = Log(list.rest.hi) - Log(unlisted.mass().lo);
  found->low_at_most = std::min({found->low_at_most, at_cap + error, of_masses + error});
  found->high_at_least =
      std::max(found->high_at_least, Log(unlisted.ratio_most_at_least()) - error);
}

void PublishDistances(const RowAndList& pair, const FullRow& row, const SideView& list,
                      const UnlistedTokens& unlisted, const Publisher& publish) {
  const ListSlots& slots = ListSlotsOf();
  LogRatioRange found = LogRatioRangeOf(row, list);
  const bool complete = unlisted.count() == 0 || (list.exhausted && unlisted.mass().hi == 0);
  AddUnlisted(unlisted, list, row.error() + 1e-12, &found);
  const double least =
      found.one_sided ? kInf : std::max(0.0, found.high_at_least - found.low_at_most);
  const bool bounded = complete && !found.one_sided;
  const double most = bounded ? found.high_end - found.low_end : kInf;
  publish(slots.logit_span, {least, most});
  publish(slots.logit_linf, {0.5 * least * pair.temperature, 0.5 * most * pair.temperature});
  // Two tokens that far apart, or all that are known: about their own mean they are closest.
  const double by_span = least / std::sqrt(2.0);
  const double by_known = found.norm - found.norm_error;
  publish(
      slots.logit_l2,
      {std::max(by_span, by_known) * pair.temperature * (1 - kListSumError),
       bounded ? (found.norm + found.norm_error) * pair.temperature * (1 + kListSumError) : kInf});
}

// The side with logits wrote no log-prob. Where the one computed here and the other side's are as
// close as their rounding, two equal kernels are as likely as two that differ, and every quantity
// reaches from what was computed to what equal ones have: whether it is 0 is not known.
void AllowEqual(const SampledToken& token, const SlotSet& wanted, TokenDrift* out) {
  TokenDrift equal;
  PublishSampledToken({token.train_logprob, token.train_logprob, 0}, wanted, &equal);
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (!wanted[slot] || !equal.known[slot]) continue;
    out->SetInterval(slot, std::min(out->lo[slot], equal.lo[slot]),
                     std::max(out->hi[slot], equal.hi[slot]));
  }
}

Result<> PublishToken(const RowAndList& pair, const FullRow& row, const SideView& list,
                      const SlotSet& wanted, TokenDrift* out) {
  const ListSlots& slots = ListSlotsOf();
  const Publisher publish(wanted, out);
  const bool train = pair.full == Side::kTrain;
  publish(train ? slots.train_rank : slots.rank, row.RankOf(pair.token));
  publish(train ? slots.rank : slots.train_rank, RankInterval(list, pair.token, pair.vocab));
  const Known* const listed = FindKnown(list, pair.token);
  if (listed == nullptr) return {};
  double train_logprob = row.Logprob(pair.token);
  double infer_logprob = listed->logprob;
  if (!train) std::swap(train_logprob, infer_logprob);
  KCC_TRY(const SampledToken token, SampledTokenFromLogprobs(train_logprob, infer_logprob));
  const SlotSet compared = wanted & ~LogprobBitSlots();
  PublishSampledToken(token, compared, out);
  const double rounding = listed->error + row.error() + 0x1p-50 * std::fabs(train_logprob);
  if (token.log_ratio != 0 && std::isfinite(token.log_ratio) &&
      std::fabs(token.log_ratio) <= rounding) {
    AllowEqual(token, compared, out);
  }
  return {};
}

// The list as the one side of a pair that top_list_view.h reads.
TopListPair AsListPair(const RowAndList& pair) {
  TopListPair lists;
  const bool train = pair.full == Side::kTrain;
  (train ? lists.infer : lists.train) = pair.list;
  (train ? lists.infer_logprob : lists.train_logprob) = pair.list_logprob;
  lists.vocab = pair.vocab;
  lists.temperature = pair.temperature;
  lists.rounding = pair.rounding;
  lists.token = pair.token;
  return lists;
}

Result<> CheckLogits(const RowAndList& pair) {
  RowPair row;
  row.train = row.infer = pair.logits;
  row.train_dtype = row.infer_dtype = pair.dtype;
  row.vocab = pair.vocab;
  row.temperature = pair.logit_divisor;
  row.token = pair.token;
  return CheckRowPair(row);
}

}  // namespace

RowAndListMeter::RowAndListMeter() : row_(std::make_unique<FullRow>()) {}
RowAndListMeter::~RowAndListMeter() = default;
RowAndListMeter::RowAndListMeter(RowAndListMeter&&) noexcept = default;
RowAndListMeter& RowAndListMeter::operator=(RowAndListMeter&&) noexcept = default;

Result<> RowAndListMeter::Measure(const RowAndList& pair, const SlotSet& wanted, TokenDrift* out) {
  KCC_TRY_VOID(CheckLogits(pair));
  const TopListPair lists = AsListPair(pair);
  KCC_TRY_VOID(CheckTopListPair(lists));
  const bool train = pair.full == Side::kTrain;
  KCC_TRY(const SideView list, ViewOf(lists, train ? Side::kInfer : Side::kTrain));
  FullRow& row = *row_;
  KCC_TRY_VOID(
      row.Read(pair.logits, pair.dtype, pair.vocab, pair.logit_divisor, train ? "train" : "infer"));
  const Publisher publish(wanted, out);
  UnlistedTokens unlisted(row, list);
  DivergenceEnds sums(row, list, &unlisted);
  PublishDivergences(pair, &sums, publish);
  PublishDistances(pair, row, list, unlisted, publish);

  const double margin = row.top().Margin() * pair.temperature / pair.logit_divisor;
  const SideValues of_row{{row.entropy(), row.entropy()}, {margin, margin}};
  const SideValues of_list{EntropyInterval(list, pair.vocab),
                           MarginInterval(list, pair.temperature)};
  PublishSides(train ? of_row : of_list, train ? of_list : of_row, publish);
  const SideView first = row.FirstTokens();
  const ListSlots& slots = ListSlotsOf();
  for (const auto& [slot, k] : {std::pair(slots.top1_overlap, size_t{1}),
                                {slots.top5_overlap, size_t{5}},
                                {slots.top10_overlap, size_t{10}}}) {
    publish(slot, OverlapInterval(first, list, k, pair.vocab));
  }
  if (pair.token < 0) return {};
  return PublishToken(pair, row, list, wanted, out);
}

}  // namespace kcc
