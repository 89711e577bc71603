#include "kcc/contract/canonical.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/base/sha256.h"
#include "kcc/contract/contract_gen.h"
#include "kcc/contract/reader.h"
#include "kcc/contract/respell_test.h"

namespace kcc {
namespace {

// The contract, or a failed property that shows the text and what is wrong with it.
Contract MustRead(const std::string& yaml) {
  const ReadOutcome outcome = ReadContract(yaml);
  if (!outcome.contract) {
    for (const Diagnostic& diagnostic : outcome.diagnostics) {
      RC_LOG() << FormatDiagnostic(diagnostic, "respelled.yaml", yaml);
    }
    RC_FAIL("the text was refused");
  }
  return *outcome.contract;
}

constexpr std::string_view kSmall = R"yaml(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: small, version: 1.0.0}
spec:
  slices:
    - {name: long, where: "(prompt_tokens>=8192.0)"}
  statistical:
    - {id: S-1, metric: mean_top5_overlap, atLeast: 98%, slices: [long, all], level: L3}
  numerical:
    - {id: N-2, metric: mean_kl, atMost: 2e-3, exceedance: 1%, level: L2, action: log}
    - {id: N-1, metric: p99_logit_linf, atMost: 0.05, window: 1m, level: L3}
)yaml";

// The bytes are what digests in the world were made of: this test may only change together with
// apiVersion.
TEST(CanonicalJson, IsTheseBytes) {
  const ReadOutcome outcome = ReadContract(kSmall);
  ASSERT_TRUE(outcome.contract.has_value());
  const std::string common =
      R"("minSamples":{"requests":0,"tokens":0},"slices":["all"],"stages":["offline","shadow","canary","full"])";
  const std::string expected =
      R"({"apiVersion":"kcc/v1","kind":"KernelContract","metadata":{"name":"small","version":"1.0.0"},"spec":{)"
      R"("assumptions":{"temperature":1},"decision":{"confidence":0.95},)"
      R"("escalation":{"L1":"log","L2":"guard","L3":"fallback","onError":"guard","onInconclusive":"guard","overrides":[]},)"
      R"("numerical":[{"action":"fallback","atMost":0.05,"confidence":0.95,"exceedance":0,"holdout":false,"id":"N-1","level":"L3","metric":"p99_logit_linf",)" +
      common +
      R"(},{"action":"log","atMost":0.002,"confidence":0.95,"exceedance":0.01,"holdout":false,"id":"N-2","level":"L2","metric":"mean_kl",)" +
      common +
      R"(,"window":"request"}],"observability":[],"runtime":[],)"
      R"("slices":[{"name":"all"},{"name":"long","where":"prompt_tokens >= 8192"}],)"
      R"("statistical":[{"action":"fallback","atLeast":0.98,"confidence":0.95,"exceedance":0,"holdout":false,"id":"S-1","level":"L3","metric":"mean_top5_overlap",)"
      R"("minSamples":{"requests":0,"tokens":0},"slices":["all","long"],"stages":["offline","shadow","canary","full"]}]}})"
      "\n";
  EXPECT_EQ(CanonicalJson(*outcome.contract), expected);
  EXPECT_EQ(ContractDigest(*outcome.contract), Sha256Of(expected));
}

// Every object's keys are in byte order: checked on the text, without trusting the writer.
bool KeysAreSorted(std::string_view json) {
  std::vector<std::string> last_key(1);
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '{' || json[i] == '[') last_key.emplace_back();
    if (json[i] == '}' || json[i] == ']') last_key.pop_back();
    if (json[i] != '"') continue;
    const size_t begin = ++i;
    while (json[i] != '"') i += json[i] == '\\' ? 2 : 1;
    if (json[i + 1] != ':') continue;
    const std::string key(json.substr(begin, i - begin));
    if (!last_key.back().empty() && key <= last_key.back()) return false;
    last_key.back() = key;
  }
  return true;
}

TEST(CanonicalJson, SortsTheKeysOfEveryObject) {
  ASSERT_FALSE(KeysAreSorted(R"({"a":{"c":1,"b":2}})"));
  EXPECT_TRUE(rc::check([] {
    const std::string json = CanonicalJson(*GenContract({.hostile_texts = false}));
    RC_LOG() << json;
    RC_ASSERT(KeysAreSorted(json));
  }));
}

// A YAML reader looks for the ':' of a key within 1,024 characters, so not all JSON is YAML.
bool HasLongKey(const Contract& contract) {
  for (const auto* map : {&contract.labels, &contract.model, &contract.train, &contract.infer}) {
    for (const auto& [key, value] : *map) {
      if (key.size() > 500) return true;
    }
  }
  return false;
}

TEST(ContractDigest, DoesNotDependOnSpelling) {
  EXPECT_TRUE(rc::check([] {
    const Contract contract = *GenContract();
    // The canonical form has every default written out, the readable one none.
    const bool defaults = *rc::gen::arbitrary<bool>() && !HasLongKey(contract);
    const std::string source = defaults ? CanonicalJson(contract) : ToYaml(contract);
    const std::string respelled = Respell(source);
    RC_LOG() << respelled;
    RC_ASSERT(CanonicalJson(MustRead(respelled)) == CanonicalJson(contract));
  }));
}

// The paper's list has the overlaps without an aggregate. Contracts that say mean_ keep their
// digest.
TEST(ContractDigest, AnOverlapWithoutAnAggregateIsItsMean) {
  std::string bare(kSmall);
  bare.replace(bare.find("mean_top5_overlap"), std::string_view("mean_top5_overlap").size(),
               "top5_overlap");
  EXPECT_EQ(CanonicalJson(MustRead(bare)), CanonicalJson(MustRead(std::string(kSmall))));
}

TEST(ContractDigest, DoesNotDependOnTheOrderOfClausesAndSlices) {
  EXPECT_TRUE(rc::check([] {
    Contract contract = *GenContract();
    const std::string digest = ContractDigest(contract);
    std::reverse(contract.clauses.begin(), contract.clauses.end());
    std::reverse(contract.slices.begin(), contract.slices.end());
    for (Clause& clause : contract.clauses) {
      std::reverse(clause.slices.begin(), clause.slices.end());
      std::reverse(clause.stages.begin(), clause.stages.end());
      std::reverse(clause.fields.begin(), clause.fields.end());
    }
    RC_ASSERT(ContractDigest(contract) == digest);
  }));
}

TEST(ContractDigest, ChangesWithEveryChangeOfMeaning) {
  for (const Mutation& mutation : Mutations()) {
    int applied = 0;
    EXPECT_TRUE(rc::check(mutation.name, [&] {
      const Contract before = *GenContract();
      Contract after = before;
      if (!mutation.apply(&after)) return;
      ++applied;
      RC_ASSERT(ContractDigest(after) != ContractDigest(before));
    }));
    EXPECT_GT(applied, 10) << mutation.name;
  }
}

TEST(ContractDigest, IgnoresTheWindowOfAHardClause) {
  Contract contract = *ReadContract(kSmall).contract;
  const std::string digest = ContractDigest(contract);
  for (Clause& clause : contract.clauses) {
    if (clause.hard()) clause.window = {Window::Kind::kTime, 5000};
  }
  EXPECT_EQ(ContractDigest(contract), digest);
}

}  // namespace
}  // namespace kcc
