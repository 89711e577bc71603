// The tokens that a list leaves out, against the other side's exact probabilities of them: the
// least and the most that they can add to a divergence. Internal to row_and_list.cc.
//
// p_i is known for each of them; of q_i it is known that 0 <= q_i <= cap and that they add up to a
// mass in `rest`. Every divergence is a sum of p phi(q/p) with convex phi, and one q is the closest
// to p, and one the farthest, for all of them at once (docs/math.md B.3b):
//   closest    q = p/r, but no more than the cap, r such that the mass is right
//   farthest   q = cap on the least likely of the tokens, as far as the mass lasts, and else 0
#pragma once

#include <vector>

#include "kcc/drift/divergence_terms.h"
#include "kcc/drift/full_row.h"

namespace kcc {

class UnlistedTokens {
 public:
  // What the list side does not know. `row` outlives this.
  UnlistedTokens(const FullRow& row, const SideView& list);

  size_t count() const { return count_; }
  const Interval& mass() const { return mass_; }              // of p
  const Interval& capped_sum() const { return capped_sum_; }  // of min(p, cap)
  double likeliest() const { return likeliest_; }             // the largest p
  // max over the tokens of q/p is at least this; +inf: one of them has p = 0 and q > 0.
  double ratio_most_at_least() const;

  // The least sum of the terms, and the most.
  double Least(Term term) const;
  double Most(Term term);
  // The least sum of overlaps.
  double LeastOverlap(Term overlap);

 private:
  void FindCapped();
  void SortFarthest();

  const FullRow& row_;
  Interval rest_;
  double cap_ = 0;
  size_t count_ = 0;
  Interval mass_;
  Interval capped_sum_;
  double likeliest_ = 0;
  std::vector<double> p_;         // in no order
  std::vector<double> capped_;    // of them, those that the closest q caps
  Interval others_;               // mass of those it does not
  std::vector<double> farthest_;  // the least likely, rising: as many as can be at the cap, and one
  bool sorted_ = false;
};

}  // namespace kcc
