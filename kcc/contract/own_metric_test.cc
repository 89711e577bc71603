// spec.metrics: what is refused and where, what identifies a definition, and what a change is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kcc/contract/canonical.h"
#include "kcc/contract/comments.h"
#include "kcc/contract/diff.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Document(const std::string& metrics, const std::string& clauses) {
  return "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n" +
         (metrics.empty() ? std::string() : "  metrics:\n" + metrics) + "  runtime:\n" + clauses;
}

const std::string kQueue =
    "    - {name: queue_ms, from: latency_ms - ttft_ms, unit: ms, direction: lower}\n";
const std::string kClause = "    - {id: R, metric: p95_queue_ms, atMost: 120ms, level: L2}\n";

Contract MustRead(const std::string& text) {
  const ReadOutcome outcome = ReadContract(text);
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    EXPECT_NE(diagnostic.kind, DiagnosticKind::kError)
        << FormatDiagnostic(diagnostic, "test.yaml", text);
  }
  return outcome.contract.value_or(Contract());
}

TEST(OwnMetrics, AreReadWithTheirDefaults) {
  const Contract contract = MustRead(Document(kQueue, kClause));
  ASSERT_EQ(contract.metrics.size(), 1u);
  const OwnMetric& metric = *contract.metrics[0].row->own;
  EXPECT_EQ(metric.of, QuantityLevel::kRequest);
  EXPECT_EQ(metric.unit, Unit::kMs);
  EXPECT_EQ(metric.from.Canonical(), "latency_ms - ttft_ms");
  EXPECT_TRUE(std::isinf(metric.min) && std::isinf(metric.max));
  const Clause* clause = contract.FindClause("R");
  EXPECT_EQ(clause->metric.quantity, contract.metrics[0].row);
  EXPECT_EQ(clause->threshold, 120);
}

TEST(OwnMetrics, TakeEveryUnitAndTheEmptyOne) {
  for (const Unit unit : Units()) {
    const Contract contract = MustRead(Document(
        "    - {name: x, from: x, direction: lower, unit: \"" + std::string(Name(unit)) + "\"}\n",
        "    - {id: R, metric: mean_x, atMost: 1, level: L1}\n"));
    ASSERT_EQ(contract.metrics.size(), 1u);
    EXPECT_EQ(contract.metrics[0].row->unit, unit);
  }
}

struct Mistake {
  std::string metrics;
  std::string clauses;
  std::vector<std::string> found;  // "line:column code"
  std::string words;               // of the first, message or hint
};

class OwnMistake : public testing::TestWithParam<Mistake> {};

TEST_P(OwnMistake, IsSaidAtItsPlace) {
  const Mistake& mistake = GetParam();
  const std::string text = Document(mistake.metrics, mistake.clauses);
  const ReadOutcome outcome = ReadContract(text);
  std::vector<std::string> found;
  for (const Diagnostic& row : outcome.diagnostics) {
    found.push_back(std::to_string(row.mark.line) + ":" + std::to_string(row.mark.column) + " " +
                    row.code);
  }
  EXPECT_EQ(found, mistake.found) << text;
  ASSERT_FALSE(outcome.diagnostics.empty());
  const Diagnostic& first = outcome.diagnostics[0];
  EXPECT_THAT(first.message + "; " + first.hint, HasSubstr(mistake.words));
}

std::string One(const std::string& rest) { return "    - {name: x, " + rest + "}\n"; }
const std::string kUse = "    - {id: R, metric: mean_x, atMost: 1, level: L1}\n";

