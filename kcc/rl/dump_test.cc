#include "kcc/rl/dump.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kcc/format/archive_test_data.h"
#include "kcc/measure/token_meter.h"
#include "kcc/metric/token_slots.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

TEST(RlDump, ReadsTheExampleUnderItsTrainersNames) {
  const auto dump = ReadRlDump({"examples/rl/step.safetensors"});
  ASSERT_TRUE(dump.has_value()) << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << batch.error().Format();
  EXPECT_EQ(batch->rows, 48);
  EXPECT_EQ(batch->columns, 96);
  EXPECT_TRUE(batch->advantage_per_row);
  RlSummary summary;
  ASSERT_TRUE(summary.Add(*batch).has_value());
  EXPECT_EQ(summary.slices(), (std::vector<std::string>{"chat", "code", "grid"}));
}

TEST(RlDump, ReadsAPairOfTracesOfSampledTokens) {
  testing::ScratchDir scratch;
  testing::SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kSampledToken;
  spec.advantage = true;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec, 0.01);
  const auto dump = ReadRlDump({scratch / "train", scratch / "infer"});
  ASSERT_TRUE(dump.has_value()) << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << batch.error().Format();
  EXPECT_EQ(batch->rows, spec.requests);
  RlSummary summary;
  ASSERT_TRUE(summary.Add(*batch).has_value());
  EXPECT_EQ(summary.tokens(), 5 * 4 + 2);
  const double gap = summary.Metrics()->at(RlLevel::kToken).mean_abs_log_ratio;
  EXPECT_GT(gap, 1e-4);
  EXPECT_LT(gap, 0.1);
}

// Full logits give the sampled token's log-prob; what Measure makes of them is the same gap.
TEST(RlDump, ReadsAPairOfTracesOfFullLogits) {
  const auto dump = ReadRlDump({"examples/traces/train", "examples/traces/infer"});
  ASSERT_TRUE(dump.has_value()) << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << batch.error().Format();
  RlSummary summary;
  ASSERT_TRUE(summary.Add(*batch).has_value());
  auto train = TraceReader::Open("examples/traces/train");
  auto infer = TraceReader::Open("examples/traces/infer");
  ASSERT_TRUE(train.has_value() && infer.has_value());
  const auto pair = PairedTraces::Make(std::move(*train), std::move(*infer));
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(summary.tokens(), pair->token_count());
  const auto slot = TokenSlot("k3");
  SlotSet wanted;
  wanted.set(slot);
  TokenMeter meter(MeterSettings::Of(*pair), wanted);
  PairCursor cursor(*pair);
  double k3 = 0;
  for (size_t r = 0; r < pair->requests().size(); ++r) {
    cursor.Seek(static_cast<int32_t>(r));
    while (*cursor.Next()) {
      TokenReading reading;
      ASSERT_TRUE(meter.Read(cursor.train(), cursor.infer(), &reading).has_value());
      k3 += reading.drift.lo[slot];
    }
  }
  const auto n = static_cast<double>(pair->token_count());
  EXPECT_NEAR(summary.Metrics()->at(RlLevel::kToken).k3, k3 / n, 1e-8 * k3 / n);
}

