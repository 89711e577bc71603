// Files that claim more than they hold, contain themselves, or name tokens that cannot exist: each
// is an error that names the fault, in time and memory of the order of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>

#include "kcc/base/file.h"
#include "kcc/format/archive_test_data.h"
#include "kcc/format/npy.h"
#include "kcc/format/torch_file.h"
#include "kcc/trace/import.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace kcc::testing;  // NOLINT: archives are spelt out below

const std::string kData = "tests/data/import/";

ImportOptions Options() {
  ImportOptions options;
  options.fingerprint = "test-kernel";
  options.vocab_size = 32;
  options.side = ImportSide::kInfer;
  return options;
}

void Put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

std::string Problem(const std::string& importer, const std::vector<std::string>& inputs,
                    const ImportOptions& options = Options()) {
  const ScratchDir scratch;
  const auto report = FindImporter(importer)->run(inputs, scratch / "out", options);
  EXPECT_TRUE(report.has_value() || std::filesystem::is_empty(scratch / "")) << "left behind";
  return report.has_value() ? "" : report.error().Format();
}

std::string NpzProblem(const Members& members) {
  const ScratchDir scratch;
  Put(scratch / "a.npz", StoredZip(members));
  return Problem("npy", {scratch / "a.npz"});
}

double SecondsOf(const std::function<void()>& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

const std::string kTwoTokens = NpyBytes("<i4", "(2,)", RawOf<int32_t>({5, 6}));
const std::string kTwoLogprobs = NpyBytes("<f4", "(2,)", RawOf<float>({-0.5f, -1.0f}));

TEST(HostileNpy, LogitsWithoutColumns) {
  EXPECT_THAT(NpzProblem({{"token.npy", kTwoTokens},
                          {"logprob.npy", kTwoLogprobs},
                          {"logits.npy", NpyBytes("<f4", "(2, 0)", "")}}),
              HasSubstr("'logits' has rows of no entries"));
}

TEST(HostileNpy, ARowThatNoWindowHolds) {
  const ScratchDir scratch;
  Put(scratch / "token.npy", NpyBytes("<i4", "(1,)", RawOf<int32_t>({5})));
  const int64_t width = (int64_t{1} << 23) + 8;
  const std::string head = NpyBytes("<f8", "(1, " + std::to_string(width) + ")", "");
  Put(scratch / "logits.npy", head);
  ASSERT_EQ(
      ::truncate((scratch / "logits.npy").c_str(), static_cast<off_t>(head.size()) + width * 8), 0);
  EXPECT_THAT(Problem("npy", {scratch / "token.npy", scratch / "logits.npy"}),
              HasSubstr("a row of 'logits' takes 67108928 bytes"));
}

TEST(HostileNpy, RequestsThatTheFileHasNoRowsFor) {
  std::string problem;
  EXPECT_LT(SecondsOf([&] {
              problem = NpzProblem(
                  {{"token.npy", kTwoTokens},
                   {"logprob.npy", kTwoLogprobs},
                   {"request.npy", NpyBytes("<i4", "(2,)", RawOf<int32_t>({0, 99999999}))}});
            }),
            1.0);
  EXPECT_THAT(problem, AllOf(HasSubstr("'request' speaks of request 99999999"),
                             HasSubstr("there are 2 elements")));
  EXPECT_THAT(NpzProblem({{"token.npy", NpyBytes("<i4", "(99999999, 0)", "")},
                          {"logits.npy", NpyBytes("<f4", "(99999999, 0, 32)", "")}}),
              HasSubstr("there are 0 elements"));
}

TEST(HostileNpy, ManyMembersTakeTimeInProportion) {
  Members members;
  for (int i = 0; i < 120000; ++i) {
    members.emplace_back("a" + std::to_string(i) + ".npy", NpyBytes("<f4", "(0,)", ""));
  }
  const ScratchDir scratch;
  Put(scratch / "a.npz", StoredZip(members));
  EXPECT_LT(SecondsOf([&] {
              const auto arrays = NpyArrays::Open({scratch / "a.npz"});
              ASSERT_TRUE(arrays.has_value()) << arrays.error().Format();
              EXPECT_EQ(arrays->arrays.size(), members.size());
            }),
            5.0);
}

TEST(HostileNpy, TheSameNameTwiceIsStillFound) {
  EXPECT_THAT(NpzProblem({{"token.npy", kTwoTokens}, {"x/token.npy", kTwoTokens}}),
              HasSubstr("'token' is given twice"));
}

// ---- Torch files -------------------------------------------------------------------------------

std::string VexactProblem(const std::string& logits, const std::string& ids,
                          const std::string& metadata, const std::string& logprobs = "") {
  const ScratchDir scratch;
  Put(scratch / "all_logits.pt", logits);
  Put(scratch / "all_token_ids_list.json", ids);
  Put(scratch / "metadata.json", metadata);
  if (!logprobs.empty()) Put(scratch / "all_logprobs.pt", logprobs);
  ImportOptions options = Options();
  options.vocab_size = 8;
  return Problem("vexact", {scratch / ""}, options);
}

const std::string kRow = RawOf<float>({1, 2, 3, 4, 5, 6, 7, 8});
constexpr char kTwoIds[] = R"({"a": [1, 2]})";
constexpr char kOneOutput[] = R"({"a": {"prompt_len": 1, "response_len": 1}})";

TEST(HostileTorch, ATensorThatClaimsMoreRowsThanTheFileHolds) {
  EXPECT_THAT(
      VexactProblem(TorchBytes("}(" + PickleText("a") + PickleTensor("0", {1, 8}) + "u", {kRow}),
                    kTwoIds, kOneOutput),
      "");
  EXPECT_THAT(VexactProblem(TorchBytes("}(" + PickleText("a") +
                                           PickleTensor("0", {int64_t{1} << 40, 8}) + "u",
                                       {kRow}),
                            kTwoIds, kOneOutput),
              HasSubstr("has 1099511627776 rows of logits for 1 generated tokens"));
}

TEST(HostileTorch, OneTensorNamedAgainAndAgain) {
  std::string ids = "1";
  std::string list = "](" + PickleTensor("0", {1, 8}) + "q\x01";
  const int count = 50000;
  for (int i = 0; i < count; ++i) ids += ",2";
  for (int i = 1; i < count; ++i) list += "h\x01";
  const std::string metadata =
      R"({"a": {"prompt_len": 1, "response_len": )" + std::to_string(count) + "}}";
  EXPECT_THAT(VexactProblem(TorchBytes("}(" + PickleText("a") + list + "eu", {kRow}),
                            R"({"a": [)" + ids + "]}", metadata),
              HasSubstr("claim more bytes than the file has"));
  // Lists of nothing, shared by many requests.
  std::string empty = "](";
  empty += PickleTensor("0", {0, 8}) + "q\x01";
  for (int i = 1; i < count; ++i) empty += "h\x01";
  EXPECT_THAT(
      VexactProblem(TorchBytes("}(" + PickleText("a") + empty + "eu", {kRow}), kTwoIds, kOneOutput),
      HasSubstr("has 50000 rows of logits for 1 generated tokens"));
}

TEST(HostileTorch, ManyRequestsTakeTimeInProportion) {
  std::string ids = "{", metadata = "{", logits = "}(", logprobs = "}(";
  const int count = 60000;
  logits += PickleText("r") + PickleTensor("0", {0, 8}) + "q\x01";
  ids += R"("r": [1])";
  metadata += R"("r": {"prompt_len": 1, "response_len": 0})";
  for (int i = 0; i < count; ++i) {
    const std::string id = "r" + std::to_string(i);
    ids += ",\"" + id + "\": [1]";
    metadata += ",\"" + id + R"(": {"prompt_len": 1, "response_len": 0})";
    logits += PickleText(id) + "h\x01";
    logprobs += PickleText(id) + "]";
  }
  std::string problem;
  EXPECT_LT(SecondsOf([&] {
              problem = VexactProblem(TorchBytes(logits + "u", {kRow}), ids + "}", metadata + "}",
                                      TorchBytes(logprobs + PickleText("r") + "]u", {}));
            }),
            5.0);
  EXPECT_THAT(problem, HasSubstr("no token was written"));
}

