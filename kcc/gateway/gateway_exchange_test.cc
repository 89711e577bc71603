#include "kcc/gateway/gateway_exchange.h"

#include <gtest/gtest.h>

#include "kcc/gateway/gateway_test_data.h"

namespace kcc {
namespace {

using namespace testing;  // NOLINT: the tests' own words

const char* const kWholeAnswer =
    R"({"choices":[{"message":{"content":"a"}}],"system_fingerprint":"fp-int8"})";
const std::string kRole = "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n";
const std::string kWord =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"system_fingerprint\":\"fp-int8\"}\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(GatewayExchange, PassesAnAnswerByteForByteAndSaysWhereItIsFrom) {
  Gateway gateway;
  Ride ride(gateway);
  ride.Start(kChat, {{"X-Request-Id", "mine-1"},
                     {"Authorization", "Bearer secret"},
                     {"Cookie", "c"},
                     {"x-kcc-kernel", "fp32"},
                     {"x-kcc-tags", "json"},
                     {"TraceParent", "00-1-2-01"},
                     {"Accept-Encoding", "gzip"}});
  ASSERT_EQ(ride.asks.size(), 1u);
  EXPECT_EQ(ride.asks[0].body, kChat);
  EXPECT_EQ(ride.asks[0].target, "/v1/chat/completions");
  EXPECT_EQ(ride.asks[0].headers, (HeaderList{{"content-type", "application/json"},
                                              {"accept", "application/json"},
                                              {"accept-encoding", "identity"},
                                              {"x-request-id", "mine-1"},
                                              {"traceparent", "00-1-2-01"},
                                              {"x-kcc-tags", "json"}}));
  EXPECT_EQ(ride.Head(200, {{"content-type", "application/json"},
                            {"set-cookie", "x"},
                            {"x-kcc-kernel", "liar"},
                            {"connection", "close"}})
                .kind,
            StepKind::kWait);
  ride.Body(std::string_view(kWholeAnswer).substr(0, 10));
  ride.Body(std::string_view(kWholeAnswer).substr(10));
  ride.End();
  EXPECT_EQ(ride.heard.status, 200);
  EXPECT_EQ(ride.heard.body, kWholeAnswer);
  EXPECT_EQ(ride.heard.length, std::string_view(kWholeAnswer).size());
  EXPECT_EQ(ride.heard.headers, (HeaderList{{"content-type", "application/json"},
                                            {"x-request-id", "mine-1"},
                                            {"x-kcc-kernel", "int8"},
                                            {"x-kcc-fingerprint", "fp-int8"},
                                            {"x-kcc-contract", "sha256:abc"},
                                            {"x-kcc-stage", "full"}}));
  EXPECT_TRUE(gateway.Records().empty()) << "it was not sampled";
  gateway.ExpectCountsAddUp();
  EXPECT_EQ(gateway.counts().kernels[0].answered, 1u);
}

struct RefusalCase {
  const char* name;
  const char* method;
  const char* target;
  const char* type;
  const char* body;
  int status;
};

TEST(GatewayExchange, RefusesWhatItWouldNotSend) {
  const RefusalCase cases[] = {
      {"another path", "POST", "/v1/embeddings", "application/json", kChat, 404},
      {"a path that is one after decoding", "POST", "/v1/%63ompletions", "application/json", kChat,
       404},
      {"a doubled slash", "POST", "//v1/completions", "application/json", kChat, 404},
      {"GET", "GET", "/v1/chat/completions", "application/json", kChat, 405},
      {"POST of the models", "POST", "/v1/models", "application/json", kChat, 405},
      {"another type", "POST", "/v1/completions", "text/plain", kChat, 415},
      {"no JSON", "POST", "/v1/completions", "application/json", "{", 400},
      {"no object", "POST", "/v1/completions", "application/json", "[]", 400},
      {"no model", "POST", "/v1/completions", "application/json", "{}", 400},
      {"a model that is no text", "POST", "/v1/completions", "application/json", R"({"model":1})",
       400},
      {"another model", "POST", "/v1/completions", "application/json", R"({"model":"x"})", 404},
      {"two models", "POST", "/v1/completions", "application/json", R"({"model":"m","model":"m"})",
       400},
      {"another model of the list", "GET", "/v1/models/x", "", "", 404},
  };
  Gateway gateway;
  for (const RefusalCase& one : cases) {
    Ride ride(gateway);
    const Step step = ride.Start(one.body, {}, one.target, one.method, one.type);
    EXPECT_EQ(step.kind, StepKind::kAnswer) << one.name;
    EXPECT_EQ(ride.heard.status, one.status) << one.name;
    EXPECT_TRUE(ride.heard.body.starts_with(R"({"error":{"message":")")) << one.name;
    EXPECT_EQ(ride.heard.Header("allow").empty(), one.status != 405) << one.name;
    EXPECT_TRUE(ride.asks.empty()) << one.name;
  }
  EXPECT_EQ(gateway.counts().refused, std::size(cases));
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, AnswersForItsModelItself) {
  Gateway gateway;
  for (const std::string path : {"/v1/models", "/v1/models?x=1", "/v1/models/m"}) {
    Ride ride(gateway);
    ride.Start("", {}, path, "GET", "");
    EXPECT_EQ(ride.heard.status, 200) << path;
    EXPECT_NE(ride.heard.body.find("\"id\":\"m\""), std::string::npos);
  }
  EXPECT_EQ(gateway.counts().own, 3u);
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, AClientsOwnIdIsKeptIfItIsSane) {
  Gateway gateway;
  const std::vector<std::string> ids = {"a b", "a\r\nx: y", std::string(129, 'a'), "", "<script>"};
  for (const std::string& id : ids) {
    Ride ride(gateway);
    ride.Start(kChat, {{"x-request-id", id}});
    EXPECT_TRUE(ride.exchange.request_id().starts_with("req-")) << id;
    EXPECT_EQ(ride.asks[0].headers[3].second, ride.exchange.request_id());
  }
  Ride other(gateway), another(gateway);
  other.Start(kChat);
  another.Start(kChat);
  EXPECT_NE(other.exchange.request_id(), another.exchange.request_id());
}

TEST(GatewayExchange, NoRouteRefuses) {
  Gateway gateway;
  gateway.core.route().Publish(Route24{});
  Ride ride(gateway);
  ride.Start(kChat);
  EXPECT_EQ(ride.heard.status, 503);
  EXPECT_EQ(ride.heard.Header("retry-after"), "1");
}

TEST(GatewayExchange, ASessionStaysWithItsKernel) {
  Gateway gateway;
  gateway.core.route().Publish(Route24{kInferKernel, kCandidateKernel, ShareOf(0.5)});
  size_t canary = 0;
  for (int session = 0; session < 200; ++session) {
    std::optional<size_t> first;
    for (int i = 0; i < 3; ++i) {
      Ride ride(gateway);
      ride.Start(kChat, {{"X-Session-Id", "s" + std::to_string(session)}});
      if (!first) first = ride.asks[0].kernel;
      EXPECT_EQ(ride.asks[0].kernel, *first);
    }
    canary += *first == kCandidateKernel ? 1 : 0;
  }
  EXPECT_GT(canary, 60u);
  EXPECT_LT(canary, 140u);
}

TEST(GatewayExchange, NothingGoesToAKernelThatMayNotServe) {
  Gateway gateway;
  gateway.core.route().Publish(Route24{kCandidateKernel, kNoKernel, 0});
  {
    Ride ride(gateway);
    ride.Start(kChat);
    EXPECT_EQ(ride.asks[0].kernel, kGuardKernel) << "a candidate serves as a canary only";
  }
  gateway.core.route().Publish(Route24{kInferKernel, kNoKernel, 0});
  gateway.core.route().Allow(uint64_t{1} << kFallbackKernel);
  {
    Ride ride(gateway);
    ride.Start(kChat);
    EXPECT_EQ(ride.asks[0].kernel, kFallbackKernel);
    ride.Fail(UpstreamFailure::kConnect);
    EXPECT_EQ(ride.heard.status, 502) << "the guard is not allowed";
  }
  gateway.core.route().Publish(Route24{77, kNoKernel, 0});
  gateway.core.route().Allow(0);
  Ride ride(gateway);
  ride.Start(kChat);
  EXPECT_EQ(ride.heard.status, 503);
}

TEST(GatewayExchange, BeforeContentAFailureGoesToTheNextKernel) {
  using Fail = void (*)(Ride&);
  const std::pair<const char*, Fail> failures[] = {
      {"no connection", [](Ride& r) { r.Fail(UpstreamFailure::kConnect); }},
      {"a time-out", [](Ride& r) { r.Fail(UpstreamFailure::kTimeout); }},
      {"500", [](Ride& r) { r.Head(500); }},
      {"429", [](Ride& r) { r.Head(429); }},
      {"401, which is the gateway's key", [](Ride& r) { r.Head(401); }},
      {"a redirect", [](Ride& r) { r.Head(302); }},
      {"a packed answer",
       [](Ride& r) {
         r.Head(200, {{"content-encoding", "gzip"}});
       }},
      {"an end without a head", [](Ride& r) { r.End(); }},
      {"garbage", [](Ride& r) { r.Answer("<html>"); }},
      {"half an answer", [](Ride& r) { r.Answer("{\"choices\":["); }},
      {"a broken whole answer",
       [](Ride& r) { r.Head(200), r.Body("{"), r.Fail(UpstreamFailure::kBroken); }},
      {"a stream that ends at once", [](Ride& r) { r.EventsHead(), r.End(); }},
      {"a stream that breaks before content",
       [](Ride& r) { r.EventsHead(), r.Body(kRole), r.Fail(UpstreamFailure::kBroken); }},
      {"an error event before content",
       [](Ride& r) { r.EventsHead(), r.Body(kRole + "data: {\"error\":{\"code\":500}}\n\n"); }},
      {"events that are none", [](Ride& r) { r.EventsHead(), r.Body("data: garbage\n\n"); }},
  };
  for (const auto& [name, fail] : failures) {
    Gateway gateway;
    gateway.SampleAll();
    Ride ride(gateway);
    ride.Start(kChatStream);
    EXPECT_EQ(ride.asks[0].kernel, kInferKernel);
    fail(ride);
    ASSERT_EQ(ride.asks.size(), 2u) << name;
    EXPECT_EQ(ride.asks[1].kernel, kGuardKernel) << name;
    EXPECT_EQ(ride.asks[1].body, ride.asks[0].body) << name;
    EXPECT_EQ(ride.heard.status, 0) << name;
    ride.EventsHead();
    ride.Body(kRole + kWord + kDone);
    ride.End();
    EXPECT_EQ(ride.heard.body, kRole + kWord + kDone) << name;
    EXPECT_EQ(ride.heard.Header("x-kcc-kernel"), "bf16") << name;
    EXPECT_EQ(gateway.counts().kernels[kInferKernel].failed, 1u) << name;
    EXPECT_EQ(gateway.counts().retried, 1u);
    gateway.ExpectCountsAddUp();
    std::vector<ServedRecord> records = gateway.Records();
    // The stranger's fingerprint, too: the guard says it is int8.
    ASSERT_EQ(records.size(), 3u) << name;
    EXPECT_EQ(records[0].kernel, kInferKernel);
    EXPECT_TRUE(records[0].id.ends_with("~1"));
    EXPECT_FALSE(records[0].reason.empty());
    EXPECT_EQ(records[1].kind, RecordKind::kFingerprint);
    EXPECT_EQ(records[2].kernel, kGuardKernel);
    EXPECT_EQ(records[2].text, "a");
  }
}

TEST(GatewayExchange, WhenAllFailTheClientHearsTheLastFailure) {
  struct Case {
    int status;
    int heard;
  };
  for (const auto& [status, heard] : {Case{429, 429}, Case{503, 503}, Case{500, 502}}) {
    Gateway gateway;
    Ride ride(gateway);
    ride.Start(kChat);
    ride.Fail(UpstreamFailure::kConnect);
    ride.Head(status, {{"retry-after", "7"}, {"content-type", "text/html"}});
    EXPECT_EQ(ride.heard.status, heard);
    EXPECT_EQ(ride.heard.Header("retry-after"), heard == 502 ? "" : "7");
    EXPECT_TRUE(ride.heard.body.starts_with("{\"error\""));
    EXPECT_EQ(ride.asks.size(), 2u) << "one retry";
    gateway.ExpectCountsAddUp();
  }
  Gateway gateway;
  Ride ride(gateway);
  ride.Start(kChat);
  ride.Fail(UpstreamFailure::kTimeout);
  ride.Fail(UpstreamFailure::kTimeout);
  EXPECT_EQ(ride.heard.status, 504);
}

TEST(GatewayExchange, AnErrorOfTheRequestIsTheClients) {
  Gateway gateway;
  gateway.SampleAll();
  Ride ride(gateway);
  ride.Start(kChat);
  // Maybe it is what sampling added that the kernel refuses: the client's own request is sent.
  ride.Head(400);
  ASSERT_EQ(ride.asks.size(), 2u);
  EXPECT_EQ(ride.asks[1].kernel, kInferKernel);
  EXPECT_EQ(ride.asks[1].body, kChat);
  ride.Head(400);
  ride.Body("{\"error\":1}");
  ride.End();
  EXPECT_EQ(ride.heard.status, 400);
  EXPECT_EQ(ride.heard.body, "{\"error\":1}");
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, RecordKind::kAudit);
  EXPECT_EQ(records[0].status, 400);
}

TEST(GatewayExchange, AKernelThatRefusesTheFieldsOfSamplingStillServesAndTheEvidenceIsLost) {
  Gateway gateway;
  gateway.SampleAll();
  Ride ride(gateway);
  ride.Start(kChat);
  ride.Head(422);
  ride.Answer(kWholeAnswer);
  EXPECT_EQ(ride.heard.status, 200);
  EXPECT_EQ(ride.heard.body, kWholeAnswer);
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, RecordKind::kLost);
}

