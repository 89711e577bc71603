// Lines as events: event_conformance over every line, and lines that could not be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/monitor/forecast.h"
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

Monitor MakeMonitor(std::vector<Clause> clauses,
                    std::vector<Slice> slices = {MonitorSlice("all")}) {
  auto monitor =
      Monitor::Make(MonitorContract(std::move(clauses), std::move(slices)), TestPolicy());
  EXPECT_TRUE(monitor.has_value()) << monitor.error().Format();
  return *std::move(monitor);
}

MonitorDecision See(Monitor& monitor, const MonitorObservation& observation) {
  auto decision = monitor.Observe(observation);
  EXPECT_TRUE(decision.has_value()) << decision.error().Format();
  return *std::move(decision);
}

Clause Conformance(double threshold) {
  return MonitorClause("events", "event_conformance", threshold);
}

// A line that nobody audited.
MonitorObservation Line(int64_t number, bool conforms, const std::string& kernel = "fast") {
  MonitorObservation line;
  line.time_ms = number;
  line.kernel = kernel;
  line.infer.id = "r" + std::to_string(number);
  if (conforms) {
    line.infer.fields["latency_ms"] = 5.0;
  } else {
    line.infer.fields["latency_ms"] = std::string("5");
  }
  return line;
}

const PairStatus& PairOf(const MonitorStatus& status, const std::string& kernel, size_t at = 0) {
  return KernelIn(status, kernel).pairs.at(at);
}

// Lines that conform until the clause is satisfied; how many it took.
int64_t Satisfy(Monitor& monitor, size_t pair = 0) {
  int64_t number = 0;
  while (number < 2000 && PairOf(monitor.Status(), "fast", pair).verdict != Verdict::kSatisfied) {
    See(monitor, Line(number++, true));
  }
  return number;
}

TEST(MonitorEvents, EveryLineCountsWhetherAuditedOrNot) {
  Monitor monitor = MakeMonitor({Conformance(0.9)});
  const int64_t lines = Satisfy(monitor);
  EXPECT_GT(lines, 28) << "fewer than the exact test needs";
  EXPECT_LT(lines, 100);
  EXPECT_EQ(monitor.Status().unaudited, lines);
  EXPECT_EQ(PairOf(monitor.Status(), "fast").observations, lines);
  // Of kernels that logged nothing, nothing is known.
  EXPECT_EQ(PairOf(monitor.Status(), "careful").verdict, Verdict::kInconclusive);
  EXPECT_THAT(PairOf(monitor.Status(), "careful").reason, HasSubstr("nothing was logged"));
}

TEST(MonitorEvents, LinesThatDoNotConformRaiseAnAlarm) {
  Monitor monitor = MakeMonitor({Conformance(0.9)});
  MonitorDecision decision;
  int64_t number = 0;
  while (number < 1000 && !Has(decision, MonitorChangeKind::kAlarm)) {
    decision = See(monitor, Line(number, number % 2 == 0));
    ++number;
  }
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kAlarm));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kGuard));
  EXPECT_THAT(decision.changes[0].reason, HasSubstr("does not keep to the published schema"));
  EXPECT_GE(decision.changes[0].e_value, decision.changes[0].e_level);
  EXPECT_EQ(PairOf(monitor.Status(), "fast").verdict, Verdict::kViolated);
}

TEST(MonitorEvents, OneLineRefutesAClauseThatAllowsNone) {
  Monitor monitor = MakeMonitor({Conformance(1)});
  for (int64_t i = 0; i < 500; ++i) EXPECT_TRUE(See(monitor, Line(i, true)).changes.empty());
  EXPECT_EQ(PairOf(monitor.Status(), "fast").verdict, Verdict::kInconclusive);
  const MonitorDecision decision = See(monitor, Line(500, false));
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_THAT(decision.changes[0].reason, HasSubstr("'latency_ms' must be a number from 0"));
  EXPECT_EQ(decision.handling, Handling::kUnaudited);
}

