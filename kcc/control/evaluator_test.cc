#include "kcc/control/evaluator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "kcc/base/clock.h"
#include "kcc/control/control_test_data.h"
#include "kcc/control/gateway_now.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

using testing::ControlTest;
using testing::GoodOrBad;

// Told by the test, read by the evaluator's thread.
class SharedClock final : public Clock {
 public:
  int64_t NowMs() const override { return now_ms_.load(); }
  double MonotonicSeconds() const override { return static_cast<double>(now_ms_.load()) / 1000; }
  void AdvanceMs(int64_t by_ms) { now_ms_.fetch_add(by_ms); }

 private:
  std::atomic<int64_t> now_ms_{1'000'000};
};

class EvaluatorTest : public ControlTest {
 protected:
  std::unique_ptr<Evaluator> Start(double lease_s = 5, size_t queue_max = 1024) {
    history_.Listen([this](const HistoryEntry&) { told_count_.fetch_add(1); });
    EvaluatorOptions options;
    options.live = Options();
    options.queue_max = queue_max;
    options.lease_s = lease_s;
    auto evaluator = Evaluator::Start(std::move(options), &words_, &history_, &TheSystemClock());
    EXPECT_TRUE(evaluator.has_value()) << evaluator.error().Format();
    return evaluator.has_value() ? std::move(*evaluator) : nullptr;
  }
  void Give(Evaluator& evaluator, bool bad) {
    const int64_t number = number_++;
    evaluator.Take(GoodOrBad(number, bad), {"r" + std::to_string(number), "fast", 0, false});
  }
  GatewayNow Now(const Evaluator& evaluator) const {
    auto facts = std::make_shared<GatewayFacts>();
    facts->contract = {"watched", "1", "sha256:x"};
    GatewayNow now;
    now.facts = facts;
    now.view = evaluator.view();
    return now;
  }
  std::atomic<int> told_count_{0};
};

std::string VerdictIn(const std::string& text) {
  json::parser parser;
  const auto root = ParseJson(parser, text);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return "not JSON";
  return std::string(JsonText(JsonMember(object, "verdict")));
}

TEST_F(EvaluatorTest, FoldsAllThatItWasGivenBeforeItEnds) {
  auto evaluator = Start();
  for (int i = 0; i < 300; ++i) Give(*evaluator, true);
  evaluator.reset();
  EXPECT_EQ(words_.route().serves, kCareful);
  const auto again = Open();
  EXPECT_EQ(again->resumed(), 300);
}

TEST_F(EvaluatorTest, AWishIsDoneByItsThreadOrRefused) {
  auto evaluator = Start();
  const auto half = [](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    wishes.canary = "careful";
    wishes.canary_share = 0.5;
    return wishes;
  };
  EXPECT_TRUE(evaluator->Wish(half, "canary", "a test").has_value());
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.5));
  EXPECT_EQ(evaluator->view()->plan.canary, "careful");
  const auto never = [](const EvaluatorView&) -> Result<RouteWishes> { return InvalidError("no"); };
  EXPECT_FALSE(evaluator->Wish(never, "canary", "a test").has_value());
  EXPECT_EQ(words_.route().canary_share, ShareOf(0.5));
}

TEST_F(EvaluatorTest, PastItsLeaseTheRouteIsHeldAndNothingIsDoneLater) {
  auto evaluator = Start(0.05);
  std::promise<void> entered, released;
  const auto stuck = [&](const EvaluatorView& view) -> Result<RouteWishes> {
    entered.set_value();
    released.get_future().wait();
    return view.wishes;
  };
  std::thread first([&] { (void)evaluator->Wish(stuck, "canary", "it hangs"); });
  entered.get_future().wait();
  const Route24 before = words_.route();
  const auto wider = [](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    wishes.canary = "careful";
    wishes.canary_share = 1;
    return wishes;
  };
  EXPECT_FALSE(evaluator->Wish(wider, "canary", "nobody answers").has_value());
  EXPECT_TRUE(evaluator->silent());
  EXPECT_EQ(words_.route(), before);
  released.set_value();
  first.join();
  evaluator.reset();
  EXPECT_EQ(words_.route(), before) << "who was told no must not be obeyed later";
}

