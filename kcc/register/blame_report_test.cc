// Blame on what a register holds: promotions, incidents, evidence, and evidence that is gone.
#include "kcc/register/blame_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/register/gc.h"
#include "kcc/register/promotions.h"
#include "kcc/register/record.h"
#include "kcc/register/register_test_data.h"
#include "kcc/register/register_test_server.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

std::string ContractText(const std::string& version, const std::string& limit) {
  return "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: " + version +
         ", owner: ada}\nspec:\n  numerical:\n    - {id: N-1, metric: mean_kl, atMost: " + limit +
         ", level: L3}\n  owners: {N-1: numerics, precision: quantisation}\n";
}

constexpr std::string_view kPolicyText = R"(
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {deadline: 10h, onDeadline: reject}
  full: {minRequests: 1}
)";

// What serves, or is to.
struct Pair {
  std::string model = "m-1";
  std::string infer = "infer-1";
  std::string quantisation = "bf16";
  std::string hardware = {};  // empty: not said
};

class BlameReportTest : public OnEachBackend {
 protected:
  BlameReportTest()
      : text_(ContractText("1.0.0", "0.01")),
        loose_text_(ContractText("0.9.0", "0.1")),
        contract_(*ReadContract(text_).contract),
        loose_(*ReadContract(loose_text_).contract) {}

  Summary Measured(const Pair& of, double kl, int first, const Contract& contract,
                   const std::vector<Contract>& also) {
    testing::Evidence evidence;
    for (int i = first; i < first + 5; ++i) {
      testing::JudgedRequest& request = evidence.Add();
      request.train.id = request.infer.id = "r-" + std::to_string(i);
      request.tokens.emplace_back().Set("kl", kl);
    }
    evidence.change_source = [&](Source* source) {
      source->train.kernel_fingerprint = "train-1";
      source->infer.kernel_fingerprint = of.infer;
      source->infer.declares = {{"quantisation", of.quantisation}};
      if (!of.hardware.empty()) source->infer.declares["gpu"] = of.hardware;
      source->train.model_digest = source->infer.model_digest = of.model;
      source->train.identity = MadeUpDigest(2);
      source->infer.identity = MadeUpDigest(static_cast<uint64_t>(100 + ++made_));
    };
    return testing::Measure(Plan::FromContracts(contract, also), evidence);
  }

  // An evaluation of the pair, on requests from `first` on; gives its id.
  std::string Record(const Pair& of, double kl, int first = 0, bool loose = false,
                     bool both = true) {
    const Contract& contract = loose ? loose_ : contract_;
    const Contract& other = loose ? contract_ : loose_;
    const Summary summary =
        Measured(of, kl, first, contract, both ? std::vector{other} : std::vector<Contract>());
    const Judgement judgement = Judge(contract, summary);
    const JudgedRun run{.contract = contract,
                        .contract_source = loose ? loose_text_ : text_,
                        .summary = summary,
                        .judgement = judgement,
                        .report = "{\"number\":" + std::to_string(made_) + "}",
                        .model = {},
                        .kcc_version = "test",
                        .actor = "ci",
                        .time_ms = now_.time_ms};
    std::string warning;
    const auto head =
        target_->Update([&](Register& seen) { return RecordRun(seen, run, &warning); });
    EXPECT_TRUE(head.has_value()) << head.error().Format();
    return std::to_string(head->sequence);
  }

  std::string TripleOf(const Pair& of, bool loose = false) const {
    return TripleId({of.model, "train-1", of.infer, ContractDigest(loose ? loose_ : contract_)});
  }

  void Start(const std::string& id, const std::string& candidate, const std::string& incumbent,
             const std::string& hardware = "") {
    PromotionStart start;
    start.hardware = hardware;
    start.id = id;
    start.lane = id;
    start.candidate = candidate;
    start.incumbent = incumbent;
    start.policy_text = kPolicyText;
    const auto change = StartPromotion(*target_, start, now_);
    ASSERT_TRUE(change.has_value()) << change.error().Format();
  }

