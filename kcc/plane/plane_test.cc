// Requests through a real plane to kernels that follow a script.
#include "kcc/plane/plane.h"

#include <gtest/gtest.h>

#include <latch>
#include <semaphore>

#include "kcc/plane/plane_test_data.h"

namespace kcc {
namespace {

TestKernel::Script Says(std::string answer) {
  return [answer](Channel& channel, const TestMessage&, int) { return channel.Write(answer); };
}

TEST(Plane, AnAnswerIsPassedOnWithItsBytes) {
  const std::string body = Answer("hello");
  TestKernel kernel(Says(Sized(body)));
  TestPlane plane({kernel.port()});
  const TestMessage answer = plane.Ask(ChatRequest());
  EXPECT_EQ(answer.status(), 200);
  EXPECT_EQ(answer.body, body);
  EXPECT_TRUE(answer.Has("x-kcc-kernel: k0"));
  EXPECT_FALSE(answer.Has("onnection: close"));
}

TEST(Plane, TheKernelGetsARequestOfItsOwn) {
  std::string head;
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    head = request.head;
    return channel.Write(Sized(Answer("x")));
  });
  TestPlane plane({kernel.port()}, {}, 1, [](GatewayPool& pool) { pool.kernels[0].key = "inner"; });
  EXPECT_EQ(plane
                .Ask(ChatRequest("Authorization: Bearer outer\r\nCookie: a=b\r\n"
                                 "Connection: X-Hop\r\nX-Hop: 1\r\n"))
                .status(),
            200);
  EXPECT_NE(head.find("host: 127.0.0.1:" + std::to_string(kernel.port())), head.npos) << head;
  EXPECT_NE(head.find("authorization: Bearer inner\r\n"), head.npos) << head;
  for (const char* kept : {"outer", "X-Hop", "ookie"})
    EXPECT_EQ(head.find(kept), head.npos) << kept;
}

TEST(Plane, AThousandRequestsUseOneConnectionOnBothSides) {
  TestKernel kernel(Says(Sized(Answer("again"))));
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(client->Write(ChatRequest()));
    const TestMessage answer = ReadMessage(*client, false);
    ASSERT_EQ(answer.status(), 200) << i;
    ASSERT_EQ(answer.body, Answer("again"));
  }
  EXPECT_EQ(kernel.connections(), 1);
  EXPECT_EQ(kernel.requests(), 1000);
  EXPECT_EQ(plane.plane->counts().accepted, 1u);
}

TEST(Plane, RequestsThatComeTogetherAreAnsweredInTheirOrder) {
  TestKernel kernel([](Channel& channel, const TestMessage& request, int) {
    const size_t at = request.body.find("number ");
    return channel.Write(Sized(Answer(request.body.substr(at, 8))));
  });
  TestPlane plane({kernel.port()});
  std::string all;
  for (char c = '0'; c <= '9'; ++c) all += ChatRequest("", false, std::string("number ") + c);
  const auto client = plane.Connect();
  ASSERT_TRUE(client->Write(all + "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  for (char c = '0'; c <= '9'; ++c) {
    EXPECT_EQ(ReadMessage(*client, false).body, Answer(std::string("number ") + c));
  }
  EXPECT_EQ(ReadMessage(*client, false).status(), 404);
  EXPECT_TRUE(client->Ended());
}

TEST(Plane, RequestsThatComeWhileOthersAreAnsweredAreKept) {
  std::latch second(1);
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    const std::string name = request.body.substr(request.body.find("number "), 8);
    if (name == "number 1") second.wait();
    return channel.Write(Sized(Answer(name)));
  });
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  // Two at once; the rest while the second is answered, in pieces that end anywhere.
  client->Write(ChatRequest("", false, "number 0") + ChatRequest("", false, "number 1"));
  EXPECT_EQ(ReadMessage(*client, false).body, Answer("number 0"));
  std::string rest;
  for (char c = '2'; c <= '9'; ++c) rest += ChatRequest("", false, std::string("number ") + c);
  for (size_t at = 0; at < rest.size(); at += 100) client->Write(rest.substr(at, 100));
  second.count_down();
  for (char c = '1'; c <= '9'; ++c) {
    ASSERT_EQ(ReadMessage(*client, false).body, Answer(std::string("number ") + c));
  }
}

