#include "kcc/serve/generation_request.h"

#include <gtest/gtest.h>

#include "kcc/serve/serve_test_data.h"

namespace kcc {
namespace {

const ServedModel& Model() {
  static const ServedModel model = testing::SmallServedModel();
  return model;
}

struct Read {
  GenerationRequest request;
  std::optional<ApiError> error;
};

Read Parse(ApiKind kind, std::string_view body) {
  Read read;
  json::parser parser;
  const auto root = ParseJson(parser, body);
  json::object object;
  EXPECT_TRUE(root.has_value() && root->get(object) == simdjson::SUCCESS) << body;
  read.error = ReadGenerationRequest(kind, object, Model(), &read.request);
  return read;
}
Read Completion(std::string_view body) { return Parse(ApiKind::kCompletion, body); }
Read Chat(std::string_view body) { return Parse(ApiKind::kChat, body); }

TEST(GenerationRequest, APromptIsATextOrIdsOrAListOfEither) {
  using Prompts = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(Completion(R"({"prompt":"<s>ab"})").request.prompts, (Prompts{{256, 'a', 'b'}}));
  EXPECT_EQ(Completion(R"({"prompt":[1,2]})").request.prompts, (Prompts{{1, 2}}));
  EXPECT_EQ(Completion(R"({"prompt":["a","b"]})").request.prompts, (Prompts{{'a'}, {'b'}}));
  EXPECT_EQ(Completion(R"({"prompt":[[1],[2,3]]})").request.prompts, (Prompts{{1}, {2, 3}}));
}

TEST(GenerationRequest, FieldsHaveTheMeaningsAndDefaultsOfVllm) {
  const Read plain = Completion(R"({"prompt":[1]})");
  ASSERT_FALSE(plain.error);
  EXPECT_EQ(plain.request.output_tokens_max, 16);
  EXPECT_EQ(plain.request.sampling.temperature, 1);
  EXPECT_EQ(plain.request.sampling.top_k, 0);
  EXPECT_FALSE(plain.request.top || plain.request.prompt_top || plain.request.seed);
  const Read full = Completion(
      R"({"model":"small","prompt":[1],"max_tokens":3,"min_tokens":2,"temperature":0,"top_p":0.5,"top_k":-1,
          "seed":7,"n":2,"stop":"x","stop_token_ids":[5],"ignore_eos":true,"logprobs":4,"prompt_logprobs":-1,
          "return_token_ids":true,"return_tokens_as_token_ids":true,"logit_bias":{"3":-200},"user":"u",
          "tags":["safety"],"metadata":{"lang":"de"},"cache_salt":"s","priority":1,"presence_penalty":0})");
  ASSERT_FALSE(full.error) << full.error->message;
  const GenerationRequest& r = full.request;
  EXPECT_EQ(r.output_tokens_max, 3);
  EXPECT_EQ(r.output_tokens_min, 2);
  EXPECT_EQ(r.sampling.temperature, 0);
  EXPECT_EQ(r.sampling.top_p, 0.5);
  EXPECT_EQ(r.seed, 7u);
  EXPECT_EQ(r.choices(), 2u);
  EXPECT_EQ(r.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(r.stop_ids, std::vector<int32_t>{5});
  EXPECT_EQ(r.top, 4);
  EXPECT_EQ(r.prompt_top, static_cast<int32_t>(testing::kVocab));
  EXPECT_EQ(r.bias.at(3), -100);  // OpenAI's range
  EXPECT_EQ(r.tags, std::vector<std::string>{"safety"});
  EXPECT_EQ(r.metadata.at("lang"), "de");
}

TEST(GenerationRequest, EchoAsksForThePromptsLogprobs) {
  const Read echo = Completion(R"({"prompt":[1,2],"echo":true,"max_tokens":0,"logprobs":2})");
  ASSERT_FALSE(echo.error) << echo.error->message;
  EXPECT_EQ(echo.request.prompt_top, 2);
  EXPECT_FALSE(Completion(R"({"prompt":[1,2],"echo":true})").request.prompt_top);
}

TEST(GenerationRequest, ChatIsRenderedByTheModelsTemplate) {
  const Read chat =
      Chat(R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2})");
  ASSERT_FALSE(chat.error) << chat.error->message;
  EXPECT_EQ(chat.request.prompts[0], (std::vector<int32_t>{256, 258, 'h', 'i', 259}));
  EXPECT_EQ(chat.request.output_tokens_max, 24);  // max_new_tokens of the model
  EXPECT_EQ(chat.request.top, 2);
  const Read parts = Chat(
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}],"max_completion_tokens":5,"logprobs":true})");
  EXPECT_EQ(parts.request.prompts[0], chat.request.prompts[0]);
  EXPECT_EQ(parts.request.output_tokens_max, 5);
  EXPECT_EQ(parts.request.top, 0);
}

TEST(GenerationRequest, TraceReplayForcesTokensToTheirEnd) {
  const Read forced = Parse(
      ApiKind::kGenerate,
      R"({"token_ids":[1,2],"sampling_params":{"trace_decode_token_ids":[3,257,4],"max_tokens":3,"logprobs":2,"temperature":1,"stop":"x"}})");
  ASSERT_FALSE(forced.error) << forced.error->message;
  EXPECT_EQ(forced.request.forced, (std::vector<int32_t>{3, 257, 4}));
  EXPECT_TRUE(forced.request.ignore_eos && forced.request.stop.empty() && forced.request.token_ids);
  const Read cut = Parse(
      ApiKind::kGenerate,
      R"({"token_ids":[1],"sampling_params":{"trace_decode_token_ids":[3,4],"max_tokens":1}})");
  EXPECT_EQ(cut.request.forced, std::vector<int32_t>{3});
}

