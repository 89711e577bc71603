// The lint's lines hold on each synthetic fault at moderate severity, once; bench/rl_lint_matrix
// counts over many.
#include <gtest/gtest.h>

#include "bench/rl/synthetic.h"
#include "kcc/rl/lint.h"
#include "kcc/rl/rl_json.h"

namespace kcc::bench {
namespace {

TEST(RlLint, NamesEveryModerateFault) {
  uint64_t seed = 1000;
  for (const SyntheticFault& fault : FaultGrid()) {
    if (fault.severity != Severity::kModerate) continue;
    const SyntheticBatch batch = MakeBatch(fault, 0.01, HomeWorld(), ++seed);
    const auto report = LintRl(batch.View());
    ASSERT_TRUE(report.has_value()) << report.error().Format();
    EXPECT_EQ(RlFaultName(report->fault()), RlFaultName(fault.fault))
        << fault.variant << " " << fault.strength << "\n"
        << LintJson(*report);
    for (const RlFinding& finding : report->findings) {
      EXPECT_FALSE(finding.evidence.empty());
      EXPECT_FALSE(finding.message.empty());
      EXPECT_GE(finding.confidence, 0.5);
      EXPECT_FALSE(RlFaultAdvice(finding.fault).empty());
    }
  }
}

TEST(RlLint, ASmallBatchIsNoAlarm) {
  const SyntheticFault clean{RlFault::kNone, "float32", 0, Severity::kModerate};
  SyntheticWorld small = HomeWorld();
  small.rows = 4;
  small.columns = 20;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto report = LintRl(MakeBatch(clean, 0.01, small, seed).View());
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->fault(), RlFault::kNone) << LintJson(*report);
  }
}

}  // namespace
}  // namespace kcc::bench
