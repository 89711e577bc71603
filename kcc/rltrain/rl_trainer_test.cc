#include "kcc/rltrain/rl_trainer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kcc/rltrain/rl_log.h"
#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::SmallConfig;
using testing::Switches;

// Problems whose answer is one of few letters, so that a random model is right at times.
class RlTrainerTest : public ::testing::Test {
 protected:
  RlTrainerTest() : checkpoint_(RandomCheckpoint(SmallConfig())) {
    // Logits with a temperature of many: every letter has a chance.
    for (float& weight : checkpoint_.lm_head) weight *= 0.2f;
    const std::string path = ScratchFile("task.jsonl");
    std::ofstream out(path);
    for (int i = 0; i < 40; ++i)
      out << R"({"id": "p)" << i << R"(", "prompt": [)" << i % 7 << ", " << i << R"(], "output": [)"
          << 10 + i % 3 << "]}\n";
    out.close();
    auto made = RlTask::Make(path);
    EXPECT_TRUE(made.has_value());
    task_ = std::move(*made);
  }

  // Of the test that runs: others may run at the same time.
  static std::string ScratchFile(const std::string& name) {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    return ::testing::TempDir() + "kcc-rltrain-" + test + "-" + name;
  }
  ~RlTrainerTest() override {
    for (const char* name : {"task.jsonl", "state.safetensors"})
      std::filesystem::remove(ScratchFile(name));
  }

  static RlTrainOptions Options(std::string_view infer = "f32") {
    RlTrainOptions options;
    options.train = Switches("f32", {});
    options.infer = Switches(infer, {{"batch", "invariant"}});
    options.problems = 6;
    options.group = 8;
    options.schedule = {ScheduleKind::kConstant, 1e-2, 1, 0, 20};
    options.held_out = {5, 8, false};
    options.seed = 3;
    options.score_all = true;
    return options;
  }

  std::unique_ptr<RlTrainer> MustMake(const RlTrainOptions& options, ForkJoin& pool,
                                      Target target = BestTarget()) {
    auto made = RlTrainer::Make(checkpoint_, options, task_, std::nullopt, pool, target);
    EXPECT_TRUE(made.has_value()) << made.error().Format();
    return std::move(*made);
  }

  static std::string Lines(RlTrainer* trainer, int64_t steps) {
    std::string lines;
    for (int64_t i = 0; i < steps; ++i) {
      const auto report = trainer->Step();
      EXPECT_TRUE(report.has_value()) << report.error().Format();
      lines += StepLine(*report);
    }
    const auto held_out = trainer->HeldOut();
    EXPECT_TRUE(held_out.has_value());
    return lines + HeldOutLine(*held_out, false);
  }

  std::string LinesOf(const RlTrainOptions& options, int64_t steps, size_t threads = 1,
                      Target target = BestTarget()) {
    ForkJoin pool(threads);
    RlTrainOptions with = options;
    with.infer.threads = threads;
    return Lines(MustMake(with, pool, target).get(), steps);
  }

  Checkpoint checkpoint_;
  RlTask task_;
};

TEST_F(RlTrainerTest, LearnsWithGroupsAndWithAValueHead) {
  for (const bool ppo : {false, true}) {
    ForkJoin pool(1);
    RlTrainOptions options = Options();
    if (ppo) options.ppo = ValueOptions{};
    const auto trainer = MustMake(options, pool);
    double early = 0, late = 0, value_loss = 0;
    for (int i = 0; i < 60; ++i) {
      const auto report = trainer->Step();
      ASSERT_TRUE(report.has_value()) << report.error().Format();
      (i < 10 ? early : late) += i < 10 || i >= 50 ? report->reward / 10 : 0;
      value_loss = report->value_loss;
    }
    EXPECT_LT(early, 0.5) << "ppo " << ppo;
    EXPECT_GT(late, early + 0.3) << "ppo " << ppo;
    EXPECT_EQ(value_loss > 0, ppo);
  }
}

TEST_F(RlTrainerTest, OneKernelHasNoGapAndAnotherHas) {
  ForkJoin pool(1);
  const auto exact = MustMake(Options(), pool)->Step();
  ASSERT_TRUE(exact.has_value());
  EXPECT_GT(exact->tokens_scored, 0);
  EXPECT_EQ(exact->metrics.at(RlLevel::kToken).k3, 0);
  EXPECT_EQ(exact->metrics.bit_equal_share, 1);
  EXPECT_EQ(*exact->kl_to_reference, 0);
  const auto apart = MustMake(Options("int4"), pool)->Step();
  ASSERT_TRUE(apart.has_value());
  EXPECT_GT(apart->metrics.at(RlLevel::kToken).k3, 1e-6);
  EXPECT_LT(apart->metrics.bit_equal_share, 1);
}

