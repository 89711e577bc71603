// Monitor policies: mistakes with their code and place, identity, and the two texts.
#include "kcc/contract/monitor_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/contract/comments.h"
#include "kcc/contract/false_alarms.h"
#include "kcc/contract/monitor_policy_gen.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

// "line:column code" of what is of the kind.
std::vector<std::string> Placed(const MonitorOutcome& outcome, DiagnosticKind kind) {
  std::vector<std::string> placed;
  for (const Diagnostic& row : outcome.diagnostics) {
    if (row.kind != kind) continue;
    placed.push_back(std::to_string(row.mark.line) + ":" + std::to_string(row.mark.column) + " " +
                     row.code);
  }
  return placed;
}

std::string ShippedMonitor(const std::string& name) {
  return *ReadFile("policies/monitor-" + name + ".yaml", kContractBytesMax);
}

TEST(ReadMonitorPolicy, ReadsTheShippedPoliciesWithoutAWord) {
  for (const std::string name : {"serving", "training"}) {
    const MonitorOutcome outcome = ReadMonitorPolicy(ShippedMonitor(name));
    EXPECT_TRUE(outcome.diagnostics.empty()) << name;
    EXPECT_TRUE(outcome.policy) << name;
  }
  const MonitorPolicy policy = *ReadMonitorPolicy(ShippedMonitor("serving")).policy;
  EXPECT_EQ(policy.false_alarms, FalseAlarmBudget());
  EXPECT_EQ(policy.shifts, (std::vector<double>{2, 3, 10}));
  EXPECT_EQ(policy.audit, AuditPolicy());
  EXPECT_EQ(policy.release, ReleasePolicy());
  EXPECT_EQ(policy.panic, PanicRule::kServeSafest);
  ASSERT_EQ(policy.overrides.size(), 2u);
  EXPECT_EQ(policy.overrides[0].family, Family::kNumerical);
  EXPECT_EQ(policy.overrides[0].target, "high-precision");
  EXPECT_EQ(policy.overrides[1].action, Action::kRollback);
  ASSERT_NE(policy.FirstOf(KernelRole::kGuard), nullptr);
  EXPECT_EQ(policy.FirstOf(KernelRole::kGuard), policy.FindKernel("high-precision"));
  EXPECT_EQ(policy.FirstOf(KernelRole::kAudit), nullptr);
  EXPECT_EQ(policy.FindKernel("fp4"), nullptr);
}

TEST(ReadMonitorPolicy, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string rest;    // from line 8 on
    std::string placed;  // line:column code
  };
  const std::vector<Case> cases = {
      {"  detector: cusum\n", "8:13 unknown-word"},
      {"  panik: fail-open\n", "8:3 unknown-key"},
      {"  auditedRate: 5 per s\n", "8:3 rate-unused"},
      {"  window: 0\n", "8:11 out-of-range"},
      {"  block: 1.5\n", "8:10 bad-number"},
      {"  shifts: []\n", "8:11 empty-list"},
      {"  shifts: 2\n", "8:11 wrong-type"},
      {"  shifts: [1]\n", "8:12 out-of-range"},
      {"  shifts: [2, two]\n", "8:15 bad-number"},
      {"  shifts: [2, '3']\n", "8:15 quoted-number"},
      {"  shifts: [2, [3]]\n", "8:15 wrong-type"},
      {"  shifts: [3, 2]\n", "8:15 shifts-not-rising"},
      {"  shifts: [2, 2]\n", "8:15 shifts-not-rising"},
      {"  shifts: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]\n",
       "8:3 too-many-shifts"},
      {"  audit: {rate: 5}\n", "8:17 out-of-range"},
      {"  audit: {rate: 101%}\n", "8:17 out-of-range"},
      {"  audit: {probeRate: some}\n", "8:22 bad-number"},
      {"  audit: {oncePerSession: yes}\n", "8:27 bad-boolean"},
      {"  audit: {sessionEpoch: 0s}\n", "8:25 out-of-range"},
      {"  audit: {sessionEpoch: day}\n", "8:25 bad-duration"},
      {"  audit: {sessionFilter: 1}\n", "8:26 bad-size"},
      {"  audit: {sessionFilter: 1kB}\n", "8:26 out-of-range"},
      {"  audit: {sessionFilter: 2GiB}\n", "8:26 out-of-range"},
      {"  audit: {sessionFilter: 0.3B}\n", "8:26 bad-size"},
      {"  release: {rule: timer}\n", "8:19 unknown-word"},
      {"  release: {alpha: 0}\n", "8:20 out-of-range"},
      {"  release: {alpha: 60%}\n", "8:20 out-of-range"},
      {"  release: {strikesMax: 51}\n", "8:25 out-of-range"},
      {"  release: {clean: 0}\n", "8:20 out-of-range"},
      {"  release: {probation: -1}\n", "8:24 out-of-range"},
      {"  overrides: [{level: L2}]\n", "8:15 says-nothing"},
      {"  overrides: [{action: guard}]\n", "8:24 no-kernel-for-action"},
      {"  overrides: [{action: stop}]\n", "8:24 unknown-word"},
      {"  overrides: [{action: log, target: f}]\n", "8:29 target-unused"},
      {"  overrides: [{action: freeze, target: f}]\n", "8:32 target-unused"},
      {"  overrides: [{target: F}]\n", "8:24 unknown-kernel"},
      {"  overrides: [{target: c}]\n", "8:24 not-servable"},
      {"  overrides: [{family: numeric, target: f}]\n", "8:24 unknown-word"},
      {"  overrides: [guard]\n", "8:15 wrong-type"},
      {"  audit: [1]\n", "8:10 wrong-type"},
  };
  for (const Case& one : cases) {
    const MonitorOutcome outcome = ReadRest(one.rest);
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ::testing::ElementsAre(one.placed))
        << one.rest;
    EXPECT_FALSE(outcome.policy) << one.rest;
  }
}

