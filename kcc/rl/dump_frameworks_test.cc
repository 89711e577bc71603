// Dumps in the forms that verl and TRL write (tests/data/rl/dumps), names that the caller maps, and
// what becomes of a dump without a mask.
#include <gtest/gtest.h>

#include <fstream>

#include "kcc/format/archive_test_data.h"
#include "kcc/format/torch_file.h"
#include "kcc/rl/dump.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

const std::string kDumps = "tests/data/rl/dumps/";

RlDump ReadOrDie(const std::vector<std::string>& paths, const RlDumpOptions& options = {}) {
  auto dump = ReadRlDump(paths, options);
  EXPECT_TRUE(dump.has_value()) << dump.error().Format();
  return dump.has_value() ? std::move(*dump) : RlDump();
}

std::string Problem(const std::vector<std::string>& paths, const RlDumpOptions& options = {}) {
  const auto dump = ReadRlDump(paths, options);
  if (!dump.has_value()) return dump.error().Format();
  const auto batch = dump->Batch();
  return batch.has_value() ? "" : batch.error().Format();
}

std::string WriteNpz(const testing::ScratchDir& scratch, const testing::Members& members) {
  const std::string path = scratch / "dump.npz";
  std::ofstream(path, std::ios::binary) << testing::StoredZip(members);
  return path;
}

std::pair<std::string, std::string> Member(const std::string& name, const std::string& shape,
                                           const std::vector<double>& values) {
  return {name + ".npy", testing::NpyBytes("<f8", shape, testing::RawOf(values))};
}

TEST(RlDumpFrameworks, EveryFormOfABatchHoldsTheSameNumbers) {
  const RlDump proto = ReadOrDie({kDumps + "dataproto.pkl"});
  const RlDump::Array* train = proto.Find("train");
  ASSERT_NE(train, nullptr);
  EXPECT_EQ(train->shape, (std::vector<int64_t>{4, 6}));
  ASSERT_TRUE(proto.Batch().has_value());
  EXPECT_TRUE(proto.warnings.empty());
  for (const std::string name : {"tensordict.pt", "consolidated.pt", "trl.pt"}) {
    const RlDump dump = ReadOrDie({kDumps + name});
    for (const std::string_view array : {"train", "rollout", "mask"}) {
      ASSERT_NE(dump.Find(array), nullptr) << name << " " << array;
      EXPECT_EQ(dump.Find(array)->values, proto.Find(array)->values) << name << " " << array;
    }
    EXPECT_TRUE(dump.Batch().has_value()) << name;
  }
}

TEST(RlDumpFrameworks, RowsOfADataProtoAreSlicedByItsFields) {
  const RlDump dump = ReadOrDie({kDumps + "dataproto.pkl"}, {.slice_by = "data_source"});
  EXPECT_EQ(dump.slice_names, (std::vector<std::string>{"gsm8k", "math"}));
  EXPECT_EQ(dump.slice_of_row, (std::vector<int32_t>{0, 1, 0, 1}));
  const std::string problem = Problem({kDumps + "dataproto.pkl"}, {.slice_by = "env"});
  EXPECT_NE(problem.find("'data_source' and 'uid'"), std::string::npos) << problem;
}

TEST(RlDumpFrameworks, APickleWithoutTensorsIsRefusedAndNothingInItIsCalled) {
  testing::ScratchDir scratch;
  const std::string path = scratch / "hostile.pkl";
  // os.system("…") as Python's pickle would call it.
  std::ofstream(path, std::ios::binary)
      << "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.";
  EXPECT_NE(Problem({path}).find("holds no file of torch.save"), std::string::npos);
}

TEST(RlDumpFrameworks, ATensorDictNamedOftenDoesNotGrowTheFile) {
  std::string pickle = "\x80\x02(";
  pickle += "ctensordict._reductions\n_rebuild_tensordict_files_consolidated\nq\x01";
  pickle +=
      "}q\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\x07";
  pickle += std::string(3, '\0') + "storagectorch\nByteStorage\nX\x01" + std::string(3, '\0');
  pickle += "0X\x03" + std::string(3, '\0') + "cpuK\x08tQK" + std::string(1, '\0');
  pickle += "K\x08\x85K\x01\x85\x89}tRq\x03";
  for (int i = 0; i < 17; ++i) pickle += "h\x01h\x02h\x03\x86R";
  pickle += "t.";
  const auto parsed = ParseTorchPickle(pickle);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_NE(parsed.error().message().find("too many TensorDicts"), std::string::npos)
      << parsed.error().message();
}

