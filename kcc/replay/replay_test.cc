// Replays of requests on the lab: what each outcome needs, and what must never be called
// reproduced.
#include "kcc/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kcc/lab/lab_test_data.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;
using testing::Switches;

const Checkpoint& Model() {
  static const Checkpoint model = RandomCheckpoint(SmallConfig());
  return model;
}

std::unique_ptr<Kernel> Open(const LabSwitches& switches, bool audit_points = true) {
  return *LabKernel::Make(Model(), switches, nullptr, audit_points);
}

KernelPair PairOf(const LabSwitches& train, const LabSwitches& infer, bool audit_points = true) {
  return {{"train", Open(train, audit_points)}, {"infer", Open(infer, audit_points)}};
}

StoredSide SideIn(const LabSwitches& switches, std::span<const KernelRequest> batch, size_t place) {
  const auto kernel = Open(switches, false);
  const std::string directory =
      (std::filesystem::path(::testing::TempDir()) / "kcc-replay-test").string();
  std::filesystem::remove_all(directory);
  EXPECT_TRUE(kernel->Score(batch, directory).has_value());
  const auto reader = TraceReader::Open(directory);
  const KernelInfo& info = kernel->info();
  StoredSide side{info.fingerprint, info.model_digest, DeclaredBy(info), ""};
  if (const auto* signature = reader->requests()[place].Text("replay_signature")) {
    side.signature = *signature;
  }
  std::filesystem::remove_all(directory);
  return side;
}

// The third of five requests, as a run on these kernels would have stored it.
StoredRequest StoredOf(const LabSwitches& train, const LabSwitches& infer,
                       std::span<const KernelRequest> batch) {
  constexpr size_t kPlace = 2;
  StoredRequest stored;
  stored.id = batch[kPlace].request.id;
  stored.store = StoreRequests::kFull;
  stored.tokens = batch[kPlace].tokens;
  stored.prompt_tokens = batch[kPlace].prompt_tokens;
  stored.batch.place = kPlace;
  for (const KernelRequest& request : batch) {
    stored.batch.requests.emplace_back(
        request.prompt_tokens, static_cast<int32_t>(request.tokens.size()) - request.prompt_tokens);
  }
  stored.train = SideIn(train, batch, kPlace);
  stored.infer = SideIn(infer, batch, kPlace);
  return stored;
}

ReplayResult Again(const StoredRequest& stored, const KernelPair& pair, bool alone = false) {
  ReplayOptions options;
  options.scratch = ::testing::TempDir();
  options.alone = alone;
  auto result = Replay(stored, RequestToRun(stored), pair, options);
  EXPECT_TRUE(result.has_value()) << result.error().Format();
  return std::move(*result);
}

TEST(Replay, ReproducesBothSidesAndNamesTheFirstDifference) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches train = Switches("f32");
  const LabSwitches infer = Switches("f32", {{"swiglu", "fused"}});
  const ReplayResult result = Again(StoredOf(train, infer, batch), PairOf(train, infer));
  EXPECT_TRUE(result.Reproduced());
  EXPECT_EQ(result.sides_agree, false);
  EXPECT_EQ(result.audit.outcome, AuditComparison::Outcome::kDiverge);
  EXPECT_EQ(result.audit.point, "layer 0, gated");
  EXPECT_TRUE(result.audit.position);
}

TEST(Replay, KernelsThatAgreeHaveNoFirstDifference) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches f32 = Switches("f32");
  const ReplayResult result = Again(StoredOf(f32, f32, batch), PairOf(f32, f32));
  EXPECT_TRUE(result.Reproduced());
  EXPECT_EQ(result.sides_agree, true);
  EXPECT_EQ(result.audit.outcome, AuditComparison::Outcome::kAgree);
}

// The batch decides how sums are split; with its shape the bits come back, alone they do not.
TEST(Replay, GivesTheBatchItsShape) {
  const auto batch = RandomRequests(5, 60, 20);
  const LabSwitches train = Switches("f32");
  const LabSwitches infer = Switches("f32", {{"batch", "dynamic"}});
  const StoredRequest stored = StoredOf(train, infer, batch);
  const ReplayResult shaped = Again(stored, PairOf(train, infer));
  EXPECT_EQ(shaped.company, 4u);
  EXPECT_EQ(shaped.infer.outcome, SideOutcome::kReproduced) << shaped.infer.why;
  const ReplayResult alone = Again(stored, PairOf(train, infer), true);
  EXPECT_EQ(alone.company, 0u);
  EXPECT_EQ(alone.train.outcome, SideOutcome::kReproduced);
  EXPECT_EQ(alone.infer.outcome, SideOutcome::kNotReproduced);
  EXPECT_TRUE(alone.Refuted());
}

TEST(Replay, NeverSaysReproducedWhereSomethingIsMissing) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches f32 = Switches("f32");
  const StoredRequest whole = StoredOf(f32, f32, batch);
  const auto outcome = [&](const StoredRequest& stored, const LabSwitches& now) {
    const ReplayResult result = Again(stored, PairOf(f32, now));
    EXPECT_FALSE(result.Reproduced());
    EXPECT_EQ(result.train.outcome, SideOutcome::kReproduced);
    return result.infer.outcome;
  };
  StoredRequest stored = whole;
  stored.infer.signature.clear();
  EXPECT_EQ(outcome(stored, f32), SideOutcome::kNotRecorded);
  EXPECT_EQ(outcome(whole, Switches("f32", {{"audit", "off"}})), SideOutcome::kNotRecorded);
  // The same computation, signed another way.
  EXPECT_EQ(outcome(whole, Switches("f32", {{"audit", "all"}})), SideOutcome::kNotComparable);
  stored = whole;
  stored.infer.fingerprint = "an older build";
  EXPECT_EQ(outcome(stored, f32), SideOutcome::kAnotherBuild);
  stored = whole;
  stored.infer.model_digest = "sha256:other";
  EXPECT_EQ(outcome(stored, f32), SideOutcome::kAnotherBuild);
  stored = whole;
  stored.infer.signature = "0000000000000000";
  EXPECT_EQ(outcome(stored, f32), SideOutcome::kNotReproduced);
}

TEST(Replay, SaysThatAuditPointsAreMissing) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches f32 = Switches("f32");
  const LabSwitches off = Switches("f32", {{"audit", "off"}});
  const ReplayResult result = Again(StoredOf(f32, f32, batch), PairOf(f32, off));
  EXPECT_FALSE(result.sides_agree);
  EXPECT_EQ(result.audit.outcome, AuditComparison::Outcome::kNotComparable);
  EXPECT_EQ(result.audit.why, "infer gives no audit points");
}

}  // namespace
}  // namespace kcc
