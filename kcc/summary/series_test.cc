#include "kcc/summary/series.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

TEST(Series, EveryQuantityDerivedFromTokensHasTheSeriesOfItsSource) {
  size_t derived = 0;
  for (const Quantity& row : Catalog()) {
    if (row.of.empty() || SourceOf(row).level != QuantityLevel::kToken) continue;
    EXPECT_EQ(SeriesName(SourceSeries(row)), row.of);
    EXPECT_LT(SourceSeries(row), TokenSeriesCount()) << row.id;
    ++derived;
  }
  EXPECT_EQ(derived, 6u);
}

// Summaries keep the overlap of all windows of population quantities in this one series.
TEST(Series, SharesOfTokensCountFlipsOfTheMostLikelyToken) {
  for (const Quantity& row : Catalog()) {
    if (row.form != TestForm::kTokenShare) continue;
    EXPECT_EQ(SourceSeries(row), Top1Series()) << row.id;
  }
}

}  // namespace
}  // namespace kcc
