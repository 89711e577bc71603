#include "kcc/statement/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"
#include "kcc/statement/chain_head.h"
#include "kcc/statement/generic_predicates.h"
#include "kcc/statement/promotion_record.h"
#include "kcc/statement/statement_schema.h"
#include "kcc/statement/statement_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(StatedEvaluation, ReadsBackToTheSameStatement) {
  for (const auto& make : {SampleReport, ConvergentSample, LargeSample}) {
    const StatedEvaluation evaluation = TestEvaluation(make());
    const auto statement = EvaluationStatement(evaluation);
    ASSERT_TRUE(statement);
    const auto json = StatementJson(*statement);
    ASSERT_TRUE(json) << json.error().Format();
    const auto read = ReadStatement(*json);
    ASSERT_TRUE(read) << read.error().Format();
    EXPECT_EQ(read->subjects, statement->subjects);
    const auto again = ReadEvaluation(read->predicate);
    ASSERT_TRUE(again) << again.error().Format();
    EXPECT_EQ(EvaluationStatement(*again)->predicate, statement->predicate);
  }
}

TEST(StatedEvaluation, IsAboutTheTriplesDigests) {
  StatedEvaluation evaluation = TestEvaluation(SampleReport());
  evaluation.triple = "sha256:" + std::string(64, 'b');
  evaluation.infer.model = "sha256:" + std::string(64, 'c');
  evaluation.train.fingerprint = "sha256:" + std::string(64, 'd');
  std::vector<NamedDigest> subjects = SubjectsOf(evaluation);
  EXPECT_EQ(subjects.front(), (NamedDigest{"triple", evaluation.triple}));
  EXPECT_EQ(subjects[1].digest, evaluation.contract_digest);
  EXPECT_THAT(subjects, ::testing::Contains(NamedDigest{"model/infer", evaluation.infer.model}));
  EXPECT_THAT(subjects,
              ::testing::Contains(NamedDigest{"kernel/train", evaluation.train.fingerprint}));
  EXPECT_THAT(subjects, ::testing::Contains(
                            NamedDigest{"kernel/infer", Sha256Of(evaluation.infer.fingerprint)}));
}

// Whatever is edited in the struct that a program hands over, the conclusions are drawn again.
TEST(StatedEvaluation, AnEditedReportIsRefused) {
  const EvaluationEvent event{.time_ms = 0, .triple = "", .report_digest = "", .evidence = {}};
  ReportData report = SampleReport();
  report.judgement.verdict = Verdict::kSatisfied;
  auto made = EvaluationOf(report, event);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("but the clauses make it 'violated'"));
  report = SampleReport();
  report.judgement.convergent = true;
  EXPECT_FALSE(EvaluationOf(report, event));
  report = SampleReport();
  report.judgement.health = 0;
  EXPECT_FALSE(EvaluationOf(report, event));
  report = SampleReport();
  report.judgement.clauses[0].verdict = Verdict::kSatisfied;
  EXPECT_FALSE(EvaluationOf(report, event));
}

TEST(StatedEvaluation, WhatNobodyCouldIdentifyIsRefused) {
  const EvaluationEvent event;
  ReportData report = ConvergentSample();
  report.contract.digest = "sha256:0";
  EXPECT_THAT(EvaluationOf(report, event).error().message(), HasSubstr("the contract has the"));
  report = ConvergentSample();
  report.provenance.infer.fingerprint.clear();
  EXPECT_THAT(EvaluationOf(report, event).error().message(),
              HasSubstr("no fingerprint of the infer kernel"));
  report = ConvergentSample();
  EXPECT_FALSE(
      EvaluationOf(report, {.time_ms = -1, .triple = "", .report_digest = "", .evidence = {}}));
  EXPECT_FALSE(EvaluationOf(
      report, {.time_ms = kTimestampMsMax + 1, .triple = "", .report_digest = "", .evidence = {}}));
  EXPECT_FALSE(
      EvaluationOf(report, {.time_ms = 0, .triple = "abc", .report_digest = "", .evidence = {}}));
  EXPECT_FALSE(EvaluationOf(
      report, {.time_ms = 0, .triple = "", .report_digest = "", .evidence = {{"s", "x"}}}));
}

