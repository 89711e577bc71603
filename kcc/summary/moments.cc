#include "kcc/summary/moments.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "kcc/base/check.h"

namespace kcc {

namespace {

// How many thresholds are less. Without a branch: the outcome is what a predictor cannot know.
size_t LessThan(Thresholds thresholds, double value) {
  const double* from = thresholds.data();
  for (size_t left = thresholds.size(); left > 1;) {
    const size_t half = left / 2;
    from += from[half - 1] < value ? half : 0;
    left -= half;
  }
  return static_cast<size_t>(from - thresholds.data()) + (*from < value ? 1 : 0);
}

}  // namespace

// intervals has 2 n + 1 counters for thresholds t0 < t1 < …: below t0, equal to t0, between t0 and
// t1, equal to t1, …, above the last. Values at a threshold are counted apart, since "at most" and
// "at least" both hold there. Example, thresholds 1 and 2: the values 0.5, 1, 1.5, 1.5 and 3 give 1
// 1 2 0 1.
void Tally::AddToInterval(double value, Thresholds thresholds) {
  if (intervals.empty()) intervals.resize(2 * thresholds.size() + 1);
  const size_t next = LessThan(thresholds, value);
  const bool at = next < thresholds.size() && thresholds[next] == value;
  ++intervals[2 * next + (at ? 1 : 0)];
}

void Tally::AddAll(std::span<const double> values, Thresholds thresholds) {
  for (const double value : values) Add(value, thresholds);
}

void Tally::Merge(const Tally& other) {
  if (other.count == 0) return;
  count += other.count;
  zeros += other.zeros;
  plus_infinite += other.plus_infinite;
  minus_infinite += other.minus_infinite;
  sum.Merge(other.sum);
  if (other.intervals.empty()) return;
  if (intervals.empty()) intervals.resize(other.intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) intervals[i] += other.intervals[i];
}

void Tally::Clear() {
  count = zeros = plus_infinite = minus_infinite = 0;
  sum.Clear();
  std::fill(intervals.begin(), intervals.end(), 0);
}

Split Tally::SplitAt(size_t threshold) const {
  Split split;
  const size_t at = 2 * threshold + 1;
  for (size_t i = 0; i < intervals.size(); ++i) {
    (i < at ? split.below : i == at ? split.at : split.above) += intervals[i];
  }
  return split;
}

double Tally::Sum() const {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (plus_infinite != 0 && minus_infinite != 0) return std::numeric_limits<double>::quiet_NaN();
  if (plus_infinite != 0) return kInf;
  if (minus_infinite != 0) return -kInf;
  return sum.Round();
}

// A clause is decided by the mean as it would be printed: the exact sum over the count, rounded
// once. The exact comparison costs far more than a subtraction, and is needed only where the two
// are next to each other.
int Tally::CompareMean(double threshold, double mean) const {
  if (plus_infinite != 0) return 1;
  if (minus_infinite != 0) return -1;
  // Two roundings move the mean by less than a part in 2^50: further off, the sign is sure.
  const double gap = mean - threshold;
  if (std::fabs(gap) > 0x1p-50 * std::fabs(mean) && std::fabs(mean) > 0x1p-900 &&
      std::isfinite(gap)) {
    return gap > 0 ? 1 : -1;
  }
  // A mean within half a unit in the last place of the threshold rounds to it.
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto beyond_half_unit = [&](double direction) {
    const double half = (std::nextafter(threshold, direction) - threshold) / 2;
    if (!std::isfinite(half)) return CompareToProduct(sum, threshold, count);
    ExactSum rest = sum;
    rest.Add(-half * static_cast<double>(count));
    return CompareToProduct(rest, threshold, count);
  };
  const int sign = CompareToProduct(sum, threshold, count);
  if (sign == 0 || beyond_half_unit(sign * kInf) != sign) return 0;
  return sign;
}

int Tally::CompareRate(double threshold) const {
  const double rate = static_cast<double>(count - zeros) / static_cast<double>(count);
  return (rate > threshold) - (rate < threshold);
}

void Tally::Visit(Archive& archive, size_t thresholds) {
  archive.U64(count);
  if (count == 0) return;
  archive.U64(zeros);
  archive.U64(plus_infinite);
  archive.U64(minus_infinite);
  archive.Sum(sum);
  if (thresholds == 0) return;
  if (intervals.empty()) intervals.resize(2 * thresholds + 1);
  uint64_t total = 0;
  for (uint64_t& interval : intervals) {
    archive.U64(interval);
    total += interval;
  }
  // The counts of a file that was changed by hand must not reach the judge as a verdict.
  const bool possible = plus_infinite <= count && minus_infinite <= count - plus_infinite &&
                        zeros <= count - plus_infinite - minus_infinite && total == count;
  if (archive.reading() && !possible) archive.Fail("counts that do not add up");
}

// What a run of values adds to a cell besides its counts. It is made once and merged into every
// cell that takes the run.
void Shape::Assign(std::span<const double> values) {
  squares.Clear();
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const double value : values) {
    if (std::isfinite(value)) squares.AddProduct(value, value);
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  min = least;
  max = most;
}

void Shape::Merge(const Shape& other) {
  squares.Merge(other.squares);
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

void Shape::Clear() {
  squares.Clear();
  min = std::numeric_limits<double>::infinity();
  max = -std::numeric_limits<double>::infinity();
}

void Moments::AddShapes(const Shape& shape, std::span<const uint32_t> numbers) {
  squares.Merge(shape.squares);
  min = std::min(min, shape.min);
  max = std::max(max, shape.max);
  histogram.AddNumbers(numbers);
}

void Moments::Merge(const Moments& other) {
  if (other.empty()) return;
  tally.Merge(other.tally);
  squares.Merge(other.squares);
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  histogram.Merge(other.histogram);
}

// The memory stays: a cleared Moments is filled again at once. Intervals go, since the next one may
// be of a series with other thresholds.
void Moments::Clear() {
  tally.Clear();
  tally.intervals.clear();
  squares.Clear();
  min = std::numeric_limits<double>::infinity();
  max = -std::numeric_limits<double>::infinity();
  histogram.Clear();
}

// Type-1 quantile: the value of rank ceil(n p), at least 1 (docs/math.md C.1), in integers, so that
// p99 of 100 values is the 99th and never the 100th by a rounding.
Histogram::Bucket Moments::QuantileBucket(int percentile_ppm) const {
  KCC_CHECK(!empty());
  using Wide = unsigned __int128;
  const Wide scaled = static_cast<Wide>(histogram.total()) * static_cast<unsigned>(percentile_ppm);
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>((scaled + 999999) / 1000000));
  uint64_t seen = 0;
  for (const auto& [bucket, count] : histogram.Entries()) {
    seen += count;
    if (seen >= rank) return bucket;
  }
  KCC_CHECK(false);
  return 0;
}

void Moments::Visit(Archive& archive, size_t thresholds) {
  tally.Visit(archive, thresholds);
  if (tally.count == 0) return;
  archive.Sum(squares);
  archive.Double(min);
  archive.Double(max);
  histogram.Visit(archive);
  if (!archive.reading() || !archive.ok()) return;
  if (histogram.total() != tally.count || !(min <= max)) archive.Fail("counts that do not add up");
}

double WorstList::Badness(Direction direction, double value) {
  switch (direction) {
    case Direction::kLowerIsBetter:
      return value;
    case Direction::kHigherIsBetter:
      return -value;
    case Direction::kSigned:
      break;
  }
  return std::fabs(value);
}

// A total order: two lists merged either way, or values offered in any order, keep the same 16.
bool WorstList::Worse(const Quantity& quantity, const WorstValue& a, const WorstValue& b) {
  const double first = Badness(quantity.direction, a.value);
  const double second = Badness(quantity.direction, b.value);
  if (first != second) return first > second;
  return std::tie(a.request, a.position, a.token, a.value) <
         std::tie(b.request, b.position, b.token, b.value);
}

// A value that could not be better is no worst value, even if there is no other.
double WorstList::Best(const Quantity& quantity) {
  return quantity.direction == Direction::kHigherIsBetter ? -quantity.max
         : quantity.direction == Direction::kSigned       ? 0
                                                          : quantity.min;
}

// The few that can stay are found first and come worst first, so that none has to make room.
void WorstList::OfferAll(const Quantity& quantity, std::span<const double> values,
                         std::string_view request, std::span<const TokenPlace> places) {
  struct Candidate {
    double badness;
    size_t at;
  };
  const bool is_signed = quantity.direction == Direction::kSigned;
  const double factor = quantity.direction == Direction::kHigherIsBetter ? -1 : 1;
  const auto badness_of = [&](double value) {
    return is_signed ? std::fabs(value) : factor * value;
  };
  const double best = Best(quantity);
  // Below the last of a full list nothing can enter, and most tokens are settled by that.
  const double floor = full() ? floor_ : best;
  double worst = best;
  for (const double value : values) worst = std::max(worst, badness_of(value));
  if (!(worst > best && worst >= floor)) return;
  // The last of a full list settles its equals of a later request.
  const bool equals = !full() || request <= values_.back().request;
  const auto worse = [&](const Candidate& a, const Candidate& b) {
    if (a.badness != b.badness) return a.badness > b.badness;
    return std::tie(places[a.at].position, places[a.at].token) <
           std::tie(places[b.at].position, places[b.at].token);
  };
  std::array<Candidate, kLimit> kept;  // worst first
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Candidate candidate{badness_of(values[i]), i};
    const double badness = candidate.badness;
    if (!(badness > best && (badness > floor || (equals && badness == floor)))) continue;
    if (count == kLimit && !worse(candidate, kept[kLimit - 1])) continue;
    size_t place = count < kLimit ? count++ : kLimit - 1;
    for (; place > 0 && worse(candidate, kept[place - 1]); --place) kept[place] = kept[place - 1];
    kept[place] = candidate;
  }
  if (values_.empty()) values_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const TokenPlace& place = places[kept[i].at];
    Offer(quantity, values[kept[i].at], request, place.position, place.token);
  }
}

