#include "kcc/gateway/request_edit.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/gateway/gateway_test_data.h"

namespace kcc {
namespace {

EditedRequest Edit(const std::string& body, const PoolKernel& kernel, bool chat, bool stream,
                   bool sampled) {
  RequestScan scan;
  EXPECT_FALSE(ScanRequest(body, &scan)) << body;
  return EditRequest(body, scan, testing::SmallPool(), kernel, chat, stream, sampled);
}

PoolKernel Kernel(const std::string& server) {
  PoolKernel kernel = testing::KernelNamed("k", KernelRole::kInfer);
  kernel.wire = FindWireDialect(server);
  return kernel;
}

TEST(RequestEdit, WhatIsNotSampledStaysAsItIs) {
  const std::string body = " {\"model\" : \"m\",\n\"x\":[1, 2]} ";
  EXPECT_EQ(Edit(body, Kernel("vllm"), true, false, false).body, body);
}

TEST(RequestEdit, NamesTheModelAsTheKernelDoesAndKeepsAllOtherBytes) {
  PoolKernel kernel = Kernel("vllm");
  kernel.model = "org/real";
  kernel.set = {{"temperature", "0"}, {"seed", "7"}};
  EXPECT_EQ(
      Edit(R"({ "temperature" : 0.70, "model": "m" , "top_p":1 })", kernel, true, false, false)
          .body,
      R"({ "temperature" : 0, "model": "org/real" , "top_p":1 ,"seed":7})");
  kernel.set.clear();
  EXPECT_EQ(Edit("{}", kernel, true, false, false).body, R"({"model":"org/real"})");
}

struct SampleCase {
  const char* server;
  bool chat;
  bool stream;
  const char* body;
  const char* edited;
  bool ids, logprobs;
};

TEST(RequestEdit, ASampledRequestAsksForWhatItsServerAllows) {
  const SampleCase cases[] = {
      {"vllm", true, false, R"({"a":1})",
       R"({"a":1,"return_token_ids":true,"logprobs":true,"top_logprobs":2,"return_tokens_as_token_ids":true})",
       true, true},
      {"vllm", false, true, R"({"a":1})",
       R"({"a":1,"return_token_ids":true,"logprobs":2,"return_tokens_as_token_ids":true})", true,
       true},
      {"vllm", true, false, R"({"logprobs":false,"top_logprobs":null})",
       R"({"logprobs":true,"top_logprobs":2,"return_token_ids":true,"return_tokens_as_token_ids":true})",
       true, true},
      // The client's own request is left as it is.
      {"vllm", true, false, R"({"logprobs":true})", R"({"logprobs":true,"return_token_ids":true})",
       true, false},
      {"vllm", true, false, R"({"top_logprobs":5})",
       R"({"top_logprobs":5,"return_token_ids":true})", true, false},
      {"vllm", false, false, R"({"logprobs":0})", R"({"logprobs":0,"return_token_ids":true})", true,
       false},
      {"vllm", false, false, R"({"logprobs":false})",
       R"({"logprobs":false,"return_token_ids":true})", true, false},
      {"vllm", false, false, R"({"logprobs":1,"return_token_ids":true})",
       R"({"logprobs":1,"return_token_ids":true})", false, false},
      {"sglang", true, false, R"({"a":1})",
       R"({"a":1,"return_token_ids":true,"return_prompt_token_ids":true,"logprobs":true})", true,
       true},
      {"sglang", true, true, R"({"a":1})", R"({"a":1})", false, false},
      {"sglang", false, true, R"({"a":1})", R"({"a":1,"return_token_ids":true,"logprobs":1})", true,
       true},
      {"llamacpp", true, false, R"({"a":1})", R"({"a":1,"logprobs":true,"top_logprobs":2})", false,
       true},
      {"llamacpp", true, true, R"({"tools":[{}]})", R"({"tools":[{}]})", false, false},
      {"llamacpp", true, true, R"({"tools":[]})",
       R"({"tools":[],"logprobs":true,"top_logprobs":2})", false, true},
      {"llamacpp", false, false, R"({"n_probs":3})", R"({"n_probs":3})", false, false},
      {"trtllm", true, false, R"({"a":1})", R"({"a":1})", false, false},
      {"trtllm", false, false, R"({"a":1})", R"({"a":1})", false, false},
  };
  for (const SampleCase& one : cases) {
    const EditedRequest edited = Edit(one.body, Kernel(one.server), one.chat, one.stream, true);
    EXPECT_EQ(edited.body, one.edited) << one.server;
    EXPECT_EQ(edited.injected.ids, one.ids) << one.server << one.body;
    EXPECT_EQ(edited.injected.logprobs, one.logprobs) << one.server << one.body;
  }
}

TEST(RequestEdit, WhatTheConfigurationSetsIsNotAskedForAgain) {
  PoolKernel kernel = Kernel("vllm");
  kernel.set = {{"logprobs", "true"}};
  const EditedRequest edited = Edit("{}", kernel, true, false, true);
  EXPECT_EQ(edited.body, R"({"logprobs":true,"return_token_ids":true})");
  EXPECT_FALSE(edited.injected.logprobs);
}

// Taking out again what was put in gives the body that was sent.
TEST(RequestEdit, SplicesKeepEveryOtherByte) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<std::string> values = {"1", "\"x\\\"y\"", "[1, 2]", "{ \"model\":1}", "null"};
    std::string head = *rc::gen::element<std::string>("{", " { ", "{\n");
    std::string before, after;
    const int count = *rc::gen::inRange(0, 4);
    for (int i = 0; i < count; ++i) {
      const std::string member = "\"k" + std::to_string(i) + "\" : " + *rc::gen::elementOf(values);
      (i % 2 == 0 ? before : after) += i % 2 == 0 ? member + " , " : ", " + member;
    }
    PoolKernel kernel = Kernel("vllm");
    kernel.model = "other";
    const std::string body = head + before + "\"model\":\"m\"" + after + " }";
    const EditedRequest edited = Edit(body, kernel, false, false, true);
    std::string back = edited.body;
    const std::string added =
        R"(,"return_token_ids":true,"logprobs":2,"return_tokens_as_token_ids":true)";
    RC_ASSERT(back.find(added) != std::string::npos);
    back.erase(back.find(added), added.size());
    back.replace(back.find("\"other\""), 7, "\"m\"");
    RC_ASSERT(back == body);
    RC_ASSERT(IsWholeJson(edited.body));
  }));
}

}  // namespace
}  // namespace kcc
