#include "kcc/lab/engine.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <random>
#include <set>

#include "kcc/lab/lab_test_data.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

using testing::LargestGap;
using testing::LogitRows;
using testing::MustMake;
using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::RowsOf;
using testing::ScoreRows;
using testing::SmallConfig;
using testing::Switches;

const Checkpoint& Model() {
  static const Checkpoint made = RandomCheckpoint(SmallConfig());
  return made;
}

// The promise of batch-invariant mode, over random schedules: batch composition, order of arrival,
// chunk, page, concurrency, cache size (preemption), path and threads.
TEST(Engine, BatchInvariantLogitsHaveTheSameBitsUnderAnySchedule) {
  const std::vector<KernelRequest> requests = RandomRequests(9, 70, 5);
  const std::vector<std::string> kernels = {"f32", "bf16-invariant", "train"};
  const NamedValues fp8 = {{"weights", "e4m3"},
                           {"activations", "e4m3"},
                           {"kv", "e4m3"},
                           {"attention", "split:3"},
                           {"route", "replica:2"}};
  const NamedValues shape = {{"route", "shape:20"}, {"exp", "fast"}};
  std::vector<std::pair<std::string, NamedValues>> cases;
  for (const std::string& kernel : kernels) cases.push_back({kernel, {}});
  cases.push_back({"f32", fp8});
  cases.push_back({"bf16-invariant", shape});
  cases.push_back({"int3", {{"batch", "invariant"}}});
  cases.push_back({"fp8", {{"batch", "invariant"}, {"casts", "mlp"}, {"cast_from", "bf16"}}});
  std::vector<LogitRows> expected;
  for (const auto& [kernel, options] : cases) {
    expected.push_back(RowsOf(Model(), Switches(kernel, options), requests));
  }
  uint64_t preemptions = 0;
  const bool holds = rc::check([&] {
    const size_t which = *rc::gen::inRange<size_t>(0, cases.size());
    LabSwitches s = Switches(cases[which].first, cases[which].second);
    s.page = *rc::gen::inRange<size_t>(1, 40);
    s.chunk = *rc::gen::inRange<size_t>(1, 50);
    s.concurrency = *rc::gen::inRange<size_t>(1, 10);
    s.threads = *rc::gen::inRange<size_t>(1, 3);
    s.path = *rc::gen::element(TracePath::kPrefill, TracePath::kDecode);
    if (*rc::gen::arbitrary<bool>()) s.kv_tokens = *rc::gen::inRange<size_t>(72, 200) + s.page;
    std::vector<KernelRequest> some = requests;
    std::mt19937_64 bits(*rc::gen::arbitrary<uint64_t>());
    std::shuffle(some.begin(), some.end(), bits);
    some.resize(*rc::gen::inRange<size_t>(1, some.size() + 1));
    const auto kernel = MustMake(Model(), s);
    const LogitRows rows = ScoreRows(kernel.get(), some);
    preemptions += kernel->engine().stats().preemptions;
    size_t wanted = 0;
    for (const KernelRequest& request : some) {
      wanted += request.tokens.size() - static_cast<size_t>(request.prompt_tokens);
    }
    RC_ASSERT(rows.size() == wanted);
    for (const auto& [place, row] : rows) RC_ASSERT(row == expected[which].at(place));
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(preemptions, 0u) << "the schedules never pressed the cache";
}

TEST(Engine, DynamicBatchesChangeBitsWithTheCompanyARequestKeeps) {
  const std::vector<KernelRequest> requests = RandomRequests(6, 60, 8);
  const LabSwitches dynamic = Switches("f32", {{"batch", "dynamic"}});
  const LogitRows together = RowsOf(Model(), dynamic, requests);
  const LogitRows alone = RowsOf(Model(), dynamic, {requests[0]});
  size_t different = 0;
  for (const auto& [place, row] : alone) different += row != together.at(place);
  EXPECT_GT(different, 0u);
  EXPECT_LT(LargestGap(together, RowsOf(Model(), Switches("f32"), requests)), 1e-4);
}

TEST(Engine, EverySwitchChangesSomethingAndStaysWithinReason) {
  struct Case {
    const char* name;
    const char* value;
    NamedValues with;
    double most;
  };
  const std::vector<Case> cases = {
      {"attention", "tiles:7", {}, 1e-4},
      {"attention", "split:3", {}, 1e-4},
      {"rmsnorm", "fused", {}, 1e-4},
      {"swiglu", "fused", {}, 1e-4},
      {"exp", "fast", {}, 1e-2},
      {"rope", "f32", {}, 1e-2},
      {"rope", "bf16", {}, 20},
      {"weights", "bf16", {}, 0.5},
      {"weights", "fp16", {}, 0.1},
      {"weights", "e4m3", {}, 5},
      {"weights", "e5m2", {}, 8},
      {"weights", "int8", {}, 1},
      {"weights", "int4", {}, 10},
      {"weights", "int3", {}, 20},
      {"scale", "tensor", {{"weights", "e4m3"}}, 5},
      {"scale", "group:32", {{"weights", "int4"}}, 10},
      {"scale", "group:32", {{"weights", "int3"}}, 20},
      {"lm_head", "weights", {{"weights", "int8"}}, 2},
      {"activations", "bf16", {}, 1},
      {"activations", "fp16", {}, 0.1},
      {"activations", "e4m3", {}, 5},
      {"activations", "e5m2", {}, 8},
      {"activations", "int8", {}, 1},
      {"casts", "layers", {{"activations", "e4m3"}}, 5},
      {"casts", "attention", {{"activations", "e4m3"}}, 5},
      {"casts", "mlp", {{"activations", "int8"}}, 1},
      {"cast_from", "bf16", {{"activations", "e4m3"}}, 5},
      {"kv", "bf16", {}, 1},
      {"kv", "e4m3", {}, 5},
      {"kv", "e5m2", {}, 8},
      {"accumulate", "f64", {}, 1e-4},
      {"accumulate", "m13", {}, 0.1},
      {"accumulate", "fp16", {}, 0.5},
      {"accumulate", "bf16", {}, 5},
      {"promote", "32", {{"accumulate", "bf16"}}, 5},
      {"logits", "bf16", {}, 0.1},
      {"batch", "dynamic", {}, 1e-4},
      {"route", "shape:10", {}, 1e-4},
      {"route", "replica:2", {}, 1e-4},
  };
  const std::vector<KernelRequest> requests = RandomRequests(4, 50, 3);
  for (const Case& c : cases) {
    NamedValues options = c.with;
    const LogitRows before = RowsOf(Model(), Switches("f32", options), requests);
    options.emplace_back(c.name, c.value);
    const double gap = LargestGap(before, RowsOf(Model(), Switches("f32", options), requests));
    EXPECT_GT(gap, 0) << c.name << "=" << c.value;
    EXPECT_LT(gap, c.most) << c.name << "=" << c.value;
  }
}

// INT3 has the outputs of INT4 under another scale; the finer the format, the nearer to float32.
TEST(Engine, ThreeBitsAreCoarserThanFourByGroupAndByChannel) {
  const std::vector<KernelRequest> requests = RandomRequests(4, 50, 3);
  const LogitRows exact = RowsOf(Model(), Switches("f32"), requests);
  const auto gap = [&](const char* weights, const char* scale) {
    return LargestGap(
        exact,
        RowsOf(Model(), Switches("f32", {{"weights", weights}, {"scale", scale}}), requests));
  };
  EXPECT_LT(gap("int4", "group:32"), gap("int3", "group:32"));
  EXPECT_LT(gap("int4", "channel"), gap("int3", "channel"));
}

TEST(Engine, GenerationIsTheSameUnderPressureAndFollowsItsOwnLogits) {
  std::vector<KernelRequest> requests = RandomRequests(8, 30, 11);
  Sampling sampling;
  sampling.output_tokens_max = 24;
  sampling.top_k = 20;
  sampling.top_p = 0.9;
  sampling.seed = 42;
  sampling.stop = {7};
  const auto generate = [&](const LabSwitches& switches, uint64_t* preemptions) {
    const auto kernel = MustMake(Model(), switches);
    auto outcomes = kernel->engine().Generate(
        requests, sampling,
        [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); });
    EXPECT_TRUE(outcomes.has_value()) << outcomes.error().Format();
    std::vector<std::vector<int32_t>> outputs;
    for (const RequestOutcome& outcome : *outcomes) outputs.push_back(outcome.output);
    *preemptions = kernel->engine().stats().preemptions;
    return outputs;
  };
  uint64_t calm = 0;
  uint64_t pressed = 0;
  const auto expected = generate(Switches("f32"), &calm);
  EXPECT_EQ(calm, 0u);
  EXPECT_EQ(
      generate(Switches("f32", {{"kv_tokens", "96"}, {"page", "8"}, {"chunk", "5"}}), &pressed),
      expected);
  EXPECT_GT(pressed, 0u);
  std::set<size_t> lengths;
  for (const auto& output : expected) lengths.insert(output.size());
  EXPECT_GT(lengths.size(), 1u) << "no request stopped early";
  for (const auto& output : expected) {
    EXPECT_TRUE(output.size() == 24 || output.back() == 7);
  }
  // Another seed, other words.
  sampling.seed = 43;
  EXPECT_NE(generate(Switches("f32"), &calm), expected);
}

TEST(Engine, RefusesWhatItCannotCompute) {
  const auto kernel = MustMake(Model(), Switches("f32"));
  const auto small = MustMake(Model(), Switches("f32", {{"kv_tokens", "16"}}));
  const LogitsSink sink = [](size_t, size_t, int32_t, std::span<const float>) {
    return Result<>();
  };
  const auto message = [&](LabKernel* k, const KernelRequest& request) {
    const auto done = k->engine().Score({&request, 1}, sink);
    return done.has_value() ? std::string() : done.error().message();
  };
  KernelRequest request;
  request.request.id = "x";
  request.tokens = {1, 2, 99};
  request.prompt_tokens = 1;
  EXPECT_NE(message(kernel.get(), request).find("token 99"), std::string::npos);
  request.tokens = {1, 2};
  request.prompt_tokens = 0;
  EXPECT_NE(message(kernel.get(), request).find("at least one prompt token"), std::string::npos);
  request.prompt_tokens = 1;
  request.tokens.assign(600, 1);
  EXPECT_NE(message(kernel.get(), request).find("512 positions"), std::string::npos);
  request.tokens.assign(100, 1);
  EXPECT_NE(message(small.get(), request).find("raise kv_tokens"), std::string::npos);
}

TEST(Engine, SignaturesRepeatAndTellKernelsApart) {
  const std::vector<KernelRequest> requests = RandomRequests(3, 40, 4);
  const auto signatures = [&](const LabSwitches& switches) {
    std::vector<RequestOutcome> outcomes;
    const auto kernel = MustMake(Model(), switches);
    ScoreRows(kernel.get(), requests, &outcomes);
    std::vector<std::string> made;
    for (const RequestOutcome& outcome : outcomes) made.push_back(outcome.audit.Signature());
    return made;
  };
  const auto base = signatures(Switches("f32"));
  EXPECT_EQ(signatures(Switches("f32", {{"chunk", "3"}, {"page", "5"}, {"concurrency", "1"}})),
            base);
  EXPECT_NE(signatures(Switches("f32", {{"swiglu", "fused"}})), base);
  EXPECT_NE(base[0], base[1]);
}

TEST(Engine, ASignatureIsOfItsLevelHoweverMuchWasRecorded) {
  const std::vector<KernelRequest> requests = RandomRequests(2, 20, 4);
  std::vector<RequestOutcome> residuals;
  std::vector<RequestOutcome> all;
  const auto kernel = MustMake(Model(), Switches("f32"));
  const auto audited = MustMake(Model(), Switches("f32", {{"audit", "all"}}));
  ScoreRows(kernel.get(), requests, &residuals);
  ScoreRows(audited.get(), requests, &all);
  EXPECT_EQ(all[0].audit.Signature(AuditLevel::kResiduals), residuals[0].audit.Signature());
  EXPECT_NE(all[0].audit.Signature(), residuals[0].audit.Signature());
  const AuditPointList points = all[0].audit.Points();
  EXPECT_EQ(points.size(), AuditPoints(SmallConfig().layers));
  EXPECT_EQ(points[0].point, "embedding");
  EXPECT_EQ(points.back().point, "logits");
  EXPECT_EQ(residuals[0].audit.Points().size(), SmallConfig().layers + 1);
}

TEST(Sampler, DrawsInProportionWithinTopKAndTopP) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(4.0f), std::log(1.0f)};
  Sampling sampling;
  std::vector<int> counts(4);
  for (uint64_t i = 0; i < 40000; ++i)
    ++counts[static_cast<size_t>(SampleToken(logits, sampling, 9, i))];
  EXPECT_NEAR(counts[2] / 40000.0, 0.5, 0.01);
  EXPECT_NEAR(counts[1] / 40000.0, 0.25, 0.01);
  sampling.top_k = 2;
  for (uint64_t i = 0; i < 1000; ++i) {
    const int32_t token = SampleToken(logits, sampling, 9, i);
    ASSERT_TRUE(token == 1 || token == 2);
  }
  sampling.top_k = 0;
  sampling.top_p = 0.4;
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(SampleToken(logits, sampling, 9, i), 2);
  sampling.temperature = 0;
  EXPECT_EQ(SampleToken(logits, sampling, 1, 1), 2);
}

}  // namespace
}  // namespace kcc
