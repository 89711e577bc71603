#include "kcc/serve/service.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kcc/lab/logprob.h"
#include "kcc/serve/serve_test_data.h"

namespace kcc {
namespace {

using testing::KeptReply;

// One directory with a small model for all tests of the file.
class SmallModelFiles {
 public:
  SmallModelFiles() : folder_(::testing::TempDir() + "/kcc-serve-XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    testing::WriteServedModel(path());
  }
  ~SmallModelFiles() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/small"; }

 private:
  std::string folder_;
};

std::string ModelDirectory() {
  static const SmallModelFiles files;
  return files.path();
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() { Open(testing::Switches("f32", {{"concurrency", "8"}})); }

  void Open(const LabSwitches& switches, size_t queue_max = 64) {
    service_.reset();
    auto opened = Service::Open({ModelDirectory(), switches, queue_max, "1.0"});
    ASSERT_TRUE(opened.has_value()) << opened.error().Format();
    service_ = std::move(*opened);
  }

  std::shared_ptr<KeptReply> Ask(std::string method, std::string path, std::string body = "") {
    auto reply = std::make_shared<KeptReply>();
    service_->Handle({std::move(method), std::move(path), "application/json", std::move(body)},
                     reply);
    reply->Wait();
    return reply;
  }
  // The answer's JSON.
  json::object Post(const std::string& path, const std::string& body, int status = 200) {
    const auto reply = Ask("POST", path, body);
    EXPECT_EQ(reply->answer().status, status) << reply->answer().body;
    return Parse(reply->answer().body);
  }
  json::object Parse(const std::string& text) {
    parsers_.push_back(std::make_unique<json::parser>());
    texts_.push_back(std::make_unique<std::string>(text));
    const auto root = ParseJson(*parsers_.back(), *texts_.back());
    json::object object;
    EXPECT_TRUE(root.has_value() && root->get(object) == simdjson::SUCCESS) << text;
    return object;
  }
  json::object Fault(const std::string& body, int status = 200) {
    const HttpAnswer answer = service_->HandleAdmin({"POST", "/faults", "application/json", body});
    EXPECT_EQ(answer.status, status) << answer.body;
    return Parse(answer.body);
  }
  static json::object First(json::object answer) {
    json::object choice;
    const auto choices = JsonList(JsonMember(answer, "choices"));
    EXPECT_TRUE(choices && !choices->empty() && (*choices)[0].get(choice) == simdjson::SUCCESS);
    return choice;
  }
  static json::object Inner(json::object from, std::string_view name) {
    json::object inner;
    const auto member = JsonMember(from, name);
    EXPECT_TRUE(member && member->get(inner) == simdjson::SUCCESS) << name;
    return inner;
  }
  static std::vector<json::element> List(json::object from, std::string_view name) {
    auto list = JsonList(JsonMember(from, name));
    EXPECT_TRUE(list) << name;
    return list ? std::move(*list) : std::vector<json::element>();
  }
  static std::vector<int32_t> Ids(json::object from, std::string_view name) {
    std::vector<int32_t> ids;
    for (const json::element item :
         JsonList(JsonMember(from, name)).value_or(std::vector<json::element>())) {
      ids.push_back(static_cast<int32_t>(JsonInteger(item).value_or(-1)));
    }
    return ids;
  }

  std::unique_ptr<Service> service_;
  std::vector<std::unique_ptr<json::parser>> parsers_;
  std::vector<std::unique_ptr<std::string>> texts_;
};

// The lab's own kernel, for what the server must give.
struct Reference {
  testing::LogitRows rows;
  explicit Reference(const LabSwitches& switches, std::vector<int32_t> tokens) {
    KernelRequest request;
    request.request.id = "r";
    request.tokens = std::move(tokens);
    request.prompt_tokens = 1;
    rows = testing::RowsOf(testing::SmallServedCheckpoint(), switches, {request});
  }
  float Logprob(size_t position, int32_t token) const {
    return RowLogprobs(rows.at({"r", position})).Of(token);
  }
};

TEST_F(ServiceTest, PromptLogprobsAreTheLabsToTheBit) {
  const std::vector<int32_t> tokens = {256, 258, 7, 90, 33, 259, 12};
  const Reference lab(testing::Switches("f32"), tokens);
  const auto choice = First(Post(
      "/v1/completions",
      R"({"prompt":[256,258,7,90,33,259,12],"max_tokens":1,"prompt_logprobs":3,"temperature":2,"top_k":2,"return_token_ids":true})"));
  EXPECT_EQ(Ids(choice, "prompt_token_ids"), tokens);
  const auto list = List(choice, "prompt_logprobs");
  ASSERT_EQ(list.size(), tokens.size());
  EXPECT_TRUE(list[0].is_null());
  for (size_t t = 1; t < tokens.size(); ++t) {
    json::object entry;
    ASSERT_EQ(list[t].get(entry), simdjson::SUCCESS);
    EXPECT_EQ((*entry.begin()).key, std::to_string(tokens[t])) << "the real token comes first";
    for (const auto [key, value] : entry) {
      json::object fields;
      ASSERT_EQ(value.get(fields), simdjson::SUCCESS);
      const double logprob = *JsonNumber(*JsonMember(fields, "logprob"));
      EXPECT_EQ(static_cast<float>(logprob), lab.Logprob(t, std::stoi(std::string(key))));
      EXPECT_EQ(logprob, static_cast<double>(static_cast<float>(logprob)));
    }
    EXPECT_GE(entry.size(), 3u);
    EXPECT_LE(entry.size(), 4u);
  }
}

TEST_F(ServiceTest, GreedyTokensAndTheirLogprobsAreTheLabs) {
  const auto choice = First(Post(
      "/v1/completions",
      R"({"prompt":[256,7,9],"max_tokens":12,"temperature":0,"logprobs":2,"ignore_eos":true,"return_token_ids":true,"return_tokens_as_token_ids":true})"));
  std::vector<int32_t> tokens = {256, 7, 9};
  const std::vector<int32_t> output = Ids(choice, "token_ids");
  ASSERT_EQ(output.size(), 12u);
  tokens.insert(tokens.end(), output.begin(), output.end());
  const Reference lab(testing::Switches("f32", {{"path", "decode"}}), tokens);
  const auto values = List(Inner(choice, "logprobs"), "token_logprobs");
  for (size_t i = 0; i < output.size(); ++i) {
    const auto& row = lab.rows.at({"r", 3 + i});
    EXPECT_EQ(output[i], std::max_element(row.begin(), row.end()) - row.begin());
    EXPECT_EQ(static_cast<float>(*JsonNumber(values[i])), lab.Logprob(3 + i, output[i]));
  }
  EXPECT_EQ(JsonText(JsonMember(choice, "finish_reason")), "length");
}

TEST_F(ServiceTest, ForcedTokensAreScoredOnTheDecodePath) {
  const std::vector<int32_t> tokens = {256, 7, 9, 44, 257, 3};
  const Reference lab(testing::Switches("f32", {{"path", "decode"}}), tokens);
  const auto answer = Post(
      "/inference/v1/generate",
      R"({"token_ids":[256,7],"sampling_params":{"trace_decode_token_ids":[9,44,257,3],"max_tokens":4,"logprobs":2}})");
  const auto content = List(Inner(First(answer), "logprobs"), "content");
  ASSERT_EQ(content.size(), 4u);
  for (size_t i = 0; i < content.size(); ++i) {
    json::object entry;
    ASSERT_EQ(content[i].get(entry), simdjson::SUCCESS);
    EXPECT_EQ(JsonText(JsonMember(entry, "token")), "token_id:" + std::to_string(tokens[2 + i]));
    EXPECT_EQ(static_cast<float>(*JsonNumber(*JsonMember(entry, "logprob"))),
              lab.Logprob(2 + i, tokens[2 + i]));
    EXPECT_EQ(JsonList(JsonMember(entry, "top_logprobs"))->size(), 2u);
  }
}

TEST_F(ServiceTest, EchoCoversThePromptAndTheFirstTokenHasNoLogprob) {
  const auto choice =
      First(Post("/v1/completions", R"({"prompt":"abc","max_tokens":0,"echo":true,"logprobs":1})"));
  EXPECT_EQ(JsonText(JsonMember(choice, "text")), "abc");
  const auto logprobs = Inner(choice, "logprobs");
  const auto values = List(logprobs, "token_logprobs");
  ASSERT_EQ(values.size(), 3u);
  EXPECT_TRUE(values[0].is_null());
  EXPECT_EQ(Ids(logprobs, "text_offset"), (std::vector<int32_t>{0, 1, 2}));
  const Reference lab(testing::Switches("f32"), {'a', 'b', 'c'});
  EXPECT_EQ(static_cast<float>(*JsonNumber(values[2])), lab.Logprob(2, 'c'));
}

TEST_F(ServiceTest, SeedsDecideAndTheFirstOfNIsTheRequestAlone) {
  const auto tokens = [&](const std::string& more) {
    std::vector<std::vector<int32_t>> all;
    const auto answer =
        Post("/v1/completions",
             R"({"prompt":[256,7],"max_tokens":8,"ignore_eos":true,"return_token_ids":true,)" +
                 more + "}");
    for (const json::element item : List(answer, "choices")) {
      json::object choice;
      EXPECT_EQ(item.get(choice), simdjson::SUCCESS);
      all.push_back(Ids(choice, "token_ids"));
    }
    return all;
  };
  const auto one = tokens(R"("seed":5)");
  EXPECT_EQ(tokens(R"("seed":5)"), one);
  EXPECT_NE(tokens(R"("seed":6)"), one);
  const auto three = tokens(R"("seed":5,"n":3)");
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[0], one[0]);
  EXPECT_NE(three[1], three[0]);
  EXPECT_NE(tokens(R"("temperature":1)"), tokens(R"("temperature":1)")) << "no seed: each its own";
}

TEST_F(ServiceTest, AStreamSaysWhatTheWholeAnswerSays) {
  const std::string body =
      R"("prompt":"<s>ab","max_tokens":10,"seed":3,"ignore_eos":true,"logprobs":2,"return_token_ids":true})";
  const auto whole = First(Post("/v1/completions", "{" + body));
  const auto reply = Ask("POST", "/v1/completions",
                         R"({"stream":true,"stream_options":{"include_usage":true},)" + body);
  std::string text;
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  ASSERT_GT(reply->events().size(), 3u);
  EXPECT_EQ(reply->events().back(), "[DONE]");
  for (size_t i = 0; i + 2 < reply->events().size(); ++i) {
    const auto choice = First(Parse(reply->events()[i]));
    text += JsonText(JsonMember(choice, "text"));
    for (const int32_t id : Ids(choice, "token_ids")) ids.push_back(id);
    if (!JsonMember(choice, "logprobs")) continue;
    for (const json::element value : List(Inner(choice, "logprobs"), "token_logprobs")) {
      logprobs.push_back(*JsonNumber(value));
    }
  }
  EXPECT_EQ(text, JsonText(JsonMember(whole, "text")));
  EXPECT_EQ(ids, Ids(whole, "token_ids"));
  const auto expected = List(Inner(whole, "logprobs"), "token_logprobs");
  ASSERT_EQ(logprobs.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(logprobs[i], *JsonNumber(expected[i]));
  const auto usage = Inner(Parse(reply->events()[reply->events().size() - 2]), "usage");
  EXPECT_EQ(JsonInteger(*JsonMember(usage, "completion_tokens")), 10);
  EXPECT_EQ(JsonInteger(*JsonMember(usage, "prompt_tokens")), 3);
}

TEST_F(ServiceTest, ChatAnswersInItsOwnShape) {
  const auto answer = Post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"temperature":0,"logprobs":true,"top_logprobs":2})");
  EXPECT_EQ(JsonText(JsonMember(answer, "object")), "chat.completion");
  const auto choice = First(answer);
  EXPECT_EQ(JsonText(JsonMember(Inner(choice, "message"), "role")), "assistant");
  EXPECT_TRUE(JsonMember(Inner(choice, "message"), "content"));
  const auto content = List(Inner(choice, "logprobs"), "content");
  EXPECT_FALSE(content.empty());
  const auto reply = Ask(
      "POST", "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"temperature":0,"stream":true})");
  const auto first = First(Parse(reply->events().front()));
  EXPECT_EQ(JsonText(JsonMember(Inner(first, "delta"), "role")), "assistant");
  std::string text;
  for (size_t i = 0; i + 1 < reply->events().size(); ++i) {
    const auto chunk = Parse(reply->events()[i]);
    EXPECT_EQ(JsonText(JsonMember(chunk, "object")), "chat.completion.chunk");
    text += JsonText(JsonMember(Inner(First(chunk), "delta"), "content"));
  }
  EXPECT_EQ(text, JsonText(JsonMember(Inner(choice, "message"), "content")));
}

