#include "kcc/summary/summary.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

#include "kcc/summary/file.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeEvidence;
using testing::FakeRequest;
using testing::FakeToken;
using testing::InSlice;
using testing::TestContract;
using End = SeriesStats::End;

std::vector<double> ValuesOf(const std::vector<FakeRequest>& requests, const PlanSlice& slice,
                             size_t slot, End end) {
  std::vector<double> values;
  for (const FakeRequest& request : requests) {
    for (const FakeToken& token : request.tokens) {
      if (!InSlice(slice, request, &token) || !token.drift.known[slot]) continue;
      values.push_back(end == End::kLow ? token.drift.lo[slot] : token.drift.hi[slot]);
    }
  }
  std::sort(values.begin(), values.end());
  return values;
}

uint64_t CountIf(const std::vector<double>& values, auto predicate) {
  return static_cast<uint64_t>(std::count_if(values.begin(), values.end(), predicate));
}

TEST(Summary, CountersEqualSortingAllValues) {
  const Plan plan = Plan::FromContract(TestContract());
  for (const bool intervals : {false, true}) {
    const auto requests = FakeEvidence(7).Requests(60, intervals);
    const Summary summary = Accumulate(plan, requests);
    for (size_t slice = 0; slice < plan.slices().size(); ++slice) {
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        const SeriesView view(summary, slice, slot);
        for (const End end : {End::kLow, End::kHigh}) {
          const auto values = ValuesOf(requests, plan.slices()[slice], slot, end);
          ASSERT_EQ(plan.slots()[slot] ? values.size() : 0, view.count()) << SlotName(slot);
          if (view.count() == 0) continue;
          EXPECT_EQ(view.Min(end), values.front());
          EXPECT_EQ(view.Max(end), values.back());
          for (const double t : plan.thresholds(slot)) {
            const auto above = CountIf(values, [&](double v) { return v > t; });
            const auto below = CountIf(values, [&](double v) { return v < t; });
            EXPECT_EQ(view.Above(end, t), (CountRange{above, above})) << SlotName(slot);
            EXPECT_EQ(view.Below(end, t), (CountRange{below, below})) << SlotName(slot);
          }
          for (const int ppm : {1, 500000, 990000, 1000000}) {
            const auto rank =
                std::max<size_t>(1, (values.size() * static_cast<size_t>(ppm) + 999999) / 1000000);
            const Interval range = view.Quantile(end, ppm);
            EXPECT_LE(range.lo, values[rank - 1]);
            EXPECT_GE(range.hi, values[rank - 1]);
          }
        }
      }
    }
  }
}

TEST(Summary, AnUncountedThresholdIsBracketedByTheHistogram) {
  const Plan plan = Plan::Default();
  const auto requests = FakeEvidence(3).Requests(50);
  const Summary summary = Accumulate(plan, requests);
  const SeriesView view(summary, 0, TokenSlot("kl"));
  const auto values = ValuesOf(requests, plan.slices()[0], TokenSlot("kl"), End::kLow);
  for (const double t : {-1.0, 0.0, 0.0001, 0.25, 0.2501, 0.9, 5.0}) {
    const auto above = CountIf(values, [&](double v) { return v > t; });
    const auto below = CountIf(values, [&](double v) { return v < t; });
    EXPECT_LE(view.Above(End::kLow, t).lo, above) << t;
    EXPECT_GE(view.Above(End::kLow, t).hi, above) << t;
    EXPECT_LE(view.Below(End::kLow, t).lo, below) << t;
    EXPECT_GE(view.Below(End::kLow, t).hi, below) << t;
  }
  EXPECT_TRUE(view.Below(End::kLow, 0.25).exact()) << "a lower edge decides";
}

