// The judge's error about traffic, with the truth exactly at the threshold; a smaller version of
// bench/judge_error_rates.cc.
#include "kcc/judge/judge_error_rates.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

TEST(ErrorRates, AClauseAtItsThresholdIsRarelyCalledEitherWay) {
  for (const double icc : {0.0, 0.3, 0.9}) {
    JudgeExperiment e;
    e.truth.icc = icc;
    e.truth.tokens_min = 4;
    e.truth.tokens_max = 12;
    e.requests = 60;
    e.runs = 300;
    const JudgeCalls calls = RunJudge(e);
    const double bound = ErrorBound(0.05, e.runs);
    for (const FormCalls& form : calls.forms) {
      EXPECT_LE(form.calls.SatisfiedShare(), form.can_satisfy ? bound : 0) << form.form << icc;
      EXPECT_LE(form.calls.ViolatedShare(), bound) << form.form << icc;
    }
    EXPECT_LE(calls.whole.SatisfiedShare(), bound);
    EXPECT_LE(calls.whole.ViolatedShare(), bound) << "over all clauses together";
    EXPECT_EQ(calls.naive.SatisfiedShare() > bound, icc > 0) << "what ignoring it would do";
  }
}

TEST(ErrorRates, ClearCasesAreCalled) {
  JudgeExperiment e;
  e.truth.icc = 0.3;
  e.truth.rate = 0.3;
  e.requests = 400;
  e.runs = 10;
  for (const FormCalls& form : RunJudge(e).forms) {
    EXPECT_EQ(form.calls.violated, e.runs) << form.form;
  }
  e.truth.rate = 0.0005;
  for (const FormCalls& form : RunJudge(e).forms) {
    EXPECT_EQ(form.calls.violated, 0) << form.form;
    EXPECT_EQ(form.calls.satisfied, form.can_satisfy ? e.runs : 0) << form.form;
  }
}

}  // namespace
}  // namespace kcc