TEST(GatewayExchange, AStreamsHeadWaitsForContentAndThenEventsPassAtOnce) {
  Gateway gateway;
  Ride ride(gateway);
  ride.Start(kChatStream);
  ride.EventsHead();
  EXPECT_TRUE(ride.exchange.streaming());
  EXPECT_EQ(ride.Body(": ping\n\n").kind, StepKind::kWait);
  EXPECT_EQ(ride.Body(kRole).kind, StepKind::kWait);
  EXPECT_EQ(ride.Body(kWord).kind, StepKind::kPass);
  EXPECT_EQ(ride.heard.body, ": ping\n\n" + kRole + kWord);
  EXPECT_EQ(ride.heard.Header("x-kcc-fingerprint"), "fp-int8");
  EXPECT_FALSE(ride.heard.length);
  EXPECT_EQ(ride.Body(kWord.substr(0, 20)).kind, StepKind::kWait) << "half an event is of no use";
  EXPECT_EQ(ride.Body(kWord.substr(20)).bytes, kWord);
  ride.Body(kDone);
  EXPECT_EQ(ride.End().kind, StepKind::kDone);
  EXPECT_EQ(ride.heard.body, ": ping\n\n" + kRole + kWord + kWord + kDone);
  EXPECT_EQ(gateway.counts().kernels[0].answered, 1u);
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, AfterContentAFailureIsSaidInTheStreamAndItEnds) {
  for (const bool broken : {true, false}) {
    Gateway gateway;
    gateway.SampleAll();
    Ride ride(gateway);
    ride.Start(kChatStream);
    ride.EventsHead();
    ride.Body(kWord + kWord.substr(0, 30));
    const Step step = broken ? ride.Fail(UpstreamFailure::kBroken) : ride.End();
    EXPECT_EQ(step.kind, StepKind::kDone);
    EXPECT_TRUE(ride.heard.body.starts_with(kWord + "data: {\"error\":{\"message\":"));
    EXPECT_TRUE(ride.heard.body.ends_with("}}\n\n"));
    EXPECT_EQ(ride.heard.body.find("[DONE]"), std::string::npos);
    EXPECT_EQ(ride.asks.size(), 1u);
    EXPECT_EQ(gateway.counts().kernels[0].cut, 1u);
    gateway.ExpectCountsAddUp();
    const auto records = gateway.Records();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_TRUE(records[0].cut);
    EXPECT_EQ(records[0].text, "a");
  }
}

