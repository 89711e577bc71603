#include "kcc/monitor/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::Has;
using ::testing::HasSubstr;
using testing::KernelIn;
using testing::KlObservation;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::MonitorSlice;
using testing::SoftKl;
using testing::TestPolicy;

Monitor MakeMonitor(std::vector<Clause> clauses, MonitorPolicy policy = TestPolicy(),
                    std::vector<Slice> slices = {MonitorSlice("all")}) {
  auto monitor = Monitor::Make(MonitorContract(std::move(clauses), std::move(slices)), policy);
  EXPECT_TRUE(monitor.has_value()) << monitor.error().Format();
  return *std::move(monitor);
}

MonitorDecision See(Monitor& monitor, const MonitorObservation& observation) {
  auto decision = monitor.Observe(observation);
  EXPECT_TRUE(decision.has_value()) << decision.error().Format();
  return *std::move(decision);
}

// Bad requests until the kernel is guarded; the number of the next one.
int64_t Break(Monitor& monitor, int64_t number, const std::string& kernel = "fast") {
  for (int i = 0; i < 1000; ++i) {
    if (Has(See(monitor, GoodOrBad(number++, true, kernel)), MonitorChangeKind::kGuard))
      return number;
  }
  ADD_FAILURE() << "was never guarded";
  return number;
}

// Good ones until it is released.
int64_t Heal(Monitor& monitor, int64_t number, const std::string& kernel = "fast") {
  for (int i = 0; i < 20000; ++i) {
    if (Has(See(monitor, GoodOrBad(number++, false, kernel)), MonitorChangeKind::kRelease))
      return number;
  }
  ADD_FAILURE() << "was never released";
  return number;
}

TEST(Monitor, BeginsInconclusiveAndServesTheFirstKernel) {
  Monitor monitor = MakeMonitor({SoftKl()});
  EXPECT_EQ(monitor.serves(), "fast");
  const MonitorStatus status = monitor.Status();
  EXPECT_EQ(KernelIn(status, "fast").verdict, Verdict::kInconclusive);
  EXPECT_EQ(KernelIn(status, "fast").health, 0);
  EXPECT_FALSE(KernelIn(status, "fast").action.has_value());
}

TEST(Monitor, ABurstOfBadRequestsGuardsAndMovesRequests) {
  Monitor monitor = MakeMonitor({SoftKl()});
  for (int64_t i = 0; i < 200; ++i) See(monitor, GoodOrBad(i, false));
  const int64_t next = Break(monitor, 200);
  EXPECT_LE(next - 200, 12);
  EXPECT_EQ(monitor.serves(), "careful");
  const MonitorStatus status = monitor.Status();
  const KernelStatus& fast = KernelIn(status, "fast");
  EXPECT_EQ(fast.state, KernelState::kGuarded);
  EXPECT_EQ(fast.pairs[0].verdict, Verdict::kViolated);
  EXPECT_EQ(fast.action, Action::kGuard);
  EXPECT_EQ(fast.target, "careful");
  EXPECT_GE(fast.health, fast.eta1);
  EXPECT_LT(fast.health, fast.eta2);
}

TEST(Monitor, SaysWhyRequestsMove) {
  Monitor monitor = MakeMonitor({SoftKl()});
  MonitorDecision decision;
  for (int64_t i = 0; decision.changes.empty(); ++i) decision = See(monitor, GoodOrBad(i, true));
  ASSERT_EQ(decision.changes.size(), 3u);
  EXPECT_EQ(decision.changes[0].kind, MonitorChangeKind::kAlarm);
  EXPECT_GE(decision.changes[0].e_value, decision.changes[0].e_level);
  EXPECT_EQ(decision.changes[0].clause, "soft-kl");
  EXPECT_THAT(decision.changes[0].reason, HasSubstr("clause 'soft-kl' on slice 'all'"));
  EXPECT_EQ(decision.changes[1].kind, MonitorChangeKind::kGuard);
  EXPECT_EQ(decision.changes[2].kind, MonitorChangeKind::kRoute);
  EXPECT_EQ(decision.changes[2].kernel, "careful");
  EXPECT_EQ(decision.serves, "careful");
}

