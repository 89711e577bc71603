#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "kcc/contract/canonical.h"
#include "kcc/contract/contract_gen.h"
#include "kcc/contract/reader.h"
#include "kcc/contract/yaml_writer.h"

namespace kcc {
namespace {

// An example in the order of docs/design.md section 4, as ToYaml writes it.
constexpr std::string_view kExample = R"(apiVersion: kcc/v1
kind: KernelContract
metadata:
  name: qwen3-8b-fp8-serving
  version: 1.3.0
  owner: serving-numerics
  description: |
    What FP8 serving may change.

      Agreed with training.
spec:
  binds:
    model: {name: qwen3-8b}
    train: {attention: sdpa-math, dtype: bf16, engine: torch-2.13}
    infer: {attention: fa3, dtype: fp8-e4m3, engine: vllm-0.18, kvCache: fp8}
  assumptions: {rewardMax: 1, rewardBinary: true, advantageMax: 4, scoreNormMax: 8, tokensMax: 4096}
  decision: {about: traffic, confidence: 0.99}
  slices:
    - name: all
    - {name: long-context, where: "prompt_tokens >= 8192"}
    - {name: safety, where: "'safety' in tags"}
  numerical:
    - {id: N-1, metric: p99_logit_linf, atMost: 0.05, slices: [all, long-context], level: L3}
    - {id: N-2, metric: mean_kl, atMost: 0.002, exceedance: 1%, level: L2, action: guard}
  statistical:
    - id: S-1
      metric: mean_top5_overlap
      atLeast: 0.98
      slices: [safety]
      level: L3
      minSamples: {requests: 100}
      stages: [offline, canary]
      holdout: true
      why: 'the "safety" set'
  runtime:
    - {id: R-1, metric: p95_latency_ms, atMost: 400, exceedance: 5%, window: 1m, level: L2}
  observability:
    - {id: O-1, metric: trace_field_coverage, atLeast: 1, fields: [seed, tags], level: L3}
  escalation:
    L2: freeze
    overrides:
      - {family: observability, level: L3, action: rollback}
    onError: fallback
)";

TEST(ToYaml, WritesWhatAPersonWould) {
  const ReadOutcome outcome = ReadContract(kExample);
  ASSERT_TRUE(outcome.contract.has_value());
  EXPECT_EQ(ToYaml(*outcome.contract), kExample);
}

TEST(ToYaml, ReadsBackAsTheSameContract) {
  EXPECT_TRUE(rc::check([] {
    const Contract contract = *GenContract();
    const std::string yaml = ToYaml(contract);
    RC_LOG() << yaml;
    const ReadOutcome outcome = ReadContract(yaml);
    for (const Diagnostic& diagnostic : outcome.diagnostics) {
      RC_LOG() << FormatDiagnostic(diagnostic, "contract.yaml", yaml);
    }
    RC_ASSERT(outcome.contract.has_value());
    RC_ASSERT(CanonicalJson(*outcome.contract) == CanonicalJson(contract));
    // What the canonical form sorts or fills in is kept for people.
    RC_ASSERT(ToYaml(*outcome.contract) == yaml);
  }));
}

TEST(ToYaml, KeepsToAHundredColumnsWhereTextsAllowIt) {
  EXPECT_TRUE(rc::check([] {
    std::istringstream yaml(ToYaml(*GenContract({.hostile_texts = false})));
    for (std::string line; std::getline(yaml, line);) {
      const bool one_scalar = line.find("where: ") != line.npos;  // a predicate is not broken
      RC_ASSERT(line.size() <= 100 || one_scalar);
      RC_ASSERT(!line.ends_with(' '));
    }
  }));
}

// yaml-cpp's own reading, so that the writer is not only held to our reader.
TEST(YamlScalar, ReadsBackWhateverTheTextHolds) {
  const auto expect_same = [](const std::string& text) {
    const std::string scalar = YamlScalar(text);
    const YAML::Node node = YAML::Load("{\"a\": " + scalar + ", b: [" + scalar + "]}");
    return node["a"].IsScalar() && node["a"].Scalar() == text && node["b"][0].Scalar() == text;
  };
  EXPECT_TRUE(rc::check([&] {
    std::string text = *GenHostileText();
    text += *rc::gen::element<std::string>("", "\x01", "\x7F", "\r", "\xE2\x80\xAE", "\xEF\xBB\xBF",
                                           "\xE2\x80\xA8", "\xC2\x85", "x");
    RC_LOG() << YamlScalar(text);
    RC_ASSERT(expect_same(text));
  }));
}

TEST(YamlScalar, QuotesOnlyWhereItMust) {
  for (const char* text : {"vllm-0.18", "two words", "fp8", "8b", "it's", "a/b",
                           "\xC3\xBC"
                           "ber"}) {
    EXPECT_EQ(YamlScalar(text), text);
  }
  for (const char* text : {"NO", "y", "~", "", " a", "a ", "1.5", "1e3", "0x1F", "1_000", "12:30",
                           "2024-01-01", "-a", "a: b", "a#", "[", "@a", "a,b"}) {
    EXPECT_EQ(YamlScalar(text), "\"" + std::string(text) + "\"");
  }
  EXPECT_EQ(YamlScalar("a \"b\""), "'a \"b\"'");
  EXPECT_EQ(YamlScalar("it's \"b\""), "\"it's \\\"b\\\"\"");
  EXPECT_EQ(YamlScalar("a\n\xE2\x80\xAE"), "\"a\\n\\u202E\"");
}

}  // namespace
}  // namespace kcc
