// The promise of diff.h is held against a small model of judging: random evidence per slice, exact
// for an evaluation set and with a margin that grows with confidence for traffic. It knows nothing
// of the real judge but the monotonicities that docs/design.md section 8 gives.
#include "kcc/contract/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kcc/contract/canonical.h"
#include "kcc/contract/contract_gen.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// --- The model.

struct Evidence {
  uint64_t seed = 0;
  double temperature = 1;

  // A number in [0, 1) that depends on all it is given, and on nothing else.
  double Draw(const std::string& what, size_t i = 0, size_t j = 0) const {
    uint64_t x = seed ^ (std::hash<std::string>()(what) + 0x9E3779B97F4A7C15u * (i * 131 + j + 1));
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((x ^ (x >> 31)) >> 40) / static_cast<double>(1 << 24);
  }
  size_t Requests(const std::string& slice) const {
    return static_cast<size_t>(Draw(slice + "#n") * 9);
  }
  size_t Tokens(const std::string& slice, size_t request) const {
    return 1 + static_cast<size_t>(Draw(slice + "#t", request) * 5);
  }
  // Values crowd round the thresholds of the small world; some evidence is good throughout.
  double Value(const std::string& slice, const Quantity& quantity, size_t i, size_t j) const {
    std::string what(quantity.id);
    // Two definitions of one name have nothing to do with each other.
    if (quantity.own != nullptr) what.append(quantity.definition).append(quantity.own->version);
    const double draw = std::floor(Draw(slice + what, i, j) * 5) / 4;
    if (seed % 3 != 0) return draw;
    return quantity.direction == Direction::kLowerIsBetter ? draw / 4 : 1 - draw / 4;
  }
};

double Aggregated(Aggregate aggregate, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (aggregate == Aggregate::kMean) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  const double share = PercentilePpm(aggregate) / 1e6;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[rank == 0 ? 0 : rank - 1];
}

struct Judge {
  const Contract& contract;
  const Evidence& evidence;
  Stage stage;

  bool Traffic() const {
    return contract.decision.about.value_or(stage == Stage::kOffline
                                                ? Population::kEvaluationSet
                                                : Population::kTraffic) == Population::kTraffic;
  }
  double Margin(const Clause& clause) const {
    if (!Traffic()) return 0;
    const double confidence = clause.confidence.value_or(contract.decision.confidence);
    const double tokens =
        static_cast<double>(std::min<int64_t>(contract.assumptions.tokens_max.value_or(100), 100));
    return 0.1 * confidence + 0.002 * tokens + 0.01 * contract.assumptions.reward_max.value_or(9);
  }

  double WindowValue(const Clause& clause, const std::string& slice, size_t first,
                     size_t last) const {
    if (clause.metric.quantity->level == QuantityLevel::kPopulation) {
      double covered = 0;
      for (size_t i = first; i < last; ++i) {
        covered += std::all_of(clause.fields.begin(), clause.fields.end(), [&](const auto& field) {
          return evidence.Draw(slice + field, i) < 0.8;
        });
      }
      return covered / static_cast<double>(last - first);
    }
    std::vector<double> values;
    for (size_t i = first; i < last; ++i) {
      for (size_t j = 0; j < evidence.Tokens(slice, i); ++j) {
        values.push_back(evidence.Value(slice, *clause.metric.quantity, i, j));
      }
    }
    return Aggregated(clause.metric.aggregate, std::move(values));
  }

  bool Holds(const Clause& clause, const std::string& slice) const {
    const size_t requests = evidence.Requests(slice);
    int64_t tokens = 0;
    for (size_t i = 0; i < requests; ++i) {
      const auto count = static_cast<int64_t>(evidence.Tokens(slice, i));
      if (count > contract.assumptions.tokens_max.value_or(count)) return false;
      tokens += count;
    }
    if (requests == 0 || static_cast<int64_t>(requests) < clause.min_samples.requests ||
        tokens < clause.min_samples.tokens) {
      return false;
    }
    const auto within = [&](double value, double margin) {
      return clause.bound == BoundKind::kAtMost ? value + margin <= clause.threshold
                                                : value - margin >= clause.threshold;
    };
    const Aggregate aggregate = clause.metric.aggregate;
    if (clause.hard()) {
      const bool extreme = aggregate == Aggregate::kMax || aggregate == Aggregate::kMin;
      if (extreme && Traffic()) return false;
      return within(WindowValue(clause, slice, 0, requests), Margin(clause));
    }
    // A request every 500 ms; only complete windows count.
    const auto length = static_cast<size_t>(
        clause.window.kind == Window::Kind::kTime ? clause.window.size / 500 : clause.window.size);
    double windows = 0;
    double bad = 0;
    for (size_t first = 0; first + length <= requests; first += length) {
      windows += 1;
      bad += within(WindowValue(clause, slice, first, first + length), 0) ? 0 : 1;
    }
    return windows > 0 && bad / windows + Margin(clause) / 4 <= clause.exceedance;
  }

