#include "kcc/monitor/signal.h"

#include <gtest/gtest.h>

#include "kcc/monitor/monitor_test_data.h"
#include "kcc/monitor/request_evidence.h"
#include "kcc/monitor/sample.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::FakeEvidence;
using testing::FakeRequest;
using testing::FakeToken;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::TestPolicy;

struct FormCase {
  std::string metric;
  BoundKind bound;
  double threshold;
  double exceedance;
  SignalKind kind;
  size_t detectors;
  bool certifies;
};

TEST(Signal, EveryFormOfClauseHasItsWayToBeWatched) {
  const auto most = BoundKind::kAtMost;
  const auto least = BoundKind::kAtLeast;
  const FormCase cases[] = {
      {"max_kl", most, 1, 0, SignalKind::kProof, 0, false},
      {"max_kl", least, 1, 0, SignalKind::kExistence, 0, false},
      {"max_kl", most, 1, 0.01, SignalKind::kUnit, 1, true},
      {"p99_kl", most, 1, 0, SignalKind::kMass, 1, true},
      {"rate_bit_mismatch", most, 0, 0, SignalKind::kProof, 0, false},
      {"rate_bit_mismatch", most, 0.1, 0, SignalKind::kMass, 1, true},
      {"mean_kl", most, 0.1, 0, SignalKind::kMass, 1, false},
      {"mean_seq_kl", most, 0.1, 0, SignalKind::kMass, 1, false},
      {"mean_margin", least, 2, 0, SignalKind::kMass, 0, true},
      {"p95_latency_ms", most, 100, 0, SignalKind::kUnit, 1, true},
      {"failure_rate", most, 0.02, 0, SignalKind::kUnit, 1, true},
      {"failure_rate", most, 0, 0, SignalKind::kProof, 0, false},
      {"peak_memory_mb", most, 100, 0, SignalKind::kProof, 0, false},
      {"refusal_rate_gap", most, 0.02, 0, SignalKind::kFlagGap, 2, true},
      {"reward_drift", most, 0.02, 0, SignalKind::kMass, 2, true},
      {"flip_rate", most, 0.02, 0, SignalKind::kMass, 1, true},
      {"ece_gap", most, 0.02, 0, SignalKind::kBlock, 0, false},
      {"throughput_tokens_per_s", least, 100, 0, SignalKind::kBlock, 0, false},
      {"determinism_rate", least, 0.99, 0, SignalKind::kBlock, 0, false},
      {"ece_gap", most, 0.02, 0.1, SignalKind::kUnit, 1, true},
  };
  for (const FormCase& row : cases) {
    Clause clause = MonitorClause("c", row.metric, row.threshold, row.exceedance);
    clause.bound = row.bound;
    Contract contract = MonitorContract({clause});
    contract.assumptions.tokens_max = 64;
    contract.assumptions.reward_max = 1;
    const MonitorPolicy policy = TestPolicy();
    const auto plan = MakeSignalPlan(contract, policy, Stage::kFull);
    ASSERT_TRUE(plan.has_value()) << row.metric;
    const ClauseSignal& signal = plan->signals[0];
    EXPECT_EQ(signal.kind, row.kind) << row.metric << " " << row.threshold;
    EXPECT_EQ(signal.detectors.size(), row.detectors) << row.metric << " " << row.threshold;
    EXPECT_EQ(signal.certifies, row.certifies) << row.metric << " " << row.threshold;
  }
}

TEST(Signal, WithoutTokensMaxNothingDecidesARateOfTokens) {
  const Contract contract = MonitorContract({MonitorClause("c", "p99_kl", 1)});
  const MonitorPolicy policy = TestPolicy();
  const auto plan = MakeSignalPlan(contract, policy, Stage::kFull);
  EXPECT_EQ(plan->signals[0].kind, SignalKind::kNone);
  EXPECT_NE(plan->signals[0].why.find("tokensMax"), std::string::npos);
}