// A client may send its next requests at once, as many and as large as it likes.
TEST(Plane, LargeRequestsBehindASlowAnswerAreAnsweredInTurn) {
  constexpr int kRequests = 20;
  for (const bool streams : {false, true}) {
    for (const size_t size : {size_t{16} << 10, size_t{20} << 10, size_t{130} << 10}) {
      SCOPED_TRACE(std::to_string(size) + (streams ? " in streams" : ""));
      std::latch go_on(1);
      TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
        const std::string name = request.body.substr(request.body.find("number "), 9);
        if (name == "number 10") go_on.wait();
        if (!streams) return channel.Write(Sized(Answer(name)));
        channel.Write(kStreamHead + Chunk(Token(name)));
        return channel.Write(Chunk(kDoneEvent) + "0\r\n\r\n");
      });
      TestPlane plane({kernel.port()});
      const auto client = plane.Connect();
      std::thread sending([&] {
        for (int i = 10; i < 10 + kRequests; ++i) {
          const std::string text = "number " + std::to_string(i) + std::string(size, 'x');
          EXPECT_TRUE(client->Write(ChatRequest("", streams, text)));
          // What is held of them may not be more than what sockets hold.
          if (static_cast<size_t>(i - 10) == (size_t{120} << 10) / size) go_on.count_down();
        }
      });
      for (int i = 10; i < 10 + kRequests; ++i) {
        const TestMessage answer = ReadMessage(*client, false);
        const std::string name = "number " + std::to_string(i);
        EXPECT_TRUE(answer.whole);
        EXPECT_EQ(answer.body, streams ? Token(name) + kDoneEvent : Answer(name));
      }
      sending.join();
    }
  }
}

// The first answer is the last of its connection; what is sent behind it must not destroy it.
TEST(Plane, AnAnswerIsWholeWhateverTheClientSendsBehindIt) {
  const std::string body = Answer(std::string(5 << 20, 'x'));
  TestKernel kernel(Says(Sized(body)));
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  std::atomic<bool> stop{false};
  std::thread sending([&] {
    client->Write(ChatRequest("Connection: close\r\n"));
    const std::string more(64 << 10, 'x');
    while (!stop && client->Write(more)) {
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // longer than it takes to give up
  const TestMessage answer = ReadMessage(*client, false);
  EXPECT_TRUE(answer.whole && answer.body == body) << answer.body.size();
  stop = true;
  client->Interrupt();
  sending.join();
}

TEST(Plane, AClientThatLeavesBehindItsNextRequestsIsNoticed) {
  std::latch asked(1);
  std::latch left(1);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    asked.count_down();
    channel.Ended();  // until the gateway closes it
    left.count_down();
    return false;
  });
  TestPlane plane({kernel.port()});
  auto client = plane.Connect();
  client->Write(ChatRequest());
  asked.wait();
  client->Write(ChatRequest("", false, std::string(40 << 10, 'x')));
  client->EndSending();
  left.wait();
  plane.plane.reset();
  EXPECT_EQ(plane.core.workers()[0]->counts().left.load(), 1u);
}

TEST(Plane, AStreamIsPassedOnEventByEventHoweverItsChunksAreCut) {
  const std::string events = Token("one") + Token("two") + Token("three") + kDoneEvent;
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{50}, events.size()}) {
    TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
      channel.Write(kStreamHead);
      for (size_t at = 0; at < events.size(); at += piece) {
        channel.Write(Chunk(events.substr(at, piece)));
      }
      return channel.Write("0\r\n\r\n");
    });
    TestPlane plane({kernel.port()});
    const TestMessage answer = plane.Ask(ChatRequest("", true));
    EXPECT_EQ(answer.status(), 200);
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.body, events) << piece;
    EXPECT_TRUE(answer.Has("text/event-stream"));
  }
}

