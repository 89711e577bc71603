#include "kcc/summary/restrict.h"

#include <gtest/gtest.h>

#include "kcc/summary/file.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeEvidence;
using testing::MakeClause;
using testing::TestContract;

// Some of the contract's clauses, and the slices that they name.
Contract PartOf(const Contract& whole, FakeEvidence* random) {
  Contract part = whole;
  std::erase_if(part.clauses, [&](const Clause&) { return random->Next(2) == 0; });
  for (Clause& clause : part.clauses) {
    if (clause.slices.size() > 1 && random->Next(2) == 0) clause.slices.pop_back();
  }
  std::erase_if(part.slices, [&](const Slice& slice) {
    return slice.name != "all" &&
           std::none_of(part.clauses.begin(), part.clauses.end(), [&](const Clause& clause) {
             return std::find(clause.slices.begin(), clause.slices.end(), slice.name) !=
                    clause.slices.end();
           });
  });
  return part;
}

// The first part that differs, for a failure that can be read.
std::string FirstDifference(const Summary& a, const Summary& b) {
  const auto alike = [&](auto part) {
    Summary other = a;
    part(other, b);
    return EncodeSummary(other) == EncodeSummary(a);
  };
  if (!alike([](Summary& x, const Summary& y) { x.fills = y.fills; })) return "fills";
  for (size_t s = 0; s < a.slices.size(); ++s) {
    const std::string where = " of slice " + a.plan.slices()[s].name;
    const auto same = [&](auto member) {
      return alike(
          [&](Summary& x, const Summary& y) { x.slices[s].*member = y.slices[s].*member; });
    };
    if (!same(&SliceStats::tokens)) return "tokens" + where;
    if (!same(&SliceStats::unvouched)) return "unvouched" + where;
    if (!same(&SliceStats::calibration)) return "calibration" + where;
    if (!same(&SliceStats::top1_disagreeing)) return "top1" + where;
    if (!same(&SliceStats::top5_disagreeing)) return "top5" + where;
    if (!same(&SliceStats::population)) return "population" + where;
    for (size_t i = 0; i < a.slices[s].series.size(); ++i) {
      const auto series = [&](Summary& x, const Summary& y) {
        x.slices[s].series[i] = y.slices[s].series[i];
        if (a.plan.IsToken(i)) x.slices[s].clusters[i] = y.slices[s].clusters[i];
      };
      if (!alike(series)) return "series " + a.plan.name(i) + where;
    }
    for (size_t i = 0; i < a.slices[s].windows.size(); ++i) {
      if (!alike([&](Summary& x, const Summary& y) {
            x.slices[s].windows[i] = y.slices[s].windows[i];
          })) {
        return "window " + MetricName(a.plan.windows()[i].metric) + where;
      }
    }
    if (!same(&SliceStats::tests)) return "tests" + where;
  }
  return "";
}

TEST(Restrict, GivesTheBytesThatTheNarrowerPlanMeasures) {
  FakeEvidence random(11);
  Contract whole = TestContract();
  // More than one threshold of a series, on either side of another.
  for (const double limit : {0.125, 0.75}) {
    whole.clauses.push_back(MakeClause("p99_kl", BoundKind::kAtMost, limit, {"all", "even"}));
  }
  whole.clauses.push_back(MakeClause("mean_rank", BoundKind::kAtMost, 3));  // on demand
  Clause coverage = MakeClause("trace_field_coverage", BoundKind::kAtLeast, 1);
  coverage.fields = {"a-field", "seed"};
  whole.clauses.push_back(coverage);
  whole.clauses.push_back(MakeClause("event_conformance", BoundKind::kAtLeast, 0.9));
  const Plan wide = Plan::FromContract(whole);
  int narrower = 0;
  for (int i = 0; i < 60; ++i) {
    const auto requests = FakeEvidence(static_cast<uint64_t>(i)).Requests(30, i % 2 == 1);
    const Summary measured = Accumulate(wide, requests);
    const Plan narrow = Plan::FromContract(PartOf(whole, &random));
    const auto restricted = Restrict(measured, narrow);
    ASSERT_TRUE(restricted.has_value()) << restricted.error().Format();
    const Summary direct = Accumulate(narrow, requests);
    ASSERT_TRUE(EncodeSummary(*restricted) == EncodeSummary(direct))
        << i << ": " << FirstDifference(*restricted, direct);
    // What was read from a file is restricted likewise.
    ASSERT_EQ(EncodeSummary(*Restrict(*DecodeSummary(EncodeSummary(measured)), narrow)),
              EncodeSummary(*restricted));
    narrower += narrow == wide ? 0 : 1;
  }
  EXPECT_GT(narrower, 50);
}

// So that a step may go on with what it began with, whatever is measured beside it by now.
TEST(Restrict, PartsMergeAsIfAllWereMeasuredByTheNarrowerPlan) {
  const Contract whole = TestContract();
  Contract less = whole;
  less.clauses.resize(4);
  const Plan narrow = Plan::FromContract(less);
  const auto requests = FakeEvidence(3).Requests(40);
  const std::vector first(requests.begin(), requests.begin() + 20);
  const std::vector second(requests.begin() + 20, requests.end());
  const auto merged = Merge(Accumulate(narrow, first),
                            *Restrict(Accumulate(Plan::FromContract(whole), second), narrow));
  ASSERT_TRUE(merged.has_value()) << merged.error().Format();
  EXPECT_EQ(EncodeSummary(*merged), EncodeSummary(Accumulate(narrow, requests)));
}

TEST(Restrict, NamesWhatTheWiderPlanLacks) {
  const Contract whole = TestContract();
  Contract less = whole;
  less.clauses.resize(1);
  const Summary measured = Accumulate(Plan::FromContract(less), FakeEvidence(3).Requests(5));
  const auto refused = Restrict(measured, Plan::FromContract(whole));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("measured without"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace kcc