TEST(GatewayExchange, AnErrorEventAfterContentPassesAndCountsAsACut) {
  Gateway gateway;
  Ride ride(gateway);
  ride.Start(kChatStream);
  ride.EventsHead();
  const std::string error = "data: {\"error\": {\"message\":\"x\"}}\n\n";
  ride.Body(kWord + error + kDone);
  ride.End();
  EXPECT_EQ(ride.heard.body, kWord + error + kDone);
  EXPECT_EQ(gateway.counts().kernels[0].cut, 1u);
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, WhatBreaksBehindTheEndOfAStreamIsNoMatter) {
  Gateway gateway;
  Ride ride(gateway);
  ride.Start(kChatStream);
  ride.EventsHead();
  ride.Body(kWord + kDone);
  EXPECT_EQ(ride.Fail(UpstreamFailure::kBroken).kind, StepKind::kDone);
  EXPECT_EQ(ride.heard.body, kWord + kDone);
  EXPECT_EQ(gateway.counts().kernels[0].answered, 1u);
}

TEST(GatewayExchange, AWholeAnswerTooLargeToWaitForPassesAsItComes) {
  Gateway gateway;
  gateway.SampleAll();
  GatewayPool pool = SmallPool();
  pool.answer_bytes_max = 1 << 10;  // a MiB waits in any case
  gateway.core.Replace(std::make_shared<const GatewayPool>(pool));
  Ride ride(gateway);
  ride.Start(kChat);
  ride.Head(200);
  const std::string part = "{" + std::string(1 << 20, ' ');
  EXPECT_EQ(ride.Body(part).kind, StepKind::kPass);
  EXPECT_EQ(ride.Body("}").kind, StepKind::kPass);
  EXPECT_EQ(ride.End().kind, StepKind::kDone);
  EXPECT_EQ(ride.heard.body, part + "}");
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, RecordKind::kLost);
  Ride torn(gateway);
  torn.Start(kChat);
  torn.Head(200);
  torn.Body(part);
  EXPECT_EQ(torn.Fail(UpstreamFailure::kBroken).kind, StepKind::kCut);
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, AClientThatLeavesIsNoFaultOfTheKernels) {
  Gateway gateway;
  gateway.SampleAll();
  {
    Ride ride(gateway);
    ride.Start(kChatStream);
    ride.EventsHead();
    ride.Body(kWord);
    ride.exchange.OnClientGone(ride.now_us);
  }
  {
    Ride ride(gateway);  // given up without a word
    ride.Start(kChatStream);
  }
  const auto records = gateway.Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(records[0].client_left);
  EXPECT_FALSE(records[0].cut);
  EXPECT_EQ(gateway.counts().left, 2u);
  EXPECT_EQ(gateway.counts().kernels[0].failed, 0u);
  EXPECT_EQ(gateway.counts().kernels[0].dropped, 1u) << "lost, and counted";
  EXPECT_EQ(gateway.worker().ring().TakeDropped()[0], 1u) << "and told to the scorer";
  gateway.ExpectCountsAddUp();
}