TEST(Plane, AnEventDoesNotWaitForTheNext) {
  std::latch heard(1);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    channel.Write(kStreamHead + Chunk(Token("first")));
    heard.wait();
    return channel.Write(Chunk(kDoneEvent) + "0\r\n\r\n");
  });
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  client->Write(ChatRequest("", true));
  EXPECT_NE(client->ReadThrough("first").find("200 OK"), std::string::npos);
  heard.count_down();
  EXPECT_NE(client->ReadThrough("0\r\n\r\n"), "");
}

TEST(Plane, AClientOfHttp10GetsItsStreamToTheEndOfTheConnection) {
  TestKernel kernel(Says(kStreamHead + Chunk(Token("x") + kDoneEvent) + "0\r\n\r\n"));
  TestPlane plane({kernel.port()});
  std::string request = ChatRequest("Connection: keep-alive\r\n", true);
  request.replace(request.find("HTTP/1.1"), 8, "HTTP/1.0");
  const TestMessage answer = plane.Ask(request);
  EXPECT_TRUE(answer.Has("HTTP/1.0 200"));
  EXPECT_FALSE(answer.Has("ransfer-encoding"));
  EXPECT_EQ(answer.body, Token("x") + kDoneEvent);
}

TEST(Plane, SixtyFourStreamsAtOnceAreNotMixed) {
  constexpr int kStreams = 64;
  std::latch all(kStreams);
  TestKernel kernel([&](Channel& channel, const TestMessage& request, int) {
    const std::string name = request.body.substr(request.body.find("name-"), 7);
    channel.Write(kStreamHead + Chunk(Token(name)));
    all.arrive_and_wait();  // every stream is open before one goes on
    for (int i = 0; i < 20; ++i) channel.Write(Chunk(Token(name)));
    return channel.Write(Chunk(kDoneEvent) + "0\r\n\r\n");
  });
  TestPlane plane({kernel.port()}, {}, 2);
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back([&, i] {
      const std::string name = "name-" + std::to_string(10 + i);
      std::string wanted;
      for (int k = 0; k < 21; ++k) wanted += Token(name);
      const TestMessage answer = plane.Ask(ChatRequest("", true, name));
      if (answer.whole && answer.body == wanted + kDoneEvent) ++right;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, kStreams);
}

TEST(Plane, AConnectionThatDiedWhileItWaitedCostsNothing) {
  std::counting_semaphore<> ended(0);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    channel.Write(Sized(Answer("x")));
    channel.Interrupt();
    ended.release();
    return false;
  });
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  for (int i = 0; i < 500; ++i) {
    client->Write(ChatRequest());
    ASSERT_EQ(ReadMessage(*client, false).status(), 200) << i;
    ended.acquire();
  }
  EXPECT_EQ(plane.core.workers()[0]->counts().kernels[0].failed.load(), 0u);
  EXPECT_EQ(plane.core.workers()[0]->counts().kernels[0].answered.load(), 500u);
}

TEST(Plane, AKernelThatDiesOverARequestOnAKeptConnectionHasFailed) {
  const TestKernel::Script dies[] = {[](Channel& channel, const TestMessage&, int number) {
                                       return number == 0 && channel.Write(Sized(Answer("x")));
                                     },
                                     [](Channel& channel, const TestMessage&, int number) {
                                       if (number > 0) channel.Reset();
                                       return number == 0 && channel.Write(Sized(Answer("x")));
                                     },
                                     [](Channel& channel, const TestMessage&, int number) {
                                       if (number > 0) channel.Write("H");
                                       return number == 0 && channel.Write(Sized(Answer("x")));
                                     }};
  for (const TestKernel::Script& die : dies) {
    TestKernel kernel(die);
    TestKernel other(Says(Sized(Answer("rescued"))));
    TestPlane plane({kernel.port(), other.port()});
    const auto client = plane.Connect();
    client->Write(ChatRequest());
    EXPECT_EQ(ReadMessage(*client, false).body, Answer("x"));
    client->Write(ChatRequest());
    EXPECT_EQ(ReadMessage(*client, false).body, Answer("rescued"));
    EXPECT_EQ(kernel.requests(), 2) << "it gets the request once";
    EXPECT_EQ(plane.core.workers()[0]->counts().kernels[0].failed.load(), 1u);
  }
}