void WorstList::Insert(const Quantity& quantity, double badness, double value,
                       std::string_view request, int32_t position, int32_t token) {
  if (badness <= Best(quantity)) return;
  const auto before = [&](const WorstValue& listed) {
    const double other = Badness(quantity.direction, listed.value);
    if (other != badness) return other > badness;
    if (listed.request != request) return listed.request < request;
    // The value last: two rows of one position may be as far from 0 on either side of it.
    return std::tie(listed.position, listed.token, listed.value) < std::tie(position, token, value);
  };
  // Equal values are common (a flip is a flip): the last of the list settles most of them.
  const bool last = values_.empty() || before(values_.back());
  if (full()) {
    if (last) return;
    values_.pop_back();
  }
  if (last) {
    values_.push_back({value, std::string(request), position, token});
  } else {
    const auto place = std::partition_point(values_.begin(), values_.end(), before);
    values_.insert(place, {value, std::string(request), position, token});
  }
  floor_ = Badness(quantity.direction, values_.back().value);
}

void WorstList::Merge(const Quantity& quantity, const WorstList& other) {
  for (const WorstValue& row : other.values_) {
    // They come worst first: after the first that is not bad enough none is.
    if (!Takes(quantity, row)) return;
    Offer(quantity, row.value, row.request, row.position, row.token);
  }
}

