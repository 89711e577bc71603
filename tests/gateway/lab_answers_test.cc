// What the client of a sampled request gets is, byte for byte, what the lab's server writes for the
// request as the client sent it: both routes, whole and streamed, whatever the client itself asks
// for of log-probs and ids. And what is kept of it is what the server said.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kcc/format/json.h"
#include "kcc/gateway/gateway_test_data.h"
#include "kcc/serve/exchange.h"
#include "kcc/serve/serve_test_data.h"

namespace kcc {
namespace {

// "é" is drawn byte by byte, and one text needs an escape.
const std::vector<int32_t> kDrawn = {'a', 0xC3, 0xA9, '"', 'b'};

TokenRecord RecordAt(size_t place, int32_t token, std::optional<int32_t> top) {
  TokenRecord record{.token = token};
  if (!top) return record;
  // Every other token is one of the best.
  const bool best = place % 2 == 0;
  record.logprob = best ? -0.25f : -7.5f;
  record.rank = best ? 1 : 9;
  for (int32_t i = 0; i < *top; ++i) {
    record.top.push_back({best && i == 0 ? token : 100 + i, -0.25f - 0.5f * static_cast<float>(i)});
  }
  return record;
}

class Lab {
 public:
  // What the server answers to this body: the pieces as they go over the wire.
  std::vector<std::string> Answer(const std::string& body, bool chat) {
    json::parser parser;
    json::object object;
    EXPECT_EQ(ParseJson(parser, body)->get(object), simdjson::SUCCESS);
    GenerationRequest request;
    const auto error = ReadGenerationRequest(chat ? ApiKind::kChat : ApiKind::kCompletion, object,
                                             model_, &request);
    EXPECT_FALSE(error) << error->message << "\n" << body;
    prompt = request.prompts[0];
    const bool stream = request.stream;
    const size_t choices = request.choices();
    const auto top = request.top;
    const auto reply = std::make_shared<testing::KeptReply>();
    ServeMetrics metrics("small");
    std::atomic<int64_t> open{0};
    Exchange exchange({&model_, &metrics, &clock_, &open}, {"cmpl-7", 1'700'000'000, "fp-int8"},
                      request, FaultPlan{}, reply);
    for (size_t i = 0; i < kDrawn.size(); ++i) {
      for (size_t choice = 0; choice < choices; ++choice) {
        exchange.OnToken(choice, RecordAt(i, kDrawn[i] + static_cast<int32_t>(choice), top));
      }
    }
    for (size_t choice = 0; choice < choices; ++choice) {
      exchange.OnEnd(choice, FinishReason::kLength, std::nullopt);
    }
    if (!stream) return {reply->answer().body};
    std::vector<std::string> pieces;
    for (const std::string& event : reply->events()) pieces.push_back("data: " + event + "\n\n");
    return pieces;
  }

  std::vector<int32_t> prompt;

 private:
  static ServedModel NamedModel() {
    ServedModel model = testing::SmallServedModel();
    model.name = "m";
    return model;
  }
  const ServedModel model_ = NamedModel();
  const ManualClock clock_{1'700'000'000'000};
};

void Serve(Lab& lab, testing::Ride& ride, bool chat, bool stream) {
  if (stream) {
    ride.EventsHead();
  } else {
    ride.Head(200);
  }
  for (const std::string& piece : lab.Answer(ride.asks.at(0).body, chat)) ride.Body(piece);
  ride.End();
}

struct Asked {
  const char* chat;
  const char* completion;
  bool own_logprobs;
};

const Asked kAsked[] = {
    {"", "", false},
    {R"(,"logprobs":false)", R"(,"logprobs":null)", false},
    {R"(,"logprobs":true)", R"(,"logprobs":0)", true},
    {R"(,"logprobs":true,"top_logprobs":1)", R"(,"logprobs":1)", true},
    {R"(,"logprobs":true,"top_logprobs":3)", R"(,"logprobs":3)", true},
    {R"(,"logprobs":true,"top_logprobs":3,"return_tokens_as_token_ids":true)",
     R"(,"logprobs":3,"return_tokens_as_token_ids":true)", true},
};

void CheckRecord(const ServedRecord& record, const Lab& lab, const Asked& asked) {
  EXPECT_EQ(record.kind, RecordKind::kAudit) << record.reason;
  EXPECT_EQ(record.text, "a\xC3\xA9\"b");
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.fingerprint, "fp-int8");
  EXPECT_EQ(record.prompt_ids, lab.prompt);
  ASSERT_EQ(record.tokens.size(), kDrawn.size());
  for (size_t i = 0; i < kDrawn.size(); ++i) {
    const ServedToken& token = record.tokens[i];
    EXPECT_EQ(token.id, kDrawn[i]);
    EXPECT_EQ(token.logprob, i % 2 == 0 ? -0.25 : -7.5);
    if (asked.own_logprobs) continue;  // as many as the client asked for
    ASSERT_EQ(token.top.size(), 2u) << "those of the pool";
    EXPECT_EQ(token.top[0].first, i % 2 == 0 ? kDrawn[i] : 100);
    EXPECT_EQ(token.top[1].first, 101);
    EXPECT_EQ(token.top[1].second, -0.75);
  }
}

TEST(LabAnswers, OfSampledRequestsAreThoseOfUnsampledOnes) {
  for (const bool chat : {true, false}) {
    for (const char* stream :
         {"", R"(,"stream":true)", R"(,"stream":true,"stream_options":{"include_usage":true})"}) {
      for (const char* ids : {"", R"(,"return_token_ids":true)"}) {
        for (const char* n : {"", R"(,"n":2)"}) {
          for (const Asked& asked : kAsked) {
            const std::string body =
                std::string(R"({"model":"m",)") +
                (chat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")") +
                stream + ids + n + (chat ? asked.chat : asked.completion) + "}";
            SCOPED_TRACE(body);
            const std::string path = chat ? "/v1/chat/completions" : "/v1/completions";
            const bool streams = *stream != '\0';
            Lab lab;
            testing::Gateway plain, sampling;
            sampling.SampleAll();
            testing::Ride expected(plain), ride(sampling);
            expected.Start(body, {}, path);
            ASSERT_EQ(expected.asks.at(0).body, body);
            Serve(lab, expected, chat, streams);
            ride.Start(body, {}, path);
            Serve(lab, ride, chat, streams);
            EXPECT_EQ(ride.heard.body, expected.heard.body);
            EXPECT_EQ(ride.heard.length, expected.heard.length);
            EXPECT_EQ(ride.heard.status, 200);
            const auto records = sampling.Records();
            ASSERT_EQ(records.size(), 1u);
            CheckRecord(records[0], lab, asked);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kcc
