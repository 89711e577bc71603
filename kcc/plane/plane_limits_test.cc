// What a hostile, greedy or unlucky client hears, and what becomes of connections when the plane
// drains or takes new options.
#include <gtest/gtest.h>

#include <latch>

#include "kcc/base/sha256.h"
#include "kcc/plane/plane_test_data.h"

namespace kcc {
namespace {

TestKernel::Script Good() {
  return
      [](Channel& channel, const TestMessage&, int) { return channel.Write(Sized(Answer("x"))); };
}

const std::string kBody =
    "{\"model\":\"kcc-lab\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
std::string Head(const std::string& fields) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
         fields + "\r\n";
}
std::string Length(size_t length) { return "Content-Length: " + std::to_string(length) + "\r\n"; }

struct Attack {
  const char* name;
  std::string bytes;
  int status;
};

TEST(PlaneLimits, NoRequestIsHiddenInAnother) {
  const std::string hidden = ChatRequest();
  const Attack attacks[] = {
      {"a length and chunked coding",
       Head(Length(5) + "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n" + hidden, 400},
      {"chunked coding and a length",
       Head("Transfer-Encoding: chunked\r\n" + Length(5)) + "0\r\n\r\n" + hidden, 400},
      {"two lengths", Head(Length(0) + Length(hidden.size())) + hidden, 400},
      {"another coding", Head("Transfer-Encoding: xchunked\r\n") + hidden, 400},
      {"two codings", Head("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n") + hidden, 400},
      {"a bare LF", "GET / HTTP/1.1\nHost: a\n\n" + hidden, 400},
      {"a folded coding", Head("Transfer-Encoding:\r\n chunked\r\n") + hidden, 400},
      {"a blank before the colon", Head("Content-Length : 5\r\n") + hidden, 400},
      {"a NUL", Head(std::string("X: \0\r\n", 6)) + hidden, 400},
      {"a chunk's size that overflows",
       Head("Transfer-Encoding: chunked\r\n") + "ffffffffffffffff1\r\n" + hidden, 400},
      {"a chunk that ends with LF",
       Head("Transfer-Encoding: chunked\r\n") + "1\r\nx\n0\r\n\r\n" + hidden, 400},
      {"an endless extension",
       Head("Transfer-Encoding: chunked\r\n") + "1;" + std::string(5000, 'a') + hidden, 400},
      {"HTTP/2 by prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, 505},
      {"an unknown version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n" + hidden, 505}};
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()});
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.name);
    const auto client = plane.Connect();
    ASSERT_TRUE(client->Write(attack.bytes));
    const TestMessage answer = ReadMessage(*client, false);
    EXPECT_EQ(answer.status(), attack.status);
    EXPECT_TRUE(answer.Has("connection: close"));
    EXPECT_TRUE(client->Ended()) << "nothing else is answered";
  }
  EXPECT_EQ(kernel.requests(), 0);
  EXPECT_EQ(plane.plane->counts().bad_requests, std::size(attacks));
}

TEST(PlaneLimits, AChunkedBodyReachesTheKernelWithALength) {
  std::string head;
  std::string body;
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    head = request.head;
    body = request.body;
    return channel.Write(Sized(Answer("x")));
  });
  TestPlane plane({kernel.port()});
  const TestMessage answer =
      plane.Ask(Head("Transfer-Encoding: chunked\r\n") + Chunk(kBody.substr(0, 10)) +
                Chunk(kBody.substr(10)) + "0\r\nTransfer-Encoding: x\r\n\r\n");
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(body, kBody);
  EXPECT_EQ(head.find("ransfer"), head.npos);
}

