#include "kcc/summary/calibration.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace kcc {
namespace {

constexpr double kUnit = 0x1p-32;

size_t EceBin(double confidence) {
  // Bins are (a, b]; 0 belongs to the first.
  for (size_t bin = 0; bin + 1 < kEceBins; ++bin) {
    if (confidence <= static_cast<double>(bin + 1) / static_cast<double>(kEceBins)) return bin;
  }
  return kEceBins - 1;
}

size_t SmceCell(double confidence) {
  return std::min(static_cast<size_t>(confidence * kSmceCells), kSmceCells - 1);
}

// A concave, piecewise linear function on [-1, 1], as the slopes of its segments from left to
// right, split where they turn from rising to falling. `tilt` is added to every slope.
class ConcaveFunction {
 public:
  ConcaveFunction() { falling_.push_back({2, 0}); }

  // f(x) += slope * x
  void AddLinear(double slope) {
    tilt_ += slope;
    left_value_ -= slope;
    while (!falling_.empty() && falling_.front().slope + tilt_ > 0) {
      rising_.push_back(falling_.front());
      falling_.pop_front();
    }
    while (!rising_.empty() && rising_.back().slope + tilt_ <= 0) {
      falling_.push_front(rising_.back());
      rising_.pop_back();
    }
  }

  // f(x) = max of f over [x - reach, x + reach]: the two flanks move apart around a flat top, and
  // what leaves [-1, 1] is cut off.
  void Widen(double reach) {
    falling_.push_front({2 * reach, -tilt_});
    double left = reach;
    double right = reach;
    while (left > 0) {
      std::deque<Segment>& side = rising_.empty() ? falling_ : rising_;
      const double cut = std::min(left, side.front().length);
      left_value_ += cut * (side.front().slope + tilt_);
      left -= cut;
      side.front().length -= cut;
      if (side.front().length <= 0) side.pop_front();
    }
    while (right > 0) {
      std::deque<Segment>& side = falling_.empty() ? rising_ : falling_;
      const double cut = std::min(right, side.back().length);
      right -= cut;
      side.back().length -= cut;
      if (side.back().length <= 0) side.pop_back();
    }
  }

  double Max() const {
    double value = left_value_;
    for (const Segment& segment : rising_) value += segment.length * (segment.slope + tilt_);
    return value;
  }

 private:
  struct Segment {
    double length;
    double slope;
  };
  std::deque<Segment> rising_;   // slope + tilt > 0
  std::deque<Segment> falling_;  // slope + tilt <= 0
  double tilt_ = 0;
  double left_value_ = 0;  // f(-1)
};

}  // namespace

double SmoothSupremum(const std::vector<double>& residuals) {
  ConcaveFunction best;  // the most that the cells so far can give, by the value at the last one
  const double step = 1 / static_cast<double>(residuals.size());
  size_t reach = 0;
  bool first = true;
  for (const double residual : residuals) {
    ++reach;
    if (residual == 0) continue;
    // From 2 on, a widening reaches every value from every other.
    if (!first) best.Widen(std::min(2.0, static_cast<double>(reach) * step));
    best.AddLinear(residual);
    first = false;
    reach = 0;
  }
  return best.Max();
}

void SideCalibration::Add(double confidence, bool correct) {
  ++count_;
  CalibrationBin& bin = bins_[EceBin(confidence)];
  ++bin.count;
  bin.correct += correct ? 1 : 0;
  bin.confidence.Add(confidence);
  const double residual = (correct ? 1.0 : 0.0) - confidence;
  brier_.Add(residual * residual);
  if (residuals_.empty()) residuals_.resize(kSmceCells);
  const double scaled = residual / kUnit;
  residuals_[SmceCell(confidence)] += static_cast<int64_t>(std::floor(scaled + 0.5));
  absolute_ += static_cast<uint64_t>(std::ceil(std::fabs(scaled)));
}

void SideCalibration::Merge(const SideCalibration& other) {
  if (other.count_ == 0) return;
  count_ += other.count_;
  for (size_t i = 0; i < kEceBins; ++i) {
    bins_[i].count += other.bins_[i].count;
    bins_[i].correct += other.bins_[i].correct;
    bins_[i].confidence.Merge(other.bins_[i].confidence);
  }
  brier_.Merge(other.brier_);
  absolute_ += other.absolute_;
  if (residuals_.empty()) residuals_.resize(kSmceCells);
  for (size_t i = 0; i < kSmceCells; ++i) residuals_[i] += other.residuals_[i];
}

double SideCalibration::Ece() const {
  // |sum of confidence - correct| per bin is exact; one rounding each, then 15 additions.
  double total = 0;
  for (const CalibrationBin& bin : bins_) {
    ExactSum gap = bin.confidence;
    gap.Add(-static_cast<double>(bin.correct));
    total += std::fabs(gap.Round());
  }
  return total / static_cast<double>(count_);
}

double SideCalibration::Brier() const { return brier_.Round() / static_cast<double>(count_); }

Interval SideCalibration::Smce() const {
  std::vector<double> residuals(residuals_.size());
  for (size_t i = 0; i < residuals.size(); ++i) {
    residuals[i] = static_cast<double>(residuals_[i]) * kUnit;
  }
  const auto n = static_cast<double>(count_);
  const double centre = SmoothSupremum(residuals) / n;
  // A confidence is at most half a cell from its centre, and f moves by no more than that; the
  // residuals were rounded to 2^-32; the supremum was computed in doubles.
  const double half_cell = 0.5 / kSmceCells;
  const double error = static_cast<double>(absolute_) * kUnit / n * half_cell + kUnit + 1e-12;
  return {std::max(0.0, centre - error), std::min(1.0, centre + error)};
}

void SideCalibration::Visit(Archive& archive) {
  archive.U64(count_);
  if (count_ == 0) return;
  uint64_t total = 0;
  for (CalibrationBin& bin : bins_) {
    archive.U64(bin.count);
    archive.U64(bin.correct);
    archive.Sum(bin.confidence);
    total += bin.count;
    if (archive.reading() && bin.correct > bin.count) archive.Fail("more correct than there are");
  }
  if (archive.reading() && total != count_) archive.Fail("bins that do not add up");
  archive.Sum(brier_);
  archive.U64(absolute_);
  if (archive.reading()) residuals_.assign(kSmceCells, 0);
  // Runs of empty cells are written as their length.
  for (size_t i = 0; i < kSmceCells && archive.ok(); ++i) {
    archive.I64(residuals_[i]);
    if (residuals_[i] != 0) continue;
    uint64_t run = 0;
    if (!archive.reading()) {
      while (i + run + 1 < kSmceCells && residuals_[i + run + 1] == 0) ++run;
    }
    archive.U64(run);
    if (run >= kSmceCells - i) archive.Fail("cells beyond the grid");
    i += archive.ok() ? run : 0;
  }
}

void Calibration::Merge(const Calibration& other) {
  sides[0].Merge(other.sides[0]);
  sides[1].Merge(other.sides[1]);
  unlabelled += other.unlabelled;
}

void Calibration::Visit(Archive& archive) {
  archive.U64(unlabelled);
  for (SideCalibration& side : sides) side.Visit(archive);
  if (archive.reading() && sides[0].count() != sides[1].count()) {
    archive.Fail("calibration of one side only");
  }
}

}  // namespace kcc
