// What jobs amount to, without a kernel to ask.
#include "kcc/rescore/job_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kcc/metric/token_slots.h"
#include "kcc/rescore/rescore_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::RecordOf;
using testing::RescoreClause;
using testing::RescoreContract;
using testing::RescorePool;

TEST(JobEvidence, AnswersOfTheAuditKernelsOwnAreForClausesThatCompareRuns) {
  struct Case {
    const char* metric;
    bool needs;
  };
  const Case cases[] = {
      {"mean_kl", false},
      {"max_abs_log_ratio", false},
      {"p95_latency_ms", false},
      {"failure_rate", false},
      {"mean_reward", false},
      {"determinism_rate", false},
      {"event_conformance", false},
      {"refusal_rate_gap", true},
      {"parse_rate_gap", true},
      {"reward_drift", true},
      {"same_output_rate", true},
      {"mean_first_divergence", true},
      {"replay_mismatch_rate", true},
      {"signature_match_rate", true},
      {"mean_train_latency_ms", true},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(NeedsOwnAnswers(RescoreContract({RescoreClause("C", one.metric, 0.5)})), one.needs)
        << one.metric;
  }
}

TEST(JobEvidence, LogprobsAreComparedOnlyWhereTheyMeanTheSame) {
  constexpr auto kRaw = LogprobSemantics::kRaw;
  constexpr auto kScaled = LogprobSemantics::kTemperatureScaled;
  constexpr auto kProcessed = LogprobSemantics::kProcessed;
  constexpr auto kLists = EvidenceLevel::kTopK;
  constexpr auto kLogits = EvidenceLevel::kLogits;
  struct Case {
    double contract;
    LogprobSemantics semantics;
    std::optional<double> asked;
    bool altered;
    EvidenceLevel audit;
    bool comparable;
  };
  const Case cases[] = {
      {1, kRaw, 0.7, true, kLists, true},          {1, kRaw, std::nullopt, false, kLists, true},
      {1, kScaled, 1.0, true, kLists, true},       {1, kScaled, 0.7, false, kLists, false},
      {1, kScaled, 0.0, false, kLists, false},     {1, kScaled, std::nullopt, false, kLists, false},
      {1, kProcessed, 1.0, false, kLists, true},   {1, kProcessed, 1.0, true, kLists, false},
      {1, kProcessed, 0.5, false, kLogits, false}, {0.7, kRaw, 0.7, false, kLogits, false},
      {0.7, kScaled, 0.7, false, kLogits, true},   {0.7, kScaled, 1.0, false, kLogits, false},
      {0.7, kScaled, 0.7, false, kLists, false},
  };
  for (const Case& one : cases) {
    Contract contract = RescoreContract();
    contract.assumptions.temperature = one.contract;
    AskedRecord asked;
    asked.temperature = one.asked;
    asked.altered = one.altered;
    const EvidenceMaker maker(contract, false);
    EXPECT_EQ(maker.WhyNotComparable(one.semantics, asked, one.audit).empty(), one.comparable)
        << Name(one.semantics) << " at " << one.asked.value_or(-1) << " under " << one.contract;
  }
}

// A job whose answers are all there.
RescoreJob Done(Served served = Served::kWhole) {
  RescoreJob job;
  ServedToken token;
  token.id = 3;
  token.logprob = -1;
  job.record = RecordOf(RescorePool(), "r", {1, 2}, {token});
  job.asked = *ReadAskedRecord(job.record);
  job.served = served;
  job.prompt = {1, 2};
  job.prompt_tokens = 2;
  job.vocab_size = 8;
  job.sequence = {1, 2, 3};
  TokenAnswer scored;
  scored.ok = true;
  scored.tokens = {ScoredToken{3, -1, {}, {}}};
  scored.build = "audit-1";
  job.audit = scored;
  return job;
}

TEST(JobEvidence, WhatWasNotScoredIsLostAndSaysWhy) {
  const EvidenceMaker maker(RescoreContract(), false);
  struct Case {
    const char* name;
    void (*spoil)(RescoreJob* job);
    const char *words, *word;
  };
  const Case cases[] = {
      {"no answer of audit's", [](RescoreJob* j) { j->audit.reset(); }, "did not score it",
       "audit"},
      {"audit was late",
       [](RescoreJob* j) { j->audit = TokenAnswer{}, j->audit->timed_out = true; },
       "did not score it", "timeout"},
      {"lost on the way", [](RescoreJob* j) { j->lost = "gone", j->lost_word = "gone"; }, "gone",
       "gone"},
      {"not comparable",
       [](RescoreJob* j) { j->lost_served = "scaled", j->lost_served_word = "semantics"; },
       "scaled", "semantics"},
      {"no log-probs anywhere",
       [](RescoreJob* j) {
         j->record.tokens[0].logprob = std::numeric_limits<double>::quiet_NaN();
       },
       "tells no log-probs", "no-logprobs"},
      {"audit's numbers are broken",
       [](RescoreJob* j) {
         j->audit->tokens[0].top = {{9, -1}}, j->audit->tokens[0].top[0].second = -0.5,
         j->record.tokens[0].top = {{1, -0.5}, {2, -2}};
       },
       "broken", "audit"},
  };
  for (const Case& one : cases) {
    RescoreJob job = Done();
    one.spoil(&job);
    const JobEvidence evidence = maker.OfServed(job);
    EXPECT_FALSE(evidence.observation.has_value()) << one.name;
    EXPECT_THAT(evidence.lost, HasSubstr(one.words)) << one.name;
    EXPECT_EQ(evidence.lost_word, one.word) << one.name;
  }
}

