// The way of records to evidence, with kernels whose answers come when the test says so, in any
// order, or never.
#include "kcc/rescore/rescore_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <deque>

#include "kcc/rescore/rescore_test_data.h"

namespace kcc {
namespace {

using testing::RecordOf;
using testing::RescoreContract;
using testing::RescorePolicy;
using testing::RescorePool;

constexpr size_t kServing = 0, kGuarded = 1, kCandidate = 3;

std::vector<ServedToken> SomeTokens() {
  return {{7, -0.5, {{7, -0.5}, {3, -1.5}}}, {9, -0.25, {{9, -0.25}, {4, -2.0}}}};
}

struct Asked {
  std::string kernel;
  AskTask task;
};

class HeldAsker final : public KernelAsker {
 public:
  HeldAsker(std::string name, std::deque<Asked>* asked) : name_(std::move(name)), asked_(asked) {
    auto known = std::make_shared<AskedKernel>();
    known->facts.vocab_size = 64;
    kernel_ = std::move(known);
  }
  void Submit(AskTask task) override { asked_->push_back({name_, std::move(task)}); }
  std::shared_ptr<const AskedKernel> kernel() const override { return kernel_; }
  std::string fault() const override { return ""; }

 private:
  const std::string name_;
  std::deque<Asked>* asked_;
  std::shared_ptr<const AskedKernel> kernel_;
};

enum class How : uint8_t { kWell, kFault, kTimeout, kNotAsked, kDown };

AskResult AnswerTo(const Asked& asked, How how) {
  AskResult result;
  result.job = asked.task.job;
  result.slot = asked.task.slot;
  result.asked = how != How::kNotAsked && how != How::kDown;
  result.not_up = how == How::kDown;
  result.timed_out = how == How::kTimeout;
  if (how != How::kWell) {
    result.fault = "a fault";
    if (result.asked) result.called.fault = result.scored.fault = result.fault;
    return result;
  }
  if (asked.task.kind == AskTask::Kind::kScore) {
    const std::vector<int32_t>& tokens = *asked.task.tokens;
    result.scored.ok = true;
    for (size_t i = static_cast<size_t>(asked.task.prompt_tokens); i < tokens.size(); ++i) {
      result.scored.tokens.push_back({tokens[i], -0.5, {{tokens[i], -0.5}, {1, -3.0}}, {}});
    }
  } else if (asked.task.kind == AskTask::Kind::kTokenize) {
    result.ids = {5, 17};
  } else {
    result.called.status = 200;
    result.called.body =
        R"({"choices":[{"index":0,"text":"a","logprobs":{"token_logprobs":[-0.5],)"
        R"("tokens":["token_id:7"],"top_logprobs":[{"token_id:7":-0.5}]},"finish_reason":"stop",)"
        R"("token_ids":[7],"prompt_token_ids":[5,17]}]})";
  }
  return result;
}

class Flow final : public Kernels {
 public:
  Flow(size_t waiting, size_t in_flight, double determinism = 0)
      : core(pool, 1, 64, &clock), contract(RescoreContract()) {
    options.waiting_max = waiting;
    options.in_flight_max = in_flight;
    options.determinism_rate = determinism;
    core.places().SetLimits(waiting + in_flight, in_flight, 3);
    for (const MonitorKernel& kernel : policy.kernels) {
      scores_.emplace(kernel.name, HeldAsker(kernel.name, &asked));
      calls_.emplace(kernel.name, HeldAsker(kernel.name, &asked));
    }
    flow.emplace(contract, policy, options, core, *this, nullptr,
                 [this](Evidence evidence, const ServedRecord& record) {
                   const auto* observation = std::get_if<MonitorObservation>(&evidence);
                   const std::string kernel = record.pool->kernels[record.kernel].name;
                   if (observation == nullptr) {
                     ++lost[kernel];
                   } else if (observation->repeat) {
                     ++repeats;
                   } else {
                     ++told[kernel];
                     failed += observation->infer.Flag("failed") == true ? 1 : 0;
                   }
                 });
  }
  KernelAsker* Scores(const std::string& kernel) override { return &scores_.at(kernel); }
  KernelAsker* Calls(const std::string& kernel) override { return &calls_.at(kernel); }

