#include "kcc/lab/experiment.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;

TEST(Experiment, E1ShowsEveryPerturbationWithinItsEnvelope) {
  const Checkpoint model = RandomCheckpoint(SmallConfig());
  const std::vector<KernelRequest> requests = RandomRequests(4, 90, 2);
  const auto result = RunE1(model, requests, {});
  ASSERT_TRUE(result.has_value()) << result.error().Format();
  for (const E1Row& row : result->rows) {
    EXPECT_GT(row.linf_max, 0) << row.name;
    EXPECT_LE(row.linf_max, row.envelope) << row.name;
    const Distribution& span = row.by_slice[0][0];
    EXPECT_LE(span.p50, span.p95);
    EXPECT_LE(span.p99, span.max);
    int64_t tokens = 0;
    for (const int64_t count : span.histogram) tokens += count;
    EXPECT_EQ(tokens, result->tokens[0]);
    for (size_t i = 1; i < row.curve.size(); ++i) {
      EXPECT_GE(row.curve[i].top1, row.curve[i - 1].top1);
    }
  }
  const std::string page = E1Page(*result, "");
  EXPECT_NE(page.find("kv=e4m3"), std::string::npos);
  EXPECT_NE(E1Markdown(*result).find("`batch=dynamic` | batch"), std::string::npos);
}

TEST(Experiment, E2CountsRequestsByEngineAndLoad) {
  const Checkpoint model = RandomCheckpoint(SmallConfig());
  const std::vector<KernelRequest> requests = RandomRequests(4, 90, 2);
  const auto loose = RunE2(model, requests, 1e9, {});
  const auto tight = RunE2(model, requests, 0, {});
  ASSERT_TRUE(loose.has_value() && tight.has_value());
  ASSERT_EQ(loose->rows.size(), 12u);
  for (const E2Row& row : loose->rows) EXPECT_EQ(row.by_slice[0].passing, 4);
  for (const E2Row& row : tight->rows) EXPECT_EQ(row.by_slice[0].passing, 0);
  EXPECT_NE(E2Page(*tight, "").find("class=\"fail\""), std::string::npos);
  EXPECT_NE(E2Markdown(*loose).find("100.0 %"), std::string::npos);
}

}  // namespace
}  // namespace kcc