TEST(Monitor, OneExceedanceOfAHardMaximumIsAProof) {
  Monitor monitor = MakeMonitor({MonitorClause("hard", "max_kl", 1)});
  for (int64_t i = 0; i < 5000; ++i) See(monitor, GoodOrBad(i, false));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kInconclusive)
      << "no sample shows that a maximum holds";
  const MonitorDecision decision = See(monitor, GoodOrBad(5000, true));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kGuard));
}

TEST(Monitor, AHardClauseReturnsAfterCleanProbes) {
  Monitor monitor = MakeMonitor({MonitorClause("hard", "max_kl", 1)});
  See(monitor, GoodOrBad(0, true));
  for (int64_t i = 1; i < 50; ++i) {
    EXPECT_FALSE(Has(See(monitor, GoodOrBad(i, false)), MonitorChangeKind::kRelease));
  }
  const MonitorDecision decision = See(monitor, GoodOrBad(50, false));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kRelease));
  EXPECT_EQ(decision.serves, "fast");
}

TEST(Monitor, EvidenceCertifiesASoftClause) {
  Monitor monitor = MakeMonitor({SoftKl(0.05)});
  int64_t n = 0;
  while (KernelIn(monitor.Status(), "fast").verdict != Verdict::kSatisfied && n < 1000) {
    See(monitor, GoodOrBad(n++, false));
  }
  EXPECT_GT(n, 58) << "fewer than the exact test needs";
  EXPECT_LT(n, 90);
}

TEST(Monitor, IsReleasedByProbesAndThenOnProbation) {
  Monitor monitor = MakeMonitor({SoftKl(0.05)});
  int64_t next = Break(monitor, 0);
  next = Heal(monitor, next);
  EXPECT_EQ(monitor.serves(), "fast");
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").state, KernelState::kProbation);
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").audit_rate, 1);
  for (int i = 0; i < 19; ++i) See(monitor, GoodOrBad(next++, false));
  EXPECT_TRUE(Has(See(monitor, GoodOrBad(next++, false)), MonitorChangeKind::kProbationEnd));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").state, KernelState::kServing);
}

TEST(Monitor, EveryStrikeAsksForMoreEvidence) {
  Monitor monitor = MakeMonitor({SoftKl(0.05)});
  int64_t next = 0;
  int64_t last = 0;
  for (int strike = 0; strike < 4; ++strike) {
    const int64_t broken = Break(monitor, next);
    next = Heal(monitor, broken);
    EXPECT_EQ(KernelIn(monitor.Status(), "fast").strikes, strike);
    EXPECT_GT(next - broken, last);
    last = next - broken;
  }
}

TEST(Monitor, AnAlarmWhileGuardedStartsTheEvidenceAfresh) {
  Monitor monitor = MakeMonitor({MonitorClause("hard", "max_kl", 1)});
  See(monitor, GoodOrBad(0, true));
  for (int64_t i = 1; i < 50; ++i) See(monitor, GoodOrBad(i, false));
  See(monitor, GoodOrBad(50, true));
  for (int64_t i = 51; i < 100; ++i) {
    EXPECT_FALSE(Has(See(monitor, GoodOrBad(i, false)), MonitorChangeKind::kRelease));
  }
  EXPECT_TRUE(Has(See(monitor, GoodOrBad(100, false)), MonitorChangeKind::kRelease));
}

TEST(Monitor, OverridesSendAFamilyToItsTarget) {
  MonitorPolicy policy = TestPolicy();
  policy.kernels.push_back({"high-precision", KernelRole::kGuard, "", {}});
  policy.overrides = {
      {Family::kNumerical, ViolationLevel::kL2, Action::kGuard, "high-precision", {}}};
  Monitor monitor = MakeMonitor({SoftKl()}, policy);
  Break(monitor, 0);
  EXPECT_EQ(monitor.serves(), "high-precision");
}

