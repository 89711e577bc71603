// Lint on batches of the lab's kernels and the shipped model: 1,772 tokens a batch, most of them
// near certain, as a trained policy's are. bench/rl_lint_engines counts over more engines.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "bench/rl/engine_batches.h"
#include "kcc/kernel/request_source.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/rl/lint.h"

namespace kcc::bench {
namespace {

constexpr int64_t kTokens = 1772;
constexpr int kBatches = 60;

std::unique_ptr<LabKernel> OpenLab(const std::string& name) {
  auto kernel = LabKernel::Open({name, std::string(kLabModelDirectory), {{"audit", "off"}}});
  EXPECT_TRUE(kernel.has_value()) << kernel.error().Format();
  return kernel.has_value() ? std::move(*kernel) : nullptr;
}

// Every second prompt of the evaluation set, continued by a BF16 engine at temperature 1.
std::vector<KernelRequest> Continuations() {
  auto source =
      OpenRequestFile(std::string(kLabModelDirectory) + "/eval.jsonl", RequestUse::kGenerate);
  EXPECT_TRUE(source.has_value());
  std::vector<KernelRequest> requests;
  KernelRequest request;
  for (int i = 0;; ++i) {
    const auto more = (*source)->Next(&request);
    EXPECT_TRUE(more.has_value());
    if (!more.has_value() || !*more) break;
    if (i % 2 == 0) requests.push_back(request);
  }
  const auto kernel = OpenLab("bf16");
  Sampling sampling;
  sampling.seed = 19;
  sampling.output_tokens_max = 96;
  sampling.stop = {257};
  const auto outcomes = kernel->engine().Generate(
      requests, sampling,
      [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); });
  EXPECT_TRUE(outcomes.has_value());
  for (size_t r = 0; r < requests.size(); ++r) {
    requests[r].tokens.resize(static_cast<size_t>(requests[r].prompt_tokens));
    const std::vector<int32_t>& output = (*outcomes)[r].output;
    requests[r].tokens.insert(requests[r].tokens.end(), output.begin(), output.end());
  }
  return requests;
}

// One row of logits a scored token, in the order of the requests.
std::vector<float> Logits(const std::string& name, const std::vector<KernelRequest>& requests,
                          EnginePool* pool) {
  const auto kernel = OpenLab(name);
  std::vector<std::vector<float>> rows(requests.size());
  const auto scored = kernel->engine().Score(
      requests, [&](size_t request, size_t, int32_t, std::span<const float> logits) {
        rows[request].insert(rows[request].end(), logits.begin(), logits.end());
        pool->vocab = logits.size();
        return Result<>();
      });
  EXPECT_TRUE(scored.has_value());
  std::vector<float> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return all;
}

class RlLintEngines : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::vector<KernelRequest> requests = Continuations();
    for (const char* name : {"fp8", "int4"}) {
      EnginePool& pool = pools_[name];
      pool.rollout = Logits(name, requests, &pool);
      pool.train = Logits("train", requests, &pool);
      for (const KernelRequest& request : requests) {
        pool.tokens.insert(pool.tokens.end(), request.tokens.begin() + request.prompt_tokens,
                           request.tokens.end());
        pool.row_begin.push_back(pool.tokens.size());
      }
    }
  }
  static void TearDownTestSuite() { pools_.clear(); }

  // How often lint gives each answer; an unsure one that does not list the truth is "unsure: no".
  static std::map<std::string, int> Answers(const std::string& kernel, const EngineFault& fault,
                                            int64_t tokens = kTokens) {
    const EngineSource source(pools_[kernel], fault);
    std::map<std::string, int> answers;
    for (int i = 0; i < kBatches; ++i) {
      const auto report = LintRl(source.Draw(tokens, static_cast<uint64_t>(i) + 1).View());
      EXPECT_TRUE(report.has_value());
      std::string name(RlFaultName(report->fault()));
      if (report->fault() == RlFault::kUnsure && fault.truth != RlFault::kNone &&
          !report->findings.front().MayBe(fault.truth)) {
        name += ": no";
      }
      ++answers[name];
    }
    return answers;
  }

  static std::map<std::string, EnginePool> pools_;
};
std::map<std::string, EnginePool> RlLintEngines::pools_;

using Answered = std::map<std::string, int>;

TEST_F(RlLintEngines, AQuantisedKernelIsNoFault) {
  for (const char* kernel : {"fp8", "int4"}) {
    for (const double at : {0.7, 1.0, 1.3}) {
      EXPECT_EQ(Answers(kernel, {RlFault::kNone, EngineChange::kClean, at, "clean"}),
                (Answered{{"none", kBatches}}))
          << kernel << " " << at;
    }
  }
}

TEST_F(RlLintEngines, TopPIsNeverATemperature) {
  for (const char* kernel : {"fp8", "int4"}) {
    EXPECT_EQ(Answers(kernel, {RlFault::kKeptMass, EngineChange::kTopP, 0.8, "top-p"}),
              (Answered{{"kept_mass", kBatches}}));
    EXPECT_EQ(Answers(kernel, {RlFault::kRawVsProcessed, EngineChange::kRawTopP, 0.8, "raw"}),
              (Answered{{"raw_vs_processed", kBatches}}));
  }
}

// A likelihood ratio of the tokens decides between the two; where it cannot, both are listed.
TEST_F(RlLintEngines, RawAgainstProcessedIsNamedOrListed) {
  for (const char* kernel : {"fp8", "int4"}) {
    for (const double at : {0.6, 0.7, 1.4}) {
      for (const bool raw : {false, true}) {
        const EngineFault fault = {
            raw ? RlFault::kRawVsProcessed : RlFault::kTemperature,
            raw ? EngineChange::kRawTemperature : EngineChange::kRolloutTemperature, at,
            "temperature"};
        Answered answers = Answers(kernel, fault);
        EXPECT_GE(answers[std::string(RlFaultName(fault.truth))] + answers["unsure"], kBatches - 1)
            << kernel << " " << at << " " << RlFaultName(fault.truth);
      }
    }
  }
}

}  // namespace
}  // namespace kcc::bench