TEST(HostileTorch, AStorageKeyIsNotCopiedOverAndOver) {
  const std::string key(1 << 20, 'k');
  std::string pickle = "ctorch\nFloatStorage\nq\x01" + PickleText(key) + "q\x02(";
  for (int i = 0; i < 10000; ++i) pickle += "(Nh\x01h\x02NK\x08tQ";
  const auto parsed = ParseTorchPickle(pickle + "t.");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_THAT(parsed.error().message(), HasSubstr("a storage's key has 1048576 characters"));
}

// ---- Token ids ---------------------------------------------------------------------------------

struct IdCase {
  const char* importer;
  const char* file;
  const char* from;
  const char* to;
  const char* value;
};

// The sample with one text replaced.
std::string EditedProblem(const IdCase& c) {
  std::string text = ReadFile(kData + c.file, size_t{1} << 24).value();
  const size_t at = text.find(c.from);
  if (at == std::string::npos) return "the sample has no " + std::string(c.from);
  text.replace(at, std::strlen(c.from), c.to);
  const ScratchDir scratch;
  Put(scratch / "rank_0.jsonl", text);
  ImportOptions options = Options();
  if (std::string_view(c.importer) == "trtllm") options.semantics = LogprobSemantics::kRaw;
  return Problem(c.importer, {scratch / "rank_0.jsonl"}, options);
}