TEST(Monitor, AnL3GoesToTheFallbackAndOutweighsEveryL2) {
  Clause hard = MonitorClause("l3", "max_kl", 1);
  hard.level = ViolationLevel::kL3;
  Monitor monitor = MakeMonitor({SoftKl(), hard});
  See(monitor, GoodOrBad(0, true));
  EXPECT_EQ(monitor.serves(), "reference");
  const MonitorStatus status = monitor.Status();
  EXPECT_GE(KernelIn(status, "fast").health, KernelIn(status, "fast").eta2);
  EXPECT_EQ(KernelIn(status, "fast").action, Action::kFallback);
}

TEST(Monitor, AClauseThatOnlyLogsMovesNothingAndRecovers) {
  Clause logged = SoftKl(0.05);
  logged.level = ViolationLevel::kL1;
  Monitor monitor = MakeMonitor({logged});
  bool alarmed = false;
  int64_t n = 0;
  while (!alarmed) alarmed = Has(See(monitor, GoodOrBad(n++, true)), MonitorChangeKind::kAlarm);
  EXPECT_EQ(monitor.serves(), "fast");
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kViolated);
  bool recovered = false;
  while (!recovered && n < 2000) {
    recovered = Has(See(monitor, GoodOrBad(n++, false)), MonitorChangeKind::kRecovered);
  }
  EXPECT_TRUE(recovered);
  EXPECT_NE(KernelIn(monitor.Status(), "fast").verdict, Verdict::kViolated);
}

struct PanicCase {
  PanicRule rule;
  std::string serves;
};

TEST(Monitor, PanicsByTheStatedRuleWhenEveryKernelIsGuarded) {
  for (const PanicCase& row :
       {PanicCase{PanicRule::kFailClosed, ""}, PanicCase{PanicRule::kFailOpen, "fast"},
        PanicCase{PanicRule::kServeSafest, "careful"}}) {
    MonitorPolicy policy = TestPolicy();
    policy.panic = row.rule;
    Clause extreme = MonitorClause("extreme", "max_kl", 100);
    extreme.level = ViolationLevel::kL3;
    Monitor monitor = MakeMonitor({MonitorClause("hard", "max_kl", 1), extreme}, policy);
    See(monitor, KlObservation(0, {200}, "fast"));
    EXPECT_EQ(monitor.serves(), "reference");
    See(monitor, GoodOrBad(1, true, "careful"));
    const MonitorDecision last = See(monitor, KlObservation(2, {200}, "reference"));
    EXPECT_TRUE(Has(last, MonitorChangeKind::kPanic));
    EXPECT_EQ(last.serves, row.serves);
    EXPECT_TRUE(monitor.Status().panic);
    // One that is released ends the panic.
    bool ended = false;
    for (int64_t i = 3; i < 60 && !ended; ++i) {
      ended = Has(See(monitor, GoodOrBad(i, false, "reference")), MonitorChangeKind::kPanicEnd);
    }
    EXPECT_TRUE(ended);
    EXPECT_EQ(monitor.serves(), "reference");
  }
}

TEST(Monitor, SeesASliceOfTokensAlone) {
  const std::vector<Slice> slices = {MonitorSlice("all"),
                                     MonitorSlice("late", "token.position >= 4096")};
  Monitor monitor = MakeMonitor({SoftKl(0.01, {"all", "late"})}, TestPolicy(), slices);
  MonitorDecision decision;
  int64_t n = 0;
  while (decision.changes.empty() && n < 2000) {
    // Short requests are fine; one in thirty is long, and bad beyond the position alone.
    for (int i = 0; i < 29; ++i) See(monitor, KlObservation(n++, {0.1, 0.1}));
    MonitorObservation longer = KlObservation(n++, {0.1, 3});
    longer.tokens.position = {4095, 4096};
    decision = See(monitor, longer);
  }
  ASSERT_FALSE(decision.changes.empty());
  EXPECT_EQ(decision.changes[0].slice, "late");
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").pairs[1].observations, 0) << "since the alarm";
}

