// A group is a run of equal log-probs in a list. Token i of a group that starts at place `begin`
// comes after those listed before it with a lower id, whatever the logits; at most it comes after
// all that are listed before it, those listed after it with a lower id, and, in the last group, the
// unlisted tokens of lower id that may tie. Both extremes occur: in the first the logits of the
// group are equal up to i and lower beyond it, in the second higher before i and equal from it on.
#include "kcc/drift/top_list_order.h"

#include <algorithm>
#include <cmath>

namespace kcc {
namespace {

struct Group {
  size_t begin = 0;
  size_t end = 0;
};

Group GroupAt(const std::vector<Known>& ranked, size_t place) {
  Group group{place, place + 1};
  const double logprob = ranked[place].logprob;
  while (group.begin > 0 && ranked[group.begin - 1].logprob == logprob) --group.begin;
  while (group.end < ranked.size() && ranked[group.end].logprob == logprob) ++group.end;
  return group;
}

size_t CountBelow(const std::vector<Known>& ranked, size_t begin, size_t end, int32_t id) {
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) count += ranked[i].id < id ? 1 : 0;
  return count;
}

// Unlisted tokens that may come before a token of this id in the last group.
size_t UnlistedAhead(const SideView& side, int32_t id) {
  if (side.ties_beyond == 0) return 0;
  const size_t listed = CountBelow(side.ranked, 0, side.ranked.size(), id);
  return std::min(side.ties_beyond, static_cast<size_t>(id) - listed);
}

size_t LeastRank(const SideView& side, const Group& group, size_t place) {
  return group.begin + CountBelow(side.ranked, group.begin, place, side.ranked[place].id);
}

size_t MostRank(const SideView& side, const Group& group, size_t place) {
  const int32_t id = side.ranked[place].id;
  const bool last = group.end == side.ranked.size();
  return place + CountBelow(side.ranked, place + 1, group.end, id) +
         (last ? UnlistedAhead(side, id) : 0);
}

// The first k tokens of a row: `sure` is among them, and of the others only `maybe` and unlisted
// tokens below an id can be. They are k, or fewer where the row has no more that can occur.
struct FirstTokens {
  std::vector<int32_t> sure;
  std::vector<int32_t> maybe;  // sorted
  int32_t unlisted_below = 0;
  size_t least = 0;  // how many they are
  size_t most = 0;
};

// The tokens of the group where the cut falls, which are neither all in nor all out.
void CutGroup(const SideView& side, const Group& group, size_t k, FirstTokens* first) {
  std::vector<int32_t> lowest;  // the lowest ids so far, as many as there are places
  const size_t places = k - group.begin;
  for (size_t i = group.begin; i < group.end; ++i) {
    const int32_t id = side.ranked[i].id;
    const auto at = std::lower_bound(lowest.begin(), lowest.end(), id);
    const auto before = static_cast<size_t>(at - lowest.begin());  // at least so many come first
    if (before >= places) continue;
    lowest.insert(at, id);
    if (lowest.size() > places) lowest.pop_back();
    const bool sure = i < k && MostRank(side, group, i) < k;
    (sure ? first->sure : first->maybe).push_back(id);
  }
  std::sort(first->maybe.begin(), first->maybe.end());
  const bool last = group.end == side.ranked.size();
  if (last && side.ties_beyond > 0 && k <= group.end) first->unlisted_below = lowest.back();
}

FirstTokens First(const SideView& side, size_t k, size_t vocab) {
  FirstTokens first;
  const auto& ranked = side.ranked;
  const Group group = GroupAt(ranked, std::min(k, ranked.size()) - 1);
  const bool open = group.end == ranked.size() && side.ties_beyond > 0;
  const size_t decided = k < group.end || open ? group.begin : group.end;
  for (size_t i = 0; i < decided; ++i) first.sure.push_back(ranked[i].id);
  if (decided < group.end) CutGroup(side, group, k, &first);
  first.least = first.most = k;
  if (k <= ranked.size()) return first;
  if (!side.exhausted) first.unlisted_below = static_cast<int32_t>(vocab);
  // Tokens that can occur: the listed ones, and as many as the unlisted mass needs.
  const double more = side.rest.lo > 0 ? std::ceil(side.rest.lo / side.cap * (1 - 1e-9)) : 0;
  first.least =
      more < static_cast<double>(k) ? std::min(k, ranked.size() + static_cast<size_t>(more)) : k;
  if (side.exhausted) first.most = first.least = ranked.size();
  return first;
}

bool Lists(const SideView& side, int32_t id) {
  const auto at = std::lower_bound(side.known.begin(), side.known.end(), id,
                                   [](const Known& known, int32_t of) { return known.id < of; });
  return at != side.known.end() && at->id == id && id != side.unlisted;
}

enum Part { kOut, kMaybe, kSure };

// How many tokens are in which part of p's and of q's first.
class Parts {
 public:
  Parts(const SideView& p, const SideView& q, const FirstTokens& a, const FirstTokens& b) {
    std::vector<int32_t> ids;
    for (const auto* tokens : {&a.sure, &a.maybe, &b.sure, &b.maybe}) {
      ids.insert(ids.end(), tokens->begin(), tokens->end());
    }
    const bool open = a.unlisted_below > 0 || b.unlisted_below > 0;
    if (open) {
      for (const SideView* side : {&p, &q}) {
        for (const Known& token : side->ranked) ids.push_back(token.id);
      }
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const int32_t id : ids) ++count_[PartOf(p, a, id)][PartOf(q, b, id)];
    if (!open) return;
    // Tokens that neither list holds.
    const auto below = [&](int32_t id) {
      return static_cast<size_t>(id) -
             static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
    };
    const size_t in_p = below(a.unlisted_below);
    const size_t in_q = below(b.unlisted_below);
    const size_t in_both = std::min(in_p, in_q);
    count_[kMaybe][kMaybe] += in_both;
    count_[kMaybe][kOut] += in_p - in_both;
    count_[kOut][kMaybe] += in_q - in_both;
  }

