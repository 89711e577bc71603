// Which slices sampled tokens can estimate a mean on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/judge/clause_test_data.h"
#include "kcc/judge/judge.h"

namespace kcc::testing {
namespace {

using ::testing::HasSubstr;

TEST(Estimates, SayNothingOfSlicesThatSelectByWhatWasDrawn) {
  const auto judged = [](const std::string& where) {
    const Contract contract = Read("  assumptions: {tokensMax: 1}\n  decision: {about: traffic}\n" +
                                   std::string("  slices:\n    - {name: some, where: \"") + where +
                                   "\"}\n  numerical:\n    - {id: C, level: L2, metric: mean_tv, "
                                   "atMost: 0.2, slices: [some]}\n");
    Evidence evidence;
    for (int i = 0; i < 400; ++i) {
      JudgedRequest& request = evidence.Add().Both("reward", 1.0).Both("kept", true);
      request.tokens.push_back(JudgedToken().Set("tv", 0));
    }
    evidence.sampled_only = true;
    return Judge(contract, Measure(contract, evidence)).clauses.at(0).slices.at(0);
  };
  EXPECT_EQ(judged("kept == true").about.verdict, Verdict::kSatisfied);
  const SliceVerdict drawn = judged("reward >= 1");
  for (const PopulationVerdict* verdict : {&drawn.about, &drawn.other}) {
    EXPECT_EQ(verdict->verdict, Verdict::kInconclusive);
    EXPECT_THAT(verdict->reason, HasSubstr("selects by what was drawn"));
  }
}

}  // namespace
}  // namespace kcc::testing
