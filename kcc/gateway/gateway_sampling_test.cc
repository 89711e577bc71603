// What is sampled, what its client gets, and what is kept of it.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <set>
#include <string>

#include "kcc/gateway/gateway_test_data.h"

namespace kcc {
namespace {

using namespace testing;  // NOLINT: the tests' own words

TEST(GatewaySampling, ASampledRequestIsKeptAndItsClientGetsWhatItAskedFor) {
  Gateway gateway;
  gateway.core.route().Publish(
      Sampling24{kWholeShare, kGuardKernel, kWholeShare, kCandidateKernel});
  Ride ride(gateway);
  const std::string body =
      R"({"model":"m","messages":[{"role":"user","content":"hi"}],"user":"u1","metadata":{"task":"t"}})";
  ride.Start(body, {{"x-kcc-tags", "json,short"}});
  EXPECT_NE(ride.asks[0].body.find("\"return_token_ids\":true"), std::string::npos);
  ride.Answer(
      R"({"choices":[{"index":0,"message":{"content":"a"},"logprobs":{"content":[{"token":"token_id:7","logprob":-0.5,"top_logprobs":[{"token":"token_id:7","logprob":-0.5}]}]},"finish_reason":"stop","token_ids":[7]}],"prompt_token_ids":[1,2],"system_fingerprint":"fp-int8"})");
  EXPECT_EQ(
      ride.heard.body,
      R"({"choices":[{"index":0,"message":{"content":"a"},"logprobs":null,"finish_reason":"stop","token_ids":null}],"prompt_token_ids":null,"system_fingerprint":"fp-int8"})");
  EXPECT_EQ(ride.heard.length, ride.heard.body.size());
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 2u);
  const ServedRecord& probe = records[0];
  EXPECT_EQ(probe.kind, RecordKind::kProbe);
  EXPECT_EQ(probe.kernel, kGuardKernel);
  EXPECT_EQ(probe.request_body, body);
  const ServedRecord& audit = records[1];
  EXPECT_EQ(audit.kind, RecordKind::kAudit);
  EXPECT_EQ(audit.kernel, kInferKernel);
  EXPECT_EQ(audit.session, "u1");
  EXPECT_EQ(audit.fields,
            (std::map<std::string, std::string>{{"tags", "\"json,short\""}, {"task", "\"t\""}}));
  EXPECT_EQ(audit.request_body, body);
  EXPECT_EQ(audit.status, 200);
  EXPECT_EQ(audit.text, "a");
  EXPECT_EQ(audit.finish_reason, "stop");
  EXPECT_EQ(audit.fingerprint, "fp-int8");
  EXPECT_EQ(audit.prompt_ids, (std::vector<int32_t>{1, 2}));
  ASSERT_EQ(audit.tokens.size(), 1u);
  EXPECT_EQ(audit.tokens[0].id, 7);
  EXPECT_TRUE(audit.shadow);
  EXPECT_FALSE(audit.canary);
  EXPECT_EQ(audit.latency_ms, 3);
  EXPECT_EQ(audit.ttft_ms, 3);
  EXPECT_EQ(gateway.counts().kernels[kInferKernel].sampled, 1u);
  EXPECT_EQ(gateway.counts().kernels[kGuardKernel].sampled, 1u);
}

TEST(GatewaySampling, AFullRingLosesRecordsAndSaysSo) {
  Gateway gateway(SmallPool(), 1);
  gateway.SampleAll();
  for (int i = 0; i < 3; ++i) {
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Answer("{}");
    EXPECT_EQ(ride.heard.status, 200);
  }
  EXPECT_EQ(gateway.counts().kernels[0].sampled, 1u);
  EXPECT_EQ(gateway.counts().kernels[0].dropped, 2u);
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[0], 2u);
}

constexpr const char* kWhole =
    R"({"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]})";