TEST(RlDumpNames, MissingLogProbsAreReportedWithTheNamesThatWereFound) {
  testing::ScratchDir scratch;
  const std::string path = WriteNpz(
      scratch, {Member("logp_new", "(1, 2)", {-1, -2}), Member("logp_vllm", "(1, 2)", {-1, -2})});
  const std::string problem = Problem({path});
  EXPECT_NE(problem.find("found logp_new and logp_vllm"), std::string::npos) << problem;
  EXPECT_NE(problem.find("--map NAME=train"), std::string::npos) << problem;
  const RlDump dump =
      ReadOrDie({path}, {.names = {{"logp_new", "train"}, {"logp_vllm", "rollout"}}});
  EXPECT_TRUE(dump.Batch().has_value());
  EXPECT_NE(Problem({path}, {.names = {{"logp", "train"}}}).find("the dump has no 'logp'; it has"),
            std::string::npos);
}

TEST(RlDumpNames, WhatIsMappedTakesThePlaceOfWhatTheTableKnows) {
  testing::ScratchDir scratch;
  const std::string path =
      WriteNpz(scratch, {Member("old_log_probs", "(1, 1)", {-3}), Member("current", "(1, 1)", {-1}),
                         Member("rollout", "(1, 1)", {-2}), Member("mask", "(1, 1)", {1})});
  const RlDump dump =
      ReadOrDie({path}, {.names = {{"current", "train"}, {"old_log_probs", "old"}}});
  EXPECT_EQ(dump.Find("train")->values, std::vector<double>{-1});
  EXPECT_EQ(dump.Find("old")->values, std::vector<double>{-3});
}

TEST(RlDumpNames, MapsAreTheirsEqualsOurs) {
  EXPECT_EQ(*ParseNameMap({"a=train", "b=response_mask"}),
            (RlNameMap{{"a", "train"}, {"b", "mask"}}));
  for (const std::string text : {"a", "=train", "a=", "a=nothing"}) {
    EXPECT_FALSE(ParseNameMap({text}).has_value()) << text;
  }
}

TEST(RlDumpNames, AFieldToSliceByIsNeverIgnored) {
  EXPECT_NE(Problem({"examples/rl/step.safetensors"}, {.slice_by = "env"}).find("--map NAME=slice"),
            std::string::npos);
}

TEST(RlDumpMask, ZerosOnBothSidesAtTheEndsOfRowsArePadding) {
  testing::ScratchDir scratch;
  const std::string path =
      WriteNpz(scratch, {Member("train", "(3, 4)", {-1, 0, -2, 0, -1, -1, 0, 0, 0, 0, 0, 0}),
                         Member("rollout", "(3, 4)", {-1, 0, -2, 0, -1, -1, 0, -1, 0, 0, 0, 0})});
  const RlDump dump = ReadOrDie({path});
  // Not the 0 within a row, nor where one side alone is 0; a row of nothing else is all padding.
  EXPECT_EQ(dump.Find("mask")->values, (std::vector<double>{1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
  ASSERT_EQ(dump.warnings.size(), 1u);
  EXPECT_NE(dump.warnings[0].find("5 of 12 tokens"), std::string::npos) << dump.warnings[0];
}

TEST(RlDumpMask, WithoutOneAndWithoutPaddingEveryTokenCountsAndAWarningSaysSo) {
  testing::ScratchDir scratch;
  const std::string path = WriteNpz(
      scratch, {Member("train", "(1, 2)", {-1, -2}), Member("rollout", "(1, 2)", {-1, 0})});
  const RlDump dump = ReadOrDie({path});
  EXPECT_EQ(dump.Find("mask"), nullptr);
  ASSERT_EQ(dump.warnings.size(), 1u);
  EXPECT_NE(dump.warnings[0].find("every token counts"), std::string::npos);
}

TEST(RlDumpMask, TheEndOfVerlsAttentionMaskIsTheResponses) {
  testing::ScratchDir scratch;
  const std::string path =
      WriteNpz(scratch, {Member("train", "(2, 2)", {-1, -2, -3, -4}),
                         Member("rollout", "(2, 2)", {-1, -2, -3, -4}),
                         Member("attention_mask", "(2, 3)", {1, 1, 1, 0, 1, 0})});
  EXPECT_EQ(ReadOrDie({path}).Find("mask")->values, (std::vector<double>{1, 1, 1, 0}));
}

TEST(RlDumpMask, TokensOfToolsDoNotCount) {
  testing::ScratchDir scratch;
  const std::string path = WriteNpz(
      scratch,
      {Member("train", "(1, 3)", {-1, -2, -3}), Member("rollout", "(1, 3)", {-1, -2, -3}),
       Member("completion_mask", "(1, 3)", {1, 1, 1}), Member("tool_mask", "(1, 3)", {1, 0, 1})});
  EXPECT_EQ(ReadOrDie({path}).Find("mask")->values, (std::vector<double>{1, 0, 1}));
}

}  // namespace
}  // namespace kcc
