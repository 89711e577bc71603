// What a register may not hold of single requests, and that verdicts do not need it.
#include "kcc/register/redaction.h"

#include <gtest/gtest.h>

#include "kcc/base/sha256.h"
#include "kcc/contract/reader.h"
#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/report_json.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

constexpr std::string_view kContract = R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: c, version: 1.0.0}
spec:
  assumptions: {tokensMax: 64}
  numerical:
    - {id: N-1, metric: p99_kl, atMost: 0.01, level: L3}
    - {id: N-2, metric: mean_kl, atMost: 0.3, exceedance: 10%, window: 3 requests, level: L2}
  runtime:
    - {id: R-1, metric: determinism_rate, atLeast: 1, level: L2}
)";

const Contract& TheContract() {
  static const Contract contract = *ReadContract(kContract).contract;
  return contract;
}

// Requests first to last - 1, named by a word that nothing else holds.
Summary Measured(int first, int last) {
  testing::Evidence evidence;
  for (int i = first; i < last; ++i) {
    testing::JudgedRequest& request = evidence.Add();
    request.train.id = request.infer.id = "somebody-" + std::to_string(i);
    for (Request* side : {&request.train, &request.infer}) {
      side->fields["ordinal"] = static_cast<double>(i);
      side->fields["replay_group"] = std::string("g") + std::to_string(i % 3);
      side->fields["replay_signature"] = std::string("s") + std::to_string(i % 2);
    }
    // Equal values, which are listed in the order of the ids.
    request.tokens.emplace_back().Set("kl", i % 4 == 0 ? 0.5 : 0.001 * i);
  }
  return testing::Measure(TheContract(), evidence);
}

RequestStorage Storage(StoreRequests store, bool text = false) {
  RequestStorage storage;
  storage.store = store;
  storage.text = text;
  return storage;
}

TEST(Redaction, NoIdIsLeftUnlessThePolicyKeepsIds) {
  const Summary measured = Measured(0, 40);
  ASSERT_NE(EncodeSummary(measured).find("somebody"), std::string::npos);
  for (const StoreRequests store : {StoreRequests::kNone, StoreRequests::kHashes}) {
    const std::string bytes = EncodeSummary(Redacted(measured, Storage(store)));
    EXPECT_EQ(bytes.find("somebody"), std::string::npos) << Name(store);
    EXPECT_NE(bytes.find(Sha256Of("somebody-0")), std::string::npos)
        << "the first of its replay group";
    EXPECT_EQ(bytes.find(Sha256Of("somebody-36")) != std::string::npos,
              store == StoreRequests::kHashes);
    // It is a summary like any other, with a digest of its own.
    const auto read = DecodeSummary(bytes);
    ASSERT_TRUE(read.has_value()) << read.error().Format();
    EXPECT_EQ(EncodeSummary(*read), bytes);
    EXPECT_NE(Sha256Of(bytes), Sha256Of(EncodeSummary(measured)));
  }
  const Summary full = Redacted(measured, Storage(StoreRequests::kFull));
  EXPECT_EQ(EncodeSummary(full), EncodeSummary(measured));
}

TEST(Redaction, VerdictsAreThoseOfWhatWasMeasured) {
  const Summary measured = Measured(0, 40);
  for (const Stage stage : {Stage::kOffline, Stage::kShadow}) {
    for (const StoreRequests store : {StoreRequests::kNone, StoreRequests::kHashes}) {
      const JudgeOptions options{stage, {}};
      const Summary redacted = Redacted(measured, Storage(store));
      const Judgement was = Judge(TheContract(), measured, options);
      const Judgement is = Judge(TheContract(), redacted, options);
      ASSERT_EQ(was.clauses.size(), is.clauses.size());
      EXPECT_EQ(was.verdict, is.verdict);
      EXPECT_EQ(was.health, is.health);
      for (size_t i = 0; i < was.clauses.size(); ++i) {
        EXPECT_EQ(was.clauses[i].verdict, is.clauses[i].verdict) << was.clauses[i].id;
        EXPECT_EQ(was.clauses[i].slices[0].about.reason, is.clauses[i].slices[0].about.reason);
      }
    }
  }
}

TEST(Redaction, RedactedPartsMergeInAnyOrder) {
  for (const StoreRequests store : {StoreRequests::kNone, StoreRequests::kHashes}) {
    const Summary a = Redacted(Measured(0, 20), Storage(store));
    const Summary b = Redacted(Measured(20, 40), Storage(store));
    const auto merged = Merge(a, b);
    ASSERT_TRUE(merged.has_value()) << merged.error().Format();
    EXPECT_EQ(EncodeSummary(*merged), EncodeSummary(*Merge(b, a)));
    const Judgement whole = Judge(TheContract(), Measured(0, 40));
    EXPECT_EQ(Judge(TheContract(), *merged).verdict, whole.verdict);
  }
}

TEST(Redaction, ReportsSayHowMuchOfTheWorstTokensIsKept) {
  const Summary measured = Measured(0, 40);
  ReportData report =
      MakeReport(TheContract(), "c.yaml", "test", measured, Judge(TheContract(), measured));
  ASSERT_FALSE(report.worst.empty());
  report.worst[0].context = "a ⟦secret⟧ text";
  report.worst[0].tags = {"vip"};
  const auto kept = [&](const RequestStorage& storage) {
    const std::string json = ReportJson(Redacted(report, storage));
    const auto read = ReadReport(json);
    EXPECT_TRUE(read.has_value()) << read.error().Format();
    EXPECT_EQ(ReportJson(*read), json);
    return json;
  };
  const auto has = [](const std::string& json, const std::string& word) {
    return json.find(word) != std::string::npos;
  };
  const std::string none = kept(Storage(StoreRequests::kNone));
  EXPECT_FALSE(has(none, "somebody") || has(none, "secret") || has(none, "vip"));
  EXPECT_TRUE(has(none, "\"worstKept\": \"none\"") && has(none, "\"worst\": []"));
  const std::string hashes = kept(Storage(StoreRequests::kHashes));
  EXPECT_FALSE(has(hashes, "somebody") || has(hashes, "secret") || has(hashes, "vip"));
  EXPECT_TRUE(has(hashes, Sha256Of(report.worst[0].request)));
  const std::string full = kept(Storage(StoreRequests::kFull));
  EXPECT_TRUE(has(full, "somebody") && has(full, "vip") && !has(full, "secret"));
  EXPECT_EQ(kept(Storage(StoreRequests::kFull, true)), ReportJson(report));
}

}  // namespace
}  // namespace kcc
