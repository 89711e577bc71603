// Replays of requests on the lab: what each outcome needs, and what must never be called
// reproduced.
#include "kcc/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "kcc/base/file.h"
#include "kcc/lab/lab_test_data.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
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
  // Only the batch differs, which says nothing about the build.
  EXPECT_EQ(alone.infer.outcome, SideOutcome::kAnotherBatch);
  EXPECT_THAT(alone.infer.why, HasSubstr("alone, and then together with 4 other requests"));
  EXPECT_FALSE(alone.Refuted() || alone.Reproduced());
}

TEST(Replay, WithoutTheBatchOfThenAnotherSignatureRefutesNothing) {
  const auto batch = RandomRequests(5, 60, 20);
  const LabSwitches f32 = Switches("f32");
  const LabSwitches infer = Switches("f32", {{"batch", "dynamic"}});
  StoredRequest stored = StoredOf(f32, infer, batch);
  stored.batch = {};
  const ReplayResult result = Again(stored, PairOf(f32, infer));
  EXPECT_EQ(result.train.outcome, SideOutcome::kReproduced);
  EXPECT_EQ(result.infer.outcome, SideOutcome::kAnotherBatch);
  EXPECT_THAT(result.infer.why, HasSubstr("is not known"));
  // Asked alone then, too: a batch of one that is recorded is the batch of then.
  const KernelRequest request = RequestToRun(stored);
  stored.infer.signature = "0000000000000000";
  stored.batch = {0,
                  {{request.prompt_tokens,
                    static_cast<int32_t>(request.tokens.size()) - request.prompt_tokens}}};
  EXPECT_TRUE(Again(stored, PairOf(f32, infer)).Refuted());
  EXPECT_TRUE(Again(stored, PairOf(f32, infer), true).Refuted());
}

// Traces are scored side by side, and maybe in other batches.
TEST(Replay, EachSideIsAskedInItsOwnBatch) {
  const auto batch = RandomRequests(5, 60, 20);
  const LabSwitches dynamic = Switches("f32", {{"batch", "dynamic"}});
  StoredRequest stored = StoredOf(dynamic, dynamic, batch);
  const KernelRequest request = RequestToRun(stored);
  stored.train = SideIn(dynamic, {&request, 1}, 0);
  ASSERT_NE(stored.train.signature, stored.infer.signature) << "the batch does not matter";
  EXPECT_FALSE(Again(stored, PairOf(dynamic, dynamic)).Reproduced());
  stored.train_batch =
      BatchShape{0,
                 {{request.prompt_tokens,
                   static_cast<int32_t>(request.tokens.size()) - request.prompt_tokens}}};
  EXPECT_TRUE(Again(stored, PairOf(dynamic, dynamic)).Reproduced());
  stored.train_batch = BatchShape{};  // not known
  const ReplayResult result = Again(stored, PairOf(dynamic, dynamic));
  EXPECT_EQ(result.train.outcome, SideOutcome::kReproduced) << "alone is how it was asked";
  EXPECT_EQ(result.infer.outcome, SideOutcome::kReproduced);
}

// A kernel around a lab kernel that signs in its own way.
class SignsOtherwise final : public Kernel {
 public:
  using Sign = std::function<std::string(std::span<const KernelRequest> batch, size_t place)>;
  SignsOtherwise(std::unique_ptr<Kernel> kernel, Sign sign)
      : kernel_(std::move(kernel)), sign_(std::move(sign)) {}

  const KernelInfo& info() const override { return kernel_->info(); }
  Result<> Generate(std::span<const KernelRequest>, const Sampling&, const std::string&) override {
    return InvalidError("it does not generate");
  }
  Result<> Score(std::span<const KernelRequest> batch, const std::string& directory) override {
    KCC_TRY_VOID(kernel_->Score(batch, directory));
    const std::string path = directory + "/requests.jsonl";
    KCC_TRY(const std::vector<Request> requests, ReadRequests(path));
    std::string lines;
    for (size_t i = 0; i < requests.size(); ++i) {
      Request request = requests[i];
      request.fields["replay_signature"] = sign_(batch, i);
      lines += RequestJson(request) + "\n";
    }
    return WriteFileAtomically(path, lines);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Sign sign_;
};

TEST(Replay, ASignatureThatIsTheSameForAllRequestsShowsNothing) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches f32 = Switches("f32");
  for (const char* now : {"constant", "another constant"}) {
    StoredRequest stored = StoredOf(f32, f32, batch);
    stored.infer.signature = "constant";
    KernelPair pair = PairOf(f32, f32);
    pair.infer.kernel = std::make_unique<SignsOtherwise>(
        std::move(pair.infer.kernel), [&](const auto&, size_t) { return std::string(now); });
    const ReplayResult result = Again(stored, pair);
    EXPECT_EQ(result.train.outcome, SideOutcome::kReproduced);
    EXPECT_EQ(result.infer.outcome, SideOutcome::kNotComparable);
    EXPECT_THAT(result.infer.why, HasSubstr("signs a request of other tokens alike"));
    EXPECT_FALSE(result.Reproduced() || result.Refuted());
    EXPECT_FALSE(result.sides_agree.has_value());
  }
}

// A mixture of experts with a capacity: what a request gets depends on what the others hold.
TEST(Replay, WhatTheOthersHeldIsNotKeptAndMayMatter) {
  const auto batch = RandomRequests(5, 30, 6);
  const LabSwitches f32 = Switches("f32");
  for (const bool mixes : {true, false}) {
    StoredRequest stored = StoredOf(f32, f32, batch);
    stored.infer.signature = "of then";
    KernelPair pair = PairOf(f32, f32);
    pair.infer.kernel = std::make_unique<SignsOtherwise>(
        std::move(pair.infer.kernel), [&](std::span<const KernelRequest> asked, size_t place) {
          uint64_t sum = 0;
          for (size_t i = 0; i < asked.size(); ++i) {
            if (i != place && !mixes) continue;
            for (const int32_t token : asked[i].tokens)
              sum = sum * 31 + static_cast<uint64_t>(token);
          }
          return std::to_string(sum);
        });
    const ReplayResult result = Again(stored, pair);
    EXPECT_EQ(result.infer.outcome,
              mixes ? SideOutcome::kAnotherBatch : SideOutcome::kNotReproduced);
    EXPECT_EQ(result.Refuted(), !mixes);
  }
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
