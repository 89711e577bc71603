#include "kcc/control/otlp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/format/json.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

bool IsJson(const std::string& text) {
  json::parser parser;
  return ParseJson(parser, text).has_value();
}

TEST(Otlp, MetricsKeepTheirNamesKindsAndLabels) {
  const std::string text =
      "# HELP kcc_came_total x\n# TYPE kcc_came_total counter\nkcc_came_total 12\n"
      "# TYPE kcc_weight gauge\nkcc_weight{kernel=\"a\\\"b\\\\\",x=\"\"} 0.25\n"
      "kcc_weight{kernel=\"c\"} +Inf\n"
      "# TYPE kcc_seconds histogram\nkcc_seconds_bucket{le=\"1\"} 3\nkcc_seconds_sum 1.5\n"
      "broken\nkcc_cut{a=\"\n\n";
  const std::string body = OtlpMetrics({}, text, 1000, 2000);
  EXPECT_TRUE(IsJson(body)) << body;
  EXPECT_THAT(body, HasSubstr(R"("name":"kcc_came_total","sum":{"aggregationTemporality":2)"));
  EXPECT_THAT(body, HasSubstr(R"("name":"kcc_weight","gauge":)"));
  EXPECT_THAT(body, HasSubstr(R"({"key":"kernel","value":{"stringValue":"a\"b\\"}})"));
  EXPECT_THAT(body, HasSubstr(R"("name":"kcc_seconds_bucket","sum":)"));
  EXPECT_THAT(body, HasSubstr(R"("startTimeUnixNano":"1000000000","timeUnixNano":"2000000000")"));
  EXPECT_THAT(body, Not(HasSubstr("Inf")));
}

TEST(Otlp, ASpanHoldsNoTextOfTheRequest) {
  auto pool = std::make_shared<GatewayPool>();
  pool->model = "kcc-lab";
  pool->kernels.push_back({});
  pool->kernels[0].name = "fp8";
  ServedRecord record;
  record.pool = pool;
  record.id = "r1";
  record.path = "/v1/chat/completions";
  record.request_body = "secret question";
  record.text = "secret answer";
  record.session = "secret session";
  record.started_at_ms = 1000;
  record.latency_ms = 2.5;
  record.status = 200;
  record.finish_reason = "stop";
  const std::string span = OtlpSpan(record);
  EXPECT_TRUE(IsJson(span)) << span;
  EXPECT_THAT(span, Not(HasSubstr("secret")));
  EXPECT_THAT(span, HasSubstr(R"("endTimeUnixNano":"1002500000")"));
  EXPECT_THAT(span, HasSubstr(R"({"key":"kcc.kernel","value":{"stringValue":"fp8"}})"));
  EXPECT_THAT(span, Not(HasSubstr(R"("code":2)")));
  record.cut = true;
  EXPECT_THAT(OtlpSpan(record), HasSubstr(R"("code":2)"));
}

TEST(Otlp, ACollectorThatIsNotThereCostsSpansAndNothingElse) {
  OtlpOptions options;
  options.url = "http://127.0.0.1:1";
  options.metrics = [] { return std::string(); };
  options.spans_max = 3;
  auto exporter = OtlpExporter::Start(options, &TheSystemClock());
  ASSERT_TRUE(exporter.has_value());
  ServedRecord record;
  for (int i = 0; i < 10; ++i) (*exporter)->Take(record);
  EXPECT_EQ((*exporter)->counts().dropped, 7u);
  exporter->reset();
}

}  // namespace
}  // namespace kcc
