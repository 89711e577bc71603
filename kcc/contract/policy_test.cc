// Promotion policies: mistakes with their code and place, identity, the two texts, and what a
// change of one makes looser.
#include "kcc/contract/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "kcc/base/file.h"
#include "kcc/contract/comments.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/draws_gen.h"
#include "kcc/contract/hostile_text_gen.h"
#include "kcc/contract/policy_diff.h"
#include "kcc/contract/policy_reader.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr std::string_view kPolicyHead =
    "apiVersion: kcc/v1\n"
    "kind: PromotionPolicy\n"
    "metadata: {name: a, version: 1.0.0}\n"
    "spec:\n";
constexpr std::string_view kWhole =
    "  offline: {levels: [L3]}\n"
    "  shadow: {minRequests: 100}\n"
    "  canary: {steps: [{traffic: 1%}, {traffic: 10%}], stabilityWindow: 1h}\n"
    "  full: {levels: [L3]}\n";

PolicyOutcome ReadSpec(std::string_view spec) {
  return ReadPolicy(std::string(kPolicyHead) + std::string(spec));
}

PromotionPolicy Valid(std::string_view spec) {
  const PolicyOutcome outcome = ReadSpec(spec);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    ADD_FAILURE() << diagnostic.code << ": " << diagnostic.message;
  }
  return outcome.policy.value_or(PromotionPolicy());
}

std::string Shipped() { return *ReadFile("policies/promotion.yaml", kContractBytesMax); }

TEST(ReadPolicy, ReadsTheShippedPolicyWithoutAWord) {
  const PolicyOutcome outcome = ReadPolicy(Shipped());
  EXPECT_TRUE(outcome.diagnostics.empty());
  ASSERT_TRUE(outcome.policy);
  const PromotionPolicy& policy = *outcome.policy;
  for (const Stage stage : kStages) EXPECT_TRUE(policy.stage(stage).in_force);
  const StagePolicy& canary = policy.stage(Stage::kCanary);
  ASSERT_EQ(canary.steps.size(), 3u);
  EXPECT_EQ(canary.steps[0].min_requests, 1000);
  EXPECT_EQ(canary.steps[0].stability_ms, 3'600'000);
  EXPECT_EQ(canary.steps[2].stability_ms, 24 * 3'600'000);
  EXPECT_EQ(canary.on_deadline, DeadlineOutcome::kRollback);
  EXPECT_EQ(canary.clean, 3000);
}