TEST(Plane, AKernelThatFailsBeforeAWordIsReplaced) {
  const TestKernel::Script fails[] = {
      [](Channel&, const TestMessage&, int) { return false; },
      [](Channel& channel, const TestMessage&, int) {
        channel.Reset();
        return false;
      },
      [](Channel& channel, const TestMessage&, int) {
        channel.Write("HTTP/1.1 200 OK\r\nContent-Le");
        return false;
      },
      Says("SSH-2.0-OpenSSH_9.2\r\n\r\n"),
      Says("HTTP/1.1 200 OK\r\nX: " + std::string(80 << 10, 'x') + "\r\n\r\n"),
      Says(Sized("{}", "", "500 Internal Server Error")),
      [](Channel& channel, const TestMessage&, int) {
        channel.Write(kStreamHead);  // and nothing of the stream
        return false;
      }};
  for (const TestKernel::Script& fail : fails) {
    TestKernel broken(fail);
    TestKernel whole(Says(kStreamHead + Chunk(Token("rescued") + kDoneEvent) + "0\r\n\r\n"));
    TestPlane plane({broken.port(), whole.port()});
    const TestMessage answer = plane.Ask(ChatRequest("", true));
    EXPECT_EQ(answer.status(), 200);
    EXPECT_TRUE(answer.Has("x-kcc-kernel: k1"));
    EXPECT_EQ(answer.body, Token("rescued") + kDoneEvent);
    EXPECT_EQ(plane.core.workers()[0]->counts().kernels[0].failed.load(), 1u);
  }
}

TEST(Plane, WithoutAKernelTheClientHearsSo) {
  uint16_t nobody = 0;
  {
    nobody = TestKernel([](Channel&, const TestMessage&, int) { return false; }).port();
  }
  TestPlane plane({nobody});
  const auto client = plane.Connect();
  for (int i = 0; i < 2; ++i) {
    client->Write(ChatRequest());
    const TestMessage answer = ReadMessage(*client, false);
    EXPECT_EQ(answer.status(), 502);
    EXPECT_NE(answer.body.find("\"error\""), std::string::npos);
  }
}

TEST(Plane, AKernelThatIsSilentIsGivenUpInTime) {
  TestKernel silent([](Channel& channel, const TestMessage&, int) {
    channel.Ended();  // until the gateway leaves
    return false;
  });
  PlaneOptions options;
  options.first_byte_ms = 200;
  TestPlane plane({silent.port()}, options);
  EXPECT_EQ(plane.Ask(ChatRequest()).status(), 504);
}

TEST(Plane, AStreamThatBreaksOffSaysSoAndDoesNotEndAsAWholeOne) {
  TestKernel kernel([](Channel& channel, const TestMessage&, int) {
    channel.Write(kStreamHead + Chunk(Token("half")));
    return false;
  });
  TestPlane plane({kernel.port()});
  const TestMessage answer = plane.Ask(ChatRequest("", true));
  EXPECT_EQ(answer.body.find(Token("half")), 0u);
  EXPECT_NE(answer.body.find("\"error\""), std::string::npos);
  EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(plane.core.workers()[0]->counts().kernels[0].cut.load(), 1u);
}

