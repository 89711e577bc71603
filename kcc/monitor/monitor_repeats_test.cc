// Requests that were asked again, and evidence that says itself that it is broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/monitor/monitor_test_data.h"

namespace kcc {
namespace {

using testing::GoodOrBad;
using testing::Has;
using ::testing::HasSubstr;
using testing::KernelIn;
using testing::MonitorClause;
using testing::MonitorContract;
using testing::SoftKl;
using testing::TestPolicy;

constexpr int64_t kBlock = 4;

Monitor MakeMonitor(std::vector<Clause> clauses) {
  MonitorPolicy policy = TestPolicy();
  policy.block_requests = kBlock;
  policy.audit.once_per_session = true;
  auto monitor = Monitor::Make(MonitorContract(std::move(clauses)), std::move(policy));
  EXPECT_TRUE(monitor.has_value()) << monitor.error().Format();
  return *std::move(monitor);
}

MonitorDecision See(Monitor& monitor, const MonitorObservation& observation) {
  auto decision = monitor.Observe(observation);
  EXPECT_TRUE(decision.has_value()) << decision.error().Format();
  return *std::move(decision);
}

// Request `number`, or what came of asking it again.
MonitorObservation Signed(int64_t number, bool repeat, const std::string& signature) {
  MonitorObservation observation = GoodOrBad(number, false);
  const std::string group = observation.infer.id;
  observation.session = "session " + group;
  if (repeat) {
    observation.infer.id += "#repeat";
    observation.train->id = observation.infer.id;
    observation.tokens = {};
    observation.probe = observation.repeat = true;
  }
  observation.asked.emplace().id = observation.infer.id;
  observation.asked->fields["replay_group"] = group;
  observation.infer.fields["replay_signature"] = signature;
  return observation;
}

TEST(MonitorRepeats, ARepeatIsReadByClausesAboutRepeatsAlone) {
  Monitor monitor = MakeMonitor({SoftKl(), MonitorClause("same", "determinism_rate", 1),
                                 MonitorClause("up", "failure_rate", 0)});
  MonitorObservation original = Signed(1, false, "a");
  original.infer.fields["failed"] = false;
  See(monitor, original);
  const MonitorDecision again = See(monitor, Signed(1, true, "a"));
  EXPECT_EQ(again.handling, Handling::kCounted) << "it is of no session of its own";
  const MonitorStatus status = monitor.Status();
  EXPECT_EQ(KernelIn(status, "fast").pairs[0].observations, 1);
  // What the repeat does not record is missing of nothing.
  EXPECT_EQ(KernelIn(status, "fast").pairs[2].observations, 1);
  EXPECT_EQ(status.unread, 0);
}

TEST(MonitorRepeats, ARepeatThatDiffersIsAnAlarmAtTheEndOfItsBlock) {
  for (const bool differs : {false, true}) {
    Monitor monitor = MakeMonitor({MonitorClause("same", "determinism_rate", 1)});
    bool alarm = false;
    for (int64_t i = 0; i < kBlock / 2; ++i) {
      alarm = alarm || Has(See(monitor, Signed(i, false, "a")), MonitorChangeKind::kProof);
      alarm = alarm || Has(See(monitor, Signed(i, true, differs && i == 0 ? "b" : "a")),
                           MonitorChangeKind::kProof);
    }
    EXPECT_EQ(alarm, differs);
  }
}

TEST(MonitorRepeats, EvidenceThatIsBrokenGuardsTheKernelInItsWords) {
  Monitor monitor = MakeMonitor({SoftKl()});
  MonitorObservation observation = GoodOrBad(1, false);
  observation.broken = "the kernel read another prompt";
  const MonitorDecision decision = See(monitor, observation);
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kBroken));
  EXPECT_TRUE(Has(decision, MonitorChangeKind::kGuard));
  bool said = false;
  for (const MonitorChange& change : decision.changes) {
    said = said || change.reason.find("read another prompt") != std::string::npos;
  }
  EXPECT_TRUE(said);
  observation.broken.assign(kBrokenBytesMax + 1, 'x');
  EXPECT_THAT(monitor.Observe(observation).error().message(), HasSubstr("longer than"));
}

}  // namespace
}  // namespace kcc
