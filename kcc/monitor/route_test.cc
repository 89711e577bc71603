#include "kcc/monitor/route.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

class RouteTest : public ::testing::Test {
 protected:
  RouteKernel Row(size_t kernel, bool guarded, const std::string& target = "",
                  double health = 0) const {
    return {&kernels_[kernel], guarded, {Action::kGuard, target}, health};
  }

  const MonitorKernel kernels_[5] = {{"fast", KernelRole::kInfer, "", {}},
                                     {"next", KernelRole::kCandidate, "", {}},
                                     {"careful", KernelRole::kGuard, "", {}},
                                     {"reference", KernelRole::kFallback, "", {}},
                                     {"other", KernelRole::kInfer, "", {}}};
};

TEST_F(RouteTest, TheFirstInferKernelServes) {
  const RouteKernel rows[] = {Row(1, false), Row(2, false), Row(0, false), Row(4, false)};
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kFailClosed).kernel, "fast");
}

TEST_F(RouteTest, AGuardedKernelSendsRequestsToItsTarget) {
  const RouteKernel rows[] = {Row(0, true, "careful"), Row(2, false), Row(3, false)};
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kFailClosed).kernel, "careful");
}

TEST_F(RouteTest, ATargetThatIsGuardedSendsThemOn) {
  const RouteKernel rows[] = {Row(0, true, "careful"), Row(2, true, "reference"), Row(3, false)};
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kFailClosed).kernel, "reference");
}

TEST_F(RouteTest, ACircleOfTargetsEndsAtAKernelThatMayServe) {
  const RouteKernel rows[] = {Row(0, true, "careful"), Row(2, true, "fast"), Row(3, false)};
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kFailClosed).kernel, "reference");
}

TEST_F(RouteTest, ACandidateNeverServes) {
  const RouteKernel rows[] = {Row(0, true, "next"), Row(1, false), Row(3, true, "next")};
  const Route route = ChooseRoute(rows, PanicRule::kFailClosed);
  EXPECT_TRUE(route.panic);
  EXPECT_EQ(route.kernel, "");
}

TEST_F(RouteTest, TheSafestHasTheLeastHealthAndTiesGoByRole) {
  const RouteKernel rows[] = {Row(3, true, "", 2), Row(2, true, "", 2), Row(0, true, "", 5)};
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kServeSafest).kernel, "careful");
  EXPECT_EQ(ChooseRoute(rows, PanicRule::kFailOpen).kernel, "fast");
}

}  // namespace
}  // namespace kcc