class BadTokenId : public ::testing::TestWithParam<IdCase> {};

TEST_P(BadTokenId, IsAnErrorThatNamesFileLineAndValue) {
  const std::string problem = EditedProblem(GetParam());
  EXPECT_THAT(problem, HasSubstr("rank_0.jsonl:1"));
  EXPECT_THAT(problem, HasSubstr(std::string("is ") + GetParam().value + ", which is no token id"));
}

// 4294967301 is 5 modulo 2^32.
INSTANTIATE_TEST_SUITE_P(
    Importers, BadTokenId,
    ::testing::Values(
        IdCase{"vllm", "vllm/completions_prompt.jsonl", "\"6\": {", "\"4294967301\": {",
               "4294967301"},
        IdCase{"vllm", "vllm/completions_prompt.jsonl", "\"6\": {", "\"-6\": {", "-6"},
        IdCase{"vllm", "vllm/completions_prompt.jsonl", "\"prompt_token_ids\": [1, 5, 9, 7]",
               "\"prompt_token_ids\": [1, 5.5, 9, 7]", "5.5"},
        IdCase{"vllm", "vllm/completions_output.jsonl", "\"token_id:4\"", "\"token_id:4294967300\"",
               "4294967300"},
        IdCase{"vllm", "vllm/completions_output.jsonl", "\"token_id:4\"", "\"token_id:4.5\"",
               "4.5"},
        IdCase{"vllm", "vllm/completions_output.jsonl", "\"token_ids\": [9, 7, 3]",
               "\"token_ids\": [9, 7, 3.25]", "3.25"},
        IdCase{"vllm", "vllm/completions_output.jsonl", "\"token_ids\": [9, 7, 3]",
               "\"token_ids\": [9, 7, 18446744073709551615]", "18446744073709551615"},
        IdCase{"sglang", "sglang/generate_output.jsonl", "[-1.25, 4, null]",
               "[-1.25, 4294967300, null]", "4294967300"},
        IdCase{"sglang", "sglang/generate_output.jsonl", "[-1.25, 4, null]", "[-1.25, 4.5, null]",
               "4.5"},
        IdCase{"llamacpp", "llamacpp/completion.jsonl", "\"id\": 4,", "\"id\": 4294967300,",
               "4294967300"},
        IdCase{"llamacpp", "llamacpp/completion.jsonl", "\"id\": 4,", "\"id\": 4.5,", "4.5"},
        IdCase{"tgi", "tgi/generate.jsonl", "\"id\": 4,", "\"id\": 4294967300,", "4294967300"},
        IdCase{"tgi", "tgi/generate.jsonl", "\"id\": 4,", "\"id\": -4,", "-4"},
        IdCase{"trtllm", "trtllm/completions.jsonl", "\"token_ids\": [9, 7]",
               "\"token_ids\": [9, 4294967303]", "4294967303"},
        IdCase{"prime-rl", "prime_rl/step_3/rank_0.jsonl", "\"token_ids\": [1, 5,",
               "\"token_ids\": [1, 5.5,", "5.5"},
        IdCase{"prime-rl", "prime_rl/step_3/rank_0.jsonl", "\"token_ids\": [1, 5,",
               "\"token_ids\": [1, 4294967301,", "4294967301"}));