INSTANTIATE_TEST_SUITE_P(
    Table, OwnMistake,
    testing::Values(
        Mistake{One("from: x"), kUse, {"6:7 missing-key"}, "direction"},
        Mistake{One("direction: lower"), kUse, {"6:7 missing-key"}, "'from'"},
        Mistake{One("from: x, direction: down"), kUse, {"6:37 unknown-word"}, "lower"},
        Mistake{One("from: x, direction: lower, unit: sec"), kUse, {"6:50 unknown-word"}, "ms"},
        Mistake{One("from: x, direction: lower, of: batch"), kUse, {"6:48 unknown-word"}, "token"},
        Mistake{One("from: x, direction: lower, form: y"), kUse, {"6:44 unknown-key"}, "'from'"},
        Mistake{One("from: x +, direction: lower"), kUse, {"6:26 bad-from"}, "found the end"},
        Mistake{One("from: \"2 * tags\", direction: lower"),
                kUse,
                {"6:28 bad-from"},
                "'tags' is a list of text"},
        Mistake{One("from: -token.logprb, of: token, direction: lower"),
                kUse,
                {"6:24 bad-from"},
                "did you mean 'token.logprob'?"},
        Mistake{One("from: -token.logprob, direction: lower"),
                kUse,
                {"6:23 wrong-level"},
                "write 'of: token'"},
        Mistake{One("from: reward, of: token, direction: lower"),
                kUse,
                {"6:23 wrong-level"},
                "write 'of: request'"},
        Mistake{One("from: x, direction: lower, min: 2, max: 1"),
                kUse,
                {"6:57 out-of-range"},
                "max is not above min"},
        Mistake{One("from: x, direction: lower, version: two words"),
                kUse,
                {"6:53 bad-metric"},
                "version must be"},
        Mistake{One("from: x, direction: lower") + One("from: y, direction: lower"),
                kUse,
                {"7:14 duplicate-metric"},
                "the first one is on line 6"},
        Mistake{"    - {name: kl, from: x, direction: lower}\n",
                "    - {id: R, metric: mean_kl, atMost: 1, level: L1}\n",
                {"6:14 bad-metric-name", "8:23 family"},
                "measures itself"},
        Mistake{"    - {name: p95_x, from: x, direction: lower}\n",
                "    - {id: R, metric: mean_latency_ms, atMost: 1, level: L1}\n",
                {"6:14 bad-metric-name"},
                "'p95_'"},
        Mistake{kQueue,
                "    - {id: R, metric: p95_queu_ms, atMost: 1, level: L1}\n",
                {"8:23 unknown-metric"},
                "did you mean 'p95_queue_ms'?"},
        Mistake{kQueue + One("from: queue_ms, direction: lower"),
                kUse + "    - {id: R2, metric: max_queue_ms, atMost: 1, level: L1}\n",
                {"7:14 not-a-field"},
                "reads the field 'queue_ms'"},
        Mistake{One("from: x, direction: lower"),
                "    - {id: R, metric: mean_latency_ms, atMost: 1, level: L1}\n",
                {"6:14 unused-metric"},
                "no clause uses metric 'x'"},
        Mistake{One("from: x, direction: lower"),
                "    - {id: R, metric: mean_x, atLeast: 1, level: L1}\n",
                {"8:31 wrong-bound"},
                "better when lower"},
        Mistake{One("from: x, direction: lower, max: 5"),
                "    - {id: R, metric: mean_x, atMost: 5, level: L1}\n",
                {"8:39 vacuous"},
                "can never be violated"},
        Mistake{One("from: x, direction: lower, unit: ms"),
                "    - {id: R, metric: mean_x, atMost: 1MiB, level: L1}\n",
                {"8:39 wrong-unit"},
                "mean_x is in ms"}));

TEST(OwnMetrics, AreLimitedInNumber) {
  std::string metrics;
  for (size_t i = 0; i <= kOwnMetricsMax; ++i) {
    metrics += "    - {name: x" + std::to_string(i) + ", from: x, direction: lower}\n";
  }
  const ReadOutcome outcome = ReadContract(Document(metrics, kUse));
  ASSERT_FALSE(outcome.contract.has_value());
  EXPECT_EQ(outcome.diagnostics[0].code, "too-many-metrics");
}

// What can be certified from samples: a bounded mean, as for every other quantity.
TEST(OwnMetrics, WarnsWhereNoSampleCanCertify) {
  const auto codes = [](const std::string& range) {
    const std::string text =
        "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n"
        "  decision: {about: traffic}\n  metrics:\n    - {name: x, from: x, direction: lower" +
        range + "}\n  runtime:\n    - {id: R, metric: mean_x, atMost: 0.5, level: L1}\n";
    std::vector<std::string> found;
    for (const Diagnostic& row : ReadContract(text).diagnostics) found.push_back(row.code);
    return found;
  };
  EXPECT_THAT(codes(", min: 0, max: 1"), IsEmpty());
  EXPECT_THAT(codes(""), ElementsAre("not-certifiable"));
  EXPECT_THAT(codes(", min: 0"), ElementsAre("not-certifiable"));
  EXPECT_THAT(codes(", max: 1"), ElementsAre("not-certifiable"));
}