TEST(Plane, AWholeAnswerThatBreaksOffIsNeverTakenForWhole) {
  TestKernel kernel([](Channel& channel, const TestMessage&, int) {
    channel.Write(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999\r\n\r\n" +
        std::string(500000, ' '));
    return false;
  });
  TestPlane plane({kernel.port()});
  const TestMessage answer = plane.Ask(ChatRequest());
  EXPECT_TRUE(answer.status() >= 500 || !answer.whole);
}

TEST(Plane, ALargeBodyGoesThrough) {
  const std::string body = Answer(std::string(6 << 20, 'x'));
  TestKernel kernel(Says(Sized(body)));
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  client->Write(ChatRequest());
  EXPECT_TRUE(ReadMessage(*client, false).body == body);  // no diff of megabytes is shown
}

TEST(Plane, AnswersOfEveryFramingAreRead) {
  const std::string body = Answer("framed");
  const std::string json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  const TestKernel::Script framings[] = {
      Says(json + "Transfer-Encoding: chunked\r\n\r\n" + Chunk(body.substr(0, 9)) +
           Chunk(body.substr(9)) + "0\r\nX-Trailer: y\r\n\r\n"),
      [&](Channel& channel, const TestMessage&, int) {
        channel.Write(json + "\r\n" + body);
        return false;
      },
      Says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" +
           Sized(body)),
      [&](Channel& channel, const TestMessage&, int) {
        channel.Write("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body);
        return false;
      }};
  for (const TestKernel::Script& framing : framings) {
    TestKernel kernel(framing);
    TestPlane plane({kernel.port()});
    const TestMessage answer = plane.Ask(ChatRequest());
    EXPECT_EQ(answer.status(), 200);
    EXPECT_EQ(answer.body, body);
    EXPECT_FALSE(answer.Has("Trailer"));
  }
}

TEST(Plane, BytesBeyondAnAnswerAreNotTheNextOne) {
  TestKernel kernel(Says(Sized(Answer("mine")) + Sized(Answer("poison"))));
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  for (int i = 0; i < 3; ++i) {
    client->Write(ChatRequest());
    EXPECT_EQ(ReadMessage(*client, false).body, Answer("mine"));
  }
}

TEST(Plane, BytesThatNobodyAskedForAreNotTheNextAnswer) {
  std::latch poisoned(1);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    channel.Write(Sized(Answer("mine")));
    if (poisoned.try_wait()) return true;
    channel.Write(Sized(Answer("poison")));
    poisoned.count_down();
    return true;
  });
  TestPlane plane({kernel.port()});
  const auto client = plane.Connect();
  for (int i = 0; i < 3; ++i) {
    client->Write(ChatRequest());
    EXPECT_EQ(ReadMessage(*client, false).body, Answer("mine"));
    poisoned.wait();
  }
  EXPECT_EQ(kernel.connections(), 2);
}

TEST(Plane, AClientThatLeavesTakesItsKernelsConnectionWithIt) {
  std::latch asked(1);
  std::latch left(1);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    asked.count_down();
    channel.Ended();  // until the gateway closes it
    left.count_down();
    return false;
  });
  TestPlane plane({kernel.port()});
  auto client = plane.Connect();
  client->Write(ChatRequest());
  asked.wait();
  client.reset();
  left.wait();
  plane.plane.reset();
  EXPECT_EQ(plane.core.workers()[0]->counts().left.load(), 1u);
  EXPECT_EQ(plane.core.workers()[0]->counts().under_way.load(), 0u);
}

TEST(Plane, AClientThatLeavesAStreamTakesItsKernelsConnectionWithIt) {
  std::latch left(1);
  TestKernel kernel([&](Channel& channel, const TestMessage&, int) {
    channel.Write(kStreamHead);
    while (channel.Write(Chunk(Token("on and on")))) {
    }
    left.count_down();
    return false;
  });
  TestPlane plane({kernel.port()});
  auto client = plane.Connect();
  client->Write(ChatRequest("", true));
  EXPECT_NE(client->ReadThrough("on and on"), "");
  client.reset();
  left.wait();
}

}  // namespace
}  // namespace kcc