MonitorObservation ToObservation(const FakeRequest& request) {
  MonitorObservation observation;
  observation.kernel = "fast";
  observation.audited = true;
  observation.infer = request.infer;
  observation.train = request.train;
  ObservedTokens& tokens = observation.tokens;
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    TokenColumn column;
    column.slot = slot;
    for (const FakeToken& token : request.tokens) {
      column.lo.push_back(token.drift.lo[slot]);
      column.hi.push_back(token.drift.hi[slot]);
    }
    tokens.columns.push_back(std::move(column));
  }
  for (const FakeToken& token : request.tokens) {
    tokens.position.push_back(token.position);
    tokens.token.push_back(token.token);
    tokens.gold.push_back(token.gold);
    for (size_t side = 0; side < 2; ++side) {
      tokens.argmax[side].push_back(token.drift.argmax[side]);
      tokens.confidence[side].push_back(token.drift.confidence[side]);
    }
  }
  return observation;
}

// What the monitor takes from each request adds up to what a summary of them holds, which is what
// the judge decides by.
TEST(Signal, SamplesAddUpToWhatTheJudgeReads) {
  for (const bool intervals : {false, true}) {
    Contract contract = testing::TestContract();
    for (Clause& clause : contract.clauses) clause.stages = {Stage::kFull};
    const MonitorPolicy policy = TestPolicy();
    const SignalPlan signals = *MakeSignalPlan(contract, policy, Stage::kFull);
    std::vector<FakeRequest> requests = FakeEvidence(7).Requests(60, intervals);
    for (FakeRequest& request : requests) {
      request.train.fields.erase("output_tokens");  // no rows are claimed and missing
      request.infer.fields.erase("output_tokens");
      for (FakeToken& token : request.tokens) {
        const size_t kl = TokenSlot("kl");
        if (!token.drift.known[kl]) token.drift.Set(kl, 0.25);
      }
    }
    const Summary summary = testing::Accumulate(signals.plan, requests);
    auto evidence = *RequestEvidence::Make(signals.plan, {});
    std::vector<uint64_t> sure(signals.pairs.size()), possible(signals.pairs.size());
    std::vector<BettingSums> sums(signals.passes);
    for (const FakeRequest& request : requests) {
      const MonitorObservation observation = ToObservation(request);
      ASSERT_TRUE(CheckObservation(observation).has_value());
      ASSERT_TRUE(evidence.Read(observation, "infer-fp").has_value());
      for (size_t at = 0; at < signals.pairs.size(); ++at) {
        const SignalPair& pair = signals.pairs[at];
        const ClauseSignal& signal = signals.signals[pair.signal];
        if (signal.kind == SignalKind::kBlock || !evidence.Touches(pair.slice)) continue;
        const Sample sample = SampleOf(signal, signals.plan, pair.slice, &evidence);
        if (!sample.defined) continue;
        sure[at] += sample.sure ? 1 : 0;
        possible[at] += sample.possible ? 1 : 0;
        for (size_t i = 0; i < signal.tests.size(); ++i) {
          sums[pair.first_pass + i].Add(signal.passes[i], sample.for_pass[i], sample.for_fail[i]);
        }
      }
    }
    int compared = 0;
    for (size_t at = 0; at < signals.pairs.size(); ++at) {
      const SignalPair& pair = signals.pairs[at];
      const ClauseSignal& signal = signals.signals[pair.signal];
      const Clause& clause = *signal.clause;
      if (!clause.hard() && signal.kind == SignalKind::kUnit) {
        const auto windows =
            SliceWindows(summary, pair.slice, clause.metric, clause.window, clause.threshold);
        ASSERT_TRUE(windows.has_value());
        EXPECT_EQ(sure[at], windows->folded.beyond.above_sure) << signal.metric;
        EXPECT_EQ(possible[at], windows->folded.beyond.above_possible) << signal.metric;
        ++compared;
      }
      for (size_t i = 0; i < signal.tests.size(); ++i) {
        if (signal.tests[i].truncated) continue;
        const int test = signals.plan.FindTest(signal.tests[i]);
        ASSERT_GE(test, 0);
        EXPECT_EQ(sums[pair.first_pass + i],
                  summary.slices[pair.slice].tests[static_cast<size_t>(test)].sums)
            << signal.metric;
        ++compared;
      }
    }
    EXPECT_GE(compared, 12);
  }
}

}  // namespace
}  // namespace kcc
