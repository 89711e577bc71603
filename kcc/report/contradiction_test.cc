// Whatever the judge says of whatever evidence follows from what it shows: no report that kcc
// writes is refused when it is read. The cases that must be refused are in json_test.cc.
#include "kcc/report/contradiction.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/contract/contract_gen.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/report_json.h"

namespace kcc {
namespace {

using testing::Evidence;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;

size_t Below(size_t n) { return *rc::gen::inRange<size_t>(0, n); }

// Few distinct values, so that many lie on a threshold; exact, as intervals, or estimated.
Evidence AnyEvidence(const Contract& contract) {
  Evidence evidence;
  evidence.sampled_only = Below(4) == 0;
  const bool intervals = Below(2) == 0;
  const size_t scale = Below(2) == 0 ? 1 : 8;  // far within the thresholds, or around them
  for (size_t i = 0, count = Below(4) == 0 ? 40 + Below(300) : Below(12); i < count; ++i) {
    JudgedRequest& request = evidence.Add();
    const auto place = static_cast<double>(i);
    request.Both("ordinal", place).Both("started_at_ms", 400 * place).Both("latency_ms", place);
    request.Both("reward", static_cast<double>(Below(3)) / 2).Both("failed", Below(9) == 0);
    for (const char* field : {"seed", "tags", "kernel_fingerprint"}) request.Both(field, 1.0);
    for (size_t t = 1 + Below(3); t > 0; --t) {
      const double draw = static_cast<double>(Below(5)) / (4 * static_cast<double>(scale));
      JudgedToken token;
      token.Set("kl", draw, draw + (intervals ? static_cast<double>(Below(3)) / 8 : 0));
      token.Set("tv", draw).Set("log_ratio", draw - 0.5).Set("top5_overlap", 1 - draw);
      request.tokens.push_back(token);
    }
  }
  evidence.change_source = [temperature = contract.assumptions.temperature](Source* source) {
    source->temperature = temperature;
  };
  return evidence;
}

TEST(Contradiction, IsFoundInNoReportThatTheJudgeMade) {
  int satisfied = 0;
  int other = 0;
  EXPECT_TRUE(rc::check("reports", [&] {
    Contract contract = *GenContract({.hostile_texts = false, .small_world = true});
    contract.model.clear();
    if (Below(2) == 0) contract.decision.about = Population::kEvaluationSet;
    const JudgeOptions options{.stage = Below(2) == 0 ? Stage::kOffline : Stage::kCanary,
                               .about = {}};
    const Summary summary = Measure(contract, AnyEvidence(contract));
    const Judgement judgement = Judge(contract, summary, options);
    RC_ASSERT(Contradiction(judgement) == "");
    const std::string json = ReportJson(MakeReport(contract, "", "", summary, judgement));
    const auto read = ReadReport(json);
    RC_LOG() << (read ? "" : read.error().message());
    RC_ASSERT(read.has_value());
    RC_ASSERT(ReportJson(*read) == json);
    const VerdictTotals pairs = CountPairs(judgement);
    satisfied += pairs.of(Verdict::kSatisfied) > 0 ? 1 : 0;
    other += pairs.of(Verdict::kSatisfied) < pairs.all() ? 1 : 0;
  }));
  EXPECT_GT(satisfied, 5);
  EXPECT_GT(other, 5);
}

}  // namespace
}  // namespace kcc