TEST(RlDump, TracesWithoutLogProbsAreRefusedByName) {
  testing::ScratchDir scratch;
  testing::SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kNone;
  testing::WriteSyntheticPair(scratch / "train", scratch / "infer", spec, 0.01);
  const auto dump = ReadRlDump({scratch / "train", scratch / "infer"});
  ASSERT_FALSE(dump.has_value());
  EXPECT_NE(dump.error().message().find("log-prob"), std::string::npos) << dump.error().Format();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(RlDump, ReadsJsonLinesAsAPackedBatch) {
  testing::ScratchDir scratch;
  WriteText(
      scratch / "step.jsonl",
      R"({"train": [-1, -2.5], "rollout": [-1, -2], "mask": [1, true], "advantage": 1, "slice": "math"})"
      "\n\n"
      R"({"train": [-0.5], "rollout_logprobs": [-0.25], "mask": [0], "advantage": -2, "slice": "chat", "id": 3})"
      "\n");
  const auto dump = ReadRlDump({scratch / "step.jsonl"});
  ASSERT_TRUE(dump.has_value()) << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << batch.error().Format();
  EXPECT_EQ(dump->offsets, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(dump->slice_names, (std::vector<std::string>{"chat", "math"}));
  EXPECT_EQ(dump->slice_of_row, (std::vector<int32_t>{1, 0}));
  EXPECT_TRUE(batch->advantage_per_row);
  EXPECT_EQ(dump->Find("rollout")->values, (std::vector<double>{-1, -2, -0.25}));
  RlSummary summary;
  ASSERT_TRUE(summary.Add(*batch).has_value());
  EXPECT_EQ(summary.tokens(), 2);
}

TEST(RlDump, FaultsInJsonLinesAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"train": [-1], "rollout": [-1, -2]})", "bad.jsonl:2"},
      {R"({"train": [-1], "rollout": [null]})", "not a number"},
      {R"({"train": [-1]})", "missing in this row"},
      {R"([1])", "must be an object"},
      {R"({"train": [)", "bad.jsonl:2"},
      {R"({"train": [-1], "rollout": [-1], "slice": "a"})", "every row or none"},
  };
  testing::ScratchDir scratch;
  for (const auto& [line, want] : cases) {
    WriteText(scratch / "bad.jsonl",
              std::string(R"({"train": [-1], "rollout": [-1]})") + "\n" + line + "\n");
    const auto dump = ReadRlDump({scratch / "bad.jsonl"});
    ASSERT_FALSE(dump.has_value()) << line;
    EXPECT_NE(dump.error().Format().find(want), std::string::npos) << dump.error().Format();
  }
}

// As prime-rl's exporter wrote it: null where a number was not finite, rank files side by side.
TEST(RlDump, ReadsPrimeRlTokenExports) {
  const std::string exports = "tests/data/rl/token_exports";
  for (const std::vector<std::string>& paths :
       {std::vector<std::string>{exports},
        {exports + "/step_7"},
        {exports + "/step_7/rank_0.jsonl", exports + "/step_7/rank_1.jsonl"}}) {
    const auto dump = ReadRlDump(paths);
    ASSERT_TRUE(dump.has_value()) << dump.error().Format();
    const auto batch = dump->Batch();
    ASSERT_TRUE(batch.has_value()) << batch.error().Format();
    EXPECT_EQ(batch->rows, 5);
    EXPECT_EQ(dump->slice_names, (std::vector<std::string>{"code", "math"}));
    EXPECT_FALSE(batch->advantage_per_row);
    RlSummary summary;
    ASSERT_TRUE(summary.Add(*batch).has_value());
    EXPECT_EQ(summary.tokens(), 94);
    EXPECT_EQ(summary.Metrics("code")->tokens, 46);
  }
  const auto half = ReadRlDump({exports + "/step_7/rank_1.jsonl"});
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->offsets, (std::vector<int64_t>{0, 25, 51}));
}

TEST(RlDump, AStepThatIsStillBeingWrittenIsRefused) {
  testing::ScratchDir scratch;
  std::filesystem::create_directory(scratch / "step_1");
  WriteText(scratch / "step_1/rank_0.jsonl", "{}\n");
  const auto dump = ReadRlDump({scratch / "step_1"});
  ASSERT_FALSE(dump.has_value());
  EXPECT_NE(dump.error().Format().find("STABLE"), std::string::npos) << dump.error().Format();
  const auto nothing = ReadRlDump({"docs"});
  ASSERT_FALSE(nothing.has_value());
  EXPECT_NE(nothing.error().message().find("trace.json"), std::string::npos);
}

TEST(RlDump, NamesAreThoseOfTheFrameworks) {
  EXPECT_EQ(CanonicalArrayName("old_log_probs"), "train");
  EXPECT_EQ(CanonicalArrayName("rollout_log_probs"), "rollout");
  EXPECT_EQ(CanonicalArrayName("sampling_per_token_logps"), "rollout");
  EXPECT_EQ(CanonicalArrayName("completion_mask"), "mask");
  EXPECT_EQ(CanonicalArrayName("cu_seqlens"), "offsets");
  EXPECT_EQ(CanonicalArrayName("logits"), "");
}