  bool Satisfied() const {
    if (contract.assumptions.temperature != evidence.temperature) return false;
    for (const Clause& clause : contract.clauses) {
      if (std::find(clause.stages.begin(), clause.stages.end(), stage) == clause.stages.end()) {
        continue;
      }
      for (const std::string& name : clause.slices) {
        const Slice* slice = contract.FindSlice(name);
        if (!Holds(clause, slice->where ? slice->where->Canonical() : "")) return false;
      }
    }
    return true;
  }
};

bool Loosens(const std::vector<Change>& changes) {
  return std::any_of(changes.begin(), changes.end(),
                     [](const Change& change) { return change.loosens; });
}

// Evidence that satisfies the new contract and not the old one.
std::optional<Evidence> Counterexample(const Contract& before, const Contract& after, uint64_t seed,
                                       int tries) {
  for (int i = 0; i < tries; ++i) {
    for (const Stage stage : {Stage::kOffline, Stage::kCanary}) {
      const Evidence evidence{seed + static_cast<uint64_t>(i), after.assumptions.temperature};
      if (Judge{after, evidence, stage}.Satisfied() &&
          !Judge{before, evidence, stage}.Satisfied()) {
        return evidence;
      }
    }
  }
  return {};
}

constexpr ContractGenOptions kSmallWorld = {.hostile_texts = false, .small_world = true};

Contract Mutated(Contract contract) {
  for (int64_t i = *rc::gen::inRange<int64_t>(1, 4); i > 0; --i) {
    Mutations()[*rc::gen::inRange<size_t>(0, Mutations().size())].apply(&contract);
  }
  return contract;
}

// --- The promise.

TEST(DiffContracts, NothingLooserMeansWhoeverSatisfiesTheNewSatisfiesTheOld) {
  int compared = 0;
  EXPECT_TRUE(rc::check([&] {
    const Contract before = *GenContract(kSmallWorld);
    const Contract after = Mutated(before);
    const std::vector<Change> changes = DiffContracts(before, after);
    if (Loosens(changes)) return;
    ++compared;
    for (const Change& change : changes) RC_LOG() << change.where << ": " << change.what << "\n";
    RC_LOG() << ToYaml(before) << ToYaml(after);
    RC_ASSERT(!Counterexample(before, after, *rc::gen::arbitrary<uint64_t>(), 60).has_value());
  }));
  EXPECT_GT(compared, 10);
}

TEST(DiffContracts, NothingLooserMeansNoWeakerResponse) {
  EXPECT_TRUE(rc::check([] {
    const Contract before = *GenContract(kSmallWorld);
    const Contract after = Mutated(before);
    if (Loosens(DiffContracts(before, after))) return;
    for (const Clause& clause : before.clauses) {
      const Clause* now = after.FindClause(clause.id);
      if (now == nullptr) continue;  // renamed
      RC_ASSERT(ActionOf(after.escalation, *now) >= ActionOf(before.escalation, clause));
      RC_ASSERT(now->level >= clause.level);
    }
    RC_ASSERT(after.escalation.on_inconclusive >= before.escalation.on_inconclusive);
    RC_ASSERT(after.escalation.on_error >= before.escalation.on_error);
  }));
}

TEST(DiffContracts, SaysSomethingExactlyWhereTheDigestChanges) {
  EXPECT_TRUE(rc::check([] {
    const Contract before = *GenContract();
    RC_ASSERT(DiffContracts(before, before).empty());
    const Contract after = Mutated(before);
    const bool same = ContractDigest(before) == ContractDigest(after);
    RC_ASSERT(DiffContracts(before, after).empty() == same);
  }));
}