TEST_F(RlTrainerTest, ThreadsAndTargetsChangeNoBit) {
  RlTrainOptions options = Options("fp8");
  options.stale = 1;
  options.ppo = ValueOptions{};
  options.correction.weight = {RlWeightMode::kTruncate, RlLevel::kToken, 0, 2, false};
  const std::string one = LinesOf(options, 4);
  EXPECT_EQ(LinesOf(options, 4, 2), one);
  for (const Target target : AvailableTargets()) EXPECT_EQ(LinesOf(options, 4, 1, target), one);
}

TEST_F(RlTrainerTest, AStateGoesOnWithTheSameBits) {
  for (const bool ppo : {false, true}) {
    RlTrainOptions options = Options("int4");
    options.stale = 2;
    options.loss.kl = 0.01;
    if (ppo) options.ppo = ValueOptions{};
    const ModelConfig& config = checkpoint_.config;
    const RunSettings settings = SettingsOf(options, task_, "d", "");
    ForkJoin pool(1);
    const auto whole = MustMake(options, pool);
    Lines(whole.get(), 5);
    const std::string path = ScratchFile("state.safetensors");
    ASSERT_TRUE(WriteRlState(path, config, settings, whole->state()).has_value());
    RlState state = StartState(config, checkpoint_, options);
    const auto read = ReadRlState(path, config, settings, &state);
    ASSERT_TRUE(read.has_value()) << read.error().Format();
    const auto resumed = MustMake(options, pool);
    resumed->Resume(std::move(state));
    EXPECT_EQ(Lines(resumed.get(), 3), Lines(whole.get(), 3));
  }
}

TEST_F(RlTrainerTest, PacksChangeWhatIsComputedAtOnceAndLittleElse) {
  RlTrainOptions options = Options("int4");
  options.ppo = ValueOptions{};
  ForkJoin pool(1);
  const auto whole = MustMake(options, pool)->Step();
  options.pack_tokens = 7;
  const auto packed = MustMake(options, pool)->Step();
  ASSERT_TRUE(whole.has_value() && packed.has_value());
  EXPECT_EQ(packed->loss, whole->loss);
  EXPECT_NEAR(packed->gradient_length, whole->gradient_length, 1e-5 * whole->gradient_length);
  EXPECT_NEAR(packed->value_loss, whole->value_loss, 1e-12);
}

TEST_F(RlTrainerTest, BypassPutsTheGapIntoTheRatioAndRecomputeDoesNot) {
  RlTrainOptions options = Options("int4");
  options.loss.clip_low = options.loss.clip_high = 1e-4;
  ForkJoin pool(1);
  const auto recompute = MustMake(options, pool)->Step();
  options.old_policy = OldPolicy::kBypass;
  const auto bypass = MustMake(options, pool)->Step();
  ASSERT_TRUE(recompute.has_value() && bypass.has_value());
  EXPECT_EQ(recompute->clipped_low + recompute->clipped_high, 0);
  EXPECT_GT(bypass->clipped_low + bypass->clipped_high, 0);
  EXPECT_EQ(recompute->metrics.at(RlLevel::kToken).k3, bypass->metrics.at(RlLevel::kToken).k3);
}

TEST_F(RlTrainerTest, StalenessAndMismatchAreToldApart) {
  RlTrainOptions options = Options();
  options.stale = 2;
  ForkJoin pool(1);
  const auto trainer = MustMake(options, pool);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(trainer->Step().has_value());
  const auto report = trainer->Step();
  ASSERT_TRUE(report.has_value());
  EXPECT_TRUE(report->metrics.has_old);
  EXPECT_EQ(report->metrics.mismatch.k3, 0);
  EXPECT_GT(report->metrics.staleness.k3, 0);
  options.infer = Switches("int4", {{"batch", "invariant"}});
  const auto both = MustMake(options, pool);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(both->Step().has_value());
  const auto apart = both->Step();
  ASSERT_TRUE(apart.has_value());
  EXPECT_TRUE(apart->metrics.has_old);
  EXPECT_GT(apart->metrics.mismatch.k3, 0);
  EXPECT_GT(apart->metrics.staleness.k3, 0);
}

TEST_F(RlTrainerTest, OptionsThatCountAGapTwiceAreRefused) {
  ForkJoin pool(1);
  const auto refused = [&](const RlTrainOptions& options) {
    const auto made = RlTrainer::Make(checkpoint_, options, task_, std::nullopt, pool);
    return made.has_value() ? std::string() : made.error().message();
  };
  RlTrainOptions options = Options();
  options.old_policy = OldPolicy::kBypass;
  options.correction.weight.mode = RlWeightMode::kTruncate;
  EXPECT_NE(refused(options).find("count it twice"), std::string::npos);
  options = Options();
  options.group = 1;
  EXPECT_NE(refused(options).find("at least two"), std::string::npos);
  options = Options();
  options.loss.dual_clip = 1.1;
  EXPECT_NE(refused(options).find("above 1.2"), std::string::npos);
}

}  // namespace
}  // namespace kcc
