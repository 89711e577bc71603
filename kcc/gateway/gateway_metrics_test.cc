#include "kcc/gateway/gateway_metrics.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "kcc/gateway/gateway_test_data.h"

namespace kcc {
namespace {

using namespace testing;  // NOLINT: the tests' own words

void RunSome(Gateway& gateway) {
  for (int i = 0; i < 5; ++i) {
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Answer("{}");
  }
  Ride refused(gateway);
  refused.Start("{");
  Ride own(gateway);
  own.Start("", {}, "/v1/models", "GET");
  Ride failed(gateway);
  failed.Start(kChat);
  failed.Head(500);
  failed.Head(503);
  Ride left(gateway);
  left.Start(kChat);
  left.exchange.OnClientGone(left.now_us);
}

TEST(GatewayMetrics, TheTextIsWellFormed) {
  GatewayPool pool = SmallPool();
  pool.kernels[0].name = "odd \"name\" \\ here";
  Gateway gateway(pool);
  RunSome(gateway);
  const std::string text = GatewayMetricsText(gateway.core);
  const std::regex help(R"(# HELP kcc_[a-z_]+ [^\n]+)"),
      type(R"(# TYPE kcc_[a-z_]+ (counter|gauge|histogram))"),
      row(R"((kcc_[a-z_]+)(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+)");
  std::set<std::string> families, rows;
  std::istringstream lines(text);
  std::string family, previous;
  for (std::string line; std::getline(lines, line); previous = line) {
    std::smatch match;
    if (line.starts_with("# HELP")) {
      EXPECT_TRUE(std::regex_match(line, help)) << line;
    } else if (line.starts_with("# TYPE")) {
      EXPECT_TRUE(std::regex_match(line, type)) << line;
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << line << " is there twice";
      EXPECT_TRUE(previous.starts_with("# HELP " + family + " "));
    } else {
      ASSERT_TRUE(std::regex_match(line, match, row)) << line;
      EXPECT_TRUE(match[1].str().starts_with(family)) << line;
      EXPECT_TRUE(rows.insert(line.substr(0, line.rfind(' '))).second) << line;
      EXPECT_EQ(line.starts_with(family + "_total"), false) << line;
    }
  }
  EXPECT_TRUE(text.ends_with("\n"));
  EXPECT_GT(families.size(), 10u);
}

TEST(GatewayMetrics, EveryRequestThatCameHasAnEnd) {
  Gateway gateway;
  RunSome(gateway);
  const GatewayTotals totals = TotalsOf(gateway.core);
  EXPECT_EQ(totals.came, 9u);
  EXPECT_EQ(totals.answered, 5u);
  EXPECT_EQ(totals.refused, 2u);
  EXPECT_EQ(totals.own, 1u);
  EXPECT_EQ(totals.left, 1u);
  EXPECT_EQ(totals.under_way, 0u);
  gateway.ExpectCountsAddUp();
  Ride under_way(gateway);
  under_way.Start(kChat);
  EXPECT_EQ(TotalsOf(gateway.core).under_way, 1u);
  gateway.ExpectCountsAddUp();
  // What was sent to a kernel was answered there, failed there, or was left.
  const KernelCounts& first = gateway.counts().kernels[0];
  EXPECT_EQ(first.sent, 8u);
  EXPECT_EQ(first.answered, 5u);
  EXPECT_EQ(first.failed, 1u);
  EXPECT_EQ(first.by_status[5], 1u);
  const std::string text = GatewayMetricsText(gateway.core);
  EXPECT_NE(text.find("kcc_gateway_requests_came_total 10\n"), std::string::npos);
  EXPECT_NE(text.find("kcc_gateway_requests_total{end=\"answered\"} 5\n"), std::string::npos);
  EXPECT_NE(text.find("kcc_requests_total{kernel=\"int8\",route=\"infer\",code=\"2xx\"} 5\n"),
            std::string::npos);
}

TEST(GatewayMetrics, TimesFallIntoTheirBuckets) {
  std::array<std::atomic<uint64_t>, 24> histogram{};
  std::atomic<uint64_t> sum{0};
  for (const int64_t us : {-5, 0, 1000, 1001, 2000, 2001}) CountTime(us, histogram, sum);
  CountTime(int64_t{1} << 60, histogram, sum);
  EXPECT_EQ(histogram[0], 3u);
  EXPECT_EQ(histogram[1], 2u);
  EXPECT_EQ(histogram[2], 1u);
  EXPECT_EQ(histogram[23], 1u);
  EXPECT_EQ(TimeBound(0), 0.001);
  EXPECT_EQ(TimeBound(22), 4194.304);
}

}  // namespace
}  // namespace kcc
