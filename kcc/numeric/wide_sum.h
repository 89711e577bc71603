// Exact sums of positive numbers of any size, and totals of them: sequences' ratios and their
// squares, which a double cannot hold.
//
// The numbers are sorted by their exponent into blocks of 512 bits, on a grid that no data moves.
// Of each block the sum is exact (ExactSum, in units of the block); the topmost block in use and
// the next are kept, all below are dropped, each number of them less than 2^-511 of the largest
// seen. Which block a number falls into is its own affair, and which blocks are kept is decided by
// the largest number alone: the same numbers leave the same state in any order, from any shards.
// A scale that followed the data instead would round what came before it.
#pragma once

#include <array>
#include <cstdint>

#include "kcc/numeric/exact_sum.h"
#include "kcc/numeric/wide_double.h"

namespace kcc {

class WideSum {
 public:
  static constexpr int kBlockBits = 512;

  // Add mantissa * 2^exponent and its square, exactly. The mantissa is positive, normal, finite.
  void Add(double mantissa, int64_t exponent);
  void AddSquare(double mantissa, int64_t exponent);
  void Merge(const WideSum& other);

  bool empty() const { return top_.first() > top_.last(); }
  // The sum is top 2^(512 block) + below 2^(512 (block - 1)) and what was dropped.
  int64_t block() const { return block_; }
  const ExactSum& top() const { return top_; }
  const ExactSum& below() const { return below_; }
  // False for what no additions leave behind.
  bool Restore(int64_t block, const ExactSum& top, const ExactSum& below);

  // floor(log2) of the sum; far below every other for an empty one.
  int64_t LeadingExponent() const;

 private:
  // Where numbers of a block go; null: nowhere any more.
  ExactSum* At(int64_t block);

  int64_t block_ = 0;
  ExactSum top_, below_;
};

// A total of sums at different scales, in units of 2^unit: of each part the leading 161 bits.
// Precondition: each part is below 2^900 units.
class WideTotal {
 public:
  explicit WideTotal(int64_t unit) : unit_(unit) {}

  // factor: +-2^k.
  void Add(const WideSum& sum, double factor = 1);
  void Add(const ExactSum& sum, double factor = 1, int64_t exponent = 0);
  void Add(double value, int64_t exponent = 0);

  WideDouble Value() const { return {sum_.Round(), unit_}; }
  const ExactSum& sum() const { return sum_; }
  int64_t unit() const { return unit_; }

 private:
  int64_t unit_;
  ExactSum sum_;
};

// count * squares - sum^2 >= 0 for a sum and a sum of squares of `count` numbers: count^2 times
// their variance, without cancellation. Precondition: the unit of `squares` is twice the other's.
WideDouble SpreadOf(uint64_t count, const WideTotal& sum, const WideTotal& squares);

// Rounded as Round() does, and beyond double's range too.
WideDouble WideRound(const ExactSum& sum);

}  // namespace kcc
