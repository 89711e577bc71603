#include "kcc/contract/values.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

Metric MetricOf(std::string_view name) {
  const Result<Metric> metric = ParseMetric(name);
  EXPECT_TRUE(metric.has_value()) << name;
  return *metric;
}

TEST(ReadRatio, TakesNumbersAndPercentages) {
  EXPECT_EQ(*ReadRatio("0.01"), 0.01);
  EXPECT_EQ(*ReadRatio("1%"), 0.01);
  EXPECT_EQ(*ReadRatio("1 %"), 0.01);
  EXPECT_EQ(*ReadRatio("100%"), 1.0);
  EXPECT_EQ(*ReadRatio("5e-1%"), 0.005);
  for (const char* text : {"", "%", "x%", "1%%", "1 0%", "0.1 percent", "1e%", "1e99999999999%"}) {
    EXPECT_FALSE(ReadRatio(text).has_value()) << text;
  }
}

TEST(ReadRatio, GivesTheSameDoubleForBothSpellings) {
  EXPECT_TRUE(rc::check([] {
    const int digits = *rc::gen::inRange(0, 100000000);
    const std::string percent = std::to_string(digits) + "e-6%";
    const std::string plain = std::to_string(digits) + "e-8";
    RC_ASSERT(*ReadRatio(percent) == *ReadRatio(plain));
  }));
}

TEST(ReadThreshold, AppliesTheUnitOfTheMetric) {
  const Metric latency = MetricOf("p95_latency_ms");
  EXPECT_EQ(*ReadThreshold("400", latency), 400);
  EXPECT_EQ(*ReadThreshold("400ms", latency), 400);
  EXPECT_EQ(*ReadThreshold("0.4s", latency), 400);
  EXPECT_EQ(*ReadThreshold("1.5m", latency), 90000);
  EXPECT_EQ(*ReadThreshold("2h", latency), 7200000);
  EXPECT_EQ(*ReadThreshold("250us", latency), 0.25);
  const Metric memory = MetricOf("peak_memory_mb");
  EXPECT_EQ(*ReadThreshold("512", memory), 512);
  EXPECT_EQ(*ReadThreshold("512MB", memory), 512);
  EXPECT_EQ(*ReadThreshold("2GB", memory), 2000);
  EXPECT_EQ(*ReadThreshold("512MiB", memory), 536.870912);
  EXPECT_EQ(*ReadThreshold("1 GiB", memory), 1073.741824);
  EXPECT_EQ(*ReadThreshold("1%", MetricOf("mean_tv")), 0.01);
  EXPECT_EQ(*ReadThreshold("1%", MetricOf("rate_latency_ms")), 0.01);
}

TEST(ReadThreshold, RefusesOtherUnitsAndSaysWhichOneFits) {
  struct {
    const char* text;
    const char* metric;
    const char* says;
  } const cases[] = {
      {"400ms", "mean_tv", "is a share"},   {"400ms", "rate_latency_ms", "is a share"},
      {"1%", "p95_latency_ms", "is in ms"}, {"1%", "mean_kl", "is in nat"},
      {"1%", "mean_w", "is a pure number"}, {"512MiB", "p95_latency_ms", "is in ms"},
      {"5s", "peak_memory_mb", "is in MB"}, {"400 parsecs", "p95_latency_ms", "is not a number"},
  };
  for (const auto& c : cases) {
    const Result<double> threshold = ReadThreshold(c.text, MetricOf(c.metric));
    ASSERT_FALSE(threshold.has_value()) << c.text;
    EXPECT_NE(threshold.error().message().find(c.says), std::string::npos)
        << threshold.error().message();
  }
}