TEST_F(ServiceTest, StopTextsAndStopIdsEndAnAnswer) {
  const std::string base =
      R"("prompt":[256,7],"temperature":0,"max_tokens":20,"ignore_eos":true,"return_token_ids":true)";
  const auto free = Ids(First(Post("/v1/completions", "{" + base + "}")), "token_ids");
  const int32_t stop = free[5];
  size_t first = 0;
  while (free[first] != stop) ++first;
  const auto by_id = First(
      Post("/v1/completions", "{" + base + ",\"stop_token_ids\":[" + std::to_string(stop) + "]}"));
  EXPECT_EQ(Ids(by_id, "token_ids").size(), first + 1);
  EXPECT_EQ(JsonText(JsonMember(by_id, "finish_reason")), "stop");
  EXPECT_EQ(JsonInteger(*JsonMember(by_id, "stop_reason")), stop);
  // A byte that is a character by itself, wherever the small model writes one.
  const auto ascii = std::find_if(free.begin(), free.end(), [](int32_t id) {
    return id > 31 && id < 127 && id != '"' && id != '\\';
  });
  ASSERT_NE(ascii, free.end());
  const std::string text(1, static_cast<char>(*ascii));
  const auto by_text = First(Post("/v1/completions", "{" + base + ",\"stop\":[\"" + text + "\"]}"));
  EXPECT_EQ(JsonText(JsonMember(by_text, "stop_reason")), text);
  EXPECT_EQ(JsonText(JsonMember(by_text, "text")).find(text), std::string::npos);
  const auto kept =
      First(Post("/v1/completions", "{" + base + ",\"min_tokens\":20,\"stop_token_ids\":[" +
                                        std::to_string(stop) + "]}"));
  EXPECT_EQ(Ids(kept, "token_ids").size(), 20u) << "min_tokens keeps end tokens away";
}