TEST(GenerationRequest, AWrongFieldIsNamedInTheError) {
  struct Case {
    ApiKind kind;
    const char* body;
    const char* param;
    const char* words;
    int status = 400;
  };
  const ApiKind c = ApiKind::kCompletion;
  const ApiKind chat = ApiKind::kChat;
  const ApiKind generate = ApiKind::kGenerate;
  const std::vector<Case> cases = {
      {c, R"({})", "prompt", "missing"},
      {c, R"({"prompt":""})", "prompt", "no token"},
      {c, R"({"prompt":[]})", "prompt", "must be a text"},
      {c, R"({"prompt":[[]]})", "prompt", "no token"},
      {c, R"({"prompt":{}})", "prompt", "must be a text"},
      {c, R"({"prompt":[1,"a"]})", "prompt", "holds a string"},
      {c, R"({"prompt":["a",1]})", "prompt", "mixes"},
      {c, R"({"prompt":[264]})", "prompt", "from 0 to 263"},
      {c, R"({"prompt":[-1]})", "prompt", "token id -1"},
      {c, R"({"prompt":[1.5]})", "prompt", "holds a number"},
      {c, R"({"prompt":[1],"model":"other"})", "model", "does not exist", 404},
      {c, R"({"prompt":[1],"max_tokens":-1})", "max_tokens", "from 0"},
      {c, R"({"prompt":[1],"max_tokens":0})", "max_tokens", "echo=true"},
      {c, R"({"prompt":[1],"max_tokens":512})", "prompt", "maximum context length is 512"},
      {c, R"({"prompt":[1],"max_tokens":"3"})", "max_tokens", "must be an integer, it is a string"},
      {c, R"({"prompt":[1],"temperature":-1})", "temperature", "from 0 to 100"},
      {c, R"({"prompt":[1],"top_p":0})", "top_p", "above 0"},
      {c, R"({"prompt":[1],"n":0})", "n", "from 1"},
      {c, R"({"prompt":[1],"logprobs":999})", "logprobs", "from -1 to 264"},
      {c, R"({"prompt":[1],"logprobs":true})", "logprobs", "must be an integer"},
      {c, R"({"prompt":[1],"stop":[""]})", "stop", "1 to 1024"},
      {c, R"({"prompt":[1],"stop":3})", "stop", "a text or a list"},
      {c, R"({"prompt":[1],"stream":"yes"})", "stream", "true or false"},
      {c, R"({"prompt":[1],"stream_options":{}})", "stream_options", "stream=true"},
      {c, R"({"prompt":[1],"stream":true,"stream_options":{"include_usage":1}})",
       "stream_options.include_usage", "true or false"},
      {c, R"({"prompt":[1],"stream":true,"prompt_logprobs":1})", "prompt_logprobs", "stream"},
      {c, R"({"prompt":[1],"logit_bias":{"999":1}})", "logit_bias", "Vocabulary size: 264"},
      {c, R"({"prompt":[1],"logit_bias":{"a":1}})", "logit_bias", "token ids to numbers"},
      {c, R"({"prompt":[1],"frequency_penalty":0.5})", "frequency_penalty", "does not support"},
      {c, R"({"prompt":[1],"best_of":2})", "best_of", "does not support"},
      {c, R"({"prompt":[1],"guided_json":{}})", "guided_json", "does not support"},
      {c, R"({"prompt":[[1],[1],[1]],"n":600})", "n", "1024 choices"},
      {chat, R"({})", "messages", "at least one"},
      {chat, R"({"messages":[]})", "messages", "at least one"},
      {chat, R"({"messages":[{"role":"x","content":"a"}]})", "messages", "'role'"},
      {chat, R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages",
       "as 'content'"},
      {chat, R"({"messages":[{"role":"user","content":"a"}],"top_logprobs":2})", "top_logprobs",
       "logprobs=true"},
      {chat, R"({"messages":[{"role":"user","content":"a"}],"tools":[{}]})", "tools",
       "does not support"},
      {chat,
       R"({"messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_object"}})",
       "response_format", "does not support"},
      {generate, R"({"token_ids":[1]})", "sampling_params", "missing"},
      {generate, R"({"token_ids":[],"sampling_params":{}})", "token_ids", "no token"},
      {generate, R"({"token_ids":[1],"sampling_params":{"trace_decode_token_ids":[]}})",
       "sampling_params.trace_decode_token_ids", "no token"},
      {generate, R"({"token_ids":[1],"stream":true,"sampling_params":{}})", "stream",
       "does not support"},
  };
  for (const Case& one : cases) {
    const Read read = Parse(one.kind, one.body);
    ASSERT_TRUE(read.error) << one.body;
    EXPECT_EQ(read.error->status, one.status) << one.body;
    EXPECT_EQ(read.error->param, one.param) << one.body;
    EXPECT_NE(read.error->message.find(one.words), std::string::npos) << one.body << "\n"
                                                                      << read.error->message;
  }
}

TEST(ApiError, HasOpenAisShape) {
  EXPECT_EQ((ApiError{400, "no", "n", ""}.Json()),
            R"({"error":{"message":"no","type":"invalid_request_error","param":"n","code":null}})"
            "\n");
  EXPECT_EQ((ApiError{429, "later", "", "slow"}.Type()), "rate_limit_error");
  EXPECT_EQ((ApiError{503, "", "", ""}.Type()), "server_error");
}

}  // namespace
}  // namespace kcc
