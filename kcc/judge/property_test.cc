// Properties of the whole judge over random evidence and random contracts.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "kcc/contract/contract_gen.h"
#include "kcc/contract/diff.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"

namespace kcc {
namespace {

using testing::Evidence;
using testing::JudgedRequest;
using testing::JudgedToken;
using testing::Measure;

constexpr auto kSatisfied = Verdict::kSatisfied;
constexpr auto kViolated = Verdict::kViolated;
constexpr auto kInconclusive = Verdict::kInconclusive;

bool Flip() { return *rc::gen::arbitrary<bool>(); }
size_t Below(size_t n) { return *rc::gen::inRange<size_t>(0, n); }

Clause MakeClause(const std::string& metric, BoundKind bound, double threshold) {
  Clause clause;
  clause.id = metric;
  clause.metric = *ParseMetric(metric);
  clause.bound = bound;
  clause.threshold = threshold;
  clause.slices = {"all"};
  clause.level = ViolationLevel::kL2;
  clause.stages = {Stage::kOffline};
  return clause;
}

Contract MakeContract(std::vector<Clause> clauses) {
  Contract contract;
  contract.slices = {{"all", {}, {}}};
  contract.clauses = std::move(clauses);
  return contract;
}

// The verdict by sorting all values: the type-1 quantile of the worse ends holds, or that of the
// better ends fails.
Verdict BySorting(const std::vector<std::pair<double, double>>& values, int ppm, BoundKind bound,
                  double threshold) {
  const auto quantile = [&](bool high) {
    std::vector<double> sorted;
    for (const auto& [lo, hi] : values) sorted.push_back(high ? hi : lo);
    std::sort(sorted.begin(), sorted.end());
    const auto n = static_cast<int64_t>(sorted.size());
    const int64_t rank = std::max<int64_t>(1, (n * ppm + 999999) / 1000000);
    return sorted[static_cast<size_t>(rank - 1)];
  };
  const bool at_most = bound == BoundKind::kAtMost;
  const double worst = quantile(at_most);
  const double best = quantile(!at_most);
  if (at_most ? worst <= threshold : worst >= threshold) return kSatisfied;
  return (at_most ? best > threshold : best < threshold) ? kViolated : kInconclusive;
}

TEST(Percentiles, AreDecidedAsBySortingAllValues) {
  constexpr const char* kAggregates[] = {"p001", "p01", "p05",  "p10", "p50", "p90",
                                         "p95",  "p99", "p999", "max", "min"};
  int decided[2] = {0, 0};
  EXPECT_TRUE(rc::check("sorting", [&] {
    const bool intervals = Flip();
    const bool of_tokens = Flip();
    std::vector<std::pair<double, double>> values;
    Evidence evidence;
    // Few distinct values, so that ties at the threshold are common; some counts at which a
    // percentile's rank is a whole number.
    const size_t count = Flip() ? 1 + Below(30) : *rc::gen::element<size_t>(100, 200, 1000);
    for (size_t i = 0; i < count; ++i) {
      const double lo = static_cast<double>(Below(6)) / 8;
      const double hi =
          intervals && of_tokens && Flip() ? lo + static_cast<double>(Below(3)) / 8 : lo;
      values.emplace_back(lo, hi);
      if (of_tokens) {
        if (evidence.requests.empty() || Below(4) == 0) evidence.Add();
        evidence.requests.back().tokens.push_back(JudgedToken().Set("margin", lo, hi));
      } else {
        evidence.Add().Both("output_tokens", lo);
      }
    }
    const double threshold = static_cast<double>(Below(6)) / 8;
    const double near = threshold + (Flip() ? 1e-9 : 0);  // inside a bucket of the histogram
    std::vector<Clause> clauses;
    for (const char* aggregate : kAggregates) {
      for (const BoundKind bound : {BoundKind::kAtMost, BoundKind::kAtLeast}) {
        const std::string quantity = of_tokens ? "_margin" : "_output_tokens";
        clauses.push_back(MakeClause(aggregate + quantity, bound, near));
      }
    }
    const Contract contract = MakeContract(clauses);
    const Judgement exact = Judge(contract, Measure(contract, evidence));
    const Judgement bracketed = Judge(contract, Measure(Plan::Default(), evidence));
    for (size_t i = 0; i < clauses.size(); ++i) {
      const Clause& clause = clauses[i];
      const int ppm = PercentilePpm(clause.metric.aggregate);
      const Verdict expected = BySorting(values, ppm, clause.bound, clause.threshold);
      RC_ASSERT(exact.clauses[i].verdict == expected);
      const Verdict other = bracketed.clauses[i].verdict;
      RC_ASSERT(other == expected || other == kInconclusive);
      if (expected != kInconclusive) ++decided[other == expected ? 1 : 0];
    }
  }));
  EXPECT_GT(decided[1], decided[0]) << "without the plan's counters most are still decided";
}

// --- Evidence that holds everything, and a contract that it satisfies.

std::vector<Clause> FullClauses() {
  constexpr auto kAtMost = BoundKind::kAtMost;
  constexpr auto kAtLeast = BoundKind::kAtLeast;
  std::vector<Clause> clauses = {
      MakeClause("p99_kl", kAtMost, 0.5),
      MakeClause("mean_tv", kAtMost, 0.5),
      MakeClause("max_log_ratio", kAtMost, 0.5),
      MakeClause("rate_bit_mismatch", kAtMost, 0.5),
      MakeClause("mean_top1_overlap", kAtLeast, 0.5),
      MakeClause("flip_rate", kAtMost, 0.5),
      MakeClause("max_seq_kl", kAtMost, 50),
      MakeClause("p95_latency_ms", kAtMost, 400),
      MakeClause("mean_train_latency_ms", kAtMost, 400),
      MakeClause("reward_drift", kAtMost, 0.5),
      MakeClause("refusal_rate_gap", kAtMost, 0.5),
      MakeClause("failure_rate", kAtMost, 0.5),
      MakeClause("signature_match_rate", kAtLeast, 0.5),
      MakeClause("brier_gap", kAtMost, 0.5),
      MakeClause("peak_memory_mb", kAtMost, 100),
  };
  for (const Window window :
       {Window{}, Window{Window::Kind::kRequests, 3}, Window{Window::Kind::kTime, 1000}}) {
    Clause soft = MakeClause("mean_kl", kAtMost, 0.5);
    soft.exceedance = 0.5;
    soft.window = window;
    clauses.push_back(soft);
  }
  return clauses;
}

Evidence FullEvidence(size_t count) {
  Evidence evidence;
  for (size_t i = 0; i < count; ++i) {
    JudgedRequest& request = evidence.Add();
    const auto place = static_cast<double>(i);
    request.Both("ordinal", place).Both("started_at_ms", 300 * place).Both("latency_ms", 100.0);
    request.Both("reward", 0.5).Both("refused", false).Both("failed", false);
    request.Both("replay_signature", std::string("same")).Both("peak_memory_mb", 10.0);
    request.Both("kept", true);
    for (size_t t = 0; t < 2; ++t) {
      JudgedToken token;
      token.Set("kl", 0.1).Set("tv", 0.1).Set("log_ratio", 0.1).Set("bit_mismatch", 0);
      token.Set("top1_overlap", 1).Set("margin", 1);
      token.drift.argmax[0] = token.drift.argmax[1] = token.gold = 1;
      token.drift.confidence[0] = token.drift.confidence[1] = 0.9;
      request.tokens.push_back(token);
    }
  }
  return evidence;
}

// What a clause reads, by the fields and token quantities a test can remove.
bool Reads(const Clause& clause, const std::string& what) {
  const std::string_view id = clause.metric.quantity->id;
  const std::string fields(clause.metric.quantity->fields);
  const bool placed =
      !clause.hard() && ((what == "ordinal" && clause.window.kind == Window::Kind::kRequests) ||
                         (what == "started_at_ms" && clause.window.kind == Window::Kind::kTime));
  const bool sequence = id == "seq_kl" && what == "kl";
  const bool flips = id == "flip_rate" && what == "top1_overlap";
  return placed || sequence || flips || id == what || fields == what;
}

TEST(Removing, NothingFromFullEvidenceLeavesAllSatisfied) {
  const Contract contract = MakeContract(FullClauses());
  const Judgement judgement = Judge(contract, Measure(contract, FullEvidence(9)));
  for (const ClauseVerdict& clause : judgement.clauses) {
    EXPECT_EQ(clause.verdict, kSatisfied) << clause.id << clause.slices[0].about.reason;
  }
}

TEST(Removing, AFieldOrQuantityFromAnyRequestsNeverYieldsSatisfied) {
  const std::vector<std::string> removable = {
      "kl",           "tv",      "log_ratio", "bit_mismatch",     "top1_overlap",   "latency_ms",
      "reward",       "refused", "failed",    "replay_signature", "peak_memory_mb", "ordinal",
      "started_at_ms"};
  EXPECT_TRUE(rc::check("fields", [&] {
    Contract contract = MakeContract(FullClauses());
    if (Flip()) contract.decision.about = Population::kTraffic;
    contract.assumptions.tokens_max = 4;
    contract.assumptions.reward_max = 1;
    Evidence evidence = FullEvidence(3 + Below(60));
    const std::string& what = removable[Below(removable.size())];
    const size_t side = Below(3);  // 2: both
    size_t removed = 0;
    const size_t must = Below(evidence.requests.size());
    for (size_t i = 0; i < evidence.requests.size(); ++i) {
      if (i != must && Below(3) != 0) continue;
      ++removed;
      JudgedRequest& request = evidence.requests[i];
      // A window's place may come from either side, a token quantity from both.
      const bool place = what == "ordinal" || what == "started_at_ms";
      if (side != 1 || place) request.infer.fields.erase(what);
      if (side != 0 || place) request.train.fields.erase(what);
      for (JudgedToken& token : request.tokens) {
        if (request.infer.fields.contains(what) || !FindQuantity(what)) continue;
        if (FindQuantity(what)->level == QuantityLevel::kToken) {
          token.drift.known.reset(TokenSlot(what));
        }
      }
    }
    const Judgement judgement = Judge(contract, Measure(contract, evidence));
    for (size_t i = 0; i < contract.clauses.size(); ++i) {
      const Clause& clause = contract.clauses[i];
      const bool one_sided =
          clause.metric.quantity->sided && !clause.metric.quantity->fields.empty();
      const bool other_side =
          one_sided && side != 2 && (side == 0) != (clause.metric.side == Side::kInfer);
      if (Reads(clause, what) && !other_side) RC_ASSERT(judgement.clauses[i].verdict != kSatisfied);
    }
    RC_ASSERT(removed > 0u);
  }));
}

TEST(Removing, TheEvidenceLevelNeverYieldsAFactFromAnEstimate) {
  const Contract contract = MakeContract(FullClauses());
  Evidence evidence = FullEvidence(200);
  evidence.sampled_only = true;
  for (JudgedRequest& request : evidence.requests) {
    for (JudgedToken& token : request.tokens) {
      token.drift.known.reset(TokenSlot("top1_overlap"));
      token.gold = -1;
    }
  }
  const Judgement judgement = Judge(contract, Measure(contract, evidence));
  for (const ClauseVerdict& clause : judgement.clauses) {
    const Metric metric = *ParseMetric(clause.metric);
    const EvidenceNeeded needed = metric.quantity->evidence;
    if (needed != EvidenceNeeded::kLogits && needed != EvidenceNeeded::kGold) continue;
    EXPECT_NE(clause.verdict, kSatisfied) << clause.id;
  }
}

TEST(Removing, RequestsWhileTheManifestStaysNeverYieldsSatisfied) {
  EXPECT_TRUE(rc::check("requests", [] {
    Contract contract = MakeContract(FullClauses());
    if (Flip()) contract.decision.about = Population::kTraffic;
    contract.assumptions.tokens_max = 4;
    Evidence evidence = FullEvidence(2 + Below(100));
    evidence.unmeasured = 1 + Below(evidence.requests.size());
    const Judgement judgement = Judge(contract, Measure(contract, evidence));
    for (const ClauseVerdict& clause : judgement.clauses) RC_ASSERT(clause.verdict != kSatisfied);
  }));
}

TEST(Removing, ASliceFromEvidenceOrPlanNeverYieldsSatisfied) {
  Contract contract = MakeContract(FullClauses());
  contract.slices.push_back({"some", *Predicate::Parse("kept == true"), {}});
  for (Clause& clause : contract.clauses) clause.slices = {"some"};
  const Evidence full = FullEvidence(9);
  EXPECT_TRUE(Judge(contract, Measure(contract, full)).convergent);
  Evidence outside = full;
  for (JudgedRequest& request : outside.requests) request.Both("kept", false);
  const Judgement empty = Judge(contract, Measure(contract, outside));
  const Judgement unplanned = Judge(contract, Measure(Plan::Default(), full));
  for (size_t i = 0; i < contract.clauses.size(); ++i) {
    EXPECT_EQ(empty.clauses[i].verdict, kInconclusive) << contract.clauses[i].id;
    EXPECT_EQ(unplanned.clauses[i].verdict, kInconclusive) << contract.clauses[i].id;
  }
}

// --- Random contracts on random evidence.

constexpr ContractGenOptions kSmallWorld = {.hostile_texts = false, .small_world = true};

Evidence AnyEvidence(const Contract& contract) {
  Evidence evidence;
  const size_t count = Below(4) == 0 ? 40 + Below(300) : Below(12);
  const bool good = Flip();  // good throughout, so that much is satisfied
  const bool intervals = Below(3) == 0;
  for (size_t i = 0; i < count; ++i) {
    JudgedRequest& request = evidence.Add();
    const auto place = static_cast<double>(i);
    if (good || Below(8) != 0) request.Both("ordinal", place);
    if (good || Below(8) != 0) request.Both("started_at_ms", 400 * place);
    for (const char* field : {"seed", "tags", "kernel_fingerprint"}) {
      if (good || Flip()) request.Both(field, 1.0);
    }
    // What the contracts' own metric reads.
    const double cost = static_cast<double>(Below(5)) / 4;
    if (good || Below(8) != 0) request.Both("cost", good ? cost / 4 : cost);
    for (size_t t = Below(4) + (good ? 1 : 0); t > 0; --t) {
      const double draw = static_cast<double>(Below(5)) / 4;
      const double width = intervals ? static_cast<double>(Below(3)) / 8 : 0;
      JudgedToken token;
      token.Set("kl", good ? draw / 4 : draw, (good ? draw / 4 : draw) + width);
      token.Set("top5_overlap", good ? 1 - draw / 4 : draw);
      if (!good && Below(20) == 0) token.drift.known.reset(TokenSlot("kl"));
      request.tokens.push_back(token);
    }
  }
  if (count > 0 && Below(6) == 0) evidence.unmeasured = Below(count);
  evidence.change_source = [temperature = contract.assumptions.temperature,
                            model = contract.model](Source* source) {
    source->temperature = temperature;
    const auto digest = model.find("digest");
    if (digest == model.end()) return;
    source->train.model_digest = source->infer.model_digest = digest->second;
  };
  return evidence;
}

Contract Mutated(Contract contract) {
  for (int64_t i = *rc::gen::inRange<int64_t>(1, 4); i > 0; --i) {
    Mutations()[Below(Mutations().size())].apply(&contract);
  }
  return contract;
}

TEST(Judge, AContractOutsideThePlanGetsTheExactVerdictOrNone) {
  int same = 0;
  EXPECT_TRUE(rc::check("plans", [&] {
    const Contract planned = *GenContract(kSmallWorld);
    const Contract asked = Mutated(planned);
    const Evidence evidence = AnyEvidence(asked);
    for (const Stage stage : {Stage::kOffline, Stage::kCanary}) {
      const JudgeOptions options{.stage = stage, .about = {}};
      const Judgement exact = Judge(asked, Measure(asked, evidence), options);
      const Judgement other = Judge(asked, Measure(planned, evidence), options);
      for (size_t c = 0; c < exact.clauses.size(); ++c) {
        for (size_t s = 0; s < exact.clauses[c].slices.size(); ++s) {
          // Holm counts the tests there are, so a refutation may also appear where some are gone.
          const SliceVerdict& a = exact.clauses[c].slices[s];
          const SliceVerdict& b = other.clauses[c].slices[s];
          const bool fewer_tests = a.verdict() == kInconclusive && b.verdict() == kViolated &&
                                   other.about == Population::kTraffic;
          RC_ASSERT(a.verdict() == b.verdict() || b.verdict() == kInconclusive || fewer_tests);
          same += a.verdict() == b.verdict() && a.verdict() != kInconclusive ? 1 : 0;
        }
      }
    }
  }));
  EXPECT_GT(same, 10);
}

TEST(Judge, ViolatedClausesDecideTheWhole) {
  int violated = 0;
  EXPECT_TRUE(rc::check("whole", [&] {
    Contract contract = *GenContract(kSmallWorld);
    if (Below(4) != 0) contract.decision.about = Population::kEvaluationSet;
    const Judgement judgement = Judge(contract, Measure(contract, AnyEvidence(contract)));
    bool all_satisfied = !judgement.clauses.empty();
    for (const ClauseVerdict& clause : judgement.clauses) {
      all_satisfied = all_satisfied && clause.verdict == kSatisfied;
      if (clause.verdict != kViolated) continue;
      ++violated;
      RC_ASSERT(judgement.verdict == kViolated);
      RC_ASSERT((judgement.action.has_value() && *judgement.action >= clause.action));
      if (clause.level == ViolationLevel::kL2) RC_ASSERT(judgement.health >= judgement.eta1);
      if (clause.level == ViolationLevel::kL3) RC_ASSERT(judgement.health >= judgement.eta2);
      for (const SliceVerdict& slice : clause.slices) {
        const double least = slice.verdict() == kViolated ? 1 : 0;
        RC_ASSERT(slice.deviation >= least);
        RC_ASSERT(slice.deviation <= 2 * least);
      }
    }
    RC_ASSERT(judgement.convergent == all_satisfied);
  }));
  EXPECT_GT(violated, 0);
}

TEST(Judge, AViolatedClausePassesAtTheThresholdAndBudgetItIsGiven) {
  int tried = 0;
  EXPECT_TRUE(rc::check("passing", [&] {
    Contract contract = *GenContract(kSmallWorld);
    contract.decision.about = Population::kEvaluationSet;
    for (Clause& clause : contract.clauses) clause.stages = {Stage::kOffline};
    Evidence evidence = AnyEvidence(contract);
    evidence.unmeasured = 0;
    const Judgement judgement = Judge(contract, Measure(contract, evidence));
    for (const ClauseVerdict& clause : judgement.clauses) {
      for (const SliceVerdict& slice : clause.slices) {
        if (slice.verdict() != kViolated) continue;
        Contract relaxed = contract;
        relaxed.clauses = {*contract.FindClause(clause.id)};
        relaxed.clauses[0].slices = {slice.slice};
        const auto judged = [&](const Contract& c) {
          return Judge(c, Measure(c, evidence)).clauses[0].slices[0];
        };
        const auto passes = [&](const Contract& c) {
          const SliceVerdict again = judged(c);
          return again.verdict() == kSatisfied ||
                 again.about.reason.find("missing") != std::string::npos;
        };
        ++tried;
        RC_LOG() << slice.about.reason << "\n";
        if (slice.smallest_passing) {
          Contract at = relaxed;
          at.clauses[0].threshold = *slice.smallest_passing;
          RC_LOG() << judged(at).about.reason << "\n";
          RC_ASSERT(passes(at));
        }
        if (slice.smallest_budget && *slice.smallest_budget > 0) {
          relaxed.clauses[0].exceedance = *slice.smallest_budget;
          RC_ASSERT(passes(relaxed));
        }
      }
    }
  }));
  EXPECT_GT(tried, 0);
}

TEST(Judge, NothingLooserMeansWhoeverSatisfiesTheNewContractSatisfiesTheOld) {
  int satisfied = 0;
  EXPECT_TRUE(rc::check("diff", [&] {
    const Contract before = *GenContract(kSmallWorld);
    const Contract after = Mutated(before);
    const auto digest = [](const Contract& c) {
      const auto found = c.model.find("digest");
      return found == c.model.end() ? std::string() : found->second;
    };
    // Another model is other evidence, not a looser contract.
    if (digest(before) != digest(after)) return;
    for (const Change& change : DiffContracts(before, after)) {
      if (change.loosens) return;
    }
    for (int i = 0; i < 8; ++i) {
      const Evidence evidence = AnyEvidence(after);
      for (const Stage stage : {Stage::kOffline, Stage::kCanary}) {
        const JudgeOptions options{.stage = stage, .about = {}};
        const Judgement judged = Judge(after, Measure(after, evidence), options);
        if (!judged.convergent) continue;
        const Judgement old = Judge(before, Measure(before, evidence), options);
        // A contract that judges nothing in a stage is not satisfied there, and asks nothing.
        if (old.clauses.empty()) continue;
        ++satisfied;
        RC_ASSERT(old.convergent);
      }
    }
  }));
  EXPECT_GT(satisfied, 0);
}

}  // namespace
}  // namespace kcc
