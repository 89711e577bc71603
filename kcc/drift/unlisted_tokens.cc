#include "kcc/drift/unlisted_tokens.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"

namespace kcc {
namespace {

// A token is taken as capped only where it is so by this share: rounding must not turn the sign of
// a derivative.
constexpr double kCappedMargin = 1e-9;

}  // namespace

UnlistedTokens::UnlistedTokens(const FullRow& row, const SideView& list)
    : row_(row), rest_(list.rest), cap_(list.cap), count_(row.vocab() - list.known.size()) {
  p_.reserve(count_);
  double sum = 0;
  double capped = 0;
  auto known = list.known.begin();
  for (size_t i = 0; i < row.vocab(); ++i) {
    if (known != list.known.end() && static_cast<size_t>(known->id) == i) {
      ++known;
      continue;
    }
    const double p = row.probabilities()[i];
    p_.push_back(p);
    sum += p;
    capped += std::min(p, cap_);
    likeliest_ = std::max(likeliest_, p);
  }
  mass_ = row.SumBox(sum);
  capped_sum_ = row.SumBox(capped);
  FindCapped();
}

// Newton's method on the mass that min(cap, p/r) adds up to, which is concave in 1/r: r falls from
// step to step, so that a token once capped stays so, and Least() holds after every step.
void UnlistedTokens::FindCapped() {
  auto free = p_.end();
  double sum = 0.5 * (mass_.lo + mass_.hi);
  while (sum > 0) {
    const double taken = cap_ * static_cast<double>(capped_.size());
    const double left = std::clamp(sum, rest_.lo - taken, rest_.hi - taken);
    // An end of `rest` less what is taken may have lost its digits; r is 1 where no end is met.
    const double known = left < sum ? rest_.hi : left > sum ? rest_.lo : 0;
    if (!(left > 1e-6 * known)) break;
    const double most = cap_ * (sum / left) * (1 + kCappedMargin);
    const auto end = std::partition(p_.begin(), free, [&](double p) { return p <= most; });
    if (end == free) break;
    capped_.insert(capped_.end(), end, free);
    free = end;
    sum = 0;
    for (auto p = p_.begin(); p != free; ++p) sum += *p;
  }
  others_ = row_.SumBox(sum);
}

double UnlistedTokens::Least(Term term) const {
  double sum = 0;
  for (const double p : capped_) sum += AtNearest(term, row_.Box(p), {cap_, cap_});
  const double taken = cap_ * static_cast<double>(capped_.size());
  return sum + AtNearest(term, others_,
                         {std::max(0.0, rest_.lo - taken), std::max(0.0, rest_.hi - taken)});
}

double UnlistedTokens::ratio_most_at_least() const {
  const double left = rest_.lo - cap_ * static_cast<double>(capped_.size());
  return left > 0 ? left / others_.hi : 0;
}

void UnlistedTokens::SortFarthest() {
  if (sorted_) return;
  sorted_ = true;
  size_t places = 0;
  if (cap_ > 0) {
    const double most = rest_.hi / cap_ + 2;
    places = most < static_cast<double>(count_) ? static_cast<size_t>(most) : count_;
  }
  farthest_ = p_;
  const auto end = farthest_.begin() + static_cast<std::ptrdiff_t>(places);
  if (places < count_) std::nth_element(farthest_.begin(), end, farthest_.end());
  farthest_.resize(places);
  std::sort(farthest_.begin(), farthest_.end());
}

// The mass may be anything in `rest`. Of a fixed one the most is attained with tokens full up to
// one; as the mass grows, that one runs through a convex term, so that the ends of `rest` and the
// masses that fill a token count.
double UnlistedTokens::Most(Term term) {
  if (count_ == 0) return 0;
  SortFarthest();
  const double of_empty = term(1, 0);  // term(p, 0) = p term(1, 0)
  if (of_empty == kInf && mass_.hi > 0) return kInf;
  const auto empty = [&](double p) { return p == 0 ? 0 : p * of_empty; };
  double most = 0;
  double full = 0;         // terms of the tokens at the cap
  double left = mass_.hi;  // of the tokens after them
  double at = 0;           // the mass at the caps
  const auto offer = [&](double value) { most = std::max(most, value); };
  if (rest_.lo == 0) offer(empty(left));
  for (const double p : farthest_) {
    const double next = at + cap_;
    const Interval box = row_.Box(p);
    const double after = std::max(0.0, left - box.lo);
    for (const double mass : {rest_.lo, rest_.hi, next}) {
      if (mass < at || mass > next || mass < rest_.lo || mass > rest_.hi) continue;
      const double q = mass - at;
      offer(full + AtFarthest(term, box, {q, q}) + empty(after));
    }
    full += AtFarthest(term, box, {cap_, cap_});
    left = after;
    at = next;
    if (at > rest_.hi) break;
  }
  // The list says of more mass than its cap allows: what it says is taken as far as it goes.
  if (at < rest_.lo) offer(full + empty(left));
  return most;
}

double UnlistedTokens::LeastOverlap(Term overlap) {
  if (count_ == 0) return 0;
  SortFarthest();
  double sum = 0;
  double left = rest_.lo;
  for (const double p : farthest_) {
    if (!(left > 0)) break;
    sum += overlap(row_.Box(p).lo, std::min(left, cap_));
    left -= cap_;
  }
  return sum;
}

}  // namespace kcc
