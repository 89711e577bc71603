// The exact statistics of one stream of values: counts, sums, extremes, a histogram, and for each
// declared threshold how many values lie above, at and below it. Everything is additive.
//
// Thresholds are the plan's, sorted and distinct; they are passed in, not held, since hundreds of
// streams share them. +-inf are values (a quantity that overflowed): they are counted, compared and
// shown in the histogram, but never enter the sums. NaN is not a value and must not come here.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/metric/catalog.h"
#include "kcc/numeric/exact_sum.h"
#include "kcc/summary/archive.h"
#include "kcc/summary/histogram.h"

namespace kcc {

using Thresholds = std::span<const double>;

// How many values lie below, at and above one threshold.
struct Split {
  uint64_t below = 0;
  uint64_t at = 0;
  uint64_t above = 0;

  bool operator==(const Split&) const = default;
};

// The part of the statistics that is also needed for each request alone.
struct Tally {
  uint64_t count = 0;  // of all values, infinite ones included
  uint64_t zeros = 0;
  uint64_t plus_infinite = 0;
  uint64_t minus_infinite = 0;
  ExactSum sum;  // of the finite values
  // 2k + 1 counts: below the first threshold, at it, between it and the second, …
  std::vector<uint64_t> intervals;

  void Add(double value, Thresholds thresholds) {
    ++count;
    zeros += value == 0 ? 1 : 0;
    if (std::isfinite(value)) {
      sum.Add(value);
    } else {
      ++(value > 0 ? plus_infinite : minus_infinite);
    }
    if (!thresholds.empty()) AddToInterval(value, thresholds);
  }
  void AddAll(std::span<const double> values, Thresholds thresholds);
  void Merge(const Tally& other);
  void Clear();
  uint64_t finite() const { return count - plus_infinite - minus_infinite; }
  Split SplitAt(size_t threshold) const;
  // The sum over all values, rounded once; +-inf if such values occurred (NaN if both did).
  double Sum() const;
  double Mean() const { return Sum() / static_cast<double>(count); }
  // The sign of mean - threshold, the mean being the exact one rounded once to a double: 9 ones of
  // 10 are at least 0.9, though the double 0.9 lies above nine tenths. Infinite values outweigh
  // finite ones; NaN-like where both kinds occur, so ask Sum() first.
  int CompareMean(double threshold) const { return CompareMean(threshold, Mean()); }
  int CompareMean(double threshold, double mean) const;  // where Mean() is at hand
  // The same for the share of non-zero values.
  int CompareRate(double threshold) const;

  void Visit(Archive& archive, size_t thresholds);

 private:
  void AddToInterval(double value, Thresholds thresholds);
};

// What a few values add to several streams.
struct Shape {
  ExactProductSum squares;  // of the finite values
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void Assign(std::span<const double> values);
  void Merge(const Shape& other);
  void Clear();
};

struct Moments {
  Tally tally;
  ExactProductSum squares;  // of the finite values
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  Histogram histogram;

  void Add(double value, Thresholds thresholds) {
    tally.Add(value, thresholds);
    AddShape(value);
  }
  // Everything but the tally, which the caller adds later for a whole request.
  void AddShape(double value) {
    if (std::isfinite(value)) squares.AddProduct(value, value);
    min = value < min ? value : min;
    max = value > max ? value : max;
    histogram.Add(value);
  }
  // The same for many that are summed already, with the numbers of their buckets. Precondition: the
  // histogram's index is shared.
  void AddShapes(const Shape& shape, std::span<const uint32_t> numbers);
  void Merge(const Moments& other);
  void Clear();  // keeps the room, for values of any series
  bool empty() const { return tally.count == 0; }

  // The type-1 quantile (docs/math.md C.1) lies in this bucket. Precondition: not empty; 0 < ppm.
  Histogram::Bucket QuantileBucket(int percentile_ppm) const;

  void Visit(Archive& archive, size_t thresholds);
};

// One of the worst values, and where it occurred.
struct WorstValue {
  double value = 0;
  std::string request;
  int32_t position = -1;  // -1 and -1 for a request quantity
  int32_t token = -1;

  bool operator==(const WorstValue&) const = default;
};

// Where the values of a request's tokens occurred.
struct TokenPlace {
  int32_t position = -1;
  int32_t token = -1;
};

// The worst kLimit values in the bad direction, then by request id, position and token. A value as
// good as can be is never listed.
class WorstList {
 public:
  static constexpr size_t kLimit = 16;

  // Larger is worse: the value, its negative where higher is better, its magnitude where signed.
  static double Badness(Direction direction, double value);

  void Offer(const Quantity& quantity, double value, std::string_view request, int32_t position,
             int32_t token) {
    const double badness = Badness(quantity.direction, value);
    if (full() && badness < floor_) return;
    Insert(quantity, badness, value, request, position, token);
  }
  // The same for many tokens of one request, at most kOfferMax.
  void OfferAll(const Quantity& quantity, std::span<const double> values, std::string_view request,
                std::span<const TokenPlace> places);
  static constexpr size_t kOfferMax = 128;
  void Merge(const Quantity& quantity, const WorstList& other);
  // The order of the list.
  static bool Worse(const Quantity& quantity, const WorstValue& a, const WorstValue& b);
  // False if the list is full of worse ones.
  bool Takes(const Quantity& quantity, const WorstValue& row) const {
    return !full() || (!(Badness(quantity.direction, row.value) < floor_) &&
                       !Worse(quantity, values_.back(), row));
  }
  const std::vector<WorstValue>& values() const { return values_; }
  bool operator==(const WorstList& other) const { return values_ == other.values_; }
  void Visit(Archive& archive, const Quantity& quantity);

 private:
  bool full() const { return values_.size() == kLimit; }
  // The badness of a value as good as can be.
  static double Best(const Quantity& quantity);
  void Insert(const Quantity& quantity, double badness, double value, std::string_view request,
              int32_t position, int32_t token);

  std::vector<WorstValue> values_;
  double floor_ = 0;  // badness of the last value
};

// A stream of values that may each be known as an interval (top-k evidence). Exact values go to
// `point`; the two ends of the others to ends[0] (low) and ends[1] (high). So the stream of low
// ends is point + ends[0], that of high ends point + ends[1].
struct SeriesStats {
  Moments point;
  std::vector<Moments> ends;  // none or two
  uint64_t missing = 0;       // values that the evidence does not hold
  WorstList worst;

  void Add(double lo, double hi, Thresholds thresholds);
  void Merge(const SeriesStats& other, const Quantity& quantity);
  std::vector<Moments>& Ends();

  enum class End : uint8_t { kLow, kHigh };
  // The stream of one end as a whole: a merged copy where there are intervals.
  Moments Stream(End end) const;
  bool exact() const { return ends.empty(); }
  uint64_t count() const { return point.tally.count + (exact() ? 0 : ends[0].tally.count); }
  bool empty() const { return count() == 0 && missing == 0; }

  void Visit(Archive& archive, size_t thresholds, const Quantity& quantity);
};

}  // namespace kcc