TEST(Monitor, SplitsTheBudgetOverClausesAndSlices) {
  const std::vector<Slice> slices = {MonitorSlice("all"), MonitorSlice("even", "even == true")};
  Monitor monitor =
      MakeMonitor({SoftKl(0.01, {"all", "even"}), MonitorClause("gap", "refusal_rate_gap", 0.02)},
                  TestPolicy(), slices);
  EXPECT_EQ(monitor.Status().detectors, 4) << "two slices, and two signs of a gap";
  EXPECT_EQ(monitor.Status().alarm_level, 4e6);
}

TEST(Monitor, CountsOneRequestOfASessionAndOneOfAnId) {
  MonitorPolicy policy = TestPolicy();
  policy.audit.session_epoch_ms = 1000;
  Monitor monitor = MakeMonitor({SoftKl()}, policy);
  MonitorObservation first = GoodOrBad(1, false);
  first.session = "s";
  EXPECT_EQ(See(monitor, first).handling, Handling::kCounted);
  EXPECT_EQ(See(monitor, first).handling, Handling::kDuplicate);
  MonitorObservation second = GoodOrBad(2, true);
  second.session = "s";
  EXPECT_EQ(See(monitor, second).handling, Handling::kSession);
  EXPECT_FALSE(monitor.ShouldAudit("r3", "s", "fast", 3));
  second.time_ms = 1500;  // another epoch
  EXPECT_EQ(See(monitor, second).handling, Handling::kCounted);
  EXPECT_EQ(See(monitor, GoodOrBad(3, true)).handling, Handling::kLate);
  second.kernel = "careful";  // another kernel is judged by other evidence
  EXPECT_EQ(See(monitor, second).handling, Handling::kCounted);
  const MonitorStatus status = monitor.Status();
  EXPECT_EQ(status.duplicates, 1);
  EXPECT_EQ(status.sessions, 1);
  EXPECT_EQ(status.late, 1);
}

TEST(Monitor, AuditsTheStatedShareAndEverythingOnProbation) {
  MonitorPolicy policy = TestPolicy();
  policy.audit.rate = 0.25;
  policy.audit.probe_rate = 0.1;
  Monitor monitor = MakeMonitor({SoftKl(0.05)}, policy);
  const auto share = [&] {
    int audited = 0;
    for (int i = 0; i < 10000; ++i) {
      audited += monitor.ShouldAudit("q" + std::to_string(i), "", "fast", 1) ? 1 : 0;
    }
    return audited / 10000.0;
  };
  EXPECT_NEAR(share(), 0.25, 0.02);
  const int64_t next = Break(monitor, 0);
  EXPECT_NEAR(share(), 0.1, 0.02);
  Heal(monitor, next);
  EXPECT_GT(share(), 0.98) << "but for matches of the filter";
  EXPECT_FALSE(monitor.ShouldAudit("q", "", "nobody", 1));
}

TEST(Monitor, RefusesWhatItCannotReadAndChangesNothing) {
  Monitor monitor = MakeMonitor({SoftKl()});
  const std::string before = monitor.Save();
  MonitorObservation unknown = GoodOrBad(1, true, "nobody");
  EXPECT_THAT(monitor.Observe(unknown).error().message(), HasSubstr("does not list"));
  MonitorObservation ragged = GoodOrBad(1, true);
  ragged.tokens.position.push_back(7);
  EXPECT_FALSE(monitor.Observe(ragged).has_value());
  MonitorObservation nameless = GoodOrBad(1, true);
  nameless.infer.id.clear();
  EXPECT_FALSE(monitor.Observe(nameless).has_value());
  EXPECT_EQ(monitor.Save(), before);
}