  // How many are shared, if each side adds so many of its choice to what it surely has. Fewest:
  // first what the other side does not have, then what it may have, then what it surely has.
  size_t Least(size_t choose_p, size_t choose_q) const {
    const size_t common = count_[kMaybe][kMaybe];
    const auto beyond = [](size_t x, size_t y) { return x > y ? x - y : 0; };
    const size_t p = beyond(choose_p, count_[kMaybe][kOut]);  // of the common ones, then the sure
    const size_t q = beyond(choose_q, count_[kOut][kMaybe]);
    return count_[kSure][kSure] + beyond(p, common) + beyond(q, common) +
           beyond(std::min(p, common) + std::min(q, common), common);
  }
  size_t Most(size_t choose_p, size_t choose_q) const {
    const size_t p = std::min(choose_p, count_[kMaybe][kSure]);
    const size_t q = std::min(choose_q, count_[kSure][kMaybe]);
    return count_[kSure][kSure] + p + q +
           std::min({choose_p - p, choose_q - q, count_[kMaybe][kMaybe]});
  }

 private:
  static Part PartOf(const SideView& side, const FirstTokens& first, int32_t id) {
    const auto& sure = first.sure;
    if (std::find(sure.begin(), sure.end(), id) != sure.end()) return kSure;
    if (std::binary_search(first.maybe.begin(), first.maybe.end(), id)) return kMaybe;
    return id < first.unlisted_below && !Lists(side, id) ? kMaybe : kOut;
  }

  size_t count_[3][3] = {};
};

}  // namespace

Interval OverlapInterval(const SideView& p, const SideView& q, size_t k_asked, size_t vocab) {
  const size_t k = std::min(k_asked, vocab);
  const FirstTokens a = First(p, k, vocab);
  const FirstTokens b = First(q, k, vocab);
  const Parts parts(p, q, a, b);
  const auto choose = [](const FirstTokens& first, size_t size) {
    return size - std::min(size, first.sure.size());
  };
  // Where a row may hold fewer than k tokens, the larger number of both stands for k.
  Interval overlap{1, 0};
  for (size_t of = std::max(a.least, b.least); of <= std::max(a.most, b.most); ++of) {
    // One of the two has exactly so many.
    size_t least = of;
    if (a.most >= of) least = std::min(least, parts.Least(choose(a, of), choose(b, b.least)));
    if (b.most >= of) least = std::min(least, parts.Least(choose(a, a.least), choose(b, of)));
    const size_t most =
        parts.Most(choose(a, std::min(of, a.most)), choose(b, std::min(of, b.most)));
    const auto size = static_cast<double>(of);
    overlap.lo = std::min(overlap.lo, static_cast<double>(least) / size);
    overlap.hi = std::max(overlap.hi, static_cast<double>(std::min(most, of)) / size);
  }
  return overlap;
}

Interval RankInterval(const SideView& side, int32_t token, size_t vocab) {
  const auto& ranked = side.ranked;
  const auto interval = [](size_t lo, size_t hi) {
    return Interval{static_cast<double>(lo), static_cast<double>(hi)};
  };
  const auto at = std::find_if(ranked.begin(), ranked.end(),
                               [&](const Known& known) { return known.id == token; });
  if (at != ranked.end()) {
    const auto place = static_cast<size_t>(at - ranked.begin());
    const Group group = GroupAt(ranked, place);
    return interval(LeastRank(side, group, place), MostRank(side, group, place));
  }
  const auto known = std::lower_bound(side.known.begin(), side.known.end(), token,
                                      [](const Known& a, int32_t id) { return a.id < id; });
  const bool is_known = known != side.known.end() && known->id == token;
  const bool may_tie = side.ties_beyond > 0 && (!is_known || known->p.hi >= ranked.back().p.lo);
  if (!may_tie) return interval(ranked.size(), vocab - 1);
  const Group last = GroupAt(ranked, ranked.size() - 1);
  return interval(last.begin + CountBelow(ranked, last.begin, last.end, token), vocab - 1);
}

}  // namespace kcc
