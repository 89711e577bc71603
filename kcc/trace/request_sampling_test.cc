// What importers record of sampling: what the request says, and nothing that nobody said.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <tuple>

#include "kcc/trace/import.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::ScratchDir;

constexpr char kVllm[] =
    R"({"id":"c","choices":[{"index":0,"token_ids":[7,8],"prompt_token_ids":[1,2],"logprobs":)"
    R"({"tokens":["token_id:7","token_id:8"],"token_logprobs":[-0.5,-0.5]}}]})";
constexpr char kTgi[] = R"({"details":{"prefill":[{"id":1,"logprob":null},{"id":2,"logprob":-1}],)"
                        R"("tokens":[{"id":7,"logprob":-0.5}]}})";

ImportOptions Options() {
  ImportOptions options;
  options.fingerprint = "test";
  options.vocab_size = 100;
  return options;
}

std::string Wrapped(const std::string& body, const std::string& response) {
  return R"({"id":"a","request":)" + body + R"(,"response":)" + response + "}";
}

TraceInfo Import(const std::string& name, const std::string& line, const ImportOptions& options,
                 size_t* warnings = nullptr) {
  const ScratchDir dir;
  std::ofstream(dir / "responses.jsonl") << line << "\n";
  const std::vector<std::string> inputs = {dir / "responses.jsonl"};
  const auto report = FindImporter(name)->run(inputs, dir / "trace", options);
  EXPECT_TRUE(report.has_value()) << line << report.error().Format();
  if (!report) return {};
  if (warnings != nullptr) *warnings = report->warnings.size();
  return testing::MustOpen(dir / "trace").info();
}

TEST(RequestSamplingTest, ATemperatureThatNobodySaysIsNotOne) {
  size_t warnings = 0;
  for (const std::string& line : {std::string(kVllm), Wrapped(R"({"prompt":[1,2]})", kVllm)}) {
    const TraceInfo info = Import("vllm", line, Options(), &warnings);
    EXPECT_EQ(info.sampling_temperature, std::nullopt) << line;
    EXPECT_EQ(info.temperature, 1) << "raw log-probs are at 1";
    EXPECT_EQ(warnings, 1u) << "which says what to pass";
  }
  ImportOptions told = Options();
  told.temperature = 0.7;
  EXPECT_EQ(Import("vllm", kVllm, told, &warnings).sampling_temperature, 0.7);
  EXPECT_EQ(warnings, 0u);
}

TEST(RequestSamplingTest, WhatIsNotKnownToBeNeutralAlters) {
  const auto altered = [](const std::string& more) {
    const std::string body = R"({"prompt":[1,2],"temperature":1)" + more + "}";
    return Import("vllm", Wrapped(body, kVllm), Options()).sampling_altered;
  };
  for (const char* neutral :
       {"", R"(,"top_p":1,"top_k":-1,"min_p":0,"seed":3,"max_tokens":4,"logprobs":2,"n":1)",
        R"(,"model":"m","stop":["x"],"return_token_ids":true,"ignore_eos":true,"user":"u")",
        R"(,"min_tokens":0,"bad_words":[],"use_beam_search":false,"logit_bias":{},"grammar":null)",
        R"(,"tool_choice":"none","tools":[{}])", R"(,"sampling_params":{"top_p":1.0})"}) {
    EXPECT_FALSE(altered(neutral)) << neutral;
  }
  for (const char* other : {R"(,"top_p":0.5)",
                            R"(,"top_p":"0.5")",
                            R"(,"top_k":5)",
                            R"(,"min_p":0.1)",
                            R"(,"allowed_token_ids":[7])",
                            R"(,"bad_words":["a"])",
                            R"(,"min_tokens":4)",
                            R"(,"use_beam_search":true)",
                            R"(,"best_of":4)",
                            R"(,"guided_decoding":{"choice":["a"]})",
                            R"(,"guided_whitespace_pattern":"x")",
                            R"(,"tool_choice":"required")",
                            R"(,"tool_choice":{"type":"function"})",
                            R"(,"xtc_probability":0.5)",
                            R"(,"top_n_sigma":1)",
                            R"(,"structural_tag":"x")",
                            R"(,"logits_processors":["x"])",
                            R"(,"vllm_xargs":{"a":1})",
                            R"(,"what_comes_next_year":1)",
                            R"(,"do_sample":false)",
                            R"(,"sampling_params":{"allowed_token_ids":[7]})"}) {
    EXPECT_TRUE(altered(other)) << other;
  }
}

TEST(RequestSamplingTest, TgiDrawsOnlyWhereItIsToldTo) {
  const auto at = [](const std::string& parameters) {
    ImportOptions options = Options();
    options.semantics = LogprobSemantics::kRaw;
    const std::string body = R"({"inputs":"x","parameters":{"details":true)" + parameters + "}}";
    return Import("tgi", Wrapped(body, kTgi), options).sampling_temperature;
  };
  EXPECT_EQ(at(""), 0.0);
  EXPECT_EQ(at(R"(,"do_sample":false)"), 0.0);
  EXPECT_EQ(at(R"(,"temperature":1.0)"), 0.0);
  EXPECT_EQ(at(R"(,"temperature":0.7)"), 0.7);
  EXPECT_EQ(at(R"(,"do_sample":true,"temperature":1.0)"), 1.0);
  EXPECT_EQ(at(R"(,"do_sample":true)"), std::nullopt);
  ImportOptions options = Options();
  options.semantics = LogprobSemantics::kRaw;
  const std::string marked =
      R"({"parameters":{"do_sample":true,"temperature":1,"watermark":true}})";
  EXPECT_TRUE(Import("tgi", Wrapped(marked, kTgi), options).sampling_altered);
}

TEST(RequestSamplingTest, AFormat1TraceDoesNotSayThatEverythingWasDrawnFrom) {
  const auto altered = [](int train, int infer) {
    const ScratchDir dir;
    testing::SyntheticSpec spec;
    spec.evidence = EvidenceLevel::kSampledToken;
    spec.info.sampled_by = SampledBy::kInfer;
    spec.info.sampling_temperature = 1;
    const auto write = [&](const std::string& name, int format) {
      testing::WriteSynthetic(dir / name, spec);
      TraceInfo info = testing::MustOpen(dir / name).info();
      info.format = format;
      std::ofstream(dir / (name + "/trace.json")) << TraceInfoJson(info);
    };
    write("train", train);
    write("infer", infer);
    return PairedTraces::Make(testing::MustOpen(dir / "train"), testing::MustOpen(dir / "infer"))
        .value()
        .sampling_altered();
  };
  EXPECT_TRUE(altered(1, 1));
  EXPECT_FALSE(altered(1, 2)) << "the tokens are the same, and one side says it";
  EXPECT_FALSE(altered(2, 2));
}

}  // namespace
}  // namespace kcc