TEST(BadTokenIdOfVexact, IsAnErrorThatNamesFileRequestAndValue) {
  const std::string logits =
      TorchBytes("}(" + PickleText("a") + PickleTensor("0", {1, 8}) + "u", {kRow});
  for (const std::string value : {"4294967298", "2.5", "-2"}) {
    EXPECT_THAT(VexactProblem(logits, "{\"a\": [1, " + value + "]}", kOneOutput),
                AllOf(HasSubstr("all_token_ids_list.json"), HasSubstr("request 'a'"),
                      HasSubstr("entry 1"), HasSubstr("is " + value + ", which is no token id")));
  }
}

TEST(BadTokenIdOfNpy, IsAnErrorThatNamesFileElementAndValue) {
  const auto top = [](double id) {
    return NpzProblem({{"token.npy", kTwoTokens},
                       {"top_ids.npy", NpyBytes("<f8", "(2, 2)", RawOf<double>({5, 4, 6, id}))},
                       {"top_logprobs.npy",
                        NpyBytes("<f4", "(2, 2)", RawOf<float>({-0.5f, -1.0f, -0.5f, -1.0f}))}});
  };
  EXPECT_EQ(top(7), "");
  EXPECT_EQ(top(-1), "") << "a shorter list";
  const std::pair<double, const char*> cases[] = {
      {7.5, "7.5"}, {4294967303.0, "4294967303"}, {-7, "-7"}, {NAN, "nan"}, {-0.5, "-0.5"}};
  for (const auto& [id, text] : cases) {
    EXPECT_THAT(top(id), AllOf(HasSubstr("a.npz"), HasSubstr("element 1 of 'top_ids', entry 1"),
                               HasSubstr(std::string("is ") + text + ", which is no token id")));
  }
  const auto token = [](double id) {
    return NpzProblem({{"token.npy", NpyBytes("<f8", "(2,)", RawOf<double>({5, id}))},
                       {"logprob.npy", kTwoLogprobs}});
  };
  EXPECT_THAT(token(5.5), HasSubstr("element 1 of 'token' is 5.5, which is no token id"));
  EXPECT_THAT(token(4294967301.0), HasSubstr("is 4294967301, which is no token id"));
}

TEST(BadPosition, OfPrimeRlIsNamed) {
  const std::string line =
      R"({"schema_version":1,"token_ids":[1,5],"loss_mask":[false,true],"temperature":1.0,)"
      R"("inference_logprobs":[0.0,-1.0],"trainer_logprobs":[0.0,-1.0],"position_ids":[0,POSITION]})";
  for (const std::string value : {"null", "1.5", "-1", "1e300"}) {
    std::string text = line;
    text.replace(text.find("POSITION"), 8, value);
    const ScratchDir scratch;
    Put(scratch / "rank_0.jsonl", text + "\n");
    EXPECT_THAT(Problem("prime-rl", {scratch / "rank_0.jsonl"}),
                AllOf(HasSubstr("rank_0.jsonl:1"), HasSubstr("entry 1 of 'position_ids'")))
        << value;
  }
}

// ---- What would be written but not read again --------------------------------------------------

TEST(HostileFields, ALatencyThatOverflowsIsAnError) {
  EXPECT_THAT(EditedProblem({"sglang", "sglang/generate_output.jsonl", "\"e2e_latency\": 0.25",
                             "\"e2e_latency\": 1e306", ""}),
              HasSubstr("'latency_ms'"));
}

TEST(HostileFields, AVocabularyBeyondTheFormatIsAnError) {
  ImportOptions options = Options();
  options.vocab_size = int64_t{1} << 40;
  EXPECT_THAT(Problem("sglang", {kData + "sglang/generate_output.jsonl"}, options),
              HasSubstr("the vocabulary"));
}

}  // namespace
}  // namespace kcc
