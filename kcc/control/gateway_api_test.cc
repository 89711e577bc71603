#include "kcc/control/gateway_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/control/control_test_data.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

using testing::ControlTest;
using testing::GoodOrBad;
using ::testing::HasSubstr;

class Heard final : public EventSink {
 public:
  bool Event(std::string_view event, std::string_view data) override {
    events.emplace_back(event);
    last = data;
    return !gone;
  }
  std::vector<std::string> events;
  std::string last;
  bool gone = false;
};

class GatewayApiTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    history_.Listen({});
    EvaluatorOptions options;
    options.live = Options();
    auto evaluator = Evaluator::Start(std::move(options), &words_, &history_, &TheSystemClock());
    ASSERT_TRUE(evaluator.has_value());
    evaluator_ = std::move(*evaluator);
    decider_.Set(evaluator_);
    GatewayApiParts parts;
    parts.now = [this] { return Now(); };
    parts.core_metrics = [] { return std::string("kcc_of_the_core 1\n"); };
    parts.reload = [this] { return report_; };
    parts.history = &history_;
    parts.decider = &decider_;
    parts.configured_canary = "careful";
    parts.configured_share = 0.1;
    api_.emplace(std::move(parts));
  }

  GatewayNow Now() const {
    auto facts = std::make_shared<GatewayFacts>();
    facts->contract = {"watched", "1", "sha256:x"};
    GatewayNow now;
    now.at_ms = at_ms_;
    now.facts = facts;
    now.view = evaluator_->view();
    return now;
  }
  GatewayAnswer Ask(const std::string& method, const std::string& target,
                    const std::string& body = "",
                    const std::shared_ptr<EventSink>& sink = nullptr) {
    AskHead head;
    head.method = method;
    head.target = target;
    return api_->Handle(head, body, sink);
  }
  GatewayAnswer Get(const std::string& target) { return Ask("GET", target); }
  GatewayAnswer Canary(const std::string& kernel, const std::string& share) {
    return Ask("POST", "/v1/canary", "{\"kernel\":\"" + kernel + "\",\"share\":" + share + "}");
  }

  int64_t at_ms_ = 1'000'000;
  ReloadReport report_;
  std::shared_ptr<Evaluator> evaluator_;
  Decider decider_{&TheSystemClock(), nullptr};
  std::optional<GatewayApi> api_;
};

bool IsJson(const std::string& text) {
  json::parser parser;
  return ParseJson(parser, text).has_value();
}

TEST_F(GatewayApiTest, AnswersItsRoutes) {
  for (const char* path : {"/healthz", "/readyz", "/v1/status", "/v1/health", "/v1/verdict",
                           "/v1/why?at=1000000", "/v1/why?request=x"}) {
    const GatewayAnswer answer = Get(path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.content_type, "application/json") << path;
    EXPECT_TRUE(IsJson(answer.body)) << path << ' ' << answer.body;
  }
  EXPECT_THAT(Get("/metrics").body, HasSubstr("kcc_of_the_core 1"));
  EXPECT_THAT(Get("/metrics").body, HasSubstr("kcc_evaluator_silent_seconds"));
  EXPECT_THAT(Get("/").content_type, HasSubstr("text/html"));
}

TEST_F(GatewayApiTest, RefusesWhatItDoesNotHave) {
  for (const char* path : {"/v1/nothing", "/v1/statusx", "//", "/v1/status/"}) {
    const GatewayAnswer answer = Get(path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_THAT(answer.body, HasSubstr("\"error\":{\"message\""));
  }
  EXPECT_EQ(Ask("DELETE", "/v1/status").status, 405);
  EXPECT_EQ(Ask("POST", "/v1/status").status, 404);
  EXPECT_EQ(Get("/v1/events").status, 406) << "not asked for as a stream";
  EXPECT_EQ(Get("/v1/why").status, 400);
  EXPECT_EQ(Get("/v1/why?at=yesterday").status, 400);
  EXPECT_EQ(Get("/v1/why?at=-5").status, 400);
}

TEST_F(GatewayApiTest, AVerdictIsAlwaysStatus200) {
  for (const char* query : {"", "?contract=watched&stage=full", "?contract=another",
                            "?stage=canary", "?kernel=%00", "?contract=%", "?&&=&"}) {
    EXPECT_EQ(Get(std::string("/v1/verdict") + query).status, 200) << query;
  }
  EXPECT_THAT(Get("/v1/verdict?contract=another").body, HasSubstr("\"verdict\":\"error\""));
  EXPECT_THAT(Get("/v1/verdict").body, HasSubstr("\"verdict\":\"inconclusive\""));
}

TEST_F(GatewayApiTest, ACanaryGrowsNoFurtherThanTheConfigurationWithoutEvidence) {
  EXPECT_EQ(Canary("careful", "0.1").status, 200);
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.1));
  const GatewayAnswer wider = Canary("careful", "0.5");
  EXPECT_EQ(wider.status, 409);
  EXPECT_THAT(wider.body, HasSubstr("not widened without evidence"));
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.1));
  EXPECT_EQ(Canary("careful", "0.01").status, 200);
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.01));
  EXPECT_EQ(Canary("reference", "0.01").status, 409) << "the configuration names another";
  EXPECT_EQ(Canary("nobody", "0.01").status, 409);
  EXPECT_EQ(Canary("careful", "0").status, 200);
  EXPECT_EQ(words_.route().canary, kNoKernel);
}

