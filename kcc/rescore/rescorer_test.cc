// The scorer against the reference server (tests/kernel/reference_server.py), whose every number is
// a formula: records in, observations and lost lines out.
#include "kcc/rescore/rescorer_test_data.h"

namespace kcc {
namespace {

using testing::ColumnOf;
using testing::Empty;
using ::testing::HasSubstr;
using testing::kMissing;
using testing::kOutput;
using testing::kPrompt;
using testing::RecordOf;
using testing::RescoreContract;
using testing::RescorePool;
using testing::RescorerTest;
using testing::ServedTokens;
using testing::Taken;

TEST_F(RescorerTest, AServedAnswerBecomesAnObservationWithItsTokens) {
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.fields = {{"tags", R"("safety, code")"}};
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  const MonitorObservation& seen = *taken.observation();
  EXPECT_TRUE(CheckObservation(seen).has_value());
  EXPECT_EQ(seen.kernel, "fp8");
  EXPECT_EQ(seen.id(), "a");
  EXPECT_EQ(seen.session, "session of a");
  EXPECT_EQ(seen.time_ms, 1000);
  EXPECT_TRUE(seen.audited);
  EXPECT_FALSE(seen.probe);
  EXPECT_EQ(seen.tokens.token, kOutput);
  EXPECT_EQ(seen.tokens.position, (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(seen.infer.Number("output_tokens"), 3);
  EXPECT_EQ(seen.infer.Number("latency_ms"), 12);
  EXPECT_EQ(seen.infer.Number("ttft_ms"), 3);
  EXPECT_EQ(seen.asked->Flag("stream"), true);
  EXPECT_EQ(seen.infer.Flag("failed"), false);
  EXPECT_EQ(*seen.infer.Text("kernel_fingerprint"), "build-1");
  EXPECT_NE(seen.infer.Text("replay_signature"), nullptr);
  EXPECT_EQ(seen.asked->Number("prompt_tokens"), 2);
  EXPECT_EQ(std::get<std::vector<std::string>>(seen.asked->fields.at("tags")).size(), 2u);
  EXPECT_EQ(seen.train->Number("prompt_tokens"), 2);
  EXPECT_FALSE(seen.infer.fields.contains("text")) << "texts are kept with store: full alone";
  const TokenColumn* const ratio = ColumnOf(seen, "abs_log_ratio");
  ASSERT_NE(ratio, nullptr);
  for (const double value : ratio->lo) EXPECT_LT(value, 1e-6);
  EXPECT_EQ(rescorer_->counts().waiting, 0u);
}

TEST_F(RescorerTest, OfAnAnswerInOnePieceNobodySawTheFirstToken) {
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.stream = false;
  record.ttft_ms = record.latency_ms;
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_FALSE(taken.observation()->infer.fields.contains("ttft_ms"));
  EXPECT_EQ(taken.observation()->infer.Number("latency_ms"), 12);
}

TEST_F(RescorerTest, WhatAnotherKernelComputesShows) {
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.tokens[1].logprob -= 0.25;
  for (auto& [id, logprob] : record.tokens[1].top) logprob -= id == record.tokens[1].id ? 0.25 : 0;
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_NEAR(ColumnOf(*taken.observation(), "abs_log_ratio")->lo[1], 0.25, 1e-5);
}

TEST_F(RescorerTest, TheCandidateIsHeldAgainstTheSameTokens) {
  Start({{"next", "drift"}});
  WaitUntilUp();
  // The candidate may come up after the others.
  for (int i = 0; i < 10'000; ++i) {
    ServedRecord record = Record("s" + std::to_string(i));
    record.shadow = true;
    Put(std::move(record));
    std::vector<Taken> taken = Wait(2);
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[0].kernel, "fp8");
    EXPECT_EQ(taken[1].kernel, "next");
    if (taken[1].observation() == nullptr) {
      ASSERT_THAT(taken[1].lost(), HasSubstr("next: the candidate did not score it"));
      continue;
    }
    const MonitorObservation& seen = *taken[1].observation();
    EXPECT_EQ(seen.kernel, "next");
    EXPECT_TRUE(seen.probe);
    EXPECT_FALSE(seen.infer.fields.contains("failed")) << "it served nothing";
    EXPECT_FALSE(seen.infer.fields.contains("latency_ms"));
    double most = 0;
    for (const double value : ColumnOf(seen, "abs_log_ratio")->lo) most = std::max(most, value);
    EXPECT_GT(most, 0.05);
    return;
  }
}

TEST_F(RescorerTest, AKernelThatReadAnotherPromptIsFoundOut) {
  Start();
  WaitUntilUp();
  struct Case {
    const char *name, *body;
    std::vector<int32_t> told;
    const char* broken;
  };
  const Case cases[] = {
      {"text as asked", R"({"temperature":1,"prompt":"w5 w17"})", {5, 17}, ""},
      {"text, another token", R"({"temperature":1,"prompt":"w5 w18"})", {5, 17}, "token 1"},
      {"text, a token more",
       R"({"temperature":1,"prompt":"w5"})",
       {5, 17},
       "2 tokens instead of 1"},
      {"a conversation",
       R"({"temperature":1,"messages":[{"role":"user","content":"w17"}]})",
       {1, 17, 3},
       ""},
      {"a conversation, another",
       R"({"temperature":1,"messages":[{"role":"user","content":"w17"}]})",
       {1, 18, 3},
       "another prompt"},
      {"ids", R"({"temperature":1,"prompt":[5,18]})", {5, 17}, "another prompt"},
      {"a prompt that nobody can render",
       R"({"temperature":1,"prompt":"w9","suffix":"x"})",
       {5, 17},
       ""},
  };
  for (const Case& one : cases) {
    ServedRecord record = RecordOf(pool_, one.name, one.told, ServedTokens(one.told, kOutput));
    record.request_body = one.body;
    const Taken taken = One(std::move(record));
    ASSERT_NE(taken.observation(), nullptr) << one.name << taken.lost();
    EXPECT_EQ(taken.observation()->broken.empty(), one.broken[0] == '\0') << one.name;
    EXPECT_THAT(taken.observation()->broken, HasSubstr(one.broken)) << one.name;
  }
  // An answer that tells no prompt is scored with the one that was asked.
  ServedRecord silent = Record("silent");
  silent.request_body = R"({"temperature":1,"prompt":"w5 w17"})";
  silent.prompt_ids.clear();
  const Taken taken = One(std::move(silent));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_EQ(taken.observation()->tokens.position.front(), 2);
  ServedRecord unknown = Record("unknown");
  unknown.request_body = R"({"temperature":1,"prompt":"w5","suffix":"x"})";
  unknown.prompt_ids.clear();
  EXPECT_THAT(One(std::move(unknown)).lost(), HasSubstr("ids of the prompt"));
}

TEST_F(RescorerTest, NothingThatIsMissingCountsAsGood) {
  Start();
  WaitUntilUp();
  struct Case {
    const char* name;
    void (*spoil)(ServedRecord* record);
    std::optional<bool> failed;  // of infer's record
    bool latency;
    size_t rows;
  };
  const Case cases[] = {
      {"status 500", [](ServedRecord* r) { Empty(r), r->status = 500; }, true, false, 0},
      {"no answer", [](ServedRecord* r) { Empty(r), r->status = 0; }, true, false, 0},
      {"too many requests", [](ServedRecord* r) { Empty(r), r->status = 429; }, true, false, 0},
      {"sent elsewhere", [](ServedRecord* r) { Empty(r), r->status = 302; }, true, false, 0},
      {"what no gateway can pass on", [](ServedRecord* r) { Empty(r), r->reason = "garbage"; },
       true, false, 0},
      {"cut off", [](ServedRecord* r) { r->cut = true; }, true, false, 3},
      {"a refusal behind its content", [](ServedRecord* r) { r->status = 400; }, true, false, 3},
      {"the client left", [](ServedRecord* r) { r->client_left = r->cut = true; }, std::nullopt,
       false, 3},
      {"it left before the first token",
       [](ServedRecord* r) {
         r->client_left = true;
         Empty(r);
         r->status = 0;
       },
       std::nullopt, false, 0},
      {"an answer of no tokens", [](ServedRecord* r) { r->tokens.clear(), r->text.clear(); }, false,
       true, 0},
  };
  for (const Case& one : cases) {
    ServedRecord record = Record(one.name);
    one.spoil(&record);
    const Taken taken = One(std::move(record));
    ASSERT_NE(taken.observation(), nullptr) << one.name << taken.lost();
    const MonitorObservation& seen = *taken.observation();
    EXPECT_TRUE(seen.audited) << one.name;
    EXPECT_EQ(seen.infer.Flag("failed"), one.failed) << one.name;
    EXPECT_EQ(seen.infer.fields.contains("latency_ms"), one.latency) << one.name;
    EXPECT_EQ(seen.tokens.rows(), one.rows) << one.name;
    EXPECT_EQ(seen.asked->Number("prompt_tokens"), 2) << one.name << ": it is of its slices";
  }
}

TEST_F(RescorerTest, LostRecordsAreLinesThatCouldNotBeRead) {
  Start();
  WaitUntilUp();
  struct Case {
    const char* name;
    void (*spoil)(ServedRecord* record);
    const char* words;
  };
  const Case cases[] = {
      {"lost before", [](ServedRecord* r) { r->kind = RecordKind::kLost, r->reason = "too large"; },
       "fp8: too large"},
      {"no body", [](ServedRecord* r) { r->request_body = "{"; }, "cannot be read"},
  };
  for (const Case& one : cases) {
    ServedRecord record = Record(one.name);
    one.spoil(&record);
    EXPECT_THAT(One(std::move(record)).lost(), HasSubstr(one.words)) << one.name;
  }
  ServedRecord foreign = Record("foreign");
  foreign.tokens.back().id = 64;
  const Taken taken = One(std::move(foreign));
  ASSERT_NE(taken.observation(), nullptr);
  EXPECT_THAT(taken.observation()->broken, HasSubstr("token id 64"));
  EXPECT_GE(rescorer_->counts().lost, 2u);
}

TEST_F(RescorerTest, AnotherBuildIsBrokenEvidenceAtOnceAndOnceAMinute) {
  Start();
  for (PoolKernel& kernel : pool_->kernels) kernel.fingerprint = "build-1";
  ServedRecord stranger = Record("stranger");
  stranger.kind = RecordKind::kFingerprint;
  stranger.fingerprint = "build-9";
  stranger.started_at_ms = 60'000;
  const Taken event = One(stranger);
  ASSERT_NE(event.observation(), nullptr);
  EXPECT_TRUE(CheckObservation(*event.observation()).has_value());
  EXPECT_TRUE(event.observation()->audited);
  EXPECT_EQ(event.observation()->id(), "stranger#build") << "the request has a line of its own";
  EXPECT_EQ(event.observation()->session, "");
  EXPECT_EQ(event.observation()->broken,
            "another build answered: 'build-9', and the policy names 'build-1'");
  EXPECT_EQ(*event.observation()->infer.Text("kernel_fingerprint"), "build-9");
  stranger.started_at_ms = 119'999;
  Put(stranger);
  stranger.fingerprint = "build-8";
  EXPECT_THAT(One(stranger).observation()->broken, HasSubstr("'build-8'"));
  stranger.kernel = 1;
  EXPECT_EQ(One(stranger).observation()->kernel, "bf16");
  stranger.started_at_ms = 120'000;
  Put(stranger);
  EXPECT_EQ(One(stranger).observation()->time_ms, 120'000);
}

TEST_F(RescorerTest, TokensWithoutLogprobsAreAskedOfTheirKernelAndThatIsSaid) {
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  for (ServedToken& token : record.tokens) {
    token.logprob = kMissing;
    token.top.clear();
  }
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_EQ(taken.observation()->infer.Flag("logprobs_rescored"), true);
  for (const double value : ColumnOf(*taken.observation(), "abs_log_ratio")->lo)
    EXPECT_EQ(value, 0);
}

TEST_F(RescorerTest, AnAuditKernelThatIsDownLosesRecordsButNotFailures) {
  Start({{"audit", "down"}});
  EXPECT_THAT(One(Record("a")).lost(), HasSubstr("fp8: the audit kernel does not answer"));
  ServedRecord failed = Record("b");
  failed.status = 503;
  const Taken taken = One(failed);
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_EQ(taken.observation()->infer.Flag("failed"), true);
  EXPECT_EQ(taken.observation()->tokens.rows(), 0u);
  EXPECT_EQ(taken.observation()->infer.Number("output_tokens"), 3) << "its rows are missing";
  failed.id = "c";
  failed.tokens.clear();
  failed.status = 200;
  failed.cut = true;
  const Taken unnamed = One(failed);
  ASSERT_NE(unnamed.observation(), nullptr) << unnamed.lost();
  EXPECT_GE(unnamed.observation()->train->Number("output_tokens"), 1) << "text without ids";
  EXPECT_GE(rescorer_->counts().reasons.at("audit-down"), 1u);
}

TEST_F(RescorerTest, GradesAreOfTheKernelThatServed) {
  GradeHook hook;
  hook.field = "parsed";
  options_.hooks = {hook};
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.text = "{\"a\":1}";
  EXPECT_EQ(One(record).observation()->infer.Flag("parsed"), true);
  record.id = "b";
  record.text = "no";
  EXPECT_EQ(One(record).observation()->infer.Flag("parsed"), false);
  record.id = "c";
  record.cut = true;
  EXPECT_EQ(One(record).observation()->infer.Flag("parsed"), std::nullopt);
}

TEST_F(RescorerTest, AnAuditKernelOfAnotherBuildThanThePolicySaysScoresNothing) {
  policy_.kernels[2].fingerprint = "build-7";
  Start();
  for (int i = 0; i < 10'000; ++i) {
    const std::string lost = One(Record("a" + std::to_string(i))).lost();
    ASSERT_NE(lost, "");
    if (lost.find("answers as 'build-1'") == std::string::npos) continue;
    // Nor do its own answers say anything.
    ServedRecord refused = Record("refused");
    Empty(&refused);
    refused.status = 400;
    refused.request_body =
        R"({"model":"tiny","temperature":1,"seed":1,"max_tokens":1,"prompt":[5,17]})";
    EXPECT_THAT(One(std::move(refused)).lost(),
                HasSubstr("whether it would: it answers as 'build-1', and the policy names"));
    return;
  }
  FAIL() << "it was never asked";
}

TEST_F(RescorerTest, WhatWouldWaitTooLongIsLostAndCounted) {
  options_.waiting_max = 0;
  options_.in_flight_max = 1;
  ring_ = 4;
  timeout_s_ = 0.5;
  Start({{"audit", "slow"}});
  for (int i = 0; i < 64; ++i) Put(Record("r" + std::to_string(i)));
  std::unique_lock lock(mutex_);
  const auto all = [&] { return taken_.size() + dropped_["fp8"] == 64; };
  EXPECT_TRUE(wake_.wait_for(lock, std::chrono::seconds(60), all))
      << "each is evidence, or said to be lost or dropped";
  for (const Taken& one : taken_) EXPECT_EQ(one.observation(), nullptr);
}

TEST_F(RescorerTest, APolicyWithoutAnAuditKernelIsRefused) {
  pool_ = RescorePool();
  GatewayCore core(pool_, 1, 4, &TheSystemClock());
  MonitorPolicy policy = policy_;
  policy.kernels[2].role = KernelRole::kGuard;
  const auto take = [](Evidence, const ServedRecord&) {};
  const auto dropped = [](const std::string&, uint64_t) {};
  RescoreOptions options;
  EXPECT_THAT(
      Rescorer::Start(RescoreContract(), policy, options, core, take, dropped).error().message(),
      HasSubstr("role audit"));
  EXPECT_THAT(
      Rescorer::Start(RescoreContract(), policy_, options, core, take, dropped).error().message(),
      HasSubstr("no address"));
  options.uris["audit"] = "http://nowhere";
  EXPECT_FALSE(
      Rescorer::Start(RescoreContract(), policy_, options, core, take, dropped).has_value());
}

}  // namespace
}  // namespace kcc