TEST(Summary, AnySplitMergedInAnyOrderGivesTheSameBytes) {
  const Plan plan = Plan::FromContract(TestContract());
  EXPECT_TRUE(rc::check("merge", [&] {
    const auto seed = *rc::gen::inRange<uint64_t>(0, 1000);
    const auto parts = *rc::gen::inRange<size_t>(1, 6);
    const bool intervals = *rc::gen::arbitrary<bool>();
    const auto requests = FakeEvidence(seed).Requests(20, intervals);
    const std::string whole = EncodeSummary(Accumulate(plan, requests));
    std::vector<std::vector<FakeRequest>> split(parts);
    for (const FakeRequest& request : requests) {
      split[*rc::gen::inRange<size_t>(0, parts)].push_back(request);
    }
    std::vector<Summary> summaries;
    for (const auto& part : split) {
      const auto cells = *rc::gen::inRange<size_t>(1, 20);
      summaries.push_back(Accumulate(plan, part, cells));
    }
    // Merge random pairs until one is left: any tree, any order.
    while (summaries.size() > 1) {
      const auto a = *rc::gen::inRange<size_t>(0, summaries.size());
      std::swap(summaries[a], summaries.back());
      const auto b = *rc::gen::inRange<size_t>(0, summaries.size() - 1);
      const Result<Summary> merged = Merge(summaries.back(), summaries[b]);
      RC_ASSERT(merged.has_value());
      summaries[b] = *merged;
      summaries.pop_back();
    }
    RC_ASSERT(EncodeSummary(summaries[0]) == whole);
  }));
}

TEST(Summary, RefusesDifferentPlansAndRequestsMeasuredTwice) {
  const auto requests = FakeEvidence(1).Requests(4);
  const Summary contract = Accumulate(Plan::FromContract(TestContract()), requests);
  const Summary plain = Accumulate(Plan::Default(), requests);
  const Result<Summary> mixed = Merge(contract, plain);
  ASSERT_FALSE(mixed.has_value());
  EXPECT_NE(mixed.error().message().find("different plans"), std::string::npos);
  const Result<Summary> twice = Merge(plain, plain);
  ASSERT_FALSE(twice.has_value());
  EXPECT_NE(twice.error().message().find("4 requests were measured in both"), std::string::npos);
}

TEST(Summary, KnowsWhatItsSourcesHoldAndItLacks) {
  const auto requests = FakeEvidence(1).Requests(6);
  Summary half = Accumulate(Plan::Default(), {requests.begin(), requests.begin() + 3});
  Summary rest = Accumulate(Plan::Default(), {requests.begin() + 3, requests.end()});
  Source source;
  source.requests = 6;
  for (const FakeRequest& request : requests) source.manifest += HashText(request.infer.id);
  half.sources = rest.sources = {source};
  EXPECT_FALSE(half.Complete());
  EXPECT_EQ(half.RequestsMissing(), 3u);
  const Summary whole = *Merge(half, rest);
  EXPECT_TRUE(whole.Complete());
  ASSERT_EQ(whole.sources.size(), 1u);
  Summary other = whole;
  other.requests.back() ^= 1;
  EXPECT_FALSE(other.Complete()) << "as many requests, but not the same";
}

TEST(Summary, WorstTokensAreThoseOfASortByValueThenPlace) {
  const Plan plan = Plan::Default();
  const auto requests = FakeEvidence(11).Requests(80);
  const Summary summary = Accumulate(plan, requests);
  for (const char* name : {"kl", "top1_overlap", "log_ratio", "tv"}) {
    const size_t slot = TokenSlot(name);
    const Quantity& quantity = SlotQuantity(slot);
    std::vector<WorstValue> all;
    for (const FakeRequest& request : requests) {
      for (const FakeToken& token : request.tokens) {
        const double value = token.drift.lo[slot];
        const bool best =
            quantity.direction == Direction::kHigherIsBetter ? value == quantity.max : value == 0;
        if (!token.drift.known[slot] || best) continue;
        all.push_back({value, request.infer.id, token.position, token.token});
      }
    }
    std::sort(all.begin(), all.end(), [&](const WorstValue& a, const WorstValue& b) {
      const double bad_a = WorstList::Badness(quantity.direction, a.value);
      const double bad_b = WorstList::Badness(quantity.direction, b.value);
      if (bad_a != bad_b) return bad_a > bad_b;
      return std::tie(a.request, a.position, a.token) < std::tie(b.request, b.position, b.token);
    });
    all.resize(std::min(all.size(), WorstList::kLimit));
    EXPECT_EQ(SeriesView(summary, 0, slot).worst(), all) << name;
  }
}

