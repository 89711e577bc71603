#include "kcc/train/trainer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "kcc/trace/trace_test_data.h"
#include "kcc/train/state_file.h"
#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::QwenConfig;
using testing::RandomCheckpoint;
using testing::ScratchDir;
using testing::SmallConfig;
using testing::Switches;
using testing::TiedConfig;

// A letter is repeated as often as the prompt says: something that a small model learns at once.
ExampleSet Repeats(size_t count = 40) {
  ExampleSet made;
  for (size_t i = 0; i < count; ++i) {
    const auto letter = static_cast<int32_t>(10 + i % 30);
    const size_t times = 2 + i % 5;
    TrainExample example;
    example.id = "r" + std::to_string(i);
    example.tokens = {static_cast<int32_t>(times), letter};
    example.prompt = 2;
    example.tokens.insert(example.tokens.end(), times, letter);
    example.tokens.push_back(9);
    made.tokens += example.tokens.size();
    made.examples.push_back(std::move(example));
  }
  made.digest = "sha256:" + std::string(64, 'b');
  return made;
}

TrainOptions Options(std::string_view kernel = "f32", int64_t steps = 12) {
  TrainOptions options;
  options.kernel = Switches(kernel, {{"batch", "invariant"}});
  options.schedule = {ScheduleKind::kCosine, 5e-3, 0.1, 3, steps};
  options.batch_tokens = 60;
  options.pack_tokens = 32;
  options.prompt_weight = 0.1;
  return options;
}

std::unique_ptr<Trainer> MustMake(const Checkpoint& checkpoint, const TrainOptions& options,
                                  const ExampleSet& set, ForkJoin& pool,
                                  Target target = BestTarget()) {
  auto trainer = Trainer::Make(checkpoint, options, set.examples, pool, target);
  EXPECT_TRUE(trainer.has_value()) << trainer.error().Format();
  return std::move(*trainer);
}

std::vector<StepReport> Steps(Trainer* trainer, int64_t count) {
  std::vector<StepReport> reports;
  for (int64_t i = 0; i < count; ++i) {
    auto report = trainer->Step();
    EXPECT_TRUE(report.has_value()) << report.error().Format();
    reports.push_back(*report);
  }
  return reports;
}

void ExpectEqual(const ModelConfig& config, const TrainState& a, const TrainState& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.position, b.position);
  const auto compare = [&](const ModelWeights& left, const ModelWeights& right) {
    const auto x = TensorsOf(config, const_cast<ModelWeights*>(&left));
    const auto y = TensorsOf(config, const_cast<ModelWeights*>(&right));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(*x[i].values, *y[i].values) << x[i].name;
  };
  compare(a.weights, b.weights);
  compare(a.moments.first, b.moments.first);
  compare(a.moments.second, b.moments.second);
}

TEST(Trainer, LearnsWithEveryKernel) {
  const ExampleSet set = Repeats();
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  for (const char* kernel : {"f32", "bf16", "fp8", "int4", "int3"}) {
    ForkJoin pool(2);
    TrainOptions options = Options(kernel, 60);
    options.batch_tokens = 200;
    options.pack_tokens = 4096;
    const auto reports = Steps(MustMake(checkpoint, options, set, pool).get(), 60);
    EXPECT_GT(reports.front().loss, 3.0) << kernel;
    EXPECT_LT(reports.back().loss, 0.6) << kernel;
  }
}

TEST(Trainer, ThreadsAndTargetsDoNotChangeABit) {
  const ExampleSet set = Repeats();
  const ModelConfig config = QwenConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  for (const char* kernel : {"f32", "int4"}) {
    ForkJoin one(1);
    const auto expected = MustMake(checkpoint, Options(kernel), set, one);
    Steps(expected.get(), 4);
    for (const size_t threads : {size_t{1}, size_t{2}}) {
      for (const Target target : AvailableTargets()) {
        ForkJoin pool(threads);
        const auto trainer = MustMake(checkpoint, Options(kernel), set, pool, target);
        Steps(trainer.get(), 4);
        ExpectEqual(config, trainer->state(), expected->state());
      }
    }
  }
}

