#include "kcc/summary/calibration.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

namespace kcc {
namespace {

struct Labelled {
  double confidence;
  bool correct;
};

std::vector<Labelled> ArbitraryLabels() {
  const auto count = *rc::gen::inRange<size_t>(1, 40);
  std::vector<Labelled> labels;
  for (size_t i = 0; i < count; ++i) {
    labels.push_back({*rc::gen::inRange(0, 1001) / 1000.0, *rc::gen::arbitrary<bool>()});
  }
  return labels;
}

SideCalibration Calibrate(const std::vector<Labelled>& labels) {
  SideCalibration side;
  for (const Labelled& label : labels) side.Add(label.confidence, label.correct);
  return side;
}

// Guo et al. 2017, as written.
double NaiveEce(const std::vector<Labelled>& labels) {
  double ece = 0;
  for (int m = 1; m <= 15; ++m) {
    double accuracy = 0, confidence = 0, members = 0;
    for (const Labelled& label : labels) {
      const bool in = (label.confidence > (m - 1) / 15.0 || m == 1) && label.confidence <= m / 15.0;
      if (!in) continue;
      ++members;
      accuracy += label.correct ? 1 : 0;
      confidence += label.confidence;
    }
    if (members == 0) continue;
    ece += members / static_cast<double>(labels.size()) *
           std::fabs(accuracy / members - confidence / members);
  }
  return ece;
}

// The supremum by dynamic programming over values on a fine grid, for points in order.
double NaiveSupremum(const std::vector<std::pair<double, double>>& points, int values) {
  std::vector<double> best(static_cast<size_t>(values) + 1, 0);
  double before = 0;
  bool first = true;
  for (const auto& [place, weight] : points) {
    const auto reach =
        first ? 0 : static_cast<int>(std::floor((place - before) * values / 2 + 1e-9));
    std::vector<double> next(best.size());
    for (int k = 0; k <= values; ++k) {
      double most = -1e300;
      for (int j = std::max(0, k - reach); j <= std::min(values, k + reach); ++j) {
        most = std::max(most, best[static_cast<size_t>(j)]);
      }
      next[static_cast<size_t>(k)] = most + weight * (2.0 * k / values - 1);
    }
    best = next;
    before = place;
    first = false;
  }
  return *std::max_element(best.begin(), best.end());
}

TEST(Calibration, EceIsThatOfTheDefinition) {
  EXPECT_TRUE(rc::check("ECE", [] {
    const auto labels = ArbitraryLabels();
    RC_ASSERT(std::fabs(Calibrate(labels).Ece() - NaiveEce(labels)) < 1e-12);
  }));
}

TEST(Calibration, BinsAreClosedOnTheRight) {
  const struct {
    double confidence;
    size_t bin;
  } cases[] = {{0, 0}, {1.0 / 15, 0}, {std::nextafter(1.0 / 15, 1), 1}, {7.0 / 15, 6}, {1, 14}};
  for (const auto& row : cases) {
    const SideCalibration side = Calibrate({{row.confidence, true}});
    EXPECT_EQ(side.bins()[row.bin].count, 1u) << row.confidence;
  }
}

TEST(Calibration, BrierIsTheMeanSquare) {
  const SideCalibration side = Calibrate({{0.75, true}, {0.5, false}});
  EXPECT_DOUBLE_EQ(side.Brier(), (0.0625 + 0.25) / 2);
}

TEST(Calibration, SmoothSupremumEqualsDynamicProgramming) {
  // On a grid of cells whose steps divide the value grid, both are exact.
  EXPECT_TRUE(rc::check("supremum", [] {
    const auto cells = *rc::gen::element<size_t>(1, 2, 5, 8, 10, 20);
    std::vector<double> residuals(cells);
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < cells; ++i) {
      residuals[i] = *rc::gen::inRange(-8, 9) / 4.0;
      points.emplace_back((static_cast<double>(i) + 0.5) / static_cast<double>(cells),
                          residuals[i]);
    }
    RC_ASSERT(std::fabs(SmoothSupremum(residuals) - NaiveSupremum(points, 80)) < 1e-9);
  }));
}

TEST(Calibration, SmceIntervalHoldsTheTruth) {
  EXPECT_TRUE(rc::check("smCE", [] {
    auto labels = ArbitraryLabels();
    std::sort(labels.begin(), labels.end(),
              [](const Labelled& a, const Labelled& b) { return a.confidence < b.confidence; });
    // Confidences are multiples of 1/1000, so 2,000 values make the truth exact.
    std::vector<std::pair<double, double>> points;
    for (const Labelled& label : labels) {
      points.emplace_back(label.confidence, (label.correct ? 1 : 0) - label.confidence);
    }
    const double truth = NaiveSupremum(points, 2000) / static_cast<double>(labels.size());
    const Interval smce = Calibrate(labels).Smce();
    RC_ASSERT(smce.lo <= truth);
    RC_ASSERT(truth <= smce.hi);
    RC_ASSERT(smce.hi - smce.lo < 3e-4);
  }));
}

TEST(Calibration, PerfectAndWorstCase) {
  EXPECT_NEAR(Calibrate({{1, true}, {0, false}}).Smce().hi, 0, 1e-9);
  const Interval worst = Calibrate({{1, false}}).Smce();
  EXPECT_LE(worst.lo, 1);
  EXPECT_GE(worst.hi, 1);
}

TEST(Calibration, EceMovesWhereSmceDoesNot) {
  // docs/math.md E: 2e-9 across the edge 7/15 moves ECE by 0.467.
  const double edge = 7.0 / 15;
  const SideCalibration a = Calibrate({{edge - 1e-9, true}, {edge - 1e-9, false}});
  const SideCalibration b = Calibrate({{edge - 1e-9, true}, {edge + 1e-9, false}});
  EXPECT_GT(std::fabs(a.Ece() - b.Ece()), 0.46);
  EXPECT_LT(std::fabs(a.Smce().lo - b.Smce().lo), 1e-3);
}

}  // namespace
}  // namespace kcc