TEST(MonitorEvents, WhatWasAskedBelongsToTheLineAndTrainsRecordDoesNot) {
  Monitor monitor =
      MakeMonitor({Conformance(1), MonitorClause("train", "train_event_conformance", 1)});
  MonitorObservation line = KlObservation(0, {0.1});
  line.train->fields["refused"] = std::string("no");
  MonitorDecision decision = See(monitor, line);
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_EQ(decision.changes[0].clause, "train");
  line = KlObservation(1, {0.1});
  line.asked.emplace().id = line.id();
  line.asked->fields["tags"] = std::string("math");
  decision = See(monitor, line);
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_EQ(decision.changes[0].clause, "events");
}

// A record that train does not have says nothing of its conformance.
TEST(MonitorEvents, OfTrainOnlyAuditedLinesAreRead) {
  Monitor monitor = MakeMonitor({MonitorClause("train", "train_event_conformance", 0.9)});
  for (int64_t i = 0; i < 200; ++i) See(monitor, Line(i, true));
  EXPECT_EQ(PairOf(monitor.Status(), "fast").observations, 0);
  for (int64_t i = 200; i < 400; ++i) See(monitor, KlObservation(i, {0.1}));  // no field of train's
  EXPECT_EQ(PairOf(monitor.Status(), "fast").verdict, Verdict::kInconclusive);
}

TEST(MonitorEvents, ALineDoesNotVouchForItself) {
  Monitor monitor = MakeMonitor({Conformance(1)});
  MonitorObservation line = Line(0, false);
  line.audited = true;
  line.values["event_conformance"] = {1, 1};
  EXPECT_TRUE(Has(See(monitor, line), MonitorChangeKind::kProof));
}

TEST(MonitorEvents, DetectorsThatLookAtEveryLineHaveALevelThatIsAsMuchHigher) {
  MonitorPolicy policy = TestPolicy();
  policy.audit.rate = 0.1;
  const Contract contract = MonitorContract({SoftKl(), Conformance(0.9)});
  const auto forecast = ForecastMonitor(contract, policy, {});
  ASSERT_TRUE(forecast.has_value()) << forecast.error().Format();
  EXPECT_FALSE(forecast->pairs[0].of_events);
  EXPECT_EQ(forecast->pairs[0].alarm_level, forecast->alarm_level);
  EXPECT_TRUE(forecast->pairs[1].of_events);
  EXPECT_DOUBLE_EQ(forecast->pairs[1].alarm_level, 10 * forecast->alarm_level);
}

TEST(UnreadLine, OfAKernelIsThatKernelsAlone) {
  Monitor monitor = MakeMonitor({Conformance(1), Conformance(0.9)});
  Satisfy(monitor, 1);
  const MonitorDecision decision = monitor.ObserveUnread("careful");
  EXPECT_EQ(decision.handling, Handling::kUnread);
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  EXPECT_EQ(decision.changes[0].kernel, "careful");
  EXPECT_THAT(decision.changes[0].reason, HasSubstr("a line could not be read"));
  EXPECT_EQ(PairOf(monitor.Status(), "fast", 1).verdict, Verdict::kSatisfied);
  EXPECT_EQ(monitor.serves(), "fast");
  EXPECT_EQ(monitor.Status().unread, 1);
}

TEST(UnreadLine, OfNobodyIsPutDownToTheKernelThatServesAndHoldsAllBack) {
  Monitor monitor = MakeMonitor({Conformance(1), Conformance(0.9)});
  const MonitorDecision decision = monitor.ObserveUnread("");
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  for (const MonitorChange& change : decision.changes) EXPECT_NE(change.kernel, "reference");
  EXPECT_EQ(decision.changes[0].kernel, "fast");
  const MonitorStatus status = monitor.Status();
  EXPECT_EQ(PairOf(status, "careful", 1).observations, 1);
  EXPECT_EQ(PairOf(status, "careful", 1).verdict, Verdict::kInconclusive);
  EXPECT_EQ(decision.serves, "careful");
  // A kernel that the policy lacks is nobody's either.
  EXPECT_EQ(monitor.ObserveUnread("nobody").changes[0].kernel, "careful");
}