TEST(ReadMonitorPolicy, AsksForABudgetThatMeansSomething) {
  struct Case {
    std::string budget;
    std::string placed;  // of the budget, which is on line 6
    std::string words;   // within its message
  };
  const std::string forms = "write 1 per 10^6 requests, or 1 per 30d with auditedRate";
  const std::vector<Case> cases = {
      {"often", "6:16 bad-budget", forms},
      {"1", "6:16 bad-budget", forms},
      {"1 per 10^6", "6:16 bad-budget", forms},
      {"1 per day", "6:16 bad-budget", forms},
      {"one per 10^6 requests", "6:16 bad-budget", forms},
      {"1 per 2^20 requests", "6:16 bad-budget", forms},
      {"1 per 10^ requests", "6:16 bad-budget", forms},
      {"1 per 10^-6 requests", "6:16 bad-budget", forms},
      {"1 per 10^100 requests", "6:16 bad-budget", forms},
      {"1 per  requests", "6:16 bad-budget", forms},
      {"1 per 0s", "6:16 bad-budget", forms},
      {"0 per 10^6 requests", "6:16 bad-budget", "allows no false alarm at all"},
      {"-1 per 10^6 requests", "6:16 bad-budget", "allows no false alarm at all"},
      {"1 per 0 requests", "6:16 bad-budget", "whole number of requests between 1 and 10^15"},
      {"1 per 1.5 requests", "6:16 bad-budget", "whole number of requests between 1 and 10^15"},
      {"1 per 10^16 requests", "6:16 bad-budget", "whole number of requests between 1 and 10^15"},
      {"1 per 1 request", "6:16 vacuous-budget", "lets every audited request"},
      {"10 per 10 requests", "6:16 vacuous-budget", "lets every audited request"},
      {"1 per 30d", "6:16 missing-rate", "detectors count audited requests"},
      {"1 per 366d\n  auditedRate: 1e9 per s", "6:16 out-of-range", "more than 10^15"},
      {"1 per 1s\n  auditedRate: 1 per s", "6:16 vacuous-budget", "lets every audited request"},
      {"1 per 1h\n  auditedRate: 0 per s", "7:16 bad-rate", "a rate between"},
  };
  for (const Case& one : cases) {
    const MonitorOutcome outcome = ReadMonitorPolicy(
        std::string(kMonitorHead) + "  falseAlarms: " + one.budget + "\n" + std::string(kPanic));
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ::testing::ElementsAre(one.placed))
        << one.budget;
    ASSERT_FALSE(outcome.diagnostics.empty()) << one.budget;
    EXPECT_THAT(outcome.diagnostics[0].message, ::testing::HasSubstr(one.words));
  }
}