TEST(ReadWindow, ReadsWhatWindowTextWrites) {
  EXPECT_EQ(*ReadWindow("request"), Window{});
  EXPECT_EQ(*ReadWindow("1 request"), Window{});
  EXPECT_EQ(*ReadWindow("100 requests"), (Window{Window::Kind::kRequests, 100}));
  EXPECT_EQ(*ReadWindow("250ms"), (Window{Window::Kind::kTime, 250}));
  EXPECT_EQ(*ReadWindow("1.5s"), (Window{Window::Kind::kTime, 1500}));
  EXPECT_TRUE(rc::check([] {
    const auto kind = *rc::gen::element(Window::Kind::kRequests, Window::Kind::kTime);
    const Window window{kind, *rc::gen::inRange<int64_t>(2, 1000000000)};
    RC_ASSERT(*ReadWindow(WindowText(window)) == window);
  }));
}

TEST(ReadWindow, RefusesTheRest) {
  for (const char* text : {"", "requests", "100", "0 requests", "-1 requests", "1.5 requests", "0s",
                           "0.1ms", "9999h", "week", "1 week", "2e9 requests", "s", " s"}) {
    EXPECT_FALSE(ReadWindow(text).has_value()) << text;
  }
}

TEST(Rates, AreCountsInATime) {
  EXPECT_EQ(*ReadRate("5 per s"), 5);
  EXPECT_EQ(*ReadRate("300 per m"), 5);
  EXPECT_EQ(*ReadRate("1.8e4 per h"), 5);
  EXPECT_EQ(*ReadRate("1 per d"), 1.0 / 86400);
  for (const char* text : {"", "5", "5 per", "5 per ", "per s", "5 per y", "five per s", "5/s",
                           "0 per s", "-1 per s", "1e10 per s", "1e-10 per s"}) {
    EXPECT_FALSE(ReadRate(text).has_value()) << text;
  }
  // The shortest text that means the same.
  EXPECT_EQ(RateText(5), "5 per s");
  EXPECT_EQ(RateText(1.0 / 60), "1 per m");
  EXPECT_EQ(RateText(1.0 / 86400), "1 per d");
  for (const double rate : {5.0, 0.3, 1.0 / 7, 1.0 / 60, 100.0 / 3600, 1e9, 1e-9}) {
    EXPECT_EQ(*ReadRate(RateText(rate)), rate) << RateText(rate);
  }
}

TEST(Sizes, AreWholeBytes) {
  EXPECT_EQ(*ReadSize("1MiB"), 1 << 20);
  EXPECT_EQ(*ReadSize("0.5 KiB"), 512);
  EXPECT_EQ(*ReadSize("2MB"), 2'000'000);
  EXPECT_EQ(*ReadSize("3B"), 3);
  for (const char* text : {"", "1", "1Mi", "MiB", "0.5B", "-1KiB", "1e9TB"}) {
    EXPECT_FALSE(ReadSize(text).has_value()) << text;
  }
  for (const char* text : {"0B", "3B", "1KiB", "1025B", "7MiB", "1GiB", "900TiB"}) {
    EXPECT_EQ(SizeText(*ReadSize(text)), text);
  }
}

TEST(Names, FollowTheirPatterns) {
  for (const char* text : {"a", "qwen3-8b-fp8", "1.0", "a."}) EXPECT_TRUE(IsName(text)) << text;
  for (const char* text : {"", "-a", ".a", "A", "a_b", "a b", "\xC3\xA9"}) {
    EXPECT_FALSE(IsName(text)) << text;
  }
  for (const char* text : {"N-RLHF-1", "a_b", "0"}) EXPECT_TRUE(IsIdentifier(text)) << text;
  for (const char* text : {"", "_a", "a/b", "a b"}) EXPECT_FALSE(IsIdentifier(text)) << text;
  EXPECT_FALSE(IsIdentifier(std::string(129, 'a')));
}

TEST(Versions, AreThreeNumbers) {
  for (const char* text : {"0.0.0", "1.2.3", "10.20.30"}) EXPECT_TRUE(IsVersion(text)) << text;
  for (const char* text : {"", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.", ".1.2", "v1.2.3",
                           "1.2.3-rc1", "1.2.9999999999"}) {
    EXPECT_FALSE(IsVersion(text)) << text;
  }
}

}  // namespace
}  // namespace kcc