TEST_F(EvaluatorTest, VerdictsNeverSaySatisfiedWithoutEvidence) {
  auto evaluator = Start();
  GatewayNow now = Now(*evaluator);
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kInconclusive);
  EXPECT_EQ(VerdictIn(VerdictOf(now, {}).json), "inconclusive");
  // Whatever a view might claim.
  EvaluatorView claims = *now.view;
  claims.status.kernels[0].verdict = Verdict::kSatisfied;
  now.view = std::make_shared<EvaluatorView>(claims);
  EXPECT_NE(VerdictOf(now, {}).verdict, Verdict::kSatisfied) << "no request was audited";
  claims.status.kernels[0].audited = 1000;
  now.view = std::make_shared<EvaluatorView>(claims);
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kSatisfied);
  now.silent = true;
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kError) << "nobody looks at what comes now";
  now.silent = false;
  claims.log_failed = true;
  now.view = std::make_shared<EvaluatorView>(claims);
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kInconclusive);
  claims.log_failed = false;
  claims.status.kernels[0].state = KernelState::kGuarded;
  now.view = std::make_shared<EvaluatorView>(claims);
  now.silent = true;
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kViolated) << "bad news stands";
}

// The scorer hangs, say: requests are sampled, and none becomes evidence.
TEST_F(EvaluatorTest, ASatisfiedVerdictIsTakenBackWhileNothingBecomesEvidence) {
  SharedClock clock;
  std::atomic<uint64_t> offered{0};
  EvaluatorOptions options;
  options.live = Options();
  options.offered = [&] {
    return std::map<std::string, uint64_t>{{"fast", offered.load()}, {"careful", 0}};
  };
  auto started = Evaluator::Start(std::move(options), &words_, &history_, &clock);
  ASSERT_TRUE(started.has_value()) << started.error().Format();
  Evaluator& evaluator = **started;
  const auto now = [&] {
    GatewayNow seen = Now(evaluator);
    seen.at_ms = clock.NowMs();
    return seen;
  };
  // Time goes on for the evaluator, which looks by itself.
  const auto until = [&](Verdict verdict) {
    for (int i = 0; i < 2000 && VerdictOf(now(), {}).verdict != verdict; ++i) {
      clock.AdvanceMs(20);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return VerdictOf(now(), {}).verdict;
  };
  const auto give = [&] {
    const int64_t number = number_++;
    MonitorObservation good = GoodOrBad(number, false);
    good.time_ms = clock.NowMs();
    evaluator.Take(std::move(good), {"r" + std::to_string(number), "fast", clock.NowMs(), false});
    offered.fetch_add(1);
  };
  for (int i = 0; i < 600; ++i) give();
  ASSERT_EQ(until(Verdict::kSatisfied), Verdict::kSatisfied);
  EXPECT_NE(VerdictOf(now(), {}).json.find("\"stale\":false"), std::string::npos);

  clock.AdvanceMs(3'600'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(450));
  EXPECT_EQ(VerdictOf(now(), {}).verdict, Verdict::kSatisfied) << "a quiet hour";
  EXPECT_NE(VerdictOf(now(), {}).json.find("\"ageSeconds\":36"), std::string::npos);

  offered.fetch_add(10);
  clock.AdvanceMs(1500);  // it looks once a second
  std::this_thread::sleep_for(std::chrono::milliseconds(450));
  clock.AdvanceMs(61'000);
  ASSERT_EQ(until(Verdict::kInconclusive), Verdict::kInconclusive);
  const GatewayNow stale = now();
  const std::string json = VerdictOf(stale, {}).json;
  EXPECT_NE(json.find("none of 10 sampled requests became evidence"), std::string::npos) << json;
  EXPECT_NE(json.find("\"stale\":true"), std::string::npos) << json;
  EXPECT_EQ(stale.view->status.kernels[0].verdict, Verdict::kInconclusive);
  EXPECT_EQ(stale.view->status.kernels[0].pairs[0].verdict, Verdict::kInconclusive);
  EXPECT_NE(StatusJson(stale).find("\"stale\":\"for "), std::string::npos);
  EXPECT_NE(ControlMetrics(stale).find("kcc_evidence_stale{kernel=\"fast\"} 1"), std::string::npos);
  EXPECT_EQ(words_.route().serves, kFast) << "the route does not change by it";
  EXPECT_EQ(history_.Latest(1)[0].kind, "stale");
  const auto wider = [](const EvaluatorView& view) -> Result<RouteWishes> {
    RouteWishes wishes = view.wishes;
    wishes.canary = "fast";
    wishes.canary_share = 0.5;
    return wishes;
  };
  const Result<> refused = evaluator.Wish(wider, "promotion", "a test");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("not widened without evidence"), std::string::npos);

  give();
  EXPECT_EQ(until(Verdict::kSatisfied), Verdict::kSatisfied) << "evidence comes again";
  EXPECT_TRUE(evaluator.Wish(wider, "promotion", "a test").has_value());
}

TEST_F(EvaluatorTest, AfterARestartItIsKnownHowOldTheNewestEvidenceIs) {
  {
    auto live = Open();
    Fold(*live, false);
    clock_.AdvanceMs(5000);
    Fold(*live, false);
    ASSERT_TRUE(live->Close().has_value());
  }
  const int64_t newest = clock_.NowMs();
  clock_.AdvanceMs(100'000);
  const auto again = Open();
  EXPECT_EQ(again->newest_ms().at("fast"), newest);
  EXPECT_FALSE(again->newest_ms().contains("careful"));
}

TEST_F(EvaluatorTest, VerdictsAreOfTheContractAndStageThatWereAsked) {
  auto evaluator = Start();
  const GatewayNow now = Now(*evaluator);
  EXPECT_EQ(VerdictOf(now, {"watched", "full", ""}).verdict, Verdict::kInconclusive);
  EXPECT_EQ(VerdictOf(now, {"another", "", ""}).verdict, Verdict::kError);
  EXPECT_EQ(VerdictOf(now, {"", "canary", ""}).verdict, Verdict::kError);
  EXPECT_EQ(VerdictOf(now, {"", "", "nobody"}).verdict, Verdict::kError);
}

TEST_F(EvaluatorTest, AVerdictIsAboutTheCanaryWhereThereIsOne) {
  auto evaluator = Start();
  GatewayNow now = Now(*evaluator);
  EvaluatorView claims = *now.view;
  claims.status.kernels[0].verdict = Verdict::kSatisfied;
  claims.status.kernels[0].audited = 1000;
  claims.wishes.canary = "careful";
  now.view = std::make_shared<EvaluatorView>(claims);
  EXPECT_EQ(VerdictOf(now, {}).verdict, Verdict::kInconclusive) << "the incumbent's is not it";
  EXPECT_EQ(VerdictOf(now, {"", "", "fast"}).verdict, Verdict::kSatisfied);
}

TEST_F(EvaluatorTest, MetricsAndStatusAreWrittenFromTheSameMoment) {
  auto evaluator = Start();
  const GatewayNow now = Now(*evaluator);
  const std::string metrics = ControlMetrics(now);
  EXPECT_NE(metrics.find("kcc_route_weight{kernel=\"fast\"} 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("kcc_clause_state{clause=\"soft-kl\",slice=\"all\",side=\"infer\","
                         "kernel=\"fast\",state=\"inconclusive\"} 1\n"),
            std::string::npos)
      << metrics;
  json::parser parser;
  const std::string status = StatusJson(now);
  EXPECT_TRUE(ParseJson(parser, status).has_value()) << status;
}

}  // namespace
}  // namespace kcc