TEST(PlaneLimits, AClientThatAsksBeforeItSendsIsToldToGoOn) {
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  client->Write(Head("Expect: 100-continue\r\n" + Length(kBody.size())));
  EXPECT_EQ(client->ReadThrough("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client->Write(kBody);
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
}

TEST(PlaneLimits, WhatIsTooLargeIsRefusedBeforeItIsRead) {
  PlaneOptions options;
  options.body_bytes_max = 100;
  options.header_bytes_max = 1024;
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  EXPECT_EQ(plane.Ask(Head(Length(101))).status(), 413);
  EXPECT_EQ(plane.Ask(Head("Expect: 100-continue\r\n" + Length(1 << 30))).status(), 413);
  EXPECT_EQ(plane.Ask(Head("Transfer-Encoding: chunked\r\n") + "65\r\n").status(), 413);
  EXPECT_EQ(plane.Ask(Head("X: " + std::string(2000, 'x') + "\r\n")).status(), 431);
  EXPECT_EQ(plane.Ask("GET /" + std::string(5000, 'x')).status(), 431);
  // The client hears it even if it has sent a lot more.
  for (const size_t bytes : {size_t{500'000}, size_t{20} << 20}) {
    EXPECT_EQ(plane.Ask(Head(Length(bytes)) + std::string(bytes, 'x')).status(), 413) << bytes;
  }
  EXPECT_EQ(kernel.requests(), 0);
}

TEST(PlaneLimits, ARequestThatDoesNotArriveIsGivenUp) {
  PlaneOptions options;
  options.request_ms = 200;
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  EXPECT_EQ(plane.Ask("POST /v1/chat").status(), 408);
  EXPECT_EQ(plane.Ask(Head(Length(50)) + "{").status(), 408);
}

TEST(PlaneLimits, AConnectionWithoutARequestEnds) {
  PlaneOptions options;
  options.idle_ms = 200;
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  const auto client = plane.Connect();
  client->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
  EXPECT_TRUE(client->Ended());
}

TEST(PlaneLimits, AClientThatDoesNotReadHoldsItsKernelBackAndIsLeftInTime) {
  constexpr size_t kAll = size_t{128} << 20;
  std::latch over(1);
  size_t sent = 0;
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    channel.Write(kStreamHead);
    const std::string piece = Chunk(Token(std::string(60000, 'x')));
    while (sent < kAll && channel.Write(piece)) sent += piece.size();
    over.count_down();
    return false;
  });
  PlaneOptions options;
  options.write_ms = 200;
  TestPlane plane({kernel.port()}, options);
  const auto client = plane.Connect();
  client->Write(ChatRequest("", true));
  over.wait();
  EXPECT_LT(sent, kAll / 2) << "what sockets hold, and not more";
  plane.plane.reset();
  EXPECT_EQ(plane.core.workers()[0]->counts().left.load(), 1u);
}

TEST(PlaneLimits, AHeadAloneIsAnsweredWithoutABody) {
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  client->Write("HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" + ChatRequest());
  const std::string head = client->ReadThrough("\r\n\r\n");
  EXPECT_NE(head.find("200 OK"), head.npos);
  EXPECT_NE(head.find("content-length: "), head.npos);
  EXPECT_EQ(ReadMessage(*client, false).body, Answer("x"));
}

TEST(PlaneLimits, TooManyConnectionsAreTurnedAwayUntilOneEnds) {
  PlaneOptions options;
  options.connections_max = 2;
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  std::unique_ptr<Channel> open[2];
  for (auto& client : open) {
    client = plane.Connect();
    client->Write(ChatRequest());
    ASSERT_EQ(ReadMessage(*client, false).status(), 200);
  }
  const auto third = plane.Connect();
  const TestMessage refused = ReadMessage(*third, false);
  EXPECT_EQ(refused.status(), 503);
  EXPECT_NE(refused.body.find("\"error\""), std::string::npos);
  EXPECT_EQ(plane.plane->counts().over_limit, 1u);
  open[0].reset();
  int status = 0;
  for (int tries = 0; tries < 10000 && status != 200; ++tries) {
    status = plane.Ask(ChatRequest()).status();
  }
  EXPECT_EQ(status, 200);
}

TEST(PlaneLimits, AGreedyAddressIsToldWhenToComeBack) {
  PlaneOptions options;
  options.requests_per_second_max = 0.01;
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  const auto client = plane.Connect();
  client->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
  client->Write(ChatRequest());
  TestMessage refused = ReadMessage(*client, false);
  EXPECT_EQ(refused.status(), 429);
  EXPECT_TRUE(refused.Has("retry-after: ")) << refused.head;
  client->Write(ChatRequest());  // the connection stays
  EXPECT_EQ(ReadMessage(*client, false).status(), 429);
  EXPECT_EQ(plane.plane->counts().rate_limited, 2u);
  EXPECT_EQ(kernel.requests(), 1);
}

TEST(PlaneLimits, WithoutAKnownKeyNothingIsAnswered) {
  PlaneOptions options;
  options.client_key_hashes = {Sha256Of("sesame")};
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()}, options);
  const auto client = plane.Connect();
  for (const char* key : {"", "Authorization: Bearer simsim\r\n", "Authorization: sesame\r\n"}) {
    client->Write(ChatRequest(key));
    const TestMessage answer = ReadMessage(*client, false);
    EXPECT_EQ(answer.status(), 401);
    EXPECT_NE(answer.body.find("invalid_api_key"), std::string::npos);
  }
  client->Write(ChatRequest("Authorization: Bearer sesame\r\n"));
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
  EXPECT_EQ(kernel.requests(), 1);
  EXPECT_EQ(plane.plane->counts().without_key, 3u);
}

