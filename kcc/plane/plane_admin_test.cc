// The admin port of a real plane.
#include <gtest/gtest.h>

#include "kcc/plane/plane_test_data.h"

namespace kcc {
namespace {

class PlaneAdmin : public testing::Test {
 protected:
  PlaneAdmin() : plane_({1}, WithToken()) {}
  static PlaneOptions WithToken() {
    PlaneOptions options;
    options.admin_token = "secret";
    return options;
  }
  TestMessage Ask(const std::string& request) {
    const auto channel = Channel::To(plane_.admin_port);
    channel->Write(request);
    return ReadMessage(*channel, false);
  }
  static std::string Get(const std::string& target, const std::string& fields = "",
                         const std::string& host = "127.0.0.1") {
    return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n";
  }

  TestPlane plane_;
};

const std::string kBearer = "Authorization: Bearer secret\r\n";

TEST_F(PlaneAdmin, RequestsReachTheHandlerWithTheToken) {
  EXPECT_EQ(Ask(Get("/v1/status?x=1", kBearer)).body, "GET /v1/status?x=1 ");
  EXPECT_EQ(Ask("POST /v1/reload HTTP/1.1\r\nHost: localhost\r\n" + kBearer +
                "Content-Length: 4\r\n\r\nbody")
                .body,
            "POST /v1/reload body");
  EXPECT_EQ(Ask(Get("/v1/status")).status(), 401);
  EXPECT_EQ(Ask(Get("/v1/status", kBearer, "evil.example")).status(), 403);
  EXPECT_EQ(Ask(Get("/v1/status", kBearer + "Origin: http://evil.example\r\n")).status(), 403);
  EXPECT_EQ(Ask(Get("/healthz")).status(), 200);
  EXPECT_TRUE(Ask(Get("/healthz")).Has("x-frame-options: DENY"));
}

TEST_F(PlaneAdmin, ATokenInTheAddressBecomesACookie) {
  const TestMessage moved = Ask(Get("/?token=secret"));
  EXPECT_EQ(moved.status(), 303);
  EXPECT_TRUE(moved.Has("location: /\r\n"));
  const size_t at = moved.head.find("set-cookie: ");
  ASSERT_NE(at, std::string::npos);
  const std::string cookie = moved.head.substr(at + 12, moved.head.find(';', at) - at - 12);
  EXPECT_EQ(Ask(Get("/", "Cookie: " + cookie + "\r\n")).status(), 200);
}

TEST_F(PlaneAdmin, WhatIsTooLargeOrNoHttpIsRefused) {
  EXPECT_EQ(
      Ask("POST / HTTP/1.1\r\nHost: localhost\r\n" + kBearer + "Content-Length: 1048577\r\n\r\n")
          .status(),
      413);
  EXPECT_EQ(Ask(Get("/", "X: " + std::string(20000, 'x') + "\r\n")).status(), 431);
  EXPECT_EQ(Ask("nonsense\r\n\r\n").status(), 400);
}

TEST_F(PlaneAdmin, WhatAHandlerThrowsIsAnAnswer) {
  EXPECT_EQ(Ask(Get("/throw", kBearer)).status(), 500);
  EXPECT_EQ(Ask(Get("/ok", kBearer)).status(), 200);
}

TEST_F(PlaneAdmin, EventsReachTheirListenerFromAnyThread) {
  const auto channel = Channel::To(plane_.admin_port);
  channel->Write(Get("/v1/events", kBearer + "Accept: text/event-stream\r\n"));
  EXPECT_NE(channel->ReadThrough("\r\n\r\n").find("text/event-stream"), std::string::npos);
  EXPECT_EQ(channel->ReadThrough("\n\n"), "event: hello\ndata: first\ndata: second\n\n");
  const std::shared_ptr<EventSink> sink = plane_.admin.sinks.at(0);
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(sink->Event("n", std::to_string(i)));
  }).join();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(channel->ReadThrough("\n\n"), "event: n\ndata: " + std::to_string(i) + "\n\n");
  }
  EXPECT_EQ(Ask(Get("/v1/events", kBearer)).status(), 200) << "not as a stream";
}

TEST_F(PlaneAdmin, AListenerThatDoesNotReadIsLeft) {
  const auto channel = Channel::To(plane_.admin_port);
  channel->Write(Get("/v1/events", kBearer + "Accept: text/event-stream\r\n"));
  EXPECT_NE(channel->ReadThrough("hello"), "");
  const std::shared_ptr<EventSink> sink = plane_.admin.sinks.at(0);
  const std::string large(100000, 'x');
  int taken = 0;
  while (taken < 10000 && sink->Event("n", large)) ++taken;
  EXPECT_LT(taken, 10000);
  EXPECT_LT(channel->ReadAll().size(), size_t{100'000'000});  // it ends
  EXPECT_FALSE(sink->Event("n", "x"));
}

TEST_F(PlaneAdmin, ASinkOutlivesItsListenerAndItsPlane) {
  auto channel = Channel::To(plane_.admin_port);
  channel->Write(Get("/v1/events", kBearer + "Accept: text/event-stream\r\n"));
  EXPECT_NE(channel->ReadThrough("hello"), "");
  const std::shared_ptr<EventSink> sink = plane_.admin.sinks.at(0);
  plane_.plane.reset();
  EXPECT_FALSE(sink->Event("n", "x"));
}

TEST_F(PlaneAdmin, ANewTokenIsAskedForAtOnce) {
  PlaneOptions options = plane_.options_in_force;
  options.admin_token = "changed";
  ASSERT_TRUE(plane_.plane->Reload(options));
  EXPECT_EQ(Ask(Get("/v1/status", kBearer)).status(), 401);
  EXPECT_EQ(Ask(Get("/v1/status", "Authorization: Bearer changed\r\n")).status(), 200);
}

}  // namespace
}  // namespace kcc