TEST(Monitor, RecordsThatContradictEachOtherGuardTheKernel) {
  const std::vector<Slice> slices = {MonitorSlice("all"), MonitorSlice("code", "'code' in tags")};
  Monitor monitor = MakeMonitor({SoftKl(0.01, {"code"})}, TestPolicy(), slices);
  MonitorObservation observation = GoodOrBad(1, false);
  observation.infer.fields["tags"] = std::vector<std::string>{"chat"};
  observation.train->fields["tags"] = std::vector<std::string>{"code"};
  const MonitorDecision decision = See(monitor, observation);
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kBroken));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kGuard));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kError);
}

TEST(Monitor, WhatInferAloneSaysNeverCertifies) {
  const std::vector<Slice> slices = {MonitorSlice("all"), MonitorSlice("hard", "difficulty > 3")};
  Monitor believed = MakeMonitor({SoftKl(0.05, {"hard"})}, TestPolicy(), slices);
  Monitor alone = MakeMonitor({SoftKl(0.05, {"hard"})}, TestPolicy(), slices);
  for (int64_t i = 0; i < 300; ++i) {
    MonitorObservation observation = GoodOrBad(i, false);
    observation.infer.fields["difficulty"] = 5.0;
    See(alone, observation);
    observation.train->fields["difficulty"] = 5.0;
    See(believed, observation);
  }
  EXPECT_EQ(KernelIn(believed.Status(), "fast").verdict, Verdict::kSatisfied);
  EXPECT_EQ(KernelIn(alone.Status(), "fast").verdict, Verdict::kInconclusive);
}

TEST(Monitor, MissingTokensNeverCertify) {
  Monitor monitor = MakeMonitor({SoftKl(0.05)});
  for (int64_t i = 0; i < 300; ++i) {
    MonitorObservation observation = GoodOrBad(i, false);
    observation.infer.fields["output_tokens"] = 5.0;  // and one row
    See(monitor, observation);
  }
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kInconclusive);
}

TEST(Monitor, TakesMetricsThatTheEmitterComputed) {
  Monitor monitor = MakeMonitor({SoftKl(0.05)});
  const auto given = [](int64_t i, double value) {
    MonitorObservation observation = KlObservation(i, {});
    observation.tokens = {};
    observation.values["max_kl"] = {value, value};
    return observation;
  };
  for (int64_t i = 0; i < 100; ++i) See(monitor, given(i, 0.5));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kSatisfied);
  bool alarmed = false;
  for (int64_t i = 100; i < 150 && !alarmed; ++i) {
    alarmed = Has(See(monitor, given(i, 2)), MonitorChangeKind::kAlarm);
  }
  EXPECT_TRUE(alarmed);
}

TEST(Monitor, RuntimeClausesAreWatchedByBlocksAndWindows) {
  MonitorPolicy policy = TestPolicy();
  policy.block_requests = 10;
  policy.audit.rate = 1;
  policy.audit.once_per_session = false;
  Clause throughput = MonitorClause("throughput", "throughput_tokens_per_s", 100);
  Clause by_time = MonitorClause("slow-minutes", "p95_latency_ms", 200, 0.1);
  by_time.window = {Window::Kind::kTime, 1000};
  Monitor monitor = MakeMonitor({throughput, by_time}, policy);
  const auto timed = [](int64_t i, double latency) {
    MonitorObservation observation = KlObservation(i, {0.1});
    observation.time_ms = 100 * i;
    observation.infer.fields["started_at_ms"] = 100.0 * static_cast<double>(i);
    observation.infer.fields["latency_ms"] = latency;
    observation.infer.fields["output_tokens"] = 1.0;
    observation.tokens = {};
    observation.tokens.position = {0};
    observation.tokens.columns = {{TokenSlot("kl"), {0.1}, {}}};
    return observation;
  };
  // 10 tokens in about a second are too few: a fact about the block.
  MonitorDecision decision;
  int64_t i = 0;
  for (; i < 10; ++i) decision = See(monitor, timed(i, 50));
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_EQ(decision.changes[0].clause, "throughput");
  // Windows of a second, all of them slow.
  bool alarmed = false;
  for (; i < 1000 && !alarmed; ++i)
    alarmed = Has(See(monitor, timed(i, 500)), MonitorChangeKind::kAlarm);
  EXPECT_TRUE(alarmed);
}