TEST(ReadPolicy, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string spec;
    std::string placed;  // line:column code
  };
  const std::string full = "  full: {}\n";
  const std::vector<Case> cases = {
      {"  offline: {}\n", "5:3 missing-key"},
      {"  offline: {levles: [L3]}\n" + full, "5:13 unknown-key"},
      {"  offline: {levels: [L4]}\n" + full, "5:22 unknown-word"},
      {"  offline: {levels: [L3], clauses: [N-1]}\n" + full, "5:27 levels-and-clauses"},
      {"  offline: {onDeadline: rollback, deadline: 1h}\n" + full, "5:25 unknown-word"},
      {"  offline: {deadline: 5}\n" + full, "5:23 bad-duration"},
      {"  offline: {deadline: 400000h}\n" + full, "5:23 bad-duration"},
      {"  offline: {minRequests: -1}\n" + full, "5:26 out-of-range"},
      {"  offline: {clean: 0}\n" + full, "5:20 out-of-range"},
      {"  offline: {looks: []}\n" + full, "5:13 unknown-key"},
      {"  offline: {approvals: {}}\n" + full, "5:24 missing-key"},
      {"  offline: {approvals: {count: 0}}\n" + full, "5:32 out-of-range"},
      {"  offline: {approvals: {count: 1, signed: maybe}}\n" + full, "5:43 bad-boolean"},
      {"  offline: {approvals: {count: 1, signed: true, keyring: abc}}\n" + full,
       "5:58 bad-digest"},
      {"  offline: {approvals: {count: 1, keyring: \"sha256:" + std::string(64, '0') + "\"}}\n" +
           full,
       "5:35 keyring-unused"},
      {"  offline: {}\n  shadow: {mirror: 0}\n" + full, "6:20 out-of-range"},
      {"  offline: {}\n  canary: {}\n" + full, "6:11 missing-key"},
      {"  offline: {}\n  canary: {steps: []}\n" + full, "6:12 empty-list"},
      {"  offline: {}\n  canary: {steps: [{traffic: 100%}]}\n" + full, "6:30 out-of-range"},
      {"  offline: {}\n  canary: {steps: [{traffic: 5%}, {traffic: 5%}]}\n" + full,
       "6:45 steps-not-rising"},
      {"  offline: {}\n  shadow: {looks: [{requests: 9, alpha: 4%}, {requests: 9, alpha: 1%}]}\n" +
           full,
       "6:57 looks-not-rising"},
      {"  offline: {}\n  shadow: {looks: [{requests: 9}]}\n" + full, "6:31 missing-alpha"},
      {"  offline: {}\n  shadow: {spending: even}\n" + full, "6:12 nothing-to-spend"},
      {"  offline: {}\n  shadow: {spending: even, looks: [{requests: 9, alpha: 1%}]}\n" + full,
       "6:50 alpha-and-spending"},
      {"  offline: {}\n  shadow: {spending: obrien-fleming, looks: [{requests: 1}, {requests: "
       "99}]}\n" +
           full,
       "6:38 look-spends-nothing"},
      {"  offline: {}\n  shadow: {looks: [{requests: 9, alpha: 6%}]}\n" + full,
       "6:12 alpha-overspent"},
      {"  offline: {}\n  shadow: {minRequests: 10, looks: [{requests: 9, alpha: 1%}]}\n" + full,
       "6:48 look-too-early"},
      {"  offline: {}\n  shadow: {stabilityWindow: 2h, deadline: 2h}\n" + full,
       "6:43 deadline-too-short"},
      {"  offline: {}\n" + full + "  enforce: [{clause: N-1, mode: soft}]\n", "7:33 unknown-word"},
      {"  offline: {}\n" + full +
           "  enforce:\n    - {clause: N-1, mode: off}\n    - {clause: N-1, mode: on}\n",
       "9:16 duplicate-id"},
      {"  offline: {}\n" + full + "  hooks: [{point: event, name: a}]\n", "7:11 exec-or-http"},
      {"  offline: {}\n" + full + "  hooks: [{point: event, name: a, exec: b, http: 'http://c'}]\n",
       "7:11 exec-or-http"},
      {"  offline: {}\n" + full + "  hooks: [{point: event, name: a, http: c}]\n",
       "7:41 bad-address"},
      {"  offline: {}\n" + full + "  hooks: [{point: gate, name: a, exec: c}]\n",
       "7:19 unknown-word"},
      {"  offline: {}\n" + full +
           "  hooks:\n    - {point: event, name: a, exec: b}\n    - {point: event, name: a, exec: "
           "b}\n",
       "9:28 duplicate-id"},
      {"  offline: {}\n  coolDown: soon\n" + full, "6:13 bad-duration"},
      {"  offline: [1]\n" + full, "5:12 wrong-type"},
      {"  offline: {}\n  requests: {store: some}\n" + full, "6:21 unknown-word"},
      {"  offline: {}\n  requests: {sample: 1%}\n" + full, "6:13 missing-key"},
      {"  offline: {}\n  requests: {store: full, sample: 2}\n" + full, "6:35 out-of-range"},
      {"  offline: {}\n  requests: {store: full, flagged: false}\n" + full, "6:13 keeps-nothing"},
      {"  offline: {}\n  requests: {store: hashes, text: true}\n" + full, "6:29 text-without-full"},
  };
  for (const Case& one : cases) {
    const PolicyOutcome outcome = ReadSpec(one.spec);
    std::vector<std::string> placed;
    for (const Diagnostic& row : outcome.diagnostics) {
      if (row.kind != DiagnosticKind::kError) continue;
      placed.push_back(std::to_string(row.mark.line) + ":" + std::to_string(row.mark.column) + " " +
                       row.code);
    }
    EXPECT_THAT(placed, ::testing::ElementsAre(one.placed)) << one.spec;
    EXPECT_FALSE(outcome.policy);
  }
}

TEST(ReadPolicy, WarnsOfStagesThatAreSkippedAndOfOutcomesWithoutADeadline) {
  const PolicyOutcome outcome = ReadSpec("  offline: {onDeadline: reject}\n  full: {}\n");
  std::vector<std::string> codes;
  for (const Diagnostic& row : outcome.diagnostics) codes.push_back(row.code);
  EXPECT_THAT(codes,
              ::testing::UnorderedElementsAre("stage-skipped", "stage-skipped", "no-deadline"));
  ASSERT_TRUE(outcome.policy);
  EXPECT_EQ(outcome.policy->StageAfter(Stage::kOffline), Stage::kFull);
}

