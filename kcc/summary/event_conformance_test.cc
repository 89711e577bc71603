// event_conformance: which records keep to the published schema, counted where a clause asks.
#include <gtest/gtest.h>

#include "kcc/summary/file.h"
#include "kcc/summary/restrict.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeRequest;
using testing::MakeClause;
using testing::MakeSlice;

Contract EventContract() {
  Contract contract;
  contract.slices = {MakeSlice("all", "")};
  contract.clauses = {MakeClause("event_conformance", BoundKind::kAtLeast, 1)};
  return contract;
}

// Two that keep to it, one that writes a number as a text, and one of which nothing was logged.
std::vector<FakeRequest> FourRequests() {
  std::vector<FakeRequest> requests = {FakeRequest("a"), FakeRequest("b"), FakeRequest("c"),
                                       FakeRequest("d")};
  requests[0].infer.fields["latency_ms"] = 12.0;
  requests[1].infer.fields["team"] = std::string("red");
  requests[2].infer.fields["latency_ms"] = std::string("12");
  requests[0].train.fields["reward"] = 1.0;
  return requests;
}

PopulationValue Value(const Summary& summary, const char* metric) {
  return SlicePopulation(summary, 0, *ParseMetric(metric));
}

TEST(EventConformance, IsTheShareOfRecordsThatKeepToTheSchema) {
  const Summary summary = Accumulate(Plan::FromContract(EventContract()), FourRequests());
  const PopulationValue value = Value(summary, "event_conformance");
  EXPECT_DOUBLE_EQ(value.value.lo, 2.0 / 3);
  EXPECT_DOUBLE_EQ(value.value.hi, 2.0 / 3);
  EXPECT_EQ(value.count, 3u);
  EXPECT_EQ(value.missing, 1u) << "silence conforms to nothing";
  EXPECT_EQ(Value(summary, "train_event_conformance").value.lo, 1);
  EXPECT_EQ(Value(summary, "train_event_conformance").missing, 3u);
}

TEST(EventConformance, OneRecordForBothSidesIsNoEventOfTrains) {
  Request record;
  record.id = "r";
  record.fields["latency_ms"] = 1.0;
  const EventFlags flags = EventsOf({"r", &record, &record, "train-fp", "infer-fp"});
  EXPECT_EQ(flags.conforms[static_cast<size_t>(Side::kInfer)], true);
  EXPECT_FALSE(flags.conforms[static_cast<size_t>(Side::kTrain)].has_value());
}

TEST(EventConformance, SummariesKeepItOnlyWhereAClauseAsks) {
  const Plan plan = Plan::FromContract(EventContract());
  EXPECT_TRUE(plan.events());
  EXPECT_FALSE(Plan::Default().events());
  EXPECT_EQ(Plan::Default().CanonicalJson().find("events"), std::string::npos);
  const auto read = Plan::Parse(plan.CanonicalJson());
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_TRUE(read->events());
  EXPECT_FALSE(Plan::Default().Covers(plan).has_value());
  EXPECT_TRUE(plan.Covers(Plan::Default()).has_value());
  const PopulationValue none =
      Value(Accumulate(Plan::Default(), FourRequests()), "event_conformance");
  EXPECT_EQ(none.count, 0u);
}

TEST(EventConformance, FilesPartsAndNarrowerPlansAgree) {
  const Plan plan = Plan::FromContract(EventContract());
  const std::vector<FakeRequest> requests = FourRequests();
  const Summary whole = Accumulate(plan, requests);
  const auto read = DecodeSummary(EncodeSummary(whole));
  ASSERT_TRUE(read.has_value()) << read.error().Format();
  EXPECT_EQ(EncodeSummary(*read), EncodeSummary(whole));
  EXPECT_EQ(Value(*read, "event_conformance").missing, 1u);
  const auto merged = Merge(Accumulate(plan, {requests[2], requests[3]}),
                            Accumulate(plan, {requests[0], requests[1]}));
  ASSERT_TRUE(merged.has_value()) << merged.error().Format();
  EXPECT_EQ(EncodeSummary(*merged), EncodeSummary(whole));
  const auto narrow = Restrict(whole, Plan::Default());
  ASSERT_TRUE(narrow.has_value()) << narrow.error().Format();
  EXPECT_EQ(EncodeSummary(*narrow), EncodeSummary(Accumulate(Plan::Default(), requests)));
}

}  // namespace
}  // namespace kcc