void WorstList::Visit(Archive& archive, const Quantity& quantity) {
  std::vector<WorstValue> rows;
  if (!archive.reading()) rows = values_;
  archive.Each(
      rows,
      [](Archive& a, WorstValue& row) {
        a.Double(row.value);
        a.Text(row.request);
        a.I32(row.position);
        a.I32(row.token);
        if (a.reading() && std::isnan(row.value)) a.Fail("a worst value that is not a number");
      },
      11);
  if (!archive.reading() || !archive.ok()) return;
  *this = WorstList();
  if (rows.size() > kLimit) return archive.Fail("too many worst values");
  for (const WorstValue& row : rows) {
    Offer(quantity, row.value, row.request, row.position, row.token);
  }
  // Offering them again puts them in order; a file in another order is not one that kcc wrote.
  if (values_ != rows) archive.Fail("worst values that are not in order");
}

// Most evidence is single numbers; ends take room only where there are intervals.
std::vector<Moments>& SeriesStats::Ends() {
  if (ends.empty()) ends.resize(2);
  return ends;
}

void SeriesStats::Add(double lo, double hi, Thresholds thresholds) {
  if (lo == hi) return point.Add(lo, thresholds);
  Ends()[0].Add(lo, thresholds);
  Ends()[1].Add(hi, thresholds);
}

void SeriesStats::Merge(const SeriesStats& other, const Quantity& quantity) {
  point.Merge(other.point);
  missing += other.missing;
  worst.Merge(quantity, other.worst);
  if (other.ends.empty()) return;
  Ends()[0].Merge(other.ends[0]);
  Ends()[1].Merge(other.ends[1]);
}

// A single number is both ends of itself: the low stream is the points and the low ends.
Moments SeriesStats::Stream(End end) const {
  Moments stream = point;
  if (!ends.empty()) stream.Merge(ends[end == End::kLow ? 0 : 1]);
  return stream;
}

void SeriesStats::Visit(Archive& archive, size_t thresholds, const Quantity& quantity) {
  archive.U64(missing);
  point.Visit(archive, thresholds);
  bool intervals = !ends.empty();
  archive.Bool(intervals);
  if (intervals && archive.ok()) {
    for (Moments& end : Ends()) end.Visit(archive, thresholds);
    if (archive.reading() && archive.ok() && ends[0].tally.count != ends[1].tally.count) {
      archive.Fail("intervals with one end");
    }
    if (archive.reading() && archive.ok() && ends[0].empty()) archive.Fail("empty intervals");
  }
  worst.Visit(archive, quantity);
}

}  // namespace kcc