TEST(ReadPolicy, TellsDocumentsApartByTheirKind) {
  EXPECT_EQ(KindOfDocument(Shipped()), DocumentKind::kPromotion);
  EXPECT_EQ(KindOfDocument("kind: PromotionPolcy"), DocumentKind::kPromotion);
  EXPECT_EQ(KindOfDocument("kind: MonitorPolicy"), DocumentKind::kMonitor);
  EXPECT_EQ(KindOfDocument("kind: monitorPolicy"), DocumentKind::kMonitor);
  EXPECT_EQ(KindOfDocument("kind: Gateway"), DocumentKind::kGateway);
  EXPECT_EQ(KindOfDocument("kind: gatway"), DocumentKind::kGateway);
  EXPECT_EQ(KindOfDocument("kind: KernelContract"), DocumentKind::kContract);
  for (const std::string_view other : {"", "[", "kind: [PromotionPolicy]", "a: b", "- a"}) {
    EXPECT_EQ(KindOfDocument(other), DocumentKind::kContract) << other;
  }
}

TEST(PolicyDigest, IsOfWhatThePolicyMeans) {
  const std::string digest = PolicyDigest(Valid(kWhole));
  EXPECT_EQ(digest, PolicyDigest(Valid("  full: {levels: [L3], minRequests: 0}\n"
                                       "  canary:  # steps\n"
                                       "    stabilityWindow: 60m\n"
                                       "    steps: [{traffic: 0.01}, {traffic: 0.1, minRequests: 0,"
                                       " stabilityWindow: 3600s}]\n"
                                       "  shadow: {mirror: 100%, minRequests: 100}\n"
                                       "  offline: {levels: [L3]}\n"
                                       "  coolDown: 1h\n")));
  EXPECT_NE(digest, PolicyDigest(Valid(std::string(kWhole) + "  coolDown: 2h\n")));
  // Enforced as any other: the same as not listed.
  EXPECT_EQ(digest,
            PolicyDigest(Valid(std::string(kWhole) + "  enforce: [{clause: A, mode: on}]\n")));
}

TEST(PolicyDigest, IsThatOfAPolicyWithoutTheKeyWhereNoRequestIsKept) {
  const std::string digest = PolicyDigest(Valid(kWhole));
  const auto with = [](const std::string& requests) {
    return PolicyDigest(Valid(std::string(kWhole) + "  requests: {" + requests + "}\n"));
  };
  EXPECT_EQ(digest, with("store: none"));
  EXPECT_EQ(digest, with("store: none, sample: 1%, retention: 30d"));
  EXPECT_NE(digest, with("store: hashes"));
  EXPECT_EQ(with("store: hashes"), with("flagged: true, store: hashes, sample: 0%"));
  EXPECT_EQ(with("store: full, retention: 30d"), with("store: full, retention: 720h"));
  EXPECT_NE(with("store: full"), with("store: full, text: true"));
}

TEST(StorageWords, SayWhatIsKept) {
  const auto words = [](const std::string& requests) {
    return StorageWords(Valid(std::string(kWhole) + "  requests: {" + requests + "}\n").requests);
  };
  EXPECT_EQ(words("store: none"), "nothing");
  EXPECT_EQ(words("store: hashes, sample: 1%, retention: 30d"),
            "digests of the token ids of flagged requests and 1% of all, for 720h; no text");
  EXPECT_EQ(words("store: full, flagged: false, sample: 100%, text: true"),
            "the token ids of 100% of all, until they are removed; their texts too");
}

TEST(PolicyYaml, KeepsTheCommentsOfTheShippedPolicy) {
  const std::string text = Shipped();
  const PromotionPolicy policy = *ReadPolicy(text).policy;
  const std::string formatted = ToYaml(policy);
  const auto again = ReadPolicy(formatted);
  ASSERT_TRUE(again.policy);
  const auto carried = CarryComments(text, policy, formatted, *again.policy);
  ASSERT_TRUE(carried);
  EXPECT_EQ(*carried, text) << "the shipped policy is in the standard layout";
}

// --- Random policies.

