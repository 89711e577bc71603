#include "kcc/trace/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MustOpen;
using testing::ScratchDir;

const std::string kData = "tests/data/import/";

ImportOptions Options() {
  ImportOptions options;
  options.fingerprint = "test-kernel";
  options.vocab_size = 32;
  return options;
}

struct Imported {
  std::string problem;
  ImportReport report;
  TraceInfo info;
  std::vector<Request> requests;
  std::string tokens;  // "request position token logprob [id:logprob …]" a line
};

std::string Describe(const TokenEvidence& token) {
  std::string text = std::to_string(token.request) + " " + std::to_string(token.position) + " " +
                     std::to_string(token.token) + " ";
  text += token.masked ? "masked" : std::to_string(token.logprob).substr(0, 6);
  for (int32_t i = 0; i < token.top_k; ++i) {
    text += " " + std::to_string(token.top_ids[i]) + ":" +
            std::to_string(token.top_logprobs[i]).substr(0, 6);
  }
  return text + "\n";
}

Imported RunImport(const std::string& name, const std::vector<std::string>& inputs,
                   const ImportOptions& options) {
  const ScratchDir scratch;
  Imported imported;
  const Importer* importer = FindImporter(name);
  EXPECT_NE(importer, nullptr) << name;
  auto report = importer->run(inputs, scratch / "out", options);
  if (!report.has_value()) {
    imported.problem = report.error().Format();
    EXPECT_FALSE(std::filesystem::exists(scratch / "out")) << "half-written";
    EXPECT_TRUE(std::filesystem::is_empty(scratch / "")) << "left behind";
    return imported;
  }
  imported.report = *report;
  const TraceReader reader = MustOpen(scratch / "out");
  const auto verified = reader.VerifyPayload();
  EXPECT_TRUE(verified.has_value()) << verified.error().Format();
  imported.info = reader.info();
  imported.requests = reader.requests();
  TokenCursor cursor(reader);
  while (const TokenEvidence* token = cursor.Next().value()) imported.tokens += Describe(*token);
  return imported;
}

// The sample with one text replaced, imported.
Imported ImportEdited(const std::string& name, const std::string& file, const std::string& from,
                      const std::string& to, const ImportOptions& options) {
  std::string text = ReadFile(kData + file, size_t{1} << 24).value();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const ScratchDir scratch;
  const std::string path = scratch / "edited.jsonl";
  EXPECT_TRUE(WriteFileAtomically(path, text).has_value());
  return RunImport(name, {path}, options);
}

TEST(ImportTest, TheTableNamesEveryImporterOnce) {
  std::set<std::string_view> names;
  for (const Importer& importer : Importers()) {
    EXPECT_TRUE(names.insert(importer.name).second);
    EXPECT_FALSE(importer.reads.empty());
  }
  EXPECT_EQ(names.size(), 9u);
  EXPECT_EQ(FindImporter("nothing"), nullptr);
}

TEST(ImportVllmTest, PromptLogprobs) {
  const Imported imported = RunImport("vllm", {kData + "vllm/completions_prompt.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens,
            "0 1 5 -0.500 5:-0.500 6:-1.500\n"
            "0 2 9 -4.000 2:-0.250 3:-2.000\n"
            "0 3 7 -0.125 7:-0.125 8:-3.000\n");
  EXPECT_EQ(imported.info.path, TracePath::kPrefill);
  EXPECT_EQ(imported.info.semantics, LogprobSemantics::kRaw);
  EXPECT_EQ(imported.info.temperature, 1.0) << "greedy";
  EXPECT_EQ(imported.requests[0].id, "req-0");
  EXPECT_EQ(imported.requests[0].Number("prompt_tokens"), 2);
  EXPECT_EQ(imported.info.kernel_fingerprint, "test-kernel");
  EXPECT_EQ(*imported.requests[0].Text(kFilledFingerprintField), "test-kernel");
  EXPECT_EQ(imported.requests[0].Text("kernel_fingerprint"), nullptr);
}

TEST(ImportVllmTest, OutputLogprobs) {
  ImportOptions options = Options();
  options.fingerprint.clear();
  const Imported imported = RunImport("vllm", {kData + "vllm/completions_output.jsonl"}, options);
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens,
            "0 2 9 -0.500 9:-0.500 4:-1.250\n"
            "0 3 7 -3.500 2:-0.250 8:-2.500\n"
            "0 4 3 -0.750 3:-0.750 5:-1.500\n");
  EXPECT_EQ(imported.info.kernel_fingerprint, "vllm-0.18.0-tp2-1a2b3c4d");
  EXPECT_EQ(imported.info.path, TracePath::kDecode);
  EXPECT_EQ(imported.info.sampled_by, SampledBy::kInfer);
  EXPECT_EQ(imported.info.temperature, 1) << "raw log-probs are at 1";
  EXPECT_EQ(imported.info.sampling_temperature, 0.7);
}

