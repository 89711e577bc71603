// What a change of a monitor policy makes looser.
#include "kcc/contract/monitor_diff.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kcc/contract/monitor_policy_gen.h"

namespace kcc {
namespace {

RC_GTEST_PROP(MonitorDiff, SaysSomethingExactlyWhereTheDigestsDiffer, ()) {
  const MonitorPolicy a = DrawMonitor();
  MonitorPolicy b = Flip() ? DrawMonitor() : a;
  if (Flip()) {  // in one part alone
    const MonitorPolicy other = DrawMonitor();
    b = a;
    if (Flip()) b.overrides = other.overrides;
    if (Flip()) b.kernels = other.kernels;
  }
  RC_ASSERT(DiffMonitorPolicies(a, b).empty() == (PolicyDigest(a) == PolicyDigest(b)));
}

TEST(MonitorDiff, SaysWhatBecameLooser) {
  struct Case {
    std::string name;
    std::string before;
    std::string after;
    bool looser;
  };
  const auto audit = [](const std::string& keys) { return "  audit: {" + keys + "}\n"; };
  const auto release = [](const std::string& keys) { return "  release: {" + keys + "}\n"; };
  const auto route = [](const std::string& rows) { return "  overrides: [" + rows + "]\n"; };
  const std::vector<Case> cases = {
      {"another detector", "", "  detector: e-cusum\n", true},
      {"other shifts", "", "  shifts: [2]\n", true},
      {"another window", "", "  window: 10\n", false},
      {"another block", "", "  block: 10\n", true},
      {"fewer audits", "", audit("rate: 1%"), true},
      {"more audits", "", audit("rate: 10%"), false},
      {"more probes", "", audit("probeRate: 10%"), true},
      {"fewer probes", "", audit("probeRate: 1%"), false},
      {"sessions repeat", "", audit("oncePerSession: false"), true},
      {"sessions do not repeat", audit("oncePerSession: false"), "", false},
      {"a shorter epoch", "", audit("sessionEpoch: 1h"), true},
      {"a larger filter", "", audit("sessionFilter: 2MiB"), false},
      {"a smaller filter", "", audit("sessionFilter: 1KiB"), true},
      {"a larger alpha", "", release("alpha: 10%"), true},
      {"a smaller alpha", "", release("alpha: 1%"), false},
      {"fewer strikes", "", release("strikesMax: 1"), true},
      {"fewer clean probes", "", release("clean: 100"), true},
      {"more clean probes", "", release("clean: 10000"), false},
      {"no probation", "", release("probation: 0"), true},
      {"a route", "", route("{level: L2, target: f}"), true},
      {"no route any more", route("{level: L2, target: f}"), "", true},
      {"a graver action", route("{level: L2, action: log}"), route("{level: L2, action: freeze}"),
       false},
      {"a milder action", route("{level: L2, action: freeze}"), route("{level: L2, action: log}"),
       true},
      {"another target", route("{target: i}"), route("{target: f}"), true},
      {"the same, written otherwise", route("{level: L2, target: f}"),
       route("{level: L2, target: f}, {level: L2, action: log}"), false},
  };
  for (const Case& one : cases) {
    const std::vector<Change> changes =
        DiffMonitorPolicies(ValidRest(one.before), ValidRest(one.after));
    ASSERT_FALSE(changes.empty()) << one.name;
    const bool looser = std::any_of(changes.begin(), changes.end(),
                                    [](const Change& change) { return change.loosens; });
    EXPECT_EQ(looser, one.looser) << one.name << ": " << changes[0].what;
  }
}

TEST(MonitorDiff, OfTheBudgetThePanicRuleAndTheKernels) {
  const MonitorPolicy usual = ValidRest("");
  const auto changed = [&](auto change) {
    MonitorPolicy policy = usual;
    change(policy);
    const std::vector<Change> changes = DiffMonitorPolicies(usual, policy);
    if (changes.size() != 1) return std::to_string(changes.size()) + " changes";
    return std::string(Name(changes[0].kind)) + (changes[0].loosens ? "! " : " ") +
           changes[0].where + ": " + changes[0].what;
  };
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.false_alarms.requests = 100'000; }),
            "looser! policy: falseAlarms raised from 1 per 10^6 requests to 1 per 10^5 requests");
  EXPECT_EQ(
      changed([](MonitorPolicy& p) { p.false_alarms.alarms = 0.1; }),
      "tighter policy: falseAlarms lowered from 1 per 10^6 requests to 0.1 per 10^6 requests");
  EXPECT_EQ(changed([](MonitorPolicy& p) {
              p.false_alarms.span_ms = 100'000'000;
              CountRequests(10, &p.false_alarms);
            }),
            "other policy: falseAlarms is the same, stated as 1 per 100000s at 10 per s instead of "
            "1 per 10^6 requests");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.panic = PanicRule::kFailOpen; }),
            "looser! policy: panic changed from serve-safest to fail-open");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.panic = PanicRule::kFailClosed; }),
            "tighter policy: panic changed from serve-safest to fail-closed");
  EXPECT_EQ(changed([](MonitorPolicy& p) {
              p.kernels.push_back({"g", KernelRole::kGuard, "", {}});
            }),
            "new! kernel g: added as guard");
  EXPECT_EQ(changed([](MonitorPolicy& p) {
              p.kernels.push_back({"d", KernelRole::kCandidate, "", {}});
            }),
            "new kernel d: added as candidate");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.kernels.pop_back(); }),
            "other kernel c: no longer there, was candidate");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.kernels.erase(p.kernels.begin() + 1); }),
            "gone! kernel f: no longer there, was fallback");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.kernels.erase(p.kernels.begin()); }),
            "tighter kernel i: no longer there, was infer");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.kernels[2].role = KernelRole::kGuard; }),
            "looser! kernel c: role changed from candidate to guard; not comparable, so it counts "
            "as looser");
  EXPECT_EQ(changed([](MonitorPolicy& p) { p.kernels[0].fingerprint = "sha"; }),
            "tighter kernel i: fingerprint changed from any to sha");
  EXPECT_EQ(changed([](MonitorPolicy& p) { std::swap(p.kernels[0], p.kernels[1]); }), "0 changes");
}

}  // namespace
}  // namespace kcc