  void Open(const std::string& incident, std::vector<std::pair<std::string, std::string>> about) {
    about.insert(about.begin(), {{"incident", incident}, {"what", "answers repeat"}});
    const auto head = target_->Update([&](Register&) -> Result<Batch> {
      return Batch{{EventOf("incident.opened", BodyOf(about))}, {}};
    });
    ASSERT_TRUE(head.has_value()) << head.error().Format();
  }

  BlameReport Blamed(const std::string& name) {
    const auto report = MakeBlameReport(*target_, name);
    EXPECT_TRUE(report.has_value()) << report.error().Format();
    return report.has_value() ? *report : BlameReport();
  }

  void SetUp() override {
    OnEachBackend::SetUp();
    target_.emplace(Create());
  }

  // Old and new build known and proposed; nothing is recorded on common requests yet.
  void Proposed(const Pair& before, const Pair& after) {
    Record(before, 0.001, 100);
    Record(after, 0.001, 200);
    Start("p-1", TripleOf(after), TripleOf(before));
  }

  const Pair old_;
  const Pair fp8_{"m-1", "infer-2", "fp8"};
  const std::string text_, loose_text_;
  const Contract contract_, loose_;
  Proposer now_{"ada", 1'700'000'000'000};
  int made_ = 0;
  std::optional<Register> target_;
};

// As the kernels declare it, or as the promotion says: the build is not named for what may be the
// hardware's doing.
TEST_P(BlameReportTest, HardwareThatChangedBesideTheBuildIsNotToldFromIt) {
  const Pair a100{"m-1", "infer-1", "bf16", "a100"};
  const Pair h100{"m-1", "infer-2", "fp8", "h100"};
  Proposed(a100, h100);
  Record(h100, 0.05);
  Record(a100, 0.001);
  BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence,
              HasSubstr("the kernel build and the hardware changed at once"));
  EXPECT_THAT(report.answer.sentence, HasSubstr("satisfies N-1 on all"));
  ASSERT_EQ(report.build.size(), 2u);
  EXPECT_EQ(report.build[0].word, "hardware");
  EXPECT_EQ(report.build[0].after, "h100");
  EXPECT_EQ(report.answer.findings.size(), 1u);

  const Pair silent{"m-1", "infer-3", "bf16"};
  const Pair silent_fp8{"m-1", "infer-4", "fp8"};
  Record(silent, 0.001, 100);
  Record(silent_fp8, 0.001, 200);
  Start("p-2", TripleOf(silent_fp8), TripleOf(silent), "h100");
  Record(silent_fp8, 0.05);
  Record(silent, 0.001);
  report = Blamed("p-2");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence,
              HasSubstr("the kernel build and the hardware changed at once"));
}

TEST_P(BlameReportTest, NamesTheKernelBuildAndItsOwner) {
  Proposed(old_, fp8_);
  Record(fp8_, 0.05);
  Record(old_, 0.001);
  const BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kKernel) << report.answer.sentence;
  ASSERT_EQ(report.table.size(), 2u);
  EXPECT_EQ(report.table[0].cells.under_new.verdict(), Verdict::kViolated);
  EXPECT_EQ(report.table[1].cells.under_new.verdict(), Verdict::kSatisfied);
  ASSERT_EQ(report.build.size(), 1u);
  EXPECT_EQ(report.build[0].word, "quantisation");
  EXPECT_EQ(report.build[0].after, "fp8");
  ASSERT_EQ(report.owners.size(), 2u);
  EXPECT_EQ(report.owners[0].owner, "quantisation");
  EXPECT_EQ(report.owners[1].owner, "numerics");
}

TEST_P(BlameReportTest, AsksForThePreviousBuildOnTheSameRequests) {
  Proposed(old_, fp8_);
  Record(fp8_, 0.05);
  Record(old_, 0.001, 1);  // one request is another
  const BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence, HasSubstr("not recorded on the same requests"));
  ASSERT_EQ(report.table.size(), 2u);
  EXPECT_FALSE(report.table[1].decides);
}

TEST_P(BlameReportTest, EvidenceFromBeforeTheProposalIsNotWhatWentWrong) {
  Record(old_, 0.001);
  Record(fp8_, 0.05);
  Start("p-1", TripleOf(fp8_), TripleOf(old_));
  const BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence, HasSubstr("what was promoted, which was not recorded"));
}