TEST(ImportVllmTest, ContentListsMayHaveLostTheirLastAlternative) {
  const Imported imported = RunImport("vllm", {kData + "vllm/generate.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens,
            "0 2 9 -0.500 9:-0.500\n"
            "0 3 7 -2.500 2:-0.250\n")
      << "token 7 was sampled and is last, so the true second best is unknown";
}

TEST(ImportVllmTest, FaultsAreNamed) {
  const std::string prompt = "vllm/completions_prompt.jsonl";
  const std::string output = "vllm/completions_output.jsonl";
  EXPECT_THAT(ImportEdited("vllm", prompt, "\"prompt_logprobs\": [null, ", "\"prompt_logprobs\": [",
                           Options())
                  .problem,
              HasSubstr("prompt_logprobs[0] is not null: the list is shifted by one"));
  EXPECT_THAT(ImportEdited("vllm", prompt, "\"prompt_token_ids\": [1, 5, 9, 7]",
                           "\"prompt_token_ids\": [0, 1, 5, 9]", Options())
                  .problem,
              HasSubstr("shifted by one"));
  EXPECT_THAT(ImportEdited("vllm", output, "\"token_logprobs\": [-0.5,",
                           "\"token_logprobs\": [-9999.0,", Options())
                  .problem,
              HasSubstr("stand-in such as -9999.0"));
  ImportOptions masking = Options();
  masking.mask_missing = true;
  const Imported masked = ImportEdited("vllm", output, "\"token_logprobs\": [-0.5,",
                                       "\"token_logprobs\": [-9999.0,", masking);
  EXPECT_THAT(masked.tokens, HasSubstr("0 2 9 masked"));
  EXPECT_EQ(masked.report.logprobs_missing, 1);
  EXPECT_THAT(ImportEdited("vllm", output, "[\"token_id:9\", \"token_id:7\", \"token_id:3\"]",
                           "[\"token_id:7\", \"token_id:3\", \"token_id:1\"]", Options())
                  .problem,
              HasSubstr("shifted by one"));
  EXPECT_THAT(ImportEdited("vllm", output, "\"token_logprobs\": [-0.5,",
                           "\"token_logprobs\": [17.5,", Options())
                  .problem,
              HasSubstr("are these logits"));
  EXPECT_THAT(
      ImportEdited("vllm", output, "{\"id\": \"req-0\"", "data: {\"id\": \"req-0\"", Options())
          .problem,
      HasSubstr("streamed"));
  EXPECT_THAT(ImportEdited("vllm", output, "\"token_ids\": [9, 7, 3]", "\"token_ids\": [9, 7, 40]",
                           Options())
                  .problem,
              HasSubstr("do not stand at their tokens"));
  ImportOptions no_vocab = Options();
  no_vocab.vocab_size = 0;
  EXPECT_THAT(RunImport("vllm", {kData + output}, no_vocab).problem, HasSubstr("--vocab-size"));
  ImportOptions other = Options();
  other.temperature = 1.0;
  EXPECT_THAT(RunImport("vllm", {kData + output}, other).problem,
              HasSubstr("made at temperature 0.7, but the import was told 1"));
}

TEST(ImportVllmTest, FilesOfDifferentMeaningDoNotMix) {
  EXPECT_THAT(
      RunImport("vllm",
                {kData + "vllm/completions_prompt.jsonl", kData + "vllm/completions_output.jsonl"},
                Options())
          .problem,
      HasSubstr("mixed evidence"));
  std::string line = ReadFile(kData + "vllm/completions_output.jsonl", 1 << 20).value();
  std::string second = line;
  second.replace(second.find("req-0"), 5, "req-1");
  second.replace(second.find("0.7"), 3, "0.9");
  const ScratchDir scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "two.jsonl", line + second).has_value());
  EXPECT_THAT(RunImport("vllm", {scratch / "two.jsonl"}, Options()).problem,
              HasSubstr("mixed temperatures"));
}

