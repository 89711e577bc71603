// Answers that the scorer has written: probes, repeats, and the audit kernel's own.
#include "kcc/rescore/rescorer_test_data.h"

namespace kcc {
namespace {

using testing::ColumnOf;
using testing::Empty;
using ::testing::HasSubstr;
using testing::kPrompt;
using testing::RecordOf;
using testing::RescoreContract;
using testing::RescorerTest;
using testing::ServedTokens;
using testing::Taken;

TEST_F(RescorerTest, AProbeIsAskedAndScored) {
  Start({{"next", "500"}});
  WaitUntilUp();
  ServedRecord probe = RecordOf(pool_, "p", kPrompt, {});
  probe.kind = RecordKind::kProbe;
  probe.kernel = 1;
  probe.prompt_ids.clear();
  probe.request_body =
      R"({"model":"tiny","temperature":1,"seed":3,"max_tokens":4,"prompt":[5,17]})";
  for (int i = 0; i < 10'000; ++i) {  // the kernel may come up later
    probe.id = "p" + std::to_string(i);
    const Taken taken = One(probe);
    EXPECT_TRUE(taken.probe);
    EXPECT_EQ(taken.kernel, "bf16");
    if (taken.observation() == nullptr) {
      ASSERT_THAT(taken.lost(), HasSubstr("is not known"));
      continue;
    }
    EXPECT_TRUE(taken.observation()->probe);
    EXPECT_GE(taken.observation()->tokens.rows(), 1u);
    EXPECT_EQ(taken.observation()->infer.Flag("failed"), false);
    for (const double value : ColumnOf(*taken.observation(), "abs_log_ratio")->lo) {
      EXPECT_LT(value, 1e-6);
    }
    break;
  }
  probe.kernel = 3;  // answers 500
  probe.id = "q";
  const Taken failed = One(probe);
  ASSERT_NE(failed.observation(), nullptr) << failed.lost();
  EXPECT_EQ(failed.observation()->infer.Flag("failed"), true);
}

TEST_F(RescorerTest, ARequestThatCanBeRepeatedIsAskedAgain) {
  options_.determinism_rate = 1;
  Start();
  WaitUntilUp();
  // What the formula's kernel writes when it is asked with this seed is found out by a probe.
  const std::string body =
      R"({"model":"tiny","temperature":1,"seed":3,"max_tokens":4,"prompt":[5,17]})";
  ServedRecord probe = RecordOf(pool_, "p", kPrompt, {});
  probe.kind = RecordKind::kProbe;
  probe.prompt_ids.clear();
  probe.request_body = body;
  const Taken written = One(probe);
  ASSERT_NE(written.observation(), nullptr) << written.lost();
  const std::vector<int32_t> output = written.observation()->tokens.token;
  for (const bool same : {true, false}) {
    std::vector<int32_t> told = output;
    if (!same) told.push_back(7);
    ServedRecord record =
        RecordOf(pool_, same ? "same" : "other", kPrompt, ServedTokens(kPrompt, told));
    record.request_body = body;
    Put(std::move(record));
    const std::vector<Taken> taken = Wait(2);
    ASSERT_EQ(taken.size(), 2u);
    ASSERT_NE(taken[0].observation(), nullptr) << taken[0].lost();
    ASSERT_NE(taken[1].observation(), nullptr) << taken[1].lost();
    const MonitorObservation& first = *taken[0].observation();
    const MonitorObservation& again = *taken[1].observation();
    EXPECT_TRUE(again.repeat && again.probe && !first.repeat);
    EXPECT_EQ(*first.asked->Text("replay_group"), *again.asked->Text("replay_group"));
    EXPECT_EQ(*first.infer.Text("replay_signature") == *again.infer.Text("replay_signature"), same);
    EXPECT_NE(first.id(), again.id());
  }
}

TEST_F(RescorerTest, WhereNoIdsAreToldAnswersAreComparedWithAnswers) {
  Start();
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.request_body =
      R"({"model":"tiny","temperature":0,"seed":3,"max_tokens":2,"prompt":[5,17]})";
  record.tokens.clear();
  record.text = "w1 w2";
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_EQ(taken.observation()->tokens.rows(), 0u);
  EXPECT_GE(taken.observation()->train->Number("output_tokens"), 1)
      << "rows are missing, and do not vanish";
  ASSERT_TRUE(taken.observation()->outputs.has_value());
  EXPECT_EQ(taken.observation()->train->Flag("failed"), false);
}

TEST_F(RescorerTest, ARefusalIsTheClientsFaultOnlyIfTheAuditKernelRefusesToo) {
  Start();
  WaitUntilUp();
  ServedRecord both = Record("both");
  Empty(&both);
  both.status = 400;
  both.request_body =
      R"({"model":"tiny","temperature":1,"seed":1,"max_tokens":1,"prompt":[5],"unheard":1})";
  const Taken neither = One(std::move(both));
  ASSERT_NE(neither.observation(), nullptr) << neither.lost();
  EXPECT_FALSE(neither.observation()->audited);
  ServedRecord alone = Record("alone");
  Empty(&alone);
  alone.status = 400;
  alone.request_body =
      R"({"model":"tiny","temperature":1,"seed":1,"max_tokens":1,"prompt":[5,17]})";
  const Taken blamed = One(std::move(alone));
  ASSERT_NE(blamed.observation(), nullptr) << blamed.lost();
  EXPECT_TRUE(blamed.observation()->audited);
  EXPECT_EQ(blamed.observation()->infer.Flag("failed"), true);
  EXPECT_EQ(rescorer_->counts().refused, 1u);
}

TEST_F(RescorerTest, GapsAreOfAnswersThatBothSidesWrote) {
  GradeHook hook;
  hook.field = "parsed";
  options_.hooks = {hook};
  Start({}, RescoreContract({testing::RescoreClause("S-1", "parse_rate_gap", 0.1)}));
  WaitUntilUp();
  ServedRecord record = Record("a");
  record.request_body =
      R"({"model":"tiny","temperature":1,"seed":3,"max_tokens":2,"prompt":[5,17]})";
  record.text = "{}";
  const Taken taken = One(std::move(record));
  ASSERT_NE(taken.observation(), nullptr) << taken.lost();
  EXPECT_EQ(taken.observation()->infer.Flag("parsed"), true);
  EXPECT_EQ(taken.observation()->train->Flag("parsed"), false) << "the server's texts are empty";
  EXPECT_EQ(taken.observation()->tokens.rows(), 3u) << "and the served tokens are scored";
  ASSERT_TRUE(taken.observation()->outputs.has_value());
  EXPECT_TRUE(taken.observation()->outputs->known);
}

}  // namespace
}  // namespace kcc