TEST(ReadMonitorPolicy, AsksForKernelsThatServeAndHaveOneName) {
  struct Case {
    std::string kernels;
    std::vector<std::string> placed;
  };
  const std::vector<Case> cases = {
      {"[]", {"5:3 missing-role", "5:3 missing-role"}},
      {"[{name: a, role: infer}]", {"5:3 missing-role"}},
      {"[{name: a, role: fallback}, {name: b, role: audit}]", {"5:3 missing-role"}},
      // A role that cannot be read may be the one that is missing.
      {"[{name: a, role: inver}]", {"5:29 unknown-word"}},
      {"[{name: a, role: infer}, {name: a, role: fallback}]", {"5:44 duplicate-id"}},
      {"[{role: infer}, {name: b, role: fallback}]", {"5:13 missing-key"}},
      {"[{name: 'a b', role: infer}, {name: b, role: fallback}]", {"5:20 bad-name"}},
  };
  for (const Case& one : cases) {
    const MonitorOutcome outcome = ReadMonitorPolicy(
        "apiVersion: kcc/v1\nkind: MonitorPolicy\nmetadata: {name: a, version: 1.0.0}\nspec:\n"
        "  kernels: " +
        one.kernels + "\n" + std::string(kBudget) + std::string(kPanic));
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kError), ::testing::ElementsAreArray(one.placed))
        << one.kernels;
  }
}

TEST(ReadMonitorPolicy, AsksForWhatOnlyTheOperatorCanDecide) {
  const MonitorOutcome outcome = ReadMonitorPolicy(kMonitorHead);
  EXPECT_THAT(Placed(outcome, DiagnosticKind::kError),
              ::testing::ElementsAre("5:3 missing-key", "5:3 missing-key"));
}

TEST(ReadMonitorPolicy, WarnsOfWhatIsAllowedAndUnwise) {
  struct Case {
    std::string rest;
    std::string placed;
  };
  const std::vector<Case> cases = {
      {"  audit: {rate: 0%}\n", "8:17 nothing-audited"},
      {"  audit: {probeRate: 0}\n", "8:22 never-released"},
      {"  audit: {oncePerSession: false}\n", "8:27 sessions-repeat"},
      {"  overrides: [{target: i}, {level: L2, target: f}]\n", "8:28 unreachable-override"},
  };
  for (const Case& one : cases) {
    const MonitorOutcome outcome = ReadRest(one.rest);
    EXPECT_THAT(Placed(outcome, DiagnosticKind::kWarning), ::testing::ElementsAre(one.placed))
        << one.rest;
    EXPECT_TRUE(outcome.policy);
  }
  const auto warned = [](const std::string& budget, const std::string& panic) {
    return Placed(ReadMonitorPolicy(std::string(kMonitorHead) + "  panic: " + panic +
                                    "\n  falseAlarms: " + budget + "\n"),
                  DiagnosticKind::kWarning);
  };
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(warned("1 per 10^6 requests", "fail-open"), ElementsAre("6:10 fail-open"));
  EXPECT_THAT(warned("1 per 1000 requests", "fail-closed"), ElementsAre("7:16 alarms-daily"));
  EXPECT_THAT(warned("1 per 86400 requests", "fail-closed"), ElementsAre("7:16 alarms-daily"));
  EXPECT_THAT(warned("1 per 86401 requests", "fail-closed"), IsEmpty());
  EXPECT_THAT(warned("1 per 24h\n  auditedRate: 100 per s", "fail-closed"),
              ElementsAre("7:16 alarms-daily"));
  EXPECT_THAT(warned("1 per 25h\n  auditedRate: 100 per s", "fail-closed"), IsEmpty());
}

TEST(FalseAlarms, OfOneBudgetHaveOneMeaning) {
  const auto read = [](std::string_view text) { return ReadFalseAlarms(text).value(); };
  for (const char* text : {"1 per 10^6 requests", "1 per 1000000 requests", "1 per 1e6 requests",
                           "1.0 per 1E+6 requests", "1  per  10^6  requests"}) {
    EXPECT_EQ(read(text), FalseAlarmBudget()) << text;
    EXPECT_EQ(FalseAlarmsText(read(text)), "1 per 10^6 requests");
  }
  EXPECT_EQ(FalseAlarmsText(read("0.5 per 1500000 requests")), "0.5 per 1500000 requests");
  EXPECT_EQ(FalseAlarmsText(read("1 per 1000 requests")), "1 per 1000 requests");
  EXPECT_EQ(FalseAlarmsText(read("1 per 30d")), "1 per 720h");
}