  // As the plane puts it: false, there is no place.
  bool Serve(bool shadow, size_t kernel = kServing) {
    ServedRecord record = RecordOf(pool, "r" + std::to_string(number_++), {5, 17}, SomeTokens());
    record.kernel = kernel;
    record.shadow = shadow;
    record.request_body = R"({"temperature":1,"seed":1,"prompt":[5,17]})";
    record.place = core.places().TakeServed(kernel);
    if (!record.place) return false;
    flow->Take(std::move(record));
    return true;
  }
  bool Probe(size_t kernel = kGuarded) {
    ServedRecord record = RecordOf(pool, "p" + std::to_string(number_++), {5, 17}, {});
    record.kind = RecordKind::kProbe;
    record.kernel = kernel;
    record.place = core.places().TakeShown(kernel);
    if (!record.place) return false;
    flow->Take(std::move(record));
    return true;
  }
  // Answers what kernels other than `but` were asked, and what that leads to.
  void AnswerAllBut(const std::string& but) {
    for (size_t i = 0; i < asked.size();) {
      if (asked[i].kernel == but) {
        ++i;
        continue;
      }
      Answer(i, How::kWell);
      i = 0;
    }
  }
  void Answer(size_t place, How how) {
    const Asked one = std::move(asked[place]);
    asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(place));
    flow->OnAnswer(AnswerTo(one, how));
  }

  std::shared_ptr<GatewayPool> pool = RescorePool();
  ManualClock clock{1000};
  GatewayCore core;
  const Contract contract;
  const MonitorPolicy policy = RescorePolicy();
  RescoreOptions options;
  std::deque<Asked> asked;
  std::map<std::string, int> told, lost;
  int repeats = 0, failed = 0;
  std::optional<RescoreFlow> flow;

 private:
  std::map<std::string, HeldAsker> scores_, calls_;
  int number_ = 0;
};

TEST(RescoreFlow, AStalledShadowLosesItsMirrorsAndNothingOfTheKernelThatServes) {
  Flow flow(8, 4);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(flow.Serve(true)) << i;
    flow.AnswerAllBut("next");
    ASSERT_EQ(flow.told["fp8"], i + 1) << "its evidence does not wait for the shadow";
  }
  EXPECT_EQ(flow.lost["fp8"], 0);
  EXPECT_EQ(flow.core.places().served(), 0u);
  EXPECT_EQ(flow.core.places().shown(kCandidate), 4u);
  EXPECT_EQ(flow.flow->counts().unasked, 96u);
  EXPECT_EQ(flow.flow->counts().waiting, 4u);
  while (!flow.asked.empty()) flow.Answer(0, How::kTimeout);
  EXPECT_EQ(flow.lost["next"], 4) << "those that it was asked, and no others";
  EXPECT_EQ(flow.flow->counts().waiting, 0u);
  // It is well again: nothing that it was not asked stands against it.
  EXPECT_TRUE(flow.Serve(true));
  flow.AnswerAllBut("");
  EXPECT_EQ(flow.told["next"], 1);
  EXPECT_EQ(flow.lost["next"], 4);
}

TEST(RescoreFlow, AStalledGuardedKernelFailsTheProbesThatItWasAskedAndNoOthers) {
  Flow flow(8, 4);
  int shown = 0;
  for (int i = 0; i < 50; ++i) {
    shown += flow.Probe() ? 1 : 0;
    ASSERT_TRUE(flow.Serve(false));
    flow.AnswerAllBut("bf16");
    ASSERT_EQ(flow.told["fp8"], i + 1);
  }
  EXPECT_EQ(shown, 4);
  for (int i = 0; i < 3; ++i) flow.Answer(0, How::kTimeout);
  flow.Answer(0, How::kNotAsked);
  EXPECT_EQ(flow.told["bf16"], 3);
  EXPECT_EQ(flow.failed, 3) << "asked and not answered is a failure";
  EXPECT_EQ(flow.lost["bf16"], 0) << "never asked is evidence of nothing";
  EXPECT_EQ(flow.flow->counts().unasked, 1u);
  EXPECT_EQ(flow.core.places().shown(kGuarded), 0u);
  EXPECT_TRUE(flow.Probe());
  flow.AnswerAllBut("");
  EXPECT_EQ(flow.told["bf16"], 4);
  EXPECT_EQ(flow.failed, 3);
}