// --- What is said, on one contract.

constexpr std::string_view kBase = R"yaml(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: base, version: 1.0.0}
spec:
  binds: {model: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}}
  slices: [{name: long, where: "prompt_tokens >= 8192"}, {name: unused, where: "failed"}]
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.5, slices: [all, long], level: L2, minSamples: {requests: 4}}
    - {id: N-2, metric: mean_kl, atMost: 0.5, exceedance: 25%, window: 2 requests, level: L2, action: freeze}
    - {id: N-3, metric: max_kl, atMost: 0.5, exceedance: 25%, level: L2}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 0.5, level: L2, holdout: true, confidence: 0.9}
  observability:
    - {id: O-1, metric: trace_field_coverage, atLeast: 0.5, fields: [seed, tags], level: L2}
)yaml";

struct Case {
  std::string from;  // replaced in kBase …
  std::string to;    // … by this
  ChangeKind kind;
  std::string where;
  std::string what;
  bool separable = false;  // some evidence satisfies the new contract and not the old one
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.from << " -> " << test.to; }

Contract MustRead(const std::string& yaml) {
  const ReadOutcome outcome = ReadContract(yaml);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    EXPECT_NE(diagnostic.kind, DiagnosticKind::kError)
        << FormatDiagnostic(diagnostic, "test.yaml", yaml);
  }
  return outcome.contract.value_or(Contract());
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The clause alone, if the change is one of a clause: others could hide what it does.
Contract Only(const std::string& where, Contract contract) {
  if (where.starts_with("clause ")) {
    std::erase_if(contract.clauses,
                  [&](const Clause& clause) { return "clause " + clause.id != where; });
  }
  return contract;
}

class DiffWords : public testing::TestWithParam<Case> {};

TEST_P(DiffWords, NameThePlaceAndBothValues) {
  const Case& test = GetParam();
  const Contract before = MustRead(std::string(kBase));
  const Contract after = MustRead(Replaced(std::string(kBase), test.from, test.to));
  const std::vector<Change> changes = DiffContracts(before, after);
  EXPECT_THAT(changes,
              Contains(testing::AllOf(testing::Field(&Change::kind, test.kind),
                                      testing::Field(&Change::where, test.where),
                                      testing::Field(&Change::what, HasSubstr(test.what)))))
      << (changes.empty() ? "no change" : changes[0].where + ": " + changes[0].what);
  const bool looser = test.kind == ChangeKind::kLooser || test.kind == ChangeKind::kGone;
  EXPECT_EQ(Loosens(changes), looser);
  // The model can tell: else the property above would prove nothing.
  if (test.separable) {
    EXPECT_TRUE(Counterexample(Only(test.where, before), Only(test.where, after), 1, 20000));
  }
}

constexpr auto kLooser = ChangeKind::kLooser;
constexpr auto kTighter = ChangeKind::kTighter;
constexpr auto kGone = ChangeKind::kGone;
constexpr auto kNew = ChangeKind::kNew;
constexpr auto kOther = ChangeKind::kOther;

// clang-format off
INSTANTIATE_TEST_SUITE_P(Thresholds, DiffWords, testing::Values(
    Case{"atMost: 0.5, slices", "atMost: 0.75, slices", kLooser, "clause N-1", "upper threshold of p99_kl on slices all and long raised from 0.5 to 0.75", true},
    Case{"atMost: 0.5, slices", "atMost: 0.25, slices", kTighter, "clause N-1", "lowered from 0.5 to 0.25"},
    Case{"atLeast: 0.5, level: L2, hold", "atLeast: 0.25, level: L2, hold", kLooser, "clause S-1", "lower threshold of mean_top5_overlap on slice all lowered from 0.5 to 0.25", true},
    Case{"atLeast: 0.5, level: L2, hold", "atLeast: 0.75, level: L2, hold", kTighter, "clause S-1", "raised from 0.5 to 0.75"},
    Case{"p99_kl", "p50_kl", kLooser, "clause N-1", "metric changed from p99_kl to p50_kl", true},
    Case{"p99_kl", "p999_kl", kTighter, "clause N-1", "metric changed from p99_kl to p999_kl"},
    Case{"p99_kl", "mean_kl", kLooser, "clause N-1", "not comparable", true},
    Case{"p99_kl", "p99_tv", kLooser, "clause N-1", "from p99_kl to p99_tv; not comparable"},
    Case{"fields: [seed, tags]", "fields: [tags]", kLooser, "clause O-1", "no longer asks for field seed", true},
    Case{"fields: [seed, tags]", "fields: [seed, tags, id]", kTighter, "clause O-1", "now asks for field id"}));