TEST(StatedEvaluation, ASignedContradictionIsNotRead) {
  const std::string predicate = EvaluationStatement(TestEvaluation(SampleReport()))->predicate;
  const std::pair<std::string_view, std::string_view> edits[] = {
      {R"("verdict":"violated","passed":false)", R"("verdict":"satisfied","passed":false)"},
      {R"("verdict":"violated","passed":false)", R"("verdict":"satisfied","passed":true)"},
      {R"("passed":false)", R"("passed":true)"},
      {R"("verdict":"violated","passed":false)", R"("verdict":"inconclusive","passed":false)"},
      {R"("passed":false,)", ""},
      {R"("kcc":)", R"("kcc":"1","kcc":)"},
      {R"("time":"2026-11-18T09:30:00Z")", R"("time":"today")"},
      {R"("hard":true)", R"("hard":1)"},
      {R"("requests":)", R"("requests":-)"},
      {R"("fingerprint":")", R"("fingerprint":"x)"},
  };
  for (const auto& [from, to] : edits) {
    const auto read = ReadEvaluation(Replaced(predicate, from, to));
    ASSERT_FALSE(read) << to;
    EXPECT_THAT(read.error().message(), HasSubstr("")) << to;
  }
  const std::string good = EvaluationStatement(TestEvaluation(ConvergentSample()))->predicate;
  EXPECT_TRUE(ReadEvaluation(good));
  EXPECT_FALSE(ReadEvaluation(Replaced(good, R"("level":"L3","hard":true,"verdict":"satisfied")",
                                       R"("level":"L3","hard":true,"verdict":"violated")")));
}

// Every verdict of one row, through every predicate: only satisfied is ever called passed.
TEST(StatedEvaluation, InconclusiveAndErrorNeverPass) {
  for (const Verdict verdict :
       {Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError, Verdict::kViolated}) {
    StatedEvaluation evaluation = TestEvaluation(ConvergentSample());
    evaluation.warnings.clear();
    evaluation.rows[0].verdict = verdict;
    evaluation.verdict = verdict;
    const bool good = verdict == Verdict::kSatisfied;
    const std::string vsa =
        VsaStatement(evaluation, {.verifier = "kcc:x", .resource = "urn:a:b", .input = {}})
            ->predicate;
    const std::string test = TestResultStatement(evaluation)->predicate;
    EXPECT_EQ(vsa.find("PASSED") != std::string::npos, good) << Name(verdict);
    EXPECT_EQ(vsa.find("FAILED") != std::string::npos, !good) << Name(verdict);
    EXPECT_EQ(test.find("\"PASSED\"") != std::string::npos, good) << Name(verdict);
    EXPECT_EQ(test.find("\"FAILED\"") != std::string::npos, !good) << Name(verdict);
    // A struct that contradicts itself does not pass either.
    evaluation.verdict = Verdict::kSatisfied;
    EXPECT_EQ(evaluation.passed(), good);
  }
  StatedEvaluation nothing = TestEvaluation(ConvergentSample());
  nothing.rows.clear();
  EXPECT_FALSE(nothing.passed());
  StatedEvaluation warned = TestEvaluation(ConvergentSample());
  warned.warnings = {"the two sides are one"};
  EXPECT_THAT(TestResultStatement(warned)->predicate, HasSubstr(R"("result":"WARNED")"));
}

TEST(StatedEvaluation, AVerificationSummaryNeedsUris) {
  const StatedEvaluation evaluation = TestEvaluation(ConvergentSample());
  for (const char* uri : {"", "no uri", ":x", "x:", "a b:c", "\x01:b"}) {
    EXPECT_FALSE(VsaStatement(evaluation, {.verifier = "kcc:x", .resource = uri, .input = {}}))
        << uri;
    EXPECT_FALSE(VsaStatement(evaluation, {.verifier = uri, .resource = "kcc:x", .input = {}}))
        << uri;
  }
}

