// For tests: promotions on evidence that the register holds, measured and judged as `kcc run` does.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/register/promotions.h"
#include "kcc/register/record.h"
#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"

namespace kcc {

inline constexpr std::string_view kPromotedContract = R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: c, version: 1.0.0}
spec:
  numerical:
    - {id: N-1, metric: mean_kl, atMost: 0.01, exceedance: 10%, window: request, level: L3}
)";

inline constexpr std::string_view kPromotionPolicy = R"(
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  coolDown: 1h
  offline: {deadline: 10h, onDeadline: reject}
  shadow: {minRequests: 100}
  canary: {steps: [{traffic: 10%}], minRequests: 100}
  full: {minRequests: 100}
)";

class PromotionsTest : public OnEachBackend {
 protected:
  PromotionsTest() : contract_(*ReadContract(kPromotedContract).contract) {}

  // Requests first to last - 1, all of them with this KL; measured for contracts `also` beside it.
  Summary Measured(int first, int last, double kl, const std::string& infer,
                   const std::vector<Contract>& also = {}) const {
    testing::Evidence evidence;
    for (int i = first; i < last; ++i) {
      testing::JudgedRequest& request = evidence.Add();
      request.train.id = request.infer.id = "r-" + std::to_string(i);
      request.tokens.emplace_back().Set("kl", kl);
    }
    evidence.change_source = [&](Source* source) {
      source->train.kernel_fingerprint = "train-1";
      source->infer.kernel_fingerprint = infer;
      source->train.model_digest = source->infer.model_digest = MadeUpDigest(1);
      source->train.identity = MadeUpDigest(2);
      source->infer.identity = MadeUpDigest(static_cast<uint64_t>(100 + first));
    };
    return testing::Measure(Plan::FromContracts(contract_, also), evidence);
  }

  // What `kcc run --stage … --register …` does.
  void Record(Register& target, Stage stage, const Summary& summary) {
    const Judgement judgement = Judge(contract_, summary, {.stage = stage, .about = {}});
    const JudgedRun run{.contract = contract_,
                        .contract_source = std::string(kPromotedContract),
                        .summary = summary,
                        .judgement = judgement,
                        .report = "{\"number\":" + std::to_string(++reports_) + "}",
                        .model = {},
                        .kcc_version = "test",
                        .actor = "ci",
                        .time_ms = now_.time_ms};
    std::string warning;
    const auto head = target.Update([&](Register& seen) { return RecordRun(seen, run, &warning); });
    ASSERT_TRUE(head.has_value()) << head.error().Format();
  }

  std::string TripleOf(const std::string& infer) const {
    return TripleId({MadeUpDigest(1), "train-1", infer, ContractDigest(contract_)});
  }

  // Records offline evidence of the build, so that its triple is known, and proposes it.
  PromotionChange Started(Register& target, const std::string& id, const std::string& infer,
                          int first) {
    Record(target, Stage::kOffline, Measured(first, first + 20, 0.001, infer));
    PromotionStart start;
    start.id = id;
    start.lane = "chat";
    start.candidate = TripleOf(infer);
    start.policy_text = policy_text_;
    const auto change = StartPromotion(target, start, now_);
    EXPECT_TRUE(change.has_value()) << change.error().Format();
    return change.has_value() ? *change : PromotionChange();
  }

  PromotionChange Advanced(Register& target, const std::string& id) {
    now_.time_ms += 1000;
    const auto change = AdvancePromotion(target, id, now_);
    EXPECT_TRUE(change.has_value()) << change.error().Format();
    return change.has_value() ? *change : PromotionChange();
  }

  Phase PhaseOf(Register& target, const std::string& id) {
    return ReadPromotion(target, id)->state.phase;
  }

  // Through offline and shadow, with 150 requests from 1000 on.
  void ToCanary(Register& target) {
    Started(target, "p-1", "infer-1", 0);
    Record(target, Stage::kOffline, Measured(100, 120, 0.001, "infer-1"));
    Advanced(target, "p-1");
    Record(target, Stage::kShadow, Measured(1000, 1150, 0.001, "infer-1"));
    Advanced(target, "p-1");
    ASSERT_EQ(PhaseOf(target, "p-1"), Phase::kCanary);
  }

  const Contract contract_;
  std::string policy_text_{kPromotionPolicy};
  Proposer now_{"ada", 1'700'000'000'000};
  int reports_ = 0;
};

}  // namespace kcc
