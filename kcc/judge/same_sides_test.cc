// Two sides that are one: what the verdict says, beside being satisfied.
#include "kcc/judge/same_sides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"

namespace kcc {
namespace {

using ::testing::Contains;
using testing::Evidence;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JudgedRequest;
using testing::JudgedToken;

Contract ContractOf(const std::string& spec = "") {
  const ReadOutcome read = ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: same, version: 1.0.0}
spec:
)" + spec + R"(
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.1, level: L2}
    - {id: N-2, metric: p99_abs_log_ratio, atMost: 0.1, level: L2}
)");
  EXPECT_TRUE(read.contract.has_value());
  return *read.contract;
}

Evidence EvidenceOf(double apart, const std::function<void(Source*)>& change) {
  Evidence evidence;
  JudgedRequest& request = evidence.Add();
  for (int i = 0; i < 3; ++i) {
    JudgedToken token;
    token.Set("kl", apart).Set("abs_log_ratio", apart);
    request.tokens.push_back(token);
  }
  evidence.change_source = change;
  return evidence;
}

Judgement JudgedOf(double apart, const std::function<void(Source*)>& change,
                   const std::string& spec = "") {
  const Contract contract = ContractOf(spec);
  return Judge(contract, testing::Measure(contract, EvidenceOf(apart, change)));
}

TEST(SameSides, OneTraceGivenTwiceIsNamed) {
  const auto one_trace = [](Source* source) {
    source->train.identity = source->infer.identity = "sha256:1";
    source->train.kernel_fingerprint = source->infer.kernel_fingerprint = "build-1";
  };
  const Judgement judged = JudgedOf(0, one_trace);
  EXPECT_EQ(judged.verdict, Verdict::kSatisfied);
  ASSERT_EQ(judged.warnings.size(), 1u);
  EXPECT_THAT(judged.warnings[0], HasSubstr("train and infer are the same trace"));
}

// The identity does not hold the numbers: of two kernels of one name only that can be said.
TEST(SameSides, TwoTracesOfOneIdentityAndOtherNumbersAreNotOneTrace) {
  const auto one_name = [](Source* source) {
    source->train.identity = source->infer.identity = "sha256:1";
    source->train.kernel_fingerprint = source->infer.kernel_fingerprint = "build-1";
  };
  const Judgement judged = JudgedOf(1e-9, one_name);
  ASSERT_EQ(judged.warnings.size(), 1u);
  EXPECT_THAT(judged.warnings[0], HasSubstr("the same fingerprint 'build-1'"));
}

TEST(SameSides, OnePayloadUnderTwoNamesIsOneTrace) {
  const auto one_payload = [](Source* source) {
    source->train.payload_digest = source->infer.payload_digest = "sha256:2";
    source->train.kernel_fingerprint = "a";
    source->infer.kernel_fingerprint = "b";
  };
  EXPECT_THAT(JudgedOf(0, one_payload).warnings, Contains(HasSubstr("the same trace")));
}

TEST(SameSides, GeneratedTracesHaveNoTokensToCompare) {
  const auto generated = [](Source* source) {
    source->mode = TraceMode::kGenerated;
    source->train.identity = source->infer.identity = "sha256:1";
  };
  EXPECT_THAT(JudgedOf(0.01, generated).warnings, Contains(HasSubstr("the same trace")));
}

TEST(SameSides, EqualNumbersWithoutFingerprintsAreNamed) {
  const auto warnings = [](double apart, const char* train, const char* infer) {
    return JudgedOf(apart,
                    [&](Source* source) {
                      source->train.kernel_fingerprint = train;
                      source->infer.kernel_fingerprint = infer;
                    })
        .warnings;
  };
  EXPECT_THAT(warnings(0, "", ""), Contains(HasSubstr("to the last bit on all 3 tokens")));
  EXPECT_THAT(warnings(0, "a", ""), Contains(HasSubstr("to the last bit")));
  EXPECT_THAT(warnings(0, "a", "b"), IsEmpty()) << "two bit-exact kernels";
  EXPECT_THAT(warnings(1e-300, "", ""), IsEmpty());
}

TEST(SameSides, ListsOnTheTrainSideAgainstLogitsAreAskedAbout) {
  const auto levels = [](EvidenceLevel train, EvidenceLevel infer) {
    return JudgedOf(0.01,
                    [&](Source* source) {
                      source->train.evidence = train;
                      source->infer.evidence = infer;
                    })
        .warnings;
  };
  EXPECT_THAT(levels(EvidenceLevel::kTopK, EvidenceLevel::kLogits),
              Contains(HasSubstr("are the sides exchanged?")));
  EXPECT_THAT(levels(EvidenceLevel::kLogits, EvidenceLevel::kTopK), IsEmpty());
  EXPECT_THAT(levels(EvidenceLevel::kTopK, EvidenceLevel::kTopK), IsEmpty());
}

TEST(SameSides, KernelsThatFitTheContractTheOtherWayRoundAreAnErrorThatSaysSo) {
  const std::string spec = "  binds: {train: {engine: torch}, infer: {engine: vllm}}";
  const auto reason = [&](const char* train, const char* infer) {
    const Judgement judged = JudgedOf(
        0.01,
        [&](Source* source) {
          source->train.declares["engine"] = train;
          source->infer.declares["engine"] = infer;
        },
        spec);
    EXPECT_EQ(judged.verdict, Verdict::kError);
    return judged.clauses[0].slices[0].about.reason;
  };
  EXPECT_THAT(reason("vllm", "torch"), HasSubstr("the other way round both would fit"));
  EXPECT_THAT(reason("sglang", "torch"), ::testing::Not(HasSubstr("the other way round")));
}

}  // namespace
}  // namespace kcc