int64_t Time() { return *rc::gen::element<int64_t>(0, 1, 1000, 90'000, 3'600'000, 86'400'000); }

StagePolicy DrawStage(Stage which) {
  StagePolicy stage;
  stage.in_force = true;
  if (Flip()) stage.levels = {ViolationLevel::kL1, ViolationLevel::kL3};
  if (Flip()) stage.clauses = {"A", "N-1"};
  if (!stage.clauses.empty()) stage.levels = StagePolicy().levels;
  stage.min_requests = *rc::gen::element<int64_t>(0, 7, 100);
  if (Flip()) stage.clean = *rc::gen::element<int64_t>(1, 3000);
  if (Flip()) {
    stage.approvals = {2, {"ops", "sre"}, Flip(), ""};
    if (stage.approvals.must_sign && Flip()) {
      stage.approvals.keyring = "sha256:" + std::string(64, '7');
    }
  }
  if (which != Stage::kOffline) {
    stage.stability_ms = Time();
    if (Flip()) stage.looks = {{100, 0.02}, {500, 0.03}};
    if (!stage.looks.empty() && Flip()) {
      stage.spending = Flip() ? Spending::kEven : Spending::kObrienFleming;
      const std::vector<double> alphas = SpentAlphas(*stage.spending, {100, 500}, 0.05);
      for (size_t i = 0; i < alphas.size(); ++i) stage.looks[i].alpha = alphas[i];
    }
  }
  if (which == Stage::kShadow) stage.mirror = *rc::gen::element(0.1, 0.123456789, 1.0);
  if (which == Stage::kCanary) {
    stage.steps = {{0.01, stage.min_requests, stage.stability_ms, {}}, {0.333, 5, Time(), {}}};
  }
  if (Flip()) {
    stage.deadline_ms = 200'000'000;
    if (Flip()) {
      stage.on_deadline =
          which < Stage::kCanary ? DeadlineOutcome::kReject : DeadlineOutcome::kRollback;
    }
  }
  return stage;
}

PromotionPolicy DrawPolicy() {
  PromotionPolicy policy;
  policy.name = "p-1";
  policy.version = "0.1.2";
  if (Flip()) policy.owner = *GenHostileText();
  if (Flip()) policy.labels = {{"team", *GenHostileText()}};
  policy.confidence = *rc::gen::element(0.5, 0.95);
  policy.cool_down_ms = Time();
  for (const Stage stage : kStages) {
    if (stage == Stage::kOffline || stage == Stage::kFull || Flip()) {
      policy.stage(stage) = DrawStage(stage);
    }
  }
  if (Flip()) policy.enforce = {{"A", Enforce::kOff, {}}, {"B", Enforce::kShadow, {}}};
  if (Flip()) {
    policy.hooks = {{HookPoint::kRollback, "a", *GenHostileText() + "x", "", 5000, {}},
                    {HookPoint::kEvent, "b", "", "https://x/?" + *GenHostileText(), 30'000, {}}};
  }
  policy.requests.store =
      *rc::gen::element(StoreRequests::kNone, StoreRequests::kHashes, StoreRequests::kFull);
  if (policy.requests.store != StoreRequests::kNone) {
    policy.requests.sample = *rc::gen::element(0.0, 0.01, 1.0);
    policy.requests.flagged = policy.requests.sample == 0 || Flip();
    if (Flip()) policy.requests.retention_ms = Time();
    policy.requests.text = policy.requests.store == StoreRequests::kFull && Flip();
  }
  return policy;
}

RC_GTEST_PROP(PolicyYaml, ReadsBackAsTheSamePolicy, ()) {
  const PromotionPolicy policy = DrawPolicy();
  const PolicyOutcome outcome = ReadPolicy(ToYaml(policy));
  for (const Diagnostic& row : outcome.diagnostics) {
    RC_LOG() << row.code << " " << row.message << "\n";
  }
  RC_LOG() << ToYaml(policy);
  RC_ASSERT(outcome.policy.has_value());
  RC_ASSERT(CanonicalJson(*outcome.policy) == CanonicalJson(policy));
}

RC_GTEST_PROP(PolicyDiff, SaysSomethingExactlyWhereTheDigestsDiffer, ()) {
  const PromotionPolicy a = DrawPolicy();
  const PromotionPolicy b = Flip() ? DrawPolicy() : a;
  RC_ASSERT(DiffPolicies(a, b).empty() == (PolicyDigest(a) == PolicyDigest(b)));
}

TEST(PolicyDiff, SaysWhatBecameLooser) {
  struct Case {
    std::string name;
    std::string before;
    std::string after;
    bool looser;
  };
  const auto canary = [](const std::string& keys) {
    return "  offline: {}\n  shadow: {}\n  canary: {" + keys + "}\n  full: {}\n";
  };
  const std::string steps = "steps: [{traffic: 1%}, {traffic: 10%}]";
  const auto spec = [](const std::string& rest) { return std::string(kWhole) + rest; };
  const std::string ask = "hooks: [{point: confirm-promotion, name: h, exec: a}]\n";
  const std::vector<Case> cases = {
      {"a level less", canary(steps), canary(steps + ", levels: [L3]"), true},
      {"a level more", canary(steps), canary(steps + ", levels: [L1, L2, L3]"), false},
      {"clauses for levels", canary(steps), canary(steps + ", clauses: [A]"), true},
      {"clauses more", canary(steps + ", clauses: [A]"), canary(steps + ", clauses: [A, B]"),
       false},
      {"fewer requests", canary(steps + ", minRequests: 9"), canary(steps), true},
      {"longer window", canary(steps), canary(steps + ", stabilityWindow: 1h"), false},
      {"clean where it was not", canary(steps), canary(steps + ", clean: 10"), true},
      {"clean no more", canary(steps + ", clean: 10"), canary(steps), false},
      {"fewer clean", canary(steps + ", clean: 10"), canary(steps + ", clean: 9"), true},
      {"deadline later", canary(steps + ", deadline: 1h"), canary(steps + ", deadline: 2h"), true},
      {"deadline ends", canary(steps + ", deadline: 1h"),
       canary(steps + ", deadline: 1h, onDeadline: rollback"), false},
      {"a person less", canary(steps + ", approvals: {count: 2}"),
       canary(steps + ", approvals: {count: 1}"), true},
      {"another role", canary(steps + ", approvals: {count: 1, roles: [a]}"),
       canary(steps + ", approvals: {count: 1, roles: [b]}"), true},
      {"unsigned", canary(steps + ", approvals: {count: 1, signed: true}"),
       canary(steps + ", approvals: {count: 1}"), true},
      {"signed", canary(steps + ", approvals: {count: 1}"),
       canary(steps + ", approvals: {count: 1, signed: true}"), false},
      {"a role less", canary(steps + ", approvals: {count: 1, roles: [a, b]}"),
       canary(steps + ", approvals: {count: 1, roles: [b]}"), false},
      {"planned looks", canary(steps), canary(steps + ", looks: [{requests: 9, alpha: 1%}]"), true},
      {"a step less", canary(steps), canary("steps: [{traffic: 10%}]"), true},
      {"a step more", canary(steps),
       canary("steps: [{traffic: 1%}, {traffic: 5%}, {traffic: 10%}]"), false},
      {"a stage less", spec(""),
       "  offline: {levels: [L3]}\n  shadow: {minRequests: 100}\n"
       "  full: {levels: [L3]}\n",
       true},
      {"cool-down shorter", spec(""), spec("  coolDown: 1s\n"), true},
      {"less sure", spec(""), spec("  confidence: 90%\n"), true},
      {"watched", spec(""), spec("  enforce: [{clause: A, mode: shadow}]\n"), true},
      {"a hook less", spec("  " + ask), spec(""), true},
      {"a hook more", spec(""), spec("  " + ask), false},
      {"another command", spec("  " + ask),
       spec("  hooks: [{point: confirm-promotion, name: h, exec: b}]\n"), true},
      {"requests are kept", spec(""), spec("  requests: {store: full}\n"), false},
      {"nobody is told", spec("  hooks: [{point: event, name: h, exec: b}]\n"), spec(""), false},
  };
  for (const Case& one : cases) {
    const auto before = ReadSpec(one.before);
    const auto after = ReadSpec(one.after);
    ASSERT_TRUE(before.policy && after.policy) << one.name;
    const std::vector<Change> changes = DiffPolicies(*before.policy, *after.policy);
    ASSERT_FALSE(changes.empty()) << one.name;
    const bool looser = std::any_of(changes.begin(), changes.end(),
                                    [](const Change& change) { return change.loosens; });
    EXPECT_EQ(looser, one.looser) << one.name << ": " << changes[0].what;
  }
}

}  // namespace
}  // namespace kcc