TEST(PlaneLimits, NewOptionsHoldForTheNextRequestAndStreamsGoOn) {
  std::latch reloaded(1);
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    if (request.body.find("stream") == std::string::npos) return channel.Write(Sized(Answer("x")));
    channel.Write(kStreamHead + Chunk(Token("before")));
    reloaded.wait();
    return channel.Write(Chunk(Token("after") + kDoneEvent) + "0\r\n\r\n");
  });
  TestPlane plane({kernel.port()}, {}, 2);
  const auto stream = plane.Connect();
  stream->Write(ChatRequest("", true));
  EXPECT_NE(stream->ReadThrough("before"), "");
  const auto open = plane.Connect();
  open->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*open, false).status(), 200);

  PlaneOptions strict = plane.options_in_force;
  strict.client_key_hashes = {Sha256Of("new")};
  ASSERT_TRUE(plane.plane->Reload(strict));
  open->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*open, false).status(), 401);
  EXPECT_EQ(plane.Ask(ChatRequest("Authorization: Bearer new\r\n")).status(), 200);
  reloaded.count_down();
  EXPECT_NE(stream->ReadThrough("0\r\n\r\n").find("after"), std::string::npos);

  strict.client_key_hashes = {"no hash"};
  EXPECT_FALSE(plane.plane->Reload(strict));
  EXPECT_EQ(plane.Ask(ChatRequest("Authorization: Bearer new\r\n")).status(), 200) << "as before";
}

TEST(PlaneLimits, AReloadedPoolSendsRequestsElsewhere) {
  TestKernel old_kernel(Good());
  TestKernel new_kernel(Good());
  TestPlane plane({old_kernel.port()});
  const auto client = plane.Connect();
  client->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
  plane.core.Replace(TestPlane::PoolOf({new_kernel.port()}));
  client->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*client, false).status(), 200);
  EXPECT_EQ(old_kernel.requests(), 1);
  EXPECT_EQ(new_kernel.requests(), 1);
}

TEST(PlaneLimits, ADrainingPlaneFinishesWhatItBegan) {
  std::latch go_on(1);
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    if (request.body.find("stream") == std::string::npos) return channel.Write(Sized(Answer("x")));
    channel.Write(kStreamHead + Chunk(Token("first")));
    go_on.wait();
    return channel.Write(Chunk(Token("last") + kDoneEvent) + "0\r\n\r\n");
  });
  TestPlane plane({kernel.port()}, {}, 2);
  const auto stream = plane.Connect();
  stream->Write(ChatRequest("", true));
  EXPECT_NE(stream->ReadThrough("first"), "");
  const auto idle = plane.Connect();
  idle->Write(ChatRequest());
  EXPECT_EQ(ReadMessage(*idle, false).status(), 200);

  std::thread draining([&] { plane.plane->Drain(); });
  EXPECT_TRUE(idle->Ended());  // so it has begun
  go_on.count_down();
  EXPECT_NE(stream->ReadThrough("0\r\n\r\n").find("last"), std::string::npos);
  EXPECT_TRUE(stream->Ended());
  draining.join();
  EXPECT_EQ(plane.plane->counts().connections, 0u);
  EXPECT_EQ(plane.Connect(), nullptr) << "nothing is accepted";
}

TEST(PlaneLimits, ADrainDoesNotWaitForEver) {
  TestKernel kernel([](Channel& channel, const TestMessage&, int) {
    channel.Write(kStreamHead + Chunk(Token("first")));
    channel.Ended();
    return false;
  });
  PlaneOptions options;
  options.drain_ms = 0;
  TestPlane plane({kernel.port()}, options);
  const auto stream = plane.Connect();
  stream->Write(ChatRequest("", true));
  EXPECT_NE(stream->ReadThrough("first"), "");
  plane.plane->Drain();
  plane.plane.reset();
  EXPECT_FALSE(stream->ReadAll().ends_with("0\r\n\r\n"));
  EXPECT_EQ(plane.core.workers()[0]->counts().left.load(), 1u);
}

TEST(PlaneLimits, APortThatIsTakenIsSaid) {
  TestKernel kernel(Good());
  TestPlane plane({kernel.port()});
  TestPlane other({kernel.port()});
  PlaneOptions options = plane.options_in_force;
  options.port = plane.port;
  PlaneStarted started;
  const auto made = Plane::Start(options, other.core, other.admin, &started);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("cannot listen"), std::string::npos);
}

}  // namespace
}  // namespace kcc