TEST(RlDump, MistakesAreNamed) {
  EXPECT_FALSE(ReadRlDump({}).has_value());
  EXPECT_FALSE(ReadRlDump({"missing.npz"}).has_value());
  const auto wrong = ReadRlDump({"README.md"});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message().find(".safetensors"), std::string::npos);
  const auto one = ReadRlDump({"examples/traces/train"});
  ASSERT_FALSE(one.has_value());
  EXPECT_NE(one.error().message().find("pairs"), std::string::npos);
}

TEST(RlDump, ShapesMustAgree) {
  RlDump dump;
  dump.arrays = {{"train", {2, 2}, {-1, -1, -1, -1}}, {"rollout", {2, 1}, {-1, -1}}};
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays[1] = {"rollout", {2, 2}, {-1, -1, -1, -1}};
  EXPECT_TRUE(dump.Batch().has_value());
  dump.arrays.push_back({"advantages", {3}, {1, 2, 3}});
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays.pop_back();
  dump.offsets = {0, 1, 3};
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays.pop_back();
  EXPECT_FALSE(dump.Batch().has_value());
}

// ---- Hostile files -----------------------------------------------------------------------------

std::string DumpProblem(const std::string& name, const std::string& bytes) {
  testing::ScratchDir scratch;
  std::ofstream(scratch / name, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  const auto dump = ReadRlDump({scratch / name});
  if (!dump.has_value()) return dump.error().Format();
  const auto batch = dump->Batch();
  return batch.has_value() ? "" : batch.error().Format();
}

TEST(HostileRlDump, ADictionaryThatContainsItselfIsReadOnce) {
  using namespace testing;
  const std::string row = RawOf<float>({-1, -2, -1, -2, -1, -2, -1, -2});
  std::string pickle = "}q\x01(";
  for (int i = 0; i < 1200; ++i) pickle += PickleText("") + "h\x01";
  const std::string alone = TorchBytes(pickle + "u", {row});
  EXPECT_LT(alone.size(), 9000u);
  EXPECT_NE(DumpProblem("alone.pt", alone).find("train log-probs are missing"), std::string::npos);
  pickle += PickleText("train") + PickleTensor("0", {2, 4});
  const std::string inner = "}(" + PickleText("rollout") + PickleTensor("0", {2, 4}) + "u";
  pickle += PickleText("more") + inner + "u";
  const std::string bytes = TorchBytes(pickle, {row});
  EXPECT_EQ(DumpProblem("step.pt", bytes), "");
}

TEST(HostileRlDump, RowsWithoutColumnsHoldNoToken) {
  using namespace testing;
  const std::string none = NpyBytes("<f4", "(1099511627776, 0)", "");
  const std::string problem =
      DumpProblem("step.npz", StoredZip({{"train.npy", none}, {"rollout.npy", none}}));
  EXPECT_NE(problem.find("[1099511627776, 0]: it holds no token"), std::string::npos) << problem;
}

TEST(HostileRlDump, ASliceNumberBeyondTheRowsIsAnError) {
  using namespace testing;
  const std::string values = NpyBytes("<f4", "(2, 1)", RawOf<float>({-1, -2}));
  const auto with = [&](int32_t slice) {
    const std::string slices = NpyBytes("<i4", "(2,)", RawOf<int32_t>({0, slice}));
    return DumpProblem(
        "step.npz",
        StoredZip({{"train.npy", values}, {"rollout.npy", values}, {"slice.npy", slices}}));
  };
  EXPECT_EQ(with(1000), "");
  EXPECT_NE(with(999999).find("slice 999999 of 2 rows"), std::string::npos) << with(999999);
}

TEST(HostileRlDump, StepsThatLinkToTheirOwnFolderAreNotFollowed) {
  testing::ScratchDir scratch;
  std::filesystem::copy("tests/data/rl/token_exports/step_7", scratch / "step_7");
  for (const char* name : {"step_1", "step_2", "step_3"}) {
    std::filesystem::create_directory_symlink(".", scratch / name);
  }
  EXPECT_FALSE(ReadRlDump({scratch / ""}).has_value()) << "step_1 holds no ranks";
}

TEST(HostileRlDump, ANameThatIsTooLongIsAnError) {
  const std::string problem = ReadRlDump({std::string(300, 'n') + ".npz"}).error().Format();
  EXPECT_NE(problem.find("File name too long"), std::string::npos) << problem;
}

}  // namespace
}  // namespace kcc