INSTANTIATE_TEST_SUITE_P(Budgets, DiffWords, testing::Values(
    Case{"level: L2, minS", "exceedance: 50%, level: L2, minS", kLooser, "clause N-1", "hard clause became soft: 50% of windows (request) may break the threshold of p99_kl", true},
    Case{"exceedance: 25%, window: 2 requests", "exceedance: 50%, window: 2 requests", kLooser, "clause N-2", "raised from 25% to 50%", true},
    Case{"exceedance: 25%, window: 2 requests", "exceedance: 7%, window: 2 requests", kTighter, "clause N-2", "lowered from 25% to 7%"},
    Case{"2 requests", "3 requests", kLooser, "clause N-2", "window of mean_kl changed from 2 requests to 3 requests; not comparable", true},
    Case{"exceedance: 25%, window: 2 requests, ", "", kLooser, "clause N-2", "became hard on mean_kl over the whole slice; not comparable", true},
    Case{"exceedance: 25%, level", "level", kTighter, "clause N-3", "soft clause (25% of windows, request) became hard on max_kl"}));

INSTANTIATE_TEST_SUITE_P(SlicesAndStages, DiffWords, testing::Values(
    Case{"slices: [all, long]", "slices: [all]", kLooser, "clause N-1", "p99_kl is no longer bounded on slice long", true},
    Case{"slices: [all, long]", "slices: [all, long, unused]", kTighter, "clause N-1", "p99_kl is now bounded on slice unused too"},
    Case{">= 8192", ">= 4096", kLooser, "slice long", "predicate changed from `prompt_tokens >= 8192` to `prompt_tokens >= 4096`; not comparable", true},
    Case{"where: \"failed\"", "where: \"parsed\"", kOther, "slice unused", "no clause used it"},
    Case{", {name: unused, where: \"failed\"}", "", kOther, "slice unused", "removed: `failed`; no clause used it"},
    Case{"{name: unused", "{name: extra, where: refused}, {name: unused", kNew, "slice extra", "new: `refused`"},
    Case{"level: L2, holdout", "level: L2, stages: [offline, full], holdout", kLooser, "clause S-1", "no longer judged in stage canary", true}));

INSTANTIATE_TEST_SUITE_P(EvidenceAndResponse, DiffWords, testing::Values(
    Case{"requests: 4", "requests: 2", kLooser, "clause N-1", "least evidence lowered from 4 to 2 requests", true},
    Case{"requests: 4", "requests: 5", kTighter, "clause N-1", "least evidence raised from 4 to 5 requests"},
    Case{"confidence: 0.9", "confidence: 0.8", kLooser, "clause S-1", "confidence lowered from 0.9 to 0.8"},
    Case{"confidence: 0.9", "confidence: 0.99", kTighter, "clause S-1", "confidence raised from 0.9 to 0.99"},
    Case{", confidence: 0.9", "", kTighter, "clause S-1", "confidence raised from 0.9 to 0.95"},
    Case{"holdout: true", "holdout: false", kLooser, "clause S-1", "no longer held out"},
    Case{"level: L2, minS", "level: L1, minS", kLooser, "clause N-1", "level lowered from L2 to L1"},
    Case{"level: L2, minS", "level: L3, minS", kTighter, "clause N-1", "action on a violation strengthened from guard to fallback"},
    Case{"action: freeze", "action: guard", kLooser, "clause N-2", "action on a violation weakened from freeze to guard"},
    Case{"action: freeze", "action: rollback", kTighter, "clause N-2", "strengthened from freeze to rollback"}));