TEST(Monitor, WindowsOfTimeThatHoldAreCertified) {
  Clause by_time = MonitorClause("slow-seconds", "max_latency_ms", 200, 0.2);
  by_time.window = {Window::Kind::kTime, 1000};
  Monitor monitor = MakeMonitor({by_time});
  const auto timed = [](int64_t i) {
    MonitorObservation observation = KlObservation(i, {0.1});
    observation.time_ms = 500 * i;
    observation.infer.fields["latency_ms"] = 50.0;
    return observation;
  };
  for (int64_t i = 0; i < 20; ++i) See(monitor, timed(i));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kInconclusive);
  for (int64_t i = 20; i < 100; ++i) See(monitor, timed(i));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kSatisfied);
}

TEST(Monitor, AnUnboundedMeanIsRefutedAndNeverSatisfied) {
  Monitor monitor = MakeMonitor({MonitorClause("mean", "mean_seq_kl", 1)});
  for (int64_t i = 0; i < 3000; ++i) See(monitor, KlObservation(i, {0.1}));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kInconclusive);
  bool alarmed = false;
  for (int64_t i = 3000; i < 3200 && !alarmed; ++i) {
    alarmed = Has(See(monitor, KlObservation(i, {4})), MonitorChangeKind::kAlarm);
  }
  EXPECT_TRUE(alarmed);
}

TEST(Monitor, ALongerRequestThanAssumedIsAnError) {
  Contract contract = MonitorContract({MonitorClause("tokens", "p99_kl", 1)});
  contract.assumptions.tokens_max = 2;
  Monitor monitor = *Monitor::Make(contract, TestPolicy());
  See(monitor, KlObservation(0, {0.1, 0.1}));
  const MonitorDecision decision = See(monitor, KlObservation(1, {0.1, 0.1, 0.1}));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kBroken));
  EXPECT_EQ(KernelIn(monitor.Status(), "fast").verdict, Verdict::kError);
}

TEST(Monitor, OneRecordOfBothSidesVouchesForSlicesAndComparesNothing) {
  Contract contract =
      MonitorContract({MonitorClause("drift", "reward_drift", 0.1), SoftKl(0.01, {"code"})},
                      {MonitorSlice("all"), MonitorSlice("code", "kind == 'code'")});
  Monitor monitor = *Monitor::Make(contract, TestPolicy());
  for (int64_t i = 0; i < 2000; ++i) {
    MonitorObservation observation = KlObservation(i, {0.1});
    observation.train.reset();
    observation.one_record = true;
    observation.infer.fields["kind"] = std::string("code");
    observation.infer.fields["reward"] = 1.0;
    See(monitor, observation);
  }
  const KernelStatus status = KernelIn(monitor.Status(), "fast");
  ASSERT_EQ(status.pairs.size(), 2u);
  EXPECT_EQ(status.pairs[0].verdict, Verdict::kInconclusive);
  EXPECT_EQ(status.pairs[1].verdict, Verdict::kSatisfied);

  MonitorObservation both = KlObservation(9999, {0.1});
  both.one_record = true;
  EXPECT_FALSE(monitor.Observe(both).has_value());
}

TEST(Monitor, NeedsAClauseOfItsStage) {
  Clause offline = SoftKl();
  offline.stages = {Stage::kOffline};
  EXPECT_FALSE(Monitor::Make(MonitorContract({offline}), TestPolicy()).has_value());
}

}  // namespace
}  // namespace kcc
