#include "kcc/attribution/attribution_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/report/static_page.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AttributedCell Cell(const std::string& quantity, const std::string& slice, double total) {
  AttributedCell cell;
  cell.quantity = quantity;
  cell.slice = slice;
  cell.requests = 6;
  cell.tokens = 72;
  cell.shapley.total = total;
  cell.shapley.share = {0.05 * total, 0.95 * total, 0.02 * total, -0.02 * total};
  for (size_t i = 0; i < kShapleySources; ++i) {
    cell.interval[i] = {0.9 * cell.shapley.share[i], 1.1 * cell.shapley.share[i]};
  }
  return cell;
}

Attribution Made() {
  Attribution attribution;
  attribution.train_fingerprint = "train <b>";
  attribution.infer_fingerprint = "infer";
  attribution.cells = {Cell("kl", "all", 0.001), Cell("tv", "all", 0.01),
                       Cell("kl", "a<script>", 0.004), Cell("tv", "a<script>", 0.04)};
  return attribution;
}

TEST(AttributionHeadline, NamesTheWorstSliceAndItsSource) {
  EXPECT_EQ(AttributionHeadline(Made()),
            "precision brings 95.0% of the mean kl on a<script> (0.004 nat), the slice with the "
            "most");
  Attribution none;
  EXPECT_EQ(AttributionHeadline(none), "");
  none.cells = {Cell("kl", "all", 0)};
  EXPECT_EQ(AttributionHeadline(none), "");
}

TEST(AttributionHtml, ShowsEveryCellInItsUnit) {
  const std::string page = AttributionHtml(Made(), std::nullopt, false);
  EXPECT_THAT(page, HasSubstr("<section id=\"kl\">"));
  EXPECT_THAT(page, HasSubstr("<section id=\"tv\">"));
  EXPECT_THAT(page, HasSubstr("0.0038 <small>[0.00342, 0.00418]</small>"));
  EXPECT_THAT(page, HasSubstr("in the same unit"));
  EXPECT_THAT(page, Not(HasSubstr("report.html")));
  EXPECT_THAT(AttributionHtml(Made(), std::nullopt, true), HasSubstr("href=\"report.html\""));
  EXPECT_EQ(page, AttributionHtml(Made(), std::nullopt, false));
}

TEST(AttributionHtml, LetsNoTextBecomeMarkup) {
  const std::string page = AttributionHtml(Made(), std::nullopt, false);
  EXPECT_THAT(page, Not(HasSubstr("a<script>")));
  EXPECT_THAT(page, Not(HasSubstr("train <b>")));
  EXPECT_THAT(page, HasSubstr("a&lt;script&gt;"));
}

TEST(AttributionHtml, IsKnownAgain) {
  EXPECT_TRUE(IsStaticPage(AttributionHtml(Made(), std::nullopt, false), kAttributionKind));
  EXPECT_FALSE(IsStaticPage(AttributionHtml(Made(), std::nullopt, false), "lab"));
  EXPECT_FALSE(IsStaticPage("<!doctype html>", kAttributionKind));
}

}  // namespace
}  // namespace kcc