// A kernel whose bad requests break their lines must not look good by those that are left.
TEST(UnreadLine, NothingIsSatisfiedByLosingLines) {
  for (const bool lost : {false, true}) {
    Monitor monitor = MakeMonitor({SoftKl(0.05)});
    bool satisfied = false;
    for (int64_t i = 0; i < 3000; ++i) {
      if (lost && i % 10 == 0) {
        monitor.ObserveUnread(i % 20 == 0 ? "fast" : "");
      } else {
        See(monitor, GoodOrBad(i, false));
      }
      satisfied = satisfied || PairOf(monitor.Status(), "fast").verdict == Verdict::kSatisfied;
    }
    EXPECT_EQ(satisfied, !lost);
    EXPECT_EQ(monitor.Status().unread, lost ? 300 : 0);
    EXPECT_TRUE(KernelIn(monitor.Status(), "fast").state == KernelState::kServing)
        << "what is missing shows nothing";
  }
}

TEST(UnreadLine, NothingIsReleasedByLosingLines) {
  Monitor monitor = MakeMonitor({MonitorClause("hard", "max_kl", 1)});
  See(monitor, GoodOrBad(0, true));
  int64_t number = 1;
  for (; number < 2000; ++number) {
    const MonitorDecision decision =
        number % 40 == 0 ? monitor.ObserveUnread("fast") : See(monitor, GoodOrBad(number, false));
    ASSERT_FALSE(Has(decision, MonitorChangeKind::kRelease)) << number;
  }
  bool released = false;
  for (int64_t i = 0; i < 60 && !released; ++i) {
    released = Has(See(monitor, GoodOrBad(number++, false)), MonitorChangeKind::kRelease);
  }
  EXPECT_TRUE(released);
}

TEST(UnreadLine, PutsItsBlockInDoubt) {
  for (const bool lost : {false, true}) {
    Clause windows = MonitorClause("windows", "mean_kl", 1, 0.2);
    windows.window = {Window::Kind::kRequests, 4};
    Monitor monitor = MakeMonitor({windows});
    for (int64_t i = 0; i < 400; ++i) {
      See(monitor, GoodOrBad(i, false));
      if (lost && i % 4 == 1) monitor.ObserveUnread("fast");
    }
    EXPECT_EQ(PairOf(monitor.Status(), "fast").verdict,
              lost ? Verdict::kInconclusive : Verdict::kSatisfied);
    EXPECT_EQ(PairOf(monitor.Status(), "fast").observations, 100);
  }
}

// Where events are judged window by window, lines that could not be read are a part of them.
TEST(UnreadLine, CountsInWindowsOfEvents) {
  Clause windows = MonitorClause("windows", "event_conformance", 0.9, 0.2);
  windows.window = {Window::Kind::kRequests, 4};
  Monitor monitor = MakeMonitor({windows});
  bool alarm = false;
  for (int64_t i = 0; i < 4000 && !alarm; ++i) {
    const MonitorDecision decision =
        i % 4 == 1 ? monitor.ObserveUnread("fast") : See(monitor, Line(i, true));
    alarm = Has(decision, MonitorChangeKind::kAlarm);
  }
  EXPECT_TRUE(alarm);
}

TEST(UnreadLine, OfASliceNothingIsKnownSurely) {
  Clause clause = Conformance(1);
  clause.slices = {"all", "code"};
  Monitor monitor =
      MakeMonitor({clause}, {MonitorSlice("all"), MonitorSlice("code", "kind == 'code'")});
  const MonitorDecision decision = monitor.ObserveUnread("fast");
  ASSERT_TRUE(Has(decision, MonitorChangeKind::kProof));
  for (const MonitorChange& change : decision.changes) EXPECT_NE(change.slice, "code");
}

TEST(UnreadLine, IsAPartOfTheStateThatIsSaved) {
  const Contract contract = MonitorContract({SoftKl(0.05), Conformance(0.9)});
  Monitor monitor = *Monitor::Make(contract, TestPolicy());
  for (int64_t i = 0; i < 100; ++i) {
    if (i % 7 == 0) {
      monitor.ObserveUnread(i % 2 == 0 ? "fast" : "");
    } else {
      See(monitor, GoodOrBad(i, false));
    }
  }
  auto restored = Monitor::Restore(contract, TestPolicy(), monitor.Save());
  ASSERT_TRUE(restored.has_value()) << restored.error().Format();
  EXPECT_EQ(restored->Status().unread, 15);
  EXPECT_EQ(restored->ObserveUnread(""), monitor.ObserveUnread(""));
  EXPECT_EQ(restored->Save(), monitor.Save());
}

}  // namespace
}  // namespace kcc