TEST_F(ServiceTest, ABiasDecidesWhatIsDrawnAndNotWhatItsLogprobIs) {
  const auto choice = First(Post(
      "/v1/completions",
      R"({"prompt":[256,7],"temperature":0,"max_tokens":1,"logprobs":0,"logit_bias":{"42":100},"return_token_ids":true})"));
  EXPECT_EQ(Ids(choice, "token_ids"), std::vector<int32_t>{42});
  const Reference lab(testing::Switches("f32"), {256, 7, 42});
  EXPECT_EQ(static_cast<float>(*JsonNumber(
                JsonList(JsonMember(Inner(choice, "logprobs"), "token_logprobs"))->front())),
            lab.Logprob(2, 42));
}

TEST_F(ServiceTest, OtherPagesAndWrongPaths) {
  EXPECT_EQ(Ask("GET", "/health")->answer().status, 200);
  EXPECT_EQ(JsonText(JsonMember(Parse(Ask("GET", "/version")->answer().body), "version")),
            "0.32.0+kcc.lab.1.0");
  EXPECT_NE(Ask("GET", "/v1/models")->answer().body.find("\"id\":\"small\""), std::string::npos);
  EXPECT_EQ(Ids(Post("/tokenize", R"({"prompt":"<s>a"})"), "tokens"),
            (std::vector<int32_t>{256, 'a'}));
  EXPECT_EQ(JsonText(JsonMember(Post("/detokenize", R"({"tokens":[256,97]})"), "prompt")), "<s>a");
  // A conversation has the ids that the chat route says it read.
  const std::string hi = R"("messages":[{"role":"user","content":"hi"}])";
  const std::vector<int32_t> rendered = Ids(Post("/tokenize", "{" + hi + "}"), "tokens");
  EXPECT_FALSE(rendered.empty());
  EXPECT_EQ(rendered, Ids(Post("/v1/chat/completions",
                               "{" + hi + R"(,"max_tokens":1,"return_token_ids":true})"),
                          "prompt_token_ids"));
  EXPECT_EQ(Ask("GET", "/nothing")->answer().status, 404);
  EXPECT_EQ(Ask("GET", "/v1/completions")->answer().status, 405);
  EXPECT_EQ(Ask("POST", "/health")->answer().status, 405);
  Post("/v1/completions", "{", 400);
  Post("/v1/completions", "[]", 400);
  Post("/tokenize", "{}", 400);
  Post("/tokenize", R"({"messages":[{"role":"nobody","content":"hi"}]})", 400);
  Post("/detokenize", R"({"tokens":[9999]})", 400);
}

