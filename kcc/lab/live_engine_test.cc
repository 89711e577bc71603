#include "kcc/lab/live_engine.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/lab/lab_test_data.h"
#include "kcc/lab/sampler.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;
using testing::Switches;

const Checkpoint& Model() {
  static const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  return checkpoint;
}

// A sequence that draws its own tokens, and what it drew.
struct Drawing : Sequence {
  Sampling sampling;
  uint64_t seed = 0;
  std::vector<int32_t> output;
  bool removed = false;
};

std::unique_ptr<Drawing> Draw(const KernelRequest& request, const Sampling& sampling) {
  auto made = std::make_unique<Drawing>();
  made->tokens.assign(request.tokens.begin(), request.tokens.begin() + request.prompt_tokens);
  made->prompt = made->tokens.size();
  made->one_by_one = made->open_ended = true;
  made->emitted = made->prompt - 1;
  made->sampling = sampling;
  made->seed = static_cast<uint64_t>(request.prompt_tokens) * 77;
  return made;
}

Result<> Append(Sequence* sequence, size_t position, std::span<const float> logits) {
  auto* drawing = static_cast<Drawing*>(sequence);
  EXPECT_EQ(position, drawing->tokens.size());
  const int32_t token = SampleToken(logits, drawing->sampling, drawing->seed, position);
  drawing->output.push_back(token);
  if (drawing->output.size() == static_cast<size_t>(drawing->sampling.output_tokens_max)) {
    drawing->open_ended = false;
  } else {
    drawing->tokens.push_back(token);
  }
  return {};
}

// Each alone, on an engine of its own.
std::vector<std::vector<int32_t>> Alone(const std::vector<KernelRequest>& requests,
                                        const Sampling& sampling) {
  const LabSwitches switches = Switches("f32");
  const auto model = LabModel::Make(Model(), switches);
  std::vector<std::vector<int32_t>> outputs;
  for (const KernelRequest& request : requests) {
    ForkJoin pool(1);
    LiveEngine engine(*model, switches, 512, pool);
    const auto drawing = Draw(request, sampling);
    engine.Add(request.request.id, drawing.get());
    while (!engine.idle()) EXPECT_TRUE(engine.Step(Append).has_value());
    outputs.push_back(drawing->output);
  }
  return outputs;
}

TEST(LiveEngine, SequencesThatComeAndGoHaveTheBitsTheyHaveAlone) {
  const std::vector<KernelRequest> requests = RandomRequests(12, 40, 5);
  Sampling sampling;
  sampling.output_tokens_max = 12;
  const auto expected = Alone(requests, sampling);
  uint64_t preemptions = 0;
  const auto leaves = rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 40));
  const bool holds = rc::check([&] {
    const LabSwitches switches =
        Switches("f32", {{"page", "8"}, {"chunk", "9"}, {"concurrency", "5"}});
    const auto model = LabModel::Make(Model(), switches);
    ForkJoin pool(2);
    LiveEngine engine(*model, switches, *rc::gen::element(64u, 128u, 1024u), pool);
    std::vector<std::unique_ptr<Drawing>> drawings;
    size_t next = 0;
    while (next < requests.size() || !engine.idle()) {
      // An engine that is idle gets one: else the first cases, whose draws are all 0, would never
      // end.
      const size_t least = engine.idle() ? 1 : 0;
      const auto arrivals = std::max(least, *rc::gen::element<size_t>(0, 1, 2, 3));
      for (size_t i = 0; i < arrivals && next < requests.size(); ++i, ++next) {
        drawings.push_back(Draw(requests[next], sampling));
        engine.Add(requests[next].request.id, drawings.back().get());
      }
      for (const auto& drawing : drawings) {
        if (drawing->done() || drawing->removed || *leaves != 0) continue;
        engine.Remove(drawing.get());
        drawing->removed = true;
      }
      if (!engine.idle()) RC_ASSERT(engine.Step(Append).has_value());
    }
    for (size_t i = 0; i < drawings.size(); ++i) {
      const auto& output = drawings[i]->output;
      if (!drawings[i]->removed) RC_ASSERT(output.size() == expected[i].size());
      RC_ASSERT(std::equal(output.begin(), output.end(), expected[i].begin()));
    }
    RC_ASSERT(engine.cache_usage() == 0);
    preemptions += engine.preemptions();
  });
  EXPECT_TRUE(holds);
  EXPECT_GT(preemptions, 0u) << "the schedules never pressed the cache";
}

}  // namespace
}  // namespace kcc