TEST(GatewaySampling, WhatTheScorerHasNoPlaceForIsNotAskedForAndCountedAsDropped) {
  Gateway gateway;
  gateway.SampleAll();
  gateway.core.places().SetLimits(2, 1, 1);
  for (int i = 0; i < 5; ++i) {
    Ride ride(gateway);
    ride.Start(kChat);
    EXPECT_EQ(ride.asks[0].body == kChat, i >= 2) << "it costs what an unsampled request does";
    ride.Answer(kWhole);
    EXPECT_EQ(ride.heard.status, 200);
  }
  const KernelCounts& its = gateway.counts().kernels[kInferKernel];
  EXPECT_EQ(its.sampled, 2u);
  EXPECT_EQ(its.dropped, 3u);
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[kInferKernel], 3u) << "the scorer hears of them";
  EXPECT_EQ(gateway.Records().size(), 2u);
  EXPECT_EQ(gateway.core.places().served(), 0u);
  Ride again(gateway);
  again.Start(kChat);
  EXPECT_NE(again.asks[0].body, kChat);
}

TEST(GatewaySampling, WhatACandidateIsToBeShownIsCountedWhateverBecomesOfIt) {
  Gateway gateway;
  gateway.core.route().Publish(Sampling24{kWholeShare, kNoKernel, 0, kCandidateKernel});
  gateway.core.places().SetLimits(2, 1, 1);
  for (int i = 0; i < 5; ++i) {
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Answer(i == 0 ? "{}" : kWhole);
  }
  EXPECT_EQ(gateway.counts().kernels[kCandidateKernel].mirrored, 5u);
  EXPECT_EQ(gateway.counts().kernels[kInferKernel].mirrored, 0u);
}

TEST(GatewaySampling, APlaceThatIsTakenMeanwhileDropsTheRecordAtItsEnd) {
  Gateway gateway;
  gateway.SampleAll();
  gateway.core.places().SetLimits(1, 1, 1);
  Ride first(gateway), second(gateway);
  first.Start(kChat);
  second.Start(kChat);
  second.Answer(kWhole);
  first.Answer(kWhole);
  EXPECT_EQ(gateway.Records().size(), 1u);
  EXPECT_EQ(gateway.counts().kernels[kInferKernel].dropped, 1u);
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[kInferKernel], 1u);
}

TEST(GatewaySampling, AKernelThatManyProbesWaitForIsNotAskedMoreAndThatIsNoEvidence) {
  Gateway gateway;
  gateway.core.route().Publish(Sampling24{kWholeShare, kGuardKernel, kWholeShare, kNoKernel});
  gateway.core.places().SetLimits(64, 2, 3);
  for (int i = 0; i < 5; ++i) {
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Answer(kWhole);
  }
  const auto& kernels = gateway.counts().kernels;
  EXPECT_EQ(kernels[kGuardKernel].unasked, 3u);
  EXPECT_EQ(kernels[kGuardKernel].sampled, 2u);
  EXPECT_EQ(kernels[kGuardKernel].dropped, 0u);
  EXPECT_EQ(kernels[kInferKernel].sampled, 5u) << "what is served has places of its own";
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[kGuardKernel], 0u);
}

TEST(GatewaySampling, ARequestThatIsGivenUpIsMissingForTheScorerToo) {
  Gateway gateway;
  gateway.SampleAll();
  { Ride(gateway).Start(kChat); }
  EXPECT_EQ(gateway.counts().kernels[kInferKernel].dropped, 1u);
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[kInferKernel], 1u);
}

TEST(GatewaySampling, AnAnswerWithoutAChoiceIsNoEvidence) {
  for (const char* answer : {"{}", R"({"error":{"message":"x"}})", R"({"choices":[]})",
                             R"({"choices":[{"index":1,"message":{"content":"a"}}]})"}) {
    Gateway gateway;
    gateway.SampleAll();
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Answer(answer);
    EXPECT_EQ(ride.heard.body, answer);
    const auto records = gateway.Records();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].kind, RecordKind::kLost) << answer;
    EXPECT_FALSE(records[0].reason.empty());
  }
}

TEST(GatewaySampling, ACutIsEvidenceWhateverCouldBeReadBeforeIt) {
  Gateway gateway;
  gateway.SampleAll();
  Ride ride(gateway);
  ride.Start(kChatStream);
  ride.EventsHead();
  ride.Body("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: garbage\n\n");
  ride.Fail(UpstreamFailure::kBroken);
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, RecordKind::kAudit);
  EXPECT_TRUE(records[0].cut);
  EXPECT_TRUE(records[0].text.empty());
}