TEST(JobEvidence, WhatAGatewayCouldNotUseIsAFailureWhateverItsStatus) {
  struct Case {
    int status;
    const char* reason;
    bool content;
    Served served;
  };
  const Case cases[] = {
      {200, "", true, Served::kWhole},   {200, "garbage", false, Served::kFailed},
      {101, "", false, Served::kFailed}, {302, "status", false, Served::kFailed},
      {304, "", false, Served::kFailed}, {404, "", false, Served::kRefused},
      {400, "", true, Served::kFailed},  {429, "", false, Served::kFailed},
      {503, "", false, Served::kFailed}, {0, "connect", false, Served::kFailed},
  };
  for (const Case& one : cases) {
    ServedRecord record = RecordOf(RescorePool(), "r", {1, 2}, {});
    if (!one.content) {
      record.text.clear();
      record.ttft_ms = 0;
    }
    record.status = one.status;
    record.reason = one.reason;
    EXPECT_EQ(ServedOf(record), one.served) << one.status << one.reason;
  }
}

TEST(JobEvidence, TokensBeforeAFailureAreScoredOrMissing) {
  const EvidenceMaker maker(RescoreContract(), false);
  RescoreJob job = Done(Served::kFailed);
  JobEvidence evidence = maker.OfServed(job);
  ASSERT_TRUE(evidence.observation.has_value());
  EXPECT_EQ(evidence.observation->tokens.rows(), 1u);
  EXPECT_EQ(evidence.observation->infer.Flag("failed"), true);
  EXPECT_FALSE(evidence.observation->infer.fields.contains("latency_ms"));
  job.audit->ok = false;
  evidence = maker.OfServed(job);
  ASSERT_TRUE(evidence.observation.has_value()) << "that it failed is known all the same";
  EXPECT_EQ(evidence.observation->tokens.rows(), 0u);
  EXPECT_EQ(evidence.observation->infer.Number("output_tokens"), 1);
  job.audit->ok = true;
  job.lost_served = "scaled";
  EXPECT_EQ(maker.OfServed(job).observation->tokens.rows(), 0u);
  for (const Served served : {Served::kFailed, Served::kLeft}) {
    job = Done(served);
    job.sequence.clear();
    job.record.tokens.clear();
    EXPECT_EQ(maker.OfServed(job).observation->train->Number("output_tokens"), 1);
    job.record.text.clear();
    EXPECT_EQ(maker.OfServed(job).observation->train->Number("output_tokens"), 1)
        << "there was content, of what kind nobody read";
    job.record.ttft_ms = 0;
    EXPECT_FALSE(maker.OfServed(job).observation->train->fields.contains("output_tokens"));
  }
}

TEST(JobEvidence, EqualLogprobsGiveExactlyNothing) {
  const EvidenceMaker maker(RescoreContract(), false);
  const JobEvidence evidence = maker.OfServed(Done());
  ASSERT_TRUE(evidence.observation.has_value()) << evidence.lost;
  const MonitorObservation& seen = *evidence.observation;
  EXPECT_TRUE(CheckObservation(seen).has_value());
  for (const TokenColumn& column : seen.tokens.columns) {
    if (column.slot == TokenSlot("abs_log_ratio")) {
      EXPECT_EQ(column.lo[0], 0);
    }
  }
  EXPECT_EQ(*seen.train->Text("kernel_fingerprint"), "audit-1");
  EXPECT_FALSE(seen.train->fields.contains("output_tokens"));
}

TEST(JobEvidence, TextsAreKeptOnlyWhereTheyAreAskedFor) {
  for (const bool keeps : {false, true}) {
    const EvidenceMaker maker(RescoreContract(), keeps);
    const JobEvidence evidence = maker.OfServed(Done());
    ASSERT_TRUE(evidence.observation.has_value());
    EXPECT_EQ(evidence.observation->infer.fields.contains("text"), keeps);
    EXPECT_EQ(evidence.observation->asked->fields.contains("request_body"), keeps);
  }
}

TEST(JobEvidence, OutputsAreComparedByIdsElseByOneTokenizersWord) {
  RescoreJob job = Done();
  job.own = job.record;
  EXPECT_TRUE(CompareAnswers(job).same);
  job.own->finish_reason = "length";
  EXPECT_FALSE(CompareAnswers(job).same) << "it would have gone on";
  job.own->finish_reason = "stop";
  job.own->tokens.push_back(job.own->tokens[0]);
  OutputComparison compared = CompareAnswers(job);
  EXPECT_TRUE(compared.known && !compared.same);
  EXPECT_EQ(compared.common, 1);
  job.own->tokens.clear();
  EXPECT_FALSE(CompareAnswers(job).known);
  job.text_ids = {7, 8};
  job.own_text_ids = {7, 9};
  compared = CompareAnswers(job);
  EXPECT_TRUE(compared.known && !compared.same);
  EXPECT_EQ(compared.common, 1);
  job.own->status = 500;
  EXPECT_FALSE(CompareAnswers(job).known);
}

TEST(JobEvidence, SignaturesAreOfWhatBothAnswersTell) {
  RescoreJob job = Done();
  job.again = job.record;
  EXPECT_EQ(AnswerSignature(job, job.record), AnswerSignature(job, *job.again));
  job.again->tokens.clear();  // a whole answer that tells no ids, of a stream that did
  EXPECT_EQ(AnswerSignature(job, job.record), AnswerSignature(job, *job.again));
  job.again->text = "other words";
  EXPECT_NE(AnswerSignature(job, job.record), AnswerSignature(job, *job.again));
}

}  // namespace
}  // namespace kcc