TEST(ImportSglangTest, InputStartsWhereItWasAskedTo) {
  const Imported imported = RunImport("sglang", {kData + "sglang/generate_input.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens,
            "0 2 9 -4.000 2:-0.250 3:-2.000\n"
            "0 3 7 -0.125 7:-0.125 8:-3.000\n");
  EXPECT_EQ(imported.info.semantics, LogprobSemantics::kRaw) << "input ignores the temperature";
  EXPECT_EQ(imported.requests[0].Number("latency_ms"), 125);
}

TEST(ImportSglangTest, OutputIsScaledByTheTemperature) {
  const Imported imported =
      RunImport("sglang", {kData + "sglang/generate_output.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens,
            "0 2 9 -0.500 9:-0.500 4:-1.250\n"
            "0 3 7 -2.500 2:-0.250 8:-1.750\n");
  EXPECT_EQ(imported.info.semantics, LogprobSemantics::kTemperatureScaled);
  EXPECT_EQ(imported.info.temperature, 0.7);
  EXPECT_EQ(imported.info.sampling_temperature, 0.7);
}

TEST(ImportSglangTest, FaultsAreNamed) {
  const std::string input = "sglang/generate_input.jsonl";
  const std::string output = "sglang/generate_output.jsonl";
  EXPECT_THAT(ImportEdited("sglang", input, "\"input_token_logprobs\": [[null, 5, null], ",
                           "\"input_token_logprobs\": [", Options())
                  .problem,
              HasSubstr("shifted by one"));
  EXPECT_THAT(ImportEdited("sglang", input, "\"logprob_start_len\": 1", "\"logprob_start_len\": 0",
                           Options())
                  .problem,
              HasSubstr("it must have 4"));
  EXPECT_THAT(ImportEdited("sglang", input, "\"input_ids\": [1, 5, 9, 7]",
                           "\"input_ids\": [0, 1, 5, 9]", Options())
                  .problem,
              HasSubstr("shifted by one"));
  EXPECT_THAT(ImportEdited("sglang", output, "[-2.5, 7, null]",
                           "[-3.4028234663852886e+38, 7, null]", Options())
                  .problem,
              HasSubstr("there is no log-prob"));
  EXPECT_THAT(ImportEdited("sglang", output, ", \"temperature\": 0.7", "", Options()).problem,
              HasSubstr("give --temperature"));
  EXPECT_THAT(RunImport("sglang", {kData + input, kData + output}, Options()).problem,
              HasSubstr("mixed evidence"));
}

TEST(ImportLlamacppTest, BothRoutesGiveTheSame) {
  const std::string expected =
      "0 2 9 -0.500 9:-0.500 4:-1.250\n"
      "0 3 7 -3.500 2:-0.250 8:-2.500\n";
  const Imported completion =
      RunImport("llamacpp", {kData + "llamacpp/completion.jsonl"}, Options());
  EXPECT_EQ(completion.problem, "");
  EXPECT_EQ(completion.tokens, expected);
  EXPECT_EQ(completion.info.semantics, LogprobSemantics::kRaw);
  const Imported chat = RunImport("llamacpp", {kData + "llamacpp/chat.jsonl"}, Options());
  EXPECT_EQ(chat.problem, "");
  EXPECT_EQ(chat.tokens, expected);
}

TEST(ImportLlamacppTest, ProbabilitiesAfterSamplingAreProcessed) {
  const Imported imported =
      RunImport("llamacpp", {kData + "llamacpp/post_sampling.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens, "0 2 9 -0.287 9:-0.287 4:-1.386\n");
  EXPECT_EQ(imported.info.semantics, LogprobSemantics::kProcessed);
  std::string line = ReadFile(kData + "llamacpp/completion.jsonl", 1 << 20).value();
  line.replace(line.find("req-0"), 5, "req-1");
  const ScratchDir scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "raw.jsonl", line).has_value());
  EXPECT_THAT(RunImport("llamacpp", {kData + "llamacpp/post_sampling.jsonl", scratch / "raw.jsonl"},
                        Options())
                  .problem,
              HasSubstr("mixed semantics"));
}

TEST(ImportTrtllmTest, ContextLogitsPredictTheNextToken) {
  const Imported imported = RunImport("trtllm", {kData + "trtllm/context_logits.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.info.evidence, EvidenceLevel::kLogits);
  EXPECT_THAT(imported.tokens, HasSubstr("0 1 5 "));
  EXPECT_THAT(imported.tokens, HasSubstr("0 3 7 "));
  EXPECT_EQ(imported.report.tokens, 3);
  EXPECT_THAT(ImportEdited("trtllm", "trtllm/context_logits.jsonl", "\"prompt\": [1, 5, 9, 7]",
                           "\"prompt\": [1, 5, 9]", Options())
                  .problem,
              HasSubstr("shifted by one"));
}

TEST(ImportTrtllmTest, OutputNeedsItsSemanticsSaid) {
  const std::string file = kData + "trtllm/completions.jsonl";
  EXPECT_THAT(RunImport("trtllm", {file}, Options()).problem, HasSubstr("--semantics"));
  ImportOptions options = Options();
  options.semantics = LogprobSemantics::kRaw;
  const Imported imported = RunImport("trtllm", {file}, options);
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens, "0 2 9 -0.500\n0 3 7 -2.500\n");
  EXPECT_EQ(imported.report.warnings.size(), 1u);
}

TEST(ImportTgiTest, OutputIsProcessedPrefillIsRaw) {
  const std::string file = kData + "tgi/generate.jsonl";
  const Imported output = RunImport("tgi", {file}, Options());
  ASSERT_EQ(output.problem, "");
  EXPECT_EQ(output.tokens,
            "0 3 9 -0.500 9:-0.500 4:-1.250\n"
            "0 4 7 -2.500 2:-0.250 8:-1.750\n");
  EXPECT_EQ(output.info.semantics, LogprobSemantics::kProcessed);
  ImportOptions options = Options();
  options.prompt = true;
  const Imported prefill = RunImport("tgi", {file}, options);
  ASSERT_EQ(prefill.problem, "");
  EXPECT_EQ(prefill.tokens, "0 1 5 -0.500\n0 2 6 -1.500\n");
  EXPECT_EQ(prefill.info.semantics, LogprobSemantics::kRaw);
  EXPECT_THAT(
      ImportEdited("tgi", "tgi/generate.jsonl", "\"logprob\": null", "\"logprob\": -1.0", options)
          .problem,
      HasSubstr("shifted by one"));
}

TEST(ImportPrimeRlTest, OneExportGivesBothSidesWhichPair) {
  ImportOptions options = Options();
  EXPECT_THAT(RunImport("prime-rl", {kData + "prime_rl/step_3"}, options).problem,
              HasSubstr("--side"));
  options.side = ImportSide::kTrain;
  const Imported train = RunImport("prime-rl", {kData + "prime_rl/step_3"}, options);
  ASSERT_EQ(train.problem, "");
  EXPECT_THAT(train.tokens, HasSubstr("0 0 1 masked\n0 1 5 masked\n0 2 9 -0.500\n0 3 7 -2.375\n"));
  EXPECT_EQ(train.info.temperature, 0.9);
  EXPECT_EQ(train.info.semantics, LogprobSemantics::kTemperatureScaled);
  EXPECT_EQ(*train.requests[1].Text("env_name"), "code");
  EXPECT_EQ(train.requests[0].id, "step_3-rank_0-1");
  options.side = ImportSide::kInfer;
  const Imported infer = RunImport("prime-rl", {kData + "prime_rl/step_3"}, options);
  EXPECT_THAT(infer.tokens, HasSubstr("0 3 7 -2.500"));

  const ScratchDir scratch;
  for (const auto side : {ImportSide::kTrain, ImportSide::kInfer}) {
    options.side = side;
    const std::vector<std::string> inputs = {kData + "prime_rl/step_3"};
    ASSERT_TRUE(
        FindImporter("prime-rl")
            ->run(inputs, scratch / (side == ImportSide::kTrain ? "train" : "infer"), options)
            .has_value());
  }
  const auto pair = PairedTraces::Make(MustOpen(scratch / "train"), MustOpen(scratch / "infer"));
  ASSERT_TRUE(pair.has_value()) << pair.error().Format();
  EXPECT_EQ(pair->token_count(), 5);
}

TEST(ImportPrimeRlTest, ATrainerOffByOneIsNoticed) {
  std::string infer = "[0.0";
  std::string train = "[null,-1.0";
  std::string ids = "[1";
  std::string mask = "[false";
  std::vector<double> values;
  for (int i = 1; i < 40; ++i) values.push_back(-0.1 - 2.0 * ((i * 7) % 13) / 13.0);
  for (size_t i = 0; i < values.size(); ++i) {
    infer += "," + std::to_string(values[i]);
    if (i + 1 < values.size()) train += "," + std::to_string(values[i]);  // one later
    ids += ",5";
    mask += ",true";
  }
  const std::string line = "{\"schema_version\":1,\"token_ids\":" + ids +
                           "],\"loss_mask\":" + mask +
                           "],\"temperature\":1.0,\"inference_logprobs\":" + infer +
                           "],\"trainer_logprobs\":" + train + "]}\n";
  const ScratchDir scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch / "rank_0.jsonl", line).has_value());
  ImportOptions options = Options();
  options.side = ImportSide::kTrain;
  EXPECT_THAT(RunImport("prime-rl", {scratch / "rank_0.jsonl"}, options).problem,
              HasSubstr("trainer_logprobs are shifted by one"));
}

TEST(ImportVexactTest, ReadsATorchDump) {
  const Imported imported = RunImport("vexact", {kData + "vexact"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.info.evidence, EvidenceLevel::kLogits);
  EXPECT_EQ(imported.report.requests, 2);
  EXPECT_EQ(imported.report.tokens, 4);
  EXPECT_THAT(imported.tokens, HasSubstr("0 2 9 "));
  EXPECT_THAT(imported.tokens, HasSubstr("1 2 4 "));
  EXPECT_EQ(imported.requests[0].Number("latency_ms"), 500);
}

TEST(ImportVexactTest, ADumpThatDoesNotAddUpIsNamed) {
  const ScratchDir scratch;
  std::filesystem::copy(kData + "vexact", scratch / "dump");
  ASSERT_TRUE(WriteFileAtomically(scratch / "dump/metadata.json",
                                  R"({"req-0":{"prompt_len":3,"response_len":2},)"
                                  R"("req-1":{"prompt_len":2,"response_len":1}})")
                  .has_value());
  EXPECT_THAT(RunImport("vexact", {scratch / "dump"}, Options()).problem,
              HasSubstr("has 3 rows of logits for 2 generated tokens"));
}

TEST(ImportLlamaKldTest, RowsPredictTheTokenAfterThem) {
  ImportOptions options = Options();
  options.vocab_size = 0;
  const Imported imported = RunImport("llama-kld", {kData + "llama_kld/base.kld"}, options);
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.info.vocab_size, 31);
  EXPECT_EQ(imported.report.requests, 2);
  EXPECT_EQ(imported.report.tokens, 6) << "three rows of a chunk of eight";
  EXPECT_EQ(imported.requests[1].id, "chunk-000001");
  EXPECT_EQ(imported.requests[1].Number("prompt_tokens"), 5);
  EXPECT_THAT(imported.tokens, HasSubstr("0 5 "));
  EXPECT_THAT(imported.info.notes.at("quantisation"), HasSubstr("5.5e-4"));
}

TEST(ImportNpyTest, FlatArrays) {
  const Imported imported =
      RunImport("npy", {kData + "npy/flat.npz", kData + "npy/requests.jsonl"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.info.evidence, EvidenceLevel::kLogits);
  EXPECT_EQ(imported.report.tokens, 5);
  EXPECT_THAT(imported.tokens, HasSubstr("0 4 3 masked"));
  EXPECT_THAT(imported.tokens, HasSubstr("1 2 4 "));
  EXPECT_EQ(imported.requests[0].id, "req-0");
}

TEST(ImportNpyTest, SingleFilesAreNamedByTheirStem) {
  const Imported imported =
      RunImport("npy", {kData + "npy/token.npy", kData + "npy/logits.npy"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.report.tokens, 5);
  EXPECT_THAT(imported.tokens, HasSubstr("0 4 2 "));
}

TEST(ImportNpyTest, PaddedBatches) {
  const Imported imported = RunImport("npy", {kData + "npy/batch.npz"}, Options());
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.tokens, "0 1 5 -0.500\n0 2 9 -1.500\n1 1 6 -0.250\n");
}

TEST(ImportNpyTest, NextTokenLogitsAreMovedToTheTokenTheyPredict) {
  ImportOptions options = Options();
  options.next_token_logits = true;
  const Imported imported =
      RunImport("npy", {kData + "npy/token.npy", kData + "npy/logits.npy"}, options);
  ASSERT_EQ(imported.problem, "");
  EXPECT_EQ(imported.report.tokens, 4) << "nothing predicts the first token";
  EXPECT_THAT(imported.tokens, HasSubstr("0 1 7 "));
}

TEST(ImportNpyTest, FaultsAreNamed) {
  EXPECT_THAT(RunImport("npy", {kData + "npy/compressed.npz"}, Options()).problem,
              HasSubstr("np.savez instead of np.savez_compressed"));
  EXPECT_THAT(RunImport("npy", {kData + "npy/logits.npy"}, Options()).problem,
              HasSubstr("'token' is missing"));
  ImportOptions options = Options();
  options.vocab_size = 40;
  EXPECT_THAT(RunImport("npy", {kData + "npy/flat.npz"}, options).problem,
              HasSubstr("32 entries, the vocabulary 40"));
  EXPECT_THAT(RunImport("npy", {}, Options()).problem, HasSubstr("give an .npz file"));
}

}  // namespace
}  // namespace kcc