TEST(GatewaySampling, WhatHasNoAuditIsCountedAndNotAsked) {
  Gateway gateway;
  gateway.SampleAll();
  Ride ride(gateway);
  const std::string body = R"({"model":"m","prompt":["a","b"]})";
  ride.Start(body, {}, "/v1/completions");
  EXPECT_EQ(ride.asks[0].body, body);
  ride.Answer("{}");
  EXPECT_TRUE(gateway.Records().empty());
  EXPECT_EQ(gateway.counts().unauditable, 1u);
}

TEST(GatewaySampling, TheShareIsThatOfRequestsWhateverTheirClientsCallThem) {
  Gateway gateway;
  gateway.core.route().Publish(Sampling24{ShareOf(0.2), kNoKernel, 0, kNoKernel});
  int sampled = 0;
  for (int i = 0; i < 2000; ++i) {
    Ride ride(gateway);
    ride.Start(kChat, {{"x-request-id", "always-the-same"}});
    sampled += ride.asks[0].body == kChat ? 0 : 1;
  }
  EXPECT_NEAR(sampled, 400, 100);
}

TEST(GatewaySampling, ARecordIsOfOneRequestWhateverItsClientCallsIt) {
  Gateway gateway;
  gateway.SampleAll();
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    Ride ride(gateway);
    ride.Start(kChat, {{"x-request-id", "always-the-same"}});
    ride.Fail(UpstreamFailure::kConnect);
    ride.Answer(R"({"choices":[]})");
    EXPECT_EQ(ride.heard.Header("x-request-id"), "always-the-same");
    for (const ServedRecord& record : gateway.Records()) {
      EXPECT_TRUE(record.id.starts_with("always-the-same~")) << record.id;
      EXPECT_TRUE(ids.insert(record.id).second) << record.id;
    }
  }
  EXPECT_EQ(ids.size(), 6u);
}

TEST(GatewaySampling, AKernelIsNotChargedWithTheTimeOfTheOneBeforeIt) {
  Gateway gateway;
  gateway.SampleAll();
  Ride ride(gateway);
  ride.Start(kChat);
  ride.now_us += 2'000'000;
  ride.Fail(UpstreamFailure::kTimeout);
  ride.Answer(R"({"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]})");
  const std::vector<ServedRecord> records = gateway.Records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_GT(records[0].latency_ms, 2000);
  EXPECT_LT(records[1].latency_ms, 10);
}

// A stream as vLLM writes it for a sampled request, and for the client's own.
struct Pair {
  std::string sampled;
  std::string plain;
};

std::string Event(const std::string& json, const std::string& line_end) {
  return "data: " + json + line_end + line_end;
}

Pair DrawStream(bool chat) {
  const std::string end = *rc::gen::element<std::string>("\n", "\r\n", "\r");
  Pair pair;
  const auto both = [&](const std::string& text) { pair.sampled += text, pair.plain += text; };
  if (!chat) {
    pair.sampled += Event(
        R"({"choices":[{"text":"","logprobs":null,"finish_reason":null,"token_ids":[],"prompt_token_ids":[1,2]}]})",
        end);
  } else {
    pair.sampled += Event(
        R"({"choices":[{"delta":{"content":""},"logprobs":null,"token_ids":[]}],"prompt_token_ids":[1,2]})",
        end);
    pair.plain += Event(
        R"({"choices":[{"delta":{"content":""},"logprobs":null,"token_ids":null}],"prompt_token_ids":null})",
        end);
  }
  const int tokens = *rc::gen::inRange(1, 6);
  for (int i = 0; i < tokens; ++i) {
    const std::string id = std::to_string(10 + i);
    const std::string text =
        *rc::gen::element<std::string>("a", "\\n", "\\\"logprobs\\\":", "data: ");
    const std::string what =
        chat ? "\"delta\":{\"content\":\"" + text + "\"}" : "\"text\":\"" + text + "\"";
    const std::string logprobs =
        chat ? "{\"content\":[{\"token\":\"token_id:" + id +
                   "\",\"logprob\":-1.5,\"bytes\":[1],\"top_logprobs\":[]}]}"
             : "{\"text_offset\":[0],\"token_logprobs\":[-1.5],\"tokens\":[\"token_id:" + id +
                   "\"],\"top_logprobs\":[{\"token_id:" + id + "\":-1.5}]}";
    const std::string prompt = chat ? "" : ",\"prompt_token_ids\":null";
    pair.sampled += Event("{\"choices\":[{" + what + ",\"logprobs\":" + logprobs +
                              ",\"finish_reason\":null,\"token_ids\":[" + id + "]" + prompt + "}]}",
                          end);
    pair.plain +=
        Event("{\"choices\":[{" + what +
                  ",\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null" + prompt + "}]}",
              end);
    if (*rc::gen::inRange(0, 4) == 0) both(": a comment" + end + end);
  }
  both(Event("[DONE]", end));
  return pair;
}