TEST_F(GatewayApiTest, ACanaryThatIsCertifiedMayGrow) {
  for (int64_t i = 0; i < 200; ++i) {
    evaluator_->Take(GoodOrBad(i, false, "careful"),
                     {"r" + std::to_string(i), "careful", 0, false});
  }
  // Wishes are done after the evidence that came before them was folded.
  while (evaluator_->queued() > 0) EXPECT_EQ(Canary("careful", "0").status, 200);
  EXPECT_EQ(Canary("careful", "0").status, 200);
  EXPECT_EQ(Canary("careful", "0.5").status, 200);
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.5));
}

TEST_F(GatewayApiTest, ABodyThatIsNotWhatItShouldBeIsRefused) {
  for (const char* body :
       {"", "[]", "{", "{\"kernel\":\"careful\"}", "{\"share\":0.1}",
        "{\"kernel\":\"careful\",\"share\":\"0.1\"}", "{\"kernel\":\"careful\",\"share\":-0.1}",
        "{\"kernel\":\"careful\",\"share\":1.5}"}) {
    EXPECT_EQ(Ask("POST", "/v1/canary", body).status, 400) << body;
  }
}

TEST_F(GatewayApiTest, FlaggerIsAnsweredByTheVerdict) {
  const std::string body = R"({"name":"x","namespace":"y","phase":"Progressing","metadata":{}})";
  EXPECT_EQ(Ask("POST", "/v1/flagger/confirm-promotion", body).status, 412) << "not satisfied yet";
  EXPECT_EQ(Ask("POST", "/v1/flagger/rollout", body).status, 200) << "a quiet night";
  EXPECT_EQ(Ask("POST", "/v1/flagger/rollback", body).status, 412) << "200 would roll back";
  EXPECT_EQ(Ask("POST", "/v1/flagger/other", body).status, 404);
}

TEST_F(GatewayApiTest, AReloadSaysWhatItDid) {
  report_.reloaded = true;
  report_.needs_restart = {"listen"};
  EXPECT_EQ(Ask("POST", "/v1/reload").status, 200);
  EXPECT_THAT(Ask("POST", "/v1/reload").body, HasSubstr("\"needsRestart\":[\"listen\"]"));
  report_ = {};
  report_.problems = {"gateway.yaml:3:1: error: x"};
  EXPECT_EQ(Ask("POST", "/v1/reload").status, 422);
  EXPECT_THAT(Ask("POST", "/v1/reload").body, HasSubstr("gateway.yaml:3:1"));
}

TEST_F(GatewayApiTest, ListenersHearTheStatusAndEveryChange) {
  const auto heard = std::make_shared<Heard>();
  EXPECT_EQ(Ask("GET", "/v1/events", "", heard).content_type, "text/event-stream");
  EXPECT_EQ(heard->events, std::vector<std::string>{"status"});
  HistoryEntry entry;
  entry.kind = "alarm";
  api_->OnHistory(entry);
  EXPECT_EQ(heard->events.back(), "change");
  EXPECT_THAT(heard->last, HasSubstr("\"kind\":\"alarm\""));
  at_ms_ += 1000;
  api_->Tick();
  EXPECT_EQ(heard->events.size(), 3u);
  at_ms_ += 1000;
  api_->Tick();
  EXPECT_EQ(heard->events.size(), 3u) << "nothing changed";
  at_ms_ += 5000;
  api_->Tick();
  EXPECT_EQ(heard->events.size(), 4u);
  heard->gone = true;
  api_->OnHistory(entry);
  const size_t count = heard->events.size();
  api_->OnHistory(entry);
  EXPECT_EQ(heard->events.size(), count) << "who is gone is forgotten";
}

TEST_F(GatewayApiTest, QueriesAreDecoded) {
  EXPECT_EQ(QueryValue("a=1&b=x%20y+z", "b"), "x y z");
  EXPECT_EQ(QueryValue("a=1", "b"), "");
  EXPECT_EQ(QueryValue("b", "b"), "");
  EXPECT_EQ(QueryValue("b=%4", "b"), "%4");
  EXPECT_EQ(QueryValue("b=%zz", "b"), "%zz");
}

}  // namespace
}  // namespace kcc