TEST(OwnMetrics, IdentifyTheContract) {
  const std::string without = ContractDigest(
      MustRead(Document("", "    - {id: R, metric: p95_latency_ms, atMost: 120ms, level: L2}\n")));
  const std::string digest = ContractDigest(MustRead(Document(kQueue, kClause)));
  EXPECT_NE(digest, without);
  // Spelling and order are nothing.
  EXPECT_EQ(
      ContractDigest(MustRead(Document("    - direction: lower\n      unit: ms\n      of: request\n"
                                       "      from: (latency_ms)-ttft_ms\n      name: queue_ms\n",
                                       kClause))),
      digest);
  // What is said of it is.
  for (const char* more : {", min: 0", ", max: 9e9", ", version: v2", ", doc: text"}) {
    std::string changed = kQueue;
    changed.insert(changed.rfind('}'), more);
    EXPECT_NE(ContractDigest(MustRead(Document(changed, kClause))), digest) << more;
  }
}

TEST(OwnMetrics, StandInTheCanonicalFormOnlyWhereThereAreAny) {
  const std::string with = CanonicalJson(MustRead(Document(kQueue, kClause)));
  EXPECT_THAT(with,
              HasSubstr("\"metrics\":[{\"direction\":\"lower\",\"from\":\"latency_ms - "
                        "ttft_ms\",\"name\":\"queue_ms\",\"of\":\"request\",\"unit\":\"ms\"}],"
                        "\"numerical\""));
  const std::string without = CanonicalJson(
      MustRead(Document("", "    - {id: R, metric: p95_latency_ms, atMost: 120ms, level: L2}\n")));
  EXPECT_THAT(without, testing::Not(HasSubstr("\"metrics\"")));
}

TEST(OwnMetrics, AreFormattedWithTheirComments) {
  const std::string text = Document(
      "    # why it waits\n    - name: queue_ms\n      from: \"latency_ms-ttft_ms\"\n"
      "      unit: ms\n      direction: lower\n",
      kClause);
  const Contract contract = MustRead(text);
  const std::string yaml = ToYaml(contract);
  EXPECT_THAT(yaml, HasSubstr("name: queue_ms, of: request"));
  EXPECT_EQ(CanonicalJson(MustRead(yaml)), CanonicalJson(contract));
  EXPECT_EQ(ToYaml(MustRead(yaml)), yaml);
  const std::optional<std::string> carried = CarryComments(text, contract, yaml, MustRead(yaml));
  ASSERT_TRUE(carried.has_value());
  EXPECT_THAT(*carried, HasSubstr("# why it waits\n"));
}

std::vector<std::string> Diff(const std::string& before, const std::string& after) {
  std::vector<std::string> lines;
  for (const Change& change : DiffContracts(MustRead(before), MustRead(after))) {
    lines.push_back(std::string(Name(change.kind)) + " " + change.where + ": " + change.what);
  }
  return lines;
}

// Other values against the same threshold: neither looser nor tighter, so it must not pass as
// harmless.
TEST(OwnMetrics, AChangedDefinitionCountsAsLooser) {
  std::string changed = kQueue;
  changed.replace(changed.find("ttft_ms"), 7, "ttft_ms - 5");
  const std::vector<std::string> lines =
      Diff(Document(kQueue, kClause), Document(changed, kClause));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("looser metric queue_ms: definition changed from `latency_ms - "
                                  "ttft_ms`"));
  EXPECT_THAT(lines[0], HasSubstr("not comparable, so it counts as looser"));

  std::string ranged = kQueue;
  ranged.insert(ranged.rfind('}'), ", min: 0");
  EXPECT_THAT(Diff(Document(kQueue, kClause), Document(ranged, kClause))[0],
              HasSubstr("looser metric queue_ms"));
}

TEST(OwnMetrics, ADefinitionThatNothingUsesIsANote) {
  const std::string other = "    - {id: R, metric: p95_latency_ms, atMost: 120ms, level: L2}\n";
  std::string changed = kQueue;
  changed.replace(changed.find("ttft_ms"), 7, "other");
  EXPECT_THAT(Diff(Document(kQueue, other), Document(changed, other)),
              ElementsAre(HasSubstr("other metric queue_ms: definition changed")));
  EXPECT_THAT(Diff(Document(kQueue, other), Document("", other)),
              ElementsAre(HasSubstr("other metric queue_ms: removed")));
  EXPECT_THAT(Diff(Document("", other), Document(kQueue, other)),
              ElementsAre(HasSubstr("other metric queue_ms: new")));
}

}  // namespace
}  // namespace kcc