INSTANTIATE_TEST_SUITE_P(WholeContract, DiffWords, testing::Values(
    Case{"  slices: [{", "  decision: {about: traffic}\n  slices: [{", kLooser, "decision", "changed from what the stage gives to traffic"},
    Case{"  slices: [{", "  decision: {about: evaluation-set}\n  slices: [{", kLooser, "decision", "to evaluation-set", true},
    Case{"  slices: [{", "  decision: {confidence: 0.5}\n  slices: [{", kLooser, "decision", "confidence lowered from 0.95 to 0.5"},
    Case{"  slices: [{", "  decision: {confidence: 0.99}\n  slices: [{", kTighter, "decision", "confidence raised from 0.95 to 0.99"},
    Case{"  slices: [{", "  assumptions: {tokensMax: 50}\n  slices: [{", kLooser, "assumptions", "tokensMax changed from none to 50", true},
    Case{"  slices: [{", "  assumptions: {rewardBinary: true}\n  slices: [{", kLooser, "assumptions", "rewardBinary changed from false to true"},
    Case{"  slices: [{", "  assumptions: {scoreNormMax: 5}\n  slices: [{", kOther, "assumptions", "scoreNormMax changed from none to 5; bounds only"},
    Case{"  slices: [{", "  assumptions: {advantages: token}\n  slices: [{", kOther, "assumptions", "advantages changed from outcome to token; bounds only"},
    Case{"  slices: [{", "  escalation: {L2: log}\n  slices: [{", kLooser, "escalation", "action for clauses of level L2 weakened from guard to log"},
    Case{"  slices: [{", "  escalation: {L1: guard}\n  slices: [{", kTighter, "escalation", "action for clauses of level L1 strengthened from log to guard"},
    Case{"  slices: [{", "  escalation: {overrides: [{family: runtime, level: L3, action: log}]}\n  slices: [{", kLooser, "escalation", "action for runtime clauses of level L3 weakened from fallback to log"},
    Case{"  slices: [{", "  escalation: {overrides: [{level: L2, action: guard}]}\n  slices: [{", kOther, "escalation", "rewritten to the same effect"},
    Case{"  slices: [{", "  escalation: {onInconclusive: log}\n  slices: [{", kLooser, "escalation", "action where the evidence does not decide weakened from guard to log"},
    Case{"  slices: [{", "  escalation: {onError: rollback}\n  slices: [{", kTighter, "escalation", "action where the evidence is broken strengthened from guard to rollback"},
    Case{"name: base", "name: other", kOther, "metadata", "name changed from base to other"},
    Case{"sha256:00", "sha256:11", kLooser, "binds", "model.digest changed from \"sha256:00"},
    Case{"id: N-3", "id: N-9", kOther, "clause N-3", "renamed to N-9"},
    Case{"    - {id: N-3, metric: max_kl, atMost: 0.5, exceedance: 25%, level: L2}\n", "", kGone, "clause N-3", "gone: max_kl atMost 0.5 on all, level L2", true},
    Case{"  statistical:", "  runtime: [{id: R-1, metric: p95_latency_ms, atMost: 400, level: L1}]\n  statistical:", kNew, "clause R-1", "new: p95_latency_ms atMost 400 on all, level L1"}));
// clang-format on

TEST(DiffContracts, FollowsASliceToItsNewName) {
  const Contract before = MustRead(std::string(kBase));
  std::string renamed = Replaced(std::string(kBase), "name: long", "name: long-context");
  const Contract after =
      MustRead(Replaced(renamed, "slices: [all, long]", "slices: [all, long-context]"));
  const std::vector<Change> changes = DiffContracts(before, after);
  EXPECT_FALSE(Loosens(changes));
  EXPECT_THAT(changes, Contains(testing::Field(&Change::what, HasSubstr("the same requests"))));
}

TEST(DiffContracts, PutsWhatLoosensFirst) {
  EXPECT_TRUE(rc::check([] {
    const Contract before = *GenContract(kSmallWorld);
    const std::vector<Change> changes = DiffContracts(before, Mutated(before));
    RC_ASSERT(std::is_partitioned(changes.begin(), changes.end(),
                                  [](const Change& change) { return change.loosens; }));
    for (const Change& change : changes) {
      const bool must = change.kind == kLooser || change.kind == kGone;
      RC_ASSERT(change.loosens == must);
    }
  }));
}

}  // namespace
}  // namespace kcc