TEST_P(BlameReportTest, EvidenceThatWasRemovedDecidesNothing) {
  Proposed(old_, fp8_);
  Record(fp8_, 0.05);
  const std::string before = Record(old_, 0.001);
  EXPECT_EQ(Blamed("p-1").answer.cause, BlameCause::kKernel);
  const auto entry = target_->Find({EntryTable::kEvaluations, before});
  ASSERT_TRUE(entry.has_value() && *entry);
  const std::string body = (*entry)->event.body;
  const size_t at = body.find("\"summary\":\"") + 11;
  GcOptions redact;
  redact.redact = body.substr(at, body.find('"', at) - at);
  const auto removals = FindRemovals(*target_, redact);
  ASSERT_TRUE(removals.has_value()) << removals.error().Format();
  const auto done = target_->Update([&](Register&) -> Result<Batch> {
    return RemovalBatch(*removals, "a name in it", "ada", now_.time_ms);
  });
  ASSERT_TRUE(done.has_value()) << done.error().Format();
  const BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence, HasSubstr("no longer stored"));
}

// Batches that each satisfy the contract, and violate it together.
TEST_P(BlameReportTest, EvidenceThatIsViolatedOnlyTogetherIsNotCalledSatisfied) {
  Proposed(old_, fp8_);
  Record(fp8_, 0.009);
  Open("I-1", {{"promotion", "p-1"}});
  Record(fp8_, 0.009, 300);
  EXPECT_EQ(Blamed("I-1").answer.cause, BlameCause::kContract);
  const std::string joined = EncodeSummary(Measured(fp8_, 0.05, 500, contract_, {loose_}));
  const auto kept = ReadPromotion(*target_, "p-1");
  ASSERT_TRUE(kept.has_value());
  std::string body = kept->event.body;
  body.insert(1, "\"evidence\":\"" + BlobDigest(joined) + "\",");
  const auto head = target_->Update([&](Register&) -> Result<Batch> {
    return Batch{{EventOf("promotion.changed", body)}, {joined}};
  });
  ASSERT_TRUE(head.has_value()) << head.error().Format();
  const BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell) << report.answer.sentence;
  EXPECT_EQ(report.table[0].evaluation, "");
  EXPECT_THAT(report.answer.sentence, HasSubstr("what served before"));
}

TEST_P(BlameReportTest, NamesTheModelOnTheSameKernels) {
  const Pair other_model{"m-2", "infer-1", "bf16"};
  Proposed(old_, other_model);
  Record(other_model, 0.05);
  Record(old_, 0.001);
  const BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kModel) << report.answer.sentence;
  EXPECT_TRUE(report.build.empty());
}

TEST_P(BlameReportTest, TellsModelAndKernelApartByWhatIsHalfOfEach) {
  const Pair both{"m-2", "infer-2", "fp8"};
  const Pair kernel_alone{"m-1", "infer-2", "fp8"};
  const Pair model_alone{"m-2", "infer-1", "bf16"};
  Proposed(old_, both);
  Record(both, 0.05);
  Record(old_, 0.001);
  BlameReport report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell);
  EXPECT_THAT(report.answer.sentence, HasSubstr("the previous model on the new kernels"));
  EXPECT_EQ(report.answer.missing.size(), 2u);
  Record(kernel_alone, 0.05);
  EXPECT_EQ(Blamed("p-1").answer.cause, BlameCause::kKernel);
  Record(model_alone, 0.001);
  report = Blamed("p-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kKernel);
  EXPECT_TRUE(report.answer.missing.empty());
  EXPECT_EQ(report.table.size(), 4u);
}