TEST(GatewayExchange, AStrangersFingerprintIsTold) {
  for (const bool sampled : {false, true}) {
    for (const bool stream : {false, true}) {
      Gateway gateway;
      if (sampled) gateway.SampleAll();
      Ride ride(gateway);
      ride.Start(stream ? kChatStream : kChat);
      if (stream) {
        ride.EventsHead();
        const std::string word =
            "data: {\"choices\":[{\"text\":\"a\"}],\"system_fingerprint\":\"other\"}\n\n";
        ride.Body(word + word + kDone);
        ride.End();
      } else {
        ride.Answer(R"({"choices":[],"system_fingerprint":"other"})");
        EXPECT_EQ(ride.heard.Header("x-kcc-fingerprint"), "other");
      }
      EXPECT_EQ(gateway.counts().kernels[0].strangers, 1u);
      const auto records = gateway.Records();
      ASSERT_EQ(records.size(), sampled ? 2u : 1u);
      EXPECT_EQ(records[0].kind, RecordKind::kFingerprint);
      EXPECT_EQ(records[0].fingerprint, "other");
    }
  }
}

// More than is held of an answer: it passes unread, but for its fingerprint.
TEST(GatewayExchange, AStrangersFingerprintIsToldHoweverLargeItsAnswer) {
  const std::string large(3 << 20, 'x');
  const std::string key = "\"system_fingerprint\":\"other\"";
  const std::string choice =
      "\"choices\":[{\"index\":0,\"message\":{\"content\":\"" + large + "\"}}]";
  for (const bool stream : {false, true}) {
    for (const bool first : {false, true}) {
      for (const size_t piece : {size_t{1000}, size_t{32} << 10, large.size()}) {
        Gateway gateway;
        Ride ride(gateway);
        ride.Start(stream ? kChatStream : kChat);
        stream ? ride.EventsHead() : ride.Head(200);
        std::string text = first ? "{" + key + "," + choice + "}" : "{" + choice + "," + key + "}";
        if (stream) text = "data: " + text + "\n\n" + kDone;
        for (size_t at = 0; at < text.size(); at += piece) ride.Body(text.substr(at, piece));
        ride.End();
        EXPECT_TRUE(ride.heard.ended && ride.heard.body == text);
        EXPECT_EQ(gateway.counts().kernels[0].strangers, 1u) << stream << first << piece;
        const auto records = gateway.Records();
        ASSERT_EQ(records.size(), 1u);
        EXPECT_EQ(records[0].kind, RecordKind::kFingerprint);
        EXPECT_EQ(records[0].fingerprint, "other");
      }
    }
  }
}

TEST(GatewayExchange, AReloadLeavesRequestsUnderWayTheirPool) {
  Gateway gateway;
  Ride before(gateway);
  before.Start(kChat);
  GatewayPool pool = SmallPool();
  pool.model = "n";
  pool.stage = "canary";
  gateway.core.Replace(std::make_shared<const GatewayPool>(pool));
  before.Answer(kWholeAnswer);
  EXPECT_EQ(before.heard.Header("x-kcc-stage"), "full");
  Ride after(gateway);
  after.Start(kChat);
  EXPECT_EQ(after.heard.status, 404);
}

}  // namespace
}  // namespace kcc