TEST(Summary, ClusterSumsAreThoseOfTheRequests) {
  const Plan plan = Plan::FromContract(TestContract());
  const auto requests = FakeEvidence(5).Requests(40);
  const Summary summary = Accumulate(plan, requests);
  const size_t slot = TokenSlot("kl");
  for (size_t slice = 0; slice < plan.slices().size(); ++slice) {
    uint64_t with_values = 0;
    uint64_t any_above = 0;
    uint64_t squares = 0;
    uint64_t cross = 0;
    double sums = 0;
    const size_t at = 1;  // 0.5
    ASSERT_EQ(plan.thresholds(slot)[at], 0.5);
    for (const FakeRequest& request : requests) {
      const auto values = ValuesOf({request}, plan.slices()[slice], slot, End::kLow);
      if (values.empty()) continue;
      const auto above = CountIf(values, [](double v) { return v > 0.5; });
      ++with_values;
      any_above += above != 0 ? 1 : 0;
      squares += above * above;
      cross += above * values.size();
      const double sum = std::accumulate(values.begin(), values.end(), 0.0);
      if (std::isfinite(sum)) sums += sum * sum;
    }
    const ClusterSums& cluster = SeriesView(summary, slice, slot).clusters()->point;
    EXPECT_EQ(cluster.requests, with_values);
    EXPECT_EQ(cluster.splits[at].any_above, any_above);
    EXPECT_EQ(static_cast<uint64_t>(cluster.splits[at].above_squares), squares);
    EXPECT_EQ(static_cast<uint64_t>(cluster.splits[at].above_tokens), cross);
    EXPECT_DOUBLE_EQ(cluster.sum_squares.Round(), sums);
  }
}

TEST(Summary, MissingAndInfiniteValuesAreCountedApart) {
  FakeRequest request("r");
  FakeToken token;
  token.drift.Set(TokenSlot("kl"), std::numeric_limits<double>::infinity());
  request.tokens = {token, token, FakeToken()};
  const Summary summary = Accumulate(Plan::Default(), {request});
  const SeriesView kl(summary, 0, TokenSlot("kl"));
  EXPECT_EQ(kl.count(), 2u);
  EXPECT_EQ(kl.missing(), 1u);
  EXPECT_EQ(kl.stream(End::kLow).tally.plus_infinite, 2u);
  EXPECT_EQ(kl.Mean(End::kLow), std::numeric_limits<double>::infinity());
  EXPECT_EQ(kl.CompareMean(End::kLow, 1e300), 1);
  EXPECT_EQ(kl.Above(End::kLow, 1e308), (CountRange{2, 2}));
  const SeriesView sequence(summary, 0, *FindSeries("seq_kl"));
  EXPECT_EQ(sequence.missing(), 1u) << "a sum over some of the tokens is not the sum";
}

TEST(Summary, AValueThatIsNotANumberIsRefused) {
  const Plan plan = Plan::Default();
  Accumulator accumulator(plan, {});
  const FakeRequest request("r");
  SliceBits bits(1);
  bits.Set(0);
  accumulator.BeginRequest({"r", &request.train, &request.infer, "", ""}, bits);
  TokenDrift drift;
  drift.Set(TokenSlot("tv"), std::nan(""));
  const Result<> added = accumulator.AddToken({}, drift, bits);
  ASSERT_FALSE(added.has_value());
  EXPECT_NE(added.error().message().find("tv"), std::string::npos);
}

TEST(Summary, VarianceKeepsWhatTheSquaresWouldCancel) {
  FakeRequest request("r");
  for (int i = 0; i < 3; ++i) {
    FakeToken token;
    token.drift.Set(TokenSlot("log_ratio"), 1e8 + i);
    request.tokens.push_back(token);
  }
  const Summary summary = Accumulate(Plan::Default(), {request});
  EXPECT_EQ(SeriesView(summary, 0, TokenSlot("log_ratio")).Variance(End::kLow), 1);
}

TEST(Summary, DisagreementCurvesCountTokensByMargin) {
  FakeRequest request("r");
  for (int i = 0; i < 4; ++i) {
    FakeToken token;
    token.drift.Set(TokenSlot("train_margin"), i + 1);
    token.drift.Set(TokenSlot("top1_overlap"), i == 0 ? 0 : 1);
    token.drift.Set(TokenSlot("top5_overlap"), i < 2 ? 0.8 : 1);
    request.tokens.push_back(token);
  }
  const Summary summary = Accumulate(Plan::Default(), {request});
  const SliceStats& all = *summary.FindSlice("all");
  const auto bucket = [](double v) { return Histogram::BucketOf(v); };
  EXPECT_EQ(all.top1_disagreeing.Entries(), (std::vector<Histogram::Entry>{{bucket(1), 1}}));
  EXPECT_EQ(all.top5_disagreeing.Entries(),
            (std::vector<Histogram::Entry>{{bucket(1), 1}, {bucket(2), 1}}));
}

}  // namespace
}  // namespace kcc