std::vector<std::string> Cut(const std::string& stream) {
  std::vector<std::string> pieces;
  const size_t most = *rc::gen::element<size_t>(2, 40, 1000);
  for (size_t at = 0; at < stream.size();) {
    const size_t length = *rc::gen::inRange<size_t>(1, most);
    pieces.push_back(stream.substr(at, length));
    at += length;
  }
  return pieces;
}

TEST(GatewaySampling, AnyChunkingGivesTheBytesOfTheUnsampledStreamAndTheSameRecord) {
  EXPECT_TRUE(rc::check([] {
    const bool chat = *rc::gen::arbitrary<bool>();
    const Pair pair = DrawStream(chat);
    std::optional<ServedRecord> first;
    for (const bool whole : {true, false}) {
      Gateway gateway;
      gateway.SampleAll();
      Ride ride(gateway);
      ride.Start(chat ? kChatStream : R"({"model":"m","prompt":"a","stream":true})", {},
                 chat ? "/v1/chat/completions" : "/v1/completions");
      ride.EventsHead();
      for (const std::string& piece :
           whole ? std::vector<std::string>{pair.sampled} : Cut(pair.sampled)) {
        ride.Body(piece);
      }
      ride.End();
      RC_ASSERT(ride.heard.body == pair.plain);
      std::vector<ServedRecord> records = gateway.Records();
      RC_ASSERT(records.size() == 1u);
      ServedRecord& record = records[0];
      RC_ASSERT(record.kind == RecordKind::kAudit);
      RC_ASSERT(record.prompt_ids == (std::vector<int32_t>{1, 2}));
      if (first) {
        RC_ASSERT(record.text == first->text);
        RC_ASSERT(record.tokens.size() == first->tokens.size());
        for (size_t i = 0; i < record.tokens.size(); ++i) {
          RC_ASSERT(record.tokens[i].id == static_cast<int32_t>(10 + i));
          RC_ASSERT(record.tokens[i].logprob == -1.5);
        }
      }
      first = std::move(record);
    }
  }));
}

TEST(GatewaySampling, AnyChunkingPassesAnUnsampledStreamAsItIs) {
  EXPECT_TRUE(rc::check([] {
    const Pair pair = DrawStream(true);
    Gateway gateway;
    Ride ride(gateway);
    ride.Start(kChatStream);
    ride.EventsHead();
    for (const std::string& piece : Cut(pair.plain)) ride.Body(piece);
    ride.End();
    RC_ASSERT(ride.heard.body == pair.plain);
    RC_ASSERT(gateway.counts().kernels[0].answered == 1u);
  }));
}

// Wherever a stream is cut, its client hears whole events, an error, and no [DONE].
TEST(GatewaySampling, AStreamThatBreaksAnywhereIsReplacedOrEndsWithAnError) {
  EXPECT_TRUE(rc::check([] {
    const Pair pair = DrawStream(true);
    const size_t at = *rc::gen::inRange<size_t>(0, pair.sampled.size());
    Gateway gateway;
    gateway.SampleAll();
    Ride ride(gateway);
    ride.Start(kChatStream);
    ride.EventsHead();
    for (const std::string& piece : Cut(pair.sampled.substr(0, at))) ride.Body(piece);
    ride.Fail(UpstreamFailure::kBroken);
    const bool replaced = ride.asks.size() == 2;
    RC_ASSERT(replaced != ride.heard.ended);
    if (!replaced && gateway.counts().kernels[0].cut == 1u) {
      const size_t error = ride.heard.body.rfind("data: {\"error\"");
      RC_ASSERT(error != std::string::npos);
      RC_ASSERT(pair.plain.starts_with(ride.heard.body.substr(0, error)));
      RC_ASSERT(ride.heard.body.find("[DONE]") == std::string::npos);
    }
    if (replaced) RC_ASSERT(ride.heard.body.empty());
  }));
}

}  // namespace
}  // namespace kcc