TEST(FalseAlarms, OverATimeAreTurnedIntoRequestsByTheRate) {
  const auto requests = [](const std::string& budget, const std::string& rate) {
    const MonitorOutcome outcome =
        ReadMonitorPolicy(std::string(kMonitorHead) + std::string(kPanic) +
                          "  falseAlarms: " + budget + "\n  auditedRate: " + rate + "\n");
    EXPECT_TRUE(outcome.policy) << budget;
    return outcome.policy ? outcome.policy->false_alarms.requests : 0;
  };
  EXPECT_EQ(requests("1 per 30d", "5 per s"), 12'960'000);
  EXPECT_EQ(requests("1 per 30d", "300 per m"), 12'960'000);
  // Rounded up: the promise only becomes tighter.
  EXPECT_EQ(requests("1 per 36h", "0.3333 per s"), 43'196);
}

TEST(MonitorDigest, IsOfWhatThePolicyMeans) {
  const std::string digest = PolicyDigest(ValidRest(""));
  EXPECT_EQ(digest, PolicyDigest(ValidRest("  detector: e-sr\n"
                                           "  window: 1e3  # requests\n"
                                           "  block: 200\n"
                                           "  audit: {rate: 0.05, sessionEpoch: 1440m,"
                                           " sessionFilter: 1024KiB, oncePerSession: true}\n"
                                           "  release: {strikesMax: 10, alpha: 0.05}\n"
                                           "  overrides: []\n")));
  EXPECT_NE(digest, PolicyDigest(ValidRest("  shifts: [2]\n")));
  EXPECT_NE(digest, PolicyDigest(ValidRest("  audit: {rate: 5.1%}\n")));
  const auto of = [](const std::string& kernels) {
    return PolicyDigest(
        *ReadMonitorPolicy("apiVersion: kcc/v1\nkind: MonitorPolicy\n"
                           "metadata: {name: a, version: 1.0.0}\nspec:\n  panic: fail-closed\n  "
                           "falseAlarms: 1 per 10^6 requests\n  kernels: [" +
                           kernels + "]\n")
             .policy);
  };
  const std::string i = "{name: i, role: infer}";
  const std::string f = "{name: f, role: fallback}";
  const std::string g = "{name: g, role: fallback}";
  EXPECT_EQ(of(i + ", " + f), of(f + ", " + i)) << "the order of two roles means nothing";
  EXPECT_NE(of(i + ", " + f + ", " + g), of(i + ", " + g + ", " + f)) << "f is asked first";
}

// A digest that moves makes every log that names it another policy's.
TEST(MonitorDigest, OfTheShippedPoliciesStays) {
  EXPECT_EQ(PolicyDigest(*ReadMonitorPolicy(ShippedMonitor("serving")).policy),
            "sha256:f09edf6738d909f507139cd38f5bed9c213b5482e00a5913dee370548f1d92ea");
  EXPECT_EQ(PolicyDigest(*ReadMonitorPolicy(ShippedMonitor("training")).policy),
            "sha256:4ed5e5a2d2300e53b53af3b0a7030382d25ec92927b96e021ff94399676ea891");
}

TEST(MonitorYaml, KeepsTheCommentsOfTheShippedPolicies) {
  for (const std::string name : {"serving", "training"}) {
    const std::string text = ShippedMonitor(name);
    const MonitorPolicy policy = *ReadMonitorPolicy(text).policy;
    const std::string formatted = ToYaml(policy);
    const auto again = ReadMonitorPolicy(formatted);
    ASSERT_TRUE(again.policy);
    const auto carried = CarryComments(text, policy, formatted, *again.policy);
    ASSERT_TRUE(carried);
    EXPECT_EQ(*carried, text) << "the shipped policy is in the standard layout";
  }
}

// --- Random policies.

RC_GTEST_PROP(MonitorYaml, ReadsBackAsTheSamePolicy, ()) {
  const MonitorPolicy policy = DrawMonitor();
  const MonitorOutcome outcome = ReadMonitorPolicy(ToYaml(policy));
  for (const Diagnostic& row : outcome.diagnostics) {
    RC_LOG() << row.code << " " << row.message << "\n";
  }
  RC_LOG() << ToYaml(policy);
  RC_ASSERT(outcome.policy.has_value());
  RC_ASSERT(CanonicalJson(*outcome.policy) == CanonicalJson(policy));
  RC_ASSERT(outcome.policy->false_alarms == policy.false_alarms);
  RC_ASSERT(outcome.policy->audit == policy.audit);
  RC_ASSERT(outcome.policy->release == policy.release);
}

// The canonical form is a document of the language, too.
RC_GTEST_PROP(MonitorCanonical, ReadsBackAsTheSamePolicy, ()) {
  const std::string canonical = CanonicalJson(DrawMonitor());
  const MonitorOutcome outcome = ReadMonitorPolicy(canonical);
  RC_LOG() << canonical;
  RC_ASSERT(outcome.policy.has_value());
  RC_ASSERT(CanonicalJson(*outcome.policy) == canonical);
}

}  // namespace
}  // namespace kcc