TEST_F(ServiceTest, MetricsCountUnderVllmsNames) {
  Post("/v1/completions", R"({"prompt":[256,7],"max_tokens":5,"ignore_eos":true})");
  Post("/v1/completions", R"({"prompt":[]})", 400);
  const std::string labels = "{engine=\"0\",model_name=\"small\"";
  const std::string idle = "vllm:num_requests_running" + labels + "} 0\n";
  // What runs is said after each step, and so a moment after the last answer.
  std::string text;
  do {
    text = Ask("GET", "/metrics")->answer().body;
  } while (text.find(idle) == std::string::npos);
  EXPECT_NE(text.find("vllm:prompt_tokens_total" + labels + "} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("vllm:generation_tokens_total" + labels + "} 5\n"), std::string::npos);
  EXPECT_NE(text.find("vllm:request_success_total" + labels + ",finished_reason=\"length\"} 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("vllm:time_to_first_token_seconds_count" + labels + "} 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("kcc:requests_refused_total{status=\"400\"} 1\n"), std::string::npos);
}

TEST_F(ServiceTest, RequestsBeyondTheQueueAreRefusedAndSoAreThoseOfADrainingServer) {
  Open(testing::Switches("f32", {{"concurrency", "1"}}), 2);
  std::vector<std::shared_ptr<KeptReply>> replies;
  for (int i = 0; i < 12; ++i) {
    replies.push_back(std::make_shared<KeptReply>());
    service_->Handle(
        {"POST", "/v1/completions", "", R"({"prompt":[1],"max_tokens":60,"ignore_eos":true})"},
        replies.back());
  }
  int refused = 0;
  for (const auto& reply : replies) {
    reply->Wait();
    const int status = reply->answer().status;
    EXPECT_TRUE(status == 429 || status == 200) << status;
    refused += status == 429 ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 12);
  service_->Drain();
  Post("/v1/completions", R"({"prompt":[1]})", 503);
  EXPECT_EQ(Ask("GET", "/health")->answer().status, 503);
}

TEST_F(ServiceTest, AClientThatLeavesFreesItsPlace) {
  Open(testing::Switches("f32", {{"concurrency", "1"}}));
  const auto gone = std::make_shared<KeptReply>();
  const uint64_t ticket =
      service_->Handle({"POST", "/v1/completions", "",
                        R"({"prompt":[1],"max_tokens":500,"ignore_eos":true,"stream":true})"},
                       gone);
  EXPECT_NE(ticket, 0u);
  service_->Cancel(ticket);
  Post("/v1/completions", R"({"prompt":[1],"max_tokens":2})");
  EXPECT_LT(gone->events().size(), 500u);
  EXPECT_NE(Ask("GET", "/metrics")->answer().body.find("finished_reason=\"abort\"} 1\n"),
            std::string::npos);
}

TEST_F(ServiceTest, ASwitchForASliceChangesThatSliceAlone) {
  const std::string score = R"("prompt":[256,7,9,44],"max_tokens":1,"prompt_logprobs":0)";
  const auto sum = [&](const std::string& more) {
    double total = 0;
    const auto choice = First(Post("/v1/completions", "{" + score + more + "}"));
    const auto list = List(choice, "prompt_logprobs");
    for (size_t t = 1; t < list.size(); ++t) {
      json::object entry;
      EXPECT_EQ(list[t].get(entry), simdjson::SUCCESS);
      total += *JsonNumber(*JsonMember(Inner(entry, (*entry.begin()).key), "logprob"));
    }
    return total;
  };
  const double before = sum("");
  Fault(R"({"name":"kv","where":"'math' in tags","switches":"kv=e4m3"})");
  EXPECT_EQ(sum(""), before);
  const double math = sum(R"(,"tags":["math"])");
  EXPECT_NE(math, before);
  const Reference lab(testing::Switches("f32", {{"kv", "e4m3"}}), {256, 7, 9, 44});
  EXPECT_EQ(math,
            double{lab.Logprob(1, 7)} + double{lab.Logprob(2, 9)} + double{lab.Logprob(3, 44)});
  service_->HandleAdmin({"DELETE", "/faults/kv", "", ""});
  EXPECT_EQ(sum(R"(,"tags":["math"])"), before);
}

TEST_F(ServiceTest, FaultsOnTheWayBack) {
  const std::string body = R"({"prompt":[256,7],"max_tokens":6,"ignore_eos":true,"stream":true})";
  Fault(R"({"name":"a","latency_ms":20,"stall":{"after_chunks":2,"ms":30},"fingerprint":"other"})");
  const auto slow = Ask("POST", "/v1/completions", body);
  EXPECT_EQ(slow->waits()[0], 20);
  EXPECT_EQ(slow->waits()[1], 0);
  EXPECT_EQ(slow->waits()[2], 30);
  EXPECT_EQ(JsonText(JsonMember(Parse(slow->events()[0]), "system_fingerprint")), "other");
  Fault(R"({"name":"a","cut":{"after_chunks":3}})");
  const auto cut = Ask("POST", "/v1/completions", body);
  EXPECT_TRUE(cut->cut());
  EXPECT_EQ(cut->events().size(), 3u);
  Fault(R"({"name":"a","status":{"code":503,"rate":1}})");
  EXPECT_EQ(Ask("POST", "/v1/completions", body)->answer().status, 503);
  Fault(R"({"name":"a","latency_ms":1,"burst":{"on":2,"every":3}})");
  std::vector<int> waits;
  for (int i = 0; i < 6; ++i) waits.push_back(Ask("POST", "/v1/completions", body)->waits()[0]);
  EXPECT_EQ(waits, (std::vector<int>{1, 1, 0, 1, 1, 0}));
}

TEST_F(ServiceTest, FaultsThatAreWrongAreRefusedWithTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"latncy_ms":1})", "did you mean 'latency_ms'"},
      {R"({"where":"prompt_tokens >"})", "where"},
      {R"({"where":"token.position > 1"})", "of tokens"},
      {R"({"switches":"kv=e9"})", "switch kv takes"},
      {R"({"switches":"threads=3"})", "shapes the server"},
      {R"({"switches":"kb=e4m3"})", "did you mean 'kv'"},
      {R"({"drift":{"parameter":"x"}})", "noise"},
      {R"({"burst":{"on":5,"every":2}})", "at most"},
      {R"({"status":{"code":200}})", "from 400 to 599"},
  };
  for (const auto& [body, words] : cases) {
    const HttpAnswer answer = service_->HandleAdmin({"POST", "/faults", "application/json", body});
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.body.find(words), std::string::npos) << body << "\n" << answer.body;
  }
  EXPECT_EQ(service_->HandleAdmin({"POST", "/faults", "text/plain", "{}"}).status, 415);
  EXPECT_EQ(service_->HandleAdmin({"DELETE", "/faults/none", "", ""}).status, 404);
  EXPECT_EQ(service_->HandleAdmin({"PUT", "/faults", "", ""}).status, 405);
  EXPECT_EQ(service_->HandleAdmin({"GET", "/x", "", ""}).status, 404);
}

}  // namespace
}  // namespace kcc