// Packs change the order of sums alone.
TEST(Trainer, ABatchInPacksIsTheBatch) {
  const ExampleSet set = Repeats();
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  ForkJoin pool(2);
  TrainOptions whole = Options();
  whole.pack_tokens = 4096;
  const auto in_packs = Steps(MustMake(checkpoint, Options(), set, pool).get(), 3);
  const auto at_once = Steps(MustMake(checkpoint, whole, set, pool).get(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(in_packs[i].loss, at_once[i].loss, 1e-5);
    EXPECT_NEAR(in_packs[i].gradient_length, at_once[i].gradient_length, 1e-4);
    EXPECT_EQ(in_packs[i].tokens, at_once[i].tokens);
  }
}

TEST(Trainer, AnInterruptedRunHasTheBitsOfOneThatWasNot) {
  const ScratchDir scratch;
  const ExampleSet set = Repeats();
  for (const ModelConfig& config : {QwenConfig(), TiedConfig()}) {
    const Checkpoint checkpoint = RandomCheckpoint(config);
    for (const char* kernel : {"f32", "int4"}) {
      const TrainOptions options = Options(kernel);
      const RunSettings settings = SettingsOf(options, set, checkpoint.digest);
      ForkJoin pool(2);
      const auto whole = MustMake(checkpoint, options, set, pool);
      const auto expected = Steps(whole.get(), 12);
      const auto first = MustMake(checkpoint, options, set, pool);
      Steps(first.get(), 5);
      ASSERT_TRUE(WriteState(scratch / "s", config, settings, first->state()).has_value());
      ForkJoin other(1);
      const auto second = MustMake(checkpoint, options, set, other);
      auto state = ReadState(scratch / "s", config, settings);
      ASSERT_TRUE(state.has_value()) << state.error().Format();
      ExpectEqual(config, *state, first->state());
      ASSERT_TRUE(second->Resume(std::move(*state)).has_value());
      EXPECT_EQ(Steps(second.get(), 7).back().loss, expected.back().loss);
      ExpectEqual(config, second->state(), whole->state());
    }
  }
}

TEST(Trainer, AStepThatFailsLeavesTheStateAsItWas) {
  const ExampleSet set = Repeats();
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  TrainOptions options = Options();
  options.schedule = {ScheduleKind::kConstant, 1e30, 1, 0, 10};
  ForkJoin pool(1);
  const auto trainer = MustMake(checkpoint, options, set, pool);
  Steps(trainer.get(), 1);
  const TrainState before = trainer->state();
  const auto failed = trainer->Step();
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(failed.error().message().find("step 2: the "), std::string::npos);
  EXPECT_NE(failed.error().message().find("a lower rate"), std::string::npos);
  ExpectEqual(checkpoint.config, trainer->state(), before);
}

TEST(StateFile, RefusesWhatIsNotTheRunsState) {
  const ScratchDir scratch;
  const ExampleSet set = Repeats();
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  const TrainOptions options = Options();
  const RunSettings settings = SettingsOf(options, set, checkpoint.digest);
  ForkJoin pool(1);
  const auto trainer = MustMake(checkpoint, options, set, pool);
  Steps(trainer.get(), 1);
  const std::string path = scratch / "s";
  ASSERT_TRUE(WriteState(path, checkpoint.config, settings, trainer->state()).has_value());
  const auto message = [&](const ModelConfig& config, const RunSettings& asked) {
    const auto state = ReadState(path, config, asked);
    return state.has_value() ? std::string() : state.error().Format();
  };
  EXPECT_EQ(message(checkpoint.config, settings), "");
  TrainOptions other = options;
  other.schedule.rate = 0.25;
  EXPECT_NE(message(checkpoint.config, SettingsOf(other, set, checkpoint.digest))
                .find("rate 0.005, and would go on with 0.25"),
            std::string::npos);
  other = options;
  other.kernel = Switches("int4");
  EXPECT_NE(message(checkpoint.config, SettingsOf(other, set, checkpoint.digest)).find("kernel "),
            std::string::npos);
  other = options;
  other.kernel.threads = 7;
  other.kernel.page = 3;
  EXPECT_EQ(message(checkpoint.config, SettingsOf(other, set, checkpoint.digest)), "")
      << "these change no bit";
  EXPECT_NE(message(QwenConfig(), settings).find("of another shape"), std::string::npos);
  // A bit of a weight, then every shorter file.
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto write = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 1;
  write(flipped);
  EXPECT_NE(message(checkpoint.config, settings).find("the state is damaged"), std::string::npos);
  for (const size_t keep : {bytes.size() - 1, bytes.size() / 3, size_t{100}, size_t{0}}) {
    write(bytes.substr(0, keep));
    EXPECT_NE(message(checkpoint.config, settings), "") << keep;
  }
  write(bytes);
  TrainState beyond = trainer->state();
  beyond.position.index = 41;
  EXPECT_FALSE(trainer->Resume(std::move(beyond)).has_value());
}

TEST(Examples, EveryEpochTakesAllInAnotherOrder) {
  const ExampleSet set = Repeats();
  std::vector<std::vector<const TrainExample*>> epochs(1);
  ExampleOrder order(set.examples, 7);
  std::vector<DataPosition> positions;
  std::vector<std::vector<const TrainExample*>> batches;
  for (int i = 0; i < 30; ++i) {
    positions.push_back(order.position());
    batches.push_back(order.Batch(50));
    for (const TrainExample* example : batches.back()) {
      if (epochs.back().size() == set.examples.size()) epochs.emplace_back();
      epochs.back().push_back(example);
    }
  }
  ASSERT_GE(epochs.size(), 4u);
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(std::set(epochs[e].begin(), epochs[e].end()).size(), set.examples.size());
    EXPECT_NE(epochs[e], epochs[e + 1]);
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(ExampleOrder(set.examples, 7, positions[i]).Batch(50), batches[i])
        << "resumed at batch " << i;
  }
  EXPECT_NE(ExampleOrder(set.examples, 8).Batch(50), batches[0]);
  EXPECT_EQ(BatchesOf(set.examples, 7, 1, 3), 120);
  EXPECT_EQ(BatchesOf(set.examples, 7, 1u << 30, 1), 1)
      << "a batch larger than the set is one batch";
}

}  // namespace
}  // namespace kcc