PromotionRecord TestPromotion() {
  const std::string digest = "sha256:" + std::string(64, '1');
  return {.time_ms = TestTime(kTestTime),
          .kcc = "0.1.0",
          .promotion = "p-7",
          .sequence = 12,
          .step = "advance",
          .from = "canary",
          .to = "full",
          .triple = digest,
          .incumbent = "sha256:" + std::string(64, '2'),
          .contract = {"serving@1.0.0", digest},
          .policy = {"gate@1.0.0", digest},
          .evaluations = {{"canary", digest}},
          .approvals = {{"ann", 1000, ""}, {"bo", 2000, "looked at the plots"}},
          .reason = "stable for a day"};
}

TEST(PromotionRecord, ReadsBack) {
  const auto statement = PromotionStatement(TestPromotion());
  ASSERT_TRUE(statement) << statement.error().Format();
  EXPECT_EQ(statement->subjects.size(), 4u);
  const auto read = ReadPromotionRecord(statement->predicate);
  ASSERT_TRUE(read) << read.error().Format();
  EXPECT_EQ(PromotionStatement(*read)->predicate, statement->predicate);
  PromotionRecord broken = TestPromotion();
  broken.policy.digest = "none";
  EXPECT_THAT(PromotionStatement(broken).error().message(), HasSubstr("the policy"));
  broken = TestPromotion();
  broken.approvals[0].time_ms = -1;
  EXPECT_FALSE(PromotionStatement(broken));
}

TEST(ChainHead, ReadsBack) {
  const ChainHead head{"prod", 41, "sha256:" + std::string(64, 'e'), TestTime(kTestTime)};
  const auto statement = ChainHeadStatement(head);
  ASSERT_TRUE(statement);
  EXPECT_EQ(statement->subjects, (std::vector<NamedDigest>{{"register/prod", head.digest}}));
  const auto read = ReadChainHead(statement->predicate);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, 41);
  EXPECT_EQ(read->digest, head.digest);
  EXPECT_FALSE(ChainHeadStatement({"", 1, head.digest, 0}));
  EXPECT_FALSE(ChainHeadStatement({"prod", -1, head.digest, 0}));
  EXPECT_FALSE(ChainHeadStatement({"prod", 1, "", 0}));
}

TEST(Statement, WhatIsNotOneIsRefusedWithTheKey) {
  const std::string hex(64, 'a');
  const auto document = [&](std::string_view subject, std::string_view rest) {
    return R"({"_type":"https://in-toto.io/Statement/v1","subject":)" + std::string(subject) +
           std::string(rest) + "}";
  };
  const std::string one = R"([{"name":"a","digest":{"sha256":")" + hex + R"("}}])";
  const std::string rest = R"(,"predicateType":"t","predicate":{})";
  EXPECT_TRUE(ReadStatement(document(one, rest)));
  EXPECT_TRUE(ReadStatement(document(R"([{"digest":{"gitCommit":"1"}}])", rest)));
  const std::pair<std::string, const char*> cases[] = {
      {"{}", "lacks the key '_type'"},
      {Replaced(document(one, rest), "Statement/v1", "Statement/v0.1"), "version 1"},
      {document("[]", rest), "has no subject"},
      {document(R"([{"name":"a"}])", rest), "lacks the key 'digest'"},
      {document(R"([{"digest":{}}])", rest), "has no digest"},
      {document(R"([{"digest":{"sha256":"AB"}}])", rest), "64 lower-case"},
      {document(R"([{"digest":{"sha256":1}}])", rest), "not a string"},
      {document(one, R"(,"predicateType":"t")"), "lacks the key 'predicate'"},
      {document(one, R"(,"predicateType":"t","predicate":[])"), "not an object"},
      {document(one, rest + R"(,"predicateType":"u")"), "'predicateType' twice"},
      {document(one, R"(,"predicateType":"t","predicate":{"a":1,"a":2})"), "'a' twice"},
  };
  for (const auto& [text, words] : cases) {
    const auto read = ReadStatement(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message(), HasSubstr(words)) << text;
  }
}

TEST(StatementSchema, IsTheCommittedOne) {
  const auto committed = ReadFile("docs/statement.schema.json", 1 << 20);
  ASSERT_TRUE(committed) << committed.error().Format();
  EXPECT_EQ(StatementJsonSchema(), *committed)
      << "write it again: kcc schema --statement > docs/statement.schema.json";
}

}  // namespace
}  // namespace kcc