TEST_P(BlameReportTest, CallsTheContractTooLooseOnlyOnEvidenceOfTheIncident) {
  Proposed(old_, fp8_);
  Record(fp8_, 0.009);
  EXPECT_EQ(Blamed("p-1").answer.cause, BlameCause::kNothing);
  Open("I-1", {{"promotion", "p-1"}});
  BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kCannotTell) << report.answer.sentence;
  const std::string since = Record(fp8_, 0.009, 300);
  report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kContract) << report.answer.sentence;
  EXPECT_EQ(report.table[0].evaluation, since);
  ASSERT_TRUE(report.closest.has_value());
  EXPECT_EQ(report.closest->clause, "N-1");
  EXPECT_NEAR(*report.closest->headroom, 0.1, 1e-9);
  ASSERT_EQ(report.owners.size(), 1u);
  EXPECT_EQ(report.owners[0].owner, "ada");
  EXPECT_EQ(Blamed("p-1").answer.cause, BlameCause::kContract) << "the promotion has the incident";
}

TEST_P(BlameReportTest, AnIncidentMayNameItsEvidence) {
  Proposed(old_, fp8_);
  const std::string shown = Record(fp8_, 0.009);
  Open("I-1", {{"triple", TripleOf(fp8_)}, {"evaluation", shown}});
  const BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kContract) << report.answer.sentence;
  EXPECT_EQ(report.promotion, "p-1");
}

TEST_P(BlameReportTest, SaysWhatALooserContractLetThrough) {
  Record(old_, 0.001, 100);
  Record(fp8_, 0.001, 200, true);
  Start("p-1", TripleOf(fp8_, true), TripleOf(old_));
  Record(fp8_, 0.05, 0, true);
  const std::string shown = Record(fp8_, 0.05, 400, true);
  Open("I-1", {{"promotion", "p-1"}, {"evaluation", shown}});
  const BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kContract) << report.answer.sentence;
  EXPECT_FALSE(report.answer.under_old);
  EXPECT_THAT(report.answer.sentence, HasSubstr("the previous one would have caught it by N-1"));
}

TEST_P(BlameReportTest, SaysWhetherAnotherVersionWouldHaveCaughtIt) {
  Record(old_, 0.001, 100);  // brings the stricter contract into the register
  Record(fp8_, 0.001, 200, true);
  Start("p-1", TripleOf(fp8_, true), "");
  const std::string shown = Record(fp8_, 0.05, 0, true);
  Open("I-1", {{"promotion", "p-1"}, {"evaluation", shown}});
  const BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kContract) << report.answer.sentence;
  ASSERT_EQ(report.others.size(), 1u);
  EXPECT_EQ(report.others[0].contract.version, "1.0.0");
  EXPECT_EQ(report.others[0].cell.verdict(), Verdict::kViolated);
}

TEST_P(BlameReportTest, JudgesUnderBothContractsWhereBothWereMeasured) {
  Record(old_, 0.001, 100, true);
  Record(old_, 0.05, 200);
  Start("p-1", TripleOf(old_), TripleOf(old_, true));  // a stricter contract for what serves
  Record(old_, 0.05, 300, false, true);
  Open("I-1", {{"promotion", "p-1"}});
  const BlameReport report = Blamed("I-1");
  EXPECT_EQ(report.answer.cause, BlameCause::kContract) << report.answer.sentence;
  EXPECT_TRUE(report.answer.under_old);
  EXPECT_THAT(report.answer.sentence, HasSubstr("the previous contract was too loose"));
}

TEST_P(BlameReportTest, RefusesWhatItCannotBeAskedAbout) {
  const auto message = [&](const std::string& name) {
    const auto report = MakeBlameReport(*target_, name);
    return report.has_value() ? "" : report.error().Format();
  };
  EXPECT_THAT(message("nobody"), HasSubstr("neither an incident nor a promotion 'nobody'"));
  Open("I-1", {});
  EXPECT_THAT(message("I-1"), HasSubstr("names neither a promotion nor a triple"));
  Record(old_, 0.001);
  Start("both", TripleOf(old_), "");
  Open("both", {{"promotion", "both"}});
  EXPECT_THAT(message("both"), HasSubstr("write incident:both or promotion:both"));
  EXPECT_EQ(Blamed("promotion:both").answer.cause, BlameCause::kCannotTell);
}

INSTANTIATE_TEST_SUITE_P(Blame, BlameReportTest,
                         ::testing::Values(Backend::kSqlite, Backend::kPostgres), BackendName);

}  // namespace
}  // namespace kcc