TEST(RescoreFlow, AMirrorThatWaitedInVainIsNoEvidenceAndADownCandidateIsMissing) {
  Flow flow(8, 4);
  ASSERT_TRUE(flow.Serve(true) && flow.Serve(true));
  const auto next = [&] {
    const auto found = std::find_if(flow.asked.begin(), flow.asked.end(),
                                    [](const Asked& one) { return one.kernel == "next"; });
    return static_cast<size_t>(found - flow.asked.begin());
  };
  flow.Answer(next(), How::kNotAsked);
  flow.Answer(next(), How::kDown);
  flow.AnswerAllBut("");
  EXPECT_EQ(flow.told["fp8"], 2);
  EXPECT_EQ(flow.told["next"], 0);
  EXPECT_EQ(flow.lost["next"], 1);
  EXPECT_EQ(flow.flow->counts().unasked, 1u);
}

TEST(RescoreFlow, WhatIsUnderWayAtTheEndIsLostOfTheKernelWhoseEvidenceItWouldHaveBeen) {
  Flow flow(8, 4);
  ASSERT_TRUE(flow.Serve(true) && flow.Serve(false) && flow.Serve(true) && flow.Probe());
  flow.Answer(0, How::kWell);  // the audit kernel of the first; its mirror is left
  flow.flow->Abandon();
  EXPECT_EQ(flow.told["fp8"], 1);
  EXPECT_EQ(flow.lost["fp8"], 2);
  EXPECT_EQ(flow.lost["next"], 2);
  EXPECT_EQ(flow.lost["bf16"], 1);
  EXPECT_EQ(flow.core.places().served(), 0u);
  EXPECT_EQ(flow.core.places().shown(kCandidate) + flow.core.places().shown(kGuarded), 0u);
}

// Whatever is answered, in whichever order, or never: every record leads to evidence, to a line
// that it is lost, or was never asked; and every place is given back.
TEST(RescoreFlow, InAnyOrderOfAnswersNothingVanishesAndPlacesAreGivenBack) {
  EXPECT_TRUE(rc::check([] {
    const size_t waiting = *rc::gen::inRange<size_t>(1, 6);
    const size_t in_flight = *rc::gen::inRange<size_t>(1, 4);
    Flow flow(waiting, in_flight, *rc::gen::element(0.0, 1.0));
    int served = 0, mirrors = 0, probes = 0;
    for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 10'000))) {
      const size_t kernel = step % 7 == 0 ? kGuarded : kServing;
      const bool shadow = step % 2 == 0;
      if (step % 5 < 2) {
        const bool took = flow.Serve(shadow, kernel);
        served += took ? 1 : 0;
        mirrors += took && shadow ? 1 : 0;
      } else if (step % 5 == 2) {
        probes += flow.Probe(step % 3 == 0 ? kCandidate : kGuarded) ? 1 : 0;
      } else if (!flow.asked.empty()) {
        flow.Answer(static_cast<size_t>(step) % flow.asked.size(), static_cast<How>(step / 5 % 5));
      }
      RC_ASSERT(flow.core.places().served() <= waiting + in_flight);
    }
    if (*rc::gen::arbitrary<bool>()) {
      while (!flow.asked.empty()) flow.Answer(flow.asked.size() - 1, How::kWell);
    } else {
      flow.flow->Abandon();
    }
    int lines = 0;
    for (const auto& [kernel, count] : flow.told) lines += count;
    for (const auto& [kernel, count] : flow.lost) lines += count;
    // A repeat that cannot be compared is a lost line of its own.
    const int unasked = static_cast<int>(flow.flow->counts().unasked);
    RC_ASSERT(lines + unasked >= served + mirrors + probes);
    RC_ASSERT(lines + unasked <= 2 * served + mirrors + probes);
    RC_ASSERT(flow.core.places().served() == 0u);
    for (size_t k = 0; k < 4; ++k) RC_ASSERT(flow.core.places().shown(k) == 0u);
    RC_ASSERT(flow.flow->counts().waiting == 0u);
  }));
}

}  // namespace
}  // namespace kcc
