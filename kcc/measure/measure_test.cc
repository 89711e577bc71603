#include "kcc/measure/measure.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "kcc/base/file.h"
#include "kcc/contract/reader.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/measure/trace_source.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/file.h"
#include "kcc/summary/series.h"
#include "kcc/summary/summary_test_data.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::ScratchDir;
using testing::SyntheticSpec;

Contract SliceContract() {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", ""),
                     testing::MakeSlice("safety", "'safety' in tags"),
                     testing::MakeSlice("late", "token.position >= 5")};
  contract.assumptions.tokens_max = 100;
  contract.clauses = {
      testing::MakeClause("p99_kl", BoundKind::kAtMost, 0.01, {"all", "safety", "late"}),
      testing::MakeClause("mean_tv", BoundKind::kAtMost, 0.05),
      testing::SoftClause("mean_kl", BoundKind::kAtMost, 0.005, {}, {"all", "late"}),
      testing::SoftClause("p95_tv", BoundKind::kAtMost, 0.05, {Window::Kind::kRequests, 4}),
      testing::MakeClause("p95_latency_ms", BoundKind::kAtMost, 150)};
  return contract;
}

PairedTraces MakePair(const ScratchDir& dir, SyntheticSpec spec) {
  testing::WriteSynthetic(dir / "train", spec);
  spec.noise = 0.05;
  testing::WriteSynthetic(dir / "infer", spec);
  auto pair =
      PairedTraces::Make(*TraceReader::Open(dir / "train"), *TraceReader::Open(dir / "infer"));
  EXPECT_TRUE(pair.has_value()) << pair.error().Format();
  return *std::move(pair);
}

MeasureOptions With(int threads, Shard shard = {}) {
  MeasureOptions options;
  options.threads = threads;
  options.shard = shard;
  return options;
}

void Overwrite(const std::string& path, float from, float to) {
  std::string bytes = *ReadFile(path, size_t{1} << 24);
  const std::string_view pattern(reinterpret_cast<const char*>(&from), sizeof from);
  for (size_t at = bytes.find(pattern); at != std::string::npos; at = bytes.find(pattern, at)) {
    std::memcpy(bytes.data() + at, &to, sizeof to);
  }
  std::ofstream(path, std::ios::binary) << bytes;  // in place: the pair has the file mapped
}

SyntheticSpec LogitsSpec() {
  SyntheticSpec spec;
  spec.requests = 23;
  spec.gold = true;
  return spec;
}

TEST(Measure, ThreadsAndShardsGiveTheSameBytes) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, LogitsSpec());
  const Plan plan = Plan::FromContract(SliceContract());
  const Result<Summary> whole = Measure(pair, plan);
  ASSERT_TRUE(whole.has_value()) << whole.error().Format();
  EXPECT_TRUE(whole->Complete());
  const std::string bytes = EncodeSummary(*whole);
  for (const int threads : {2, 3, 16}) {
    EXPECT_EQ(EncodeSummary(*Measure(pair, plan, With(threads))), bytes) << threads;
  }
  for (const int32_t count : {3, 7, 40}) {
    std::optional<Summary> merged;
    for (int32_t i = count; i >= 1; --i) {
      Summary part = *Measure(pair, plan, With(2, {i, count}));
      EXPECT_EQ(part.sources, whole->sources);
      EXPECT_FALSE(part.Complete());
      merged = merged ? *Merge(*merged, part) : part;
    }
    EXPECT_EQ(EncodeSummary(*merged), bytes) << count << " shards";
  }
}

TEST(Measure, EveryTargetGivesTheSameBytes) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, LogitsSpec());
  const Plan plan = Plan::FromContract(SliceContract());
  const std::string bytes = EncodeSummary(*Measure(pair, plan));
  for (const Target target : AvailableTargets()) {
    MeasureOptions options;
    options.target = target;
    EXPECT_EQ(EncodeSummary(*Measure(pair, plan, options)), bytes) << TargetName(target);
  }
}

TEST(Measure, SlicesSelectTheirTokens) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, LogitsSpec());
  const Plan plan = Plan::FromContract(SliceContract());
  const Summary summary = *Measure(pair, plan);
  const auto count = [&](std::string_view slice) { return summary.FindSlice(slice)->tokens; };
  EXPECT_EQ(count("all"), static_cast<uint64_t>(pair.token_count()));
  EXPECT_GT(count("safety"), 0u);
  EXPECT_LT(count("safety"), count("all"));
  EXPECT_GT(count("late"), 0u);
  EXPECT_LT(count("late"), count("all"));
  EXPECT_EQ(summary.FindSlice("safety")->population.requests, 12u);
  const SeriesView kl(summary, static_cast<size_t>(plan.FindSlice("all")), TokenSlot("kl"));
  EXPECT_EQ(kl.count(), count("all"));
  EXPECT_EQ(kl.missing(), 0u);
  EXPECT_GT(kl.Mean(SeriesStats::End::kLow), 0);
  EXPECT_EQ(summary.FindSlice("all")->calibration.count(), count("all"));
}

// Infer cannot make its pace, or its answers, look other than the rows that it scored.
TEST(Measure, OutputTokensOfScoredTracesAreTheRows) {
  const ScratchDir dir;
  SyntheticSpec spec = LogitsSpec();
  spec.edit_request = [](Request* request) { request->fields["ttft_ms"] = 10.0; };
  const Summary honest = *Measure(MakePair(dir, spec), Plan::Default());
  std::filesystem::remove_all(dir / "infer");
  spec.edit_request = [](Request* request) {
    request->fields["ttft_ms"] = 10.0;
    request->fields["started_at_ms"] = 0.0;
    request->fields["output_tokens"] = 1.0;  // of one token there is no pace
  };
  testing::WriteSynthetic(dir / "infer", spec);
  const auto pair =
      PairedTraces::Make(*TraceReader::Open(dir / "train"), *TraceReader::Open(dir / "infer"));
  const Summary forged = *Measure(*pair, Plan::Default());
  for (const char* name : {"tpot_ms", "output_tokens"}) {
    const SeriesView was(honest, 0, *FindSeries(name));
    const SeriesView is(forged, 0, *FindSeries(name));
    EXPECT_EQ(is.count(), was.count()) << name;
    EXPECT_EQ(is.Mean(SeriesStats::End::kLow), was.Mean(SeriesStats::End::kLow)) << name;
  }
  const auto infer = static_cast<size_t>(Side::kInfer);
  EXPECT_EQ(forged.slices[0].population.sides[infer].output_tokens.Round(),
            static_cast<double>(pair->token_count()));
}

TEST(Measure, SampledTokensGiveEstimatesOnlyIfInferSampledThem) {
  for (const SampledBy by : {SampledBy::kInfer, SampledBy::kDataset}) {
    const ScratchDir dir;
    SyntheticSpec spec = LogitsSpec();
    spec.evidence = EvidenceLevel::kSampledToken;
    spec.info.sampled_by = by;
    spec.info.sampling_temperature = 1;
    const PairedTraces pair = MakePair(dir, spec);
    const Summary summary = *Measure(pair, Plan::Default());
    const auto tokens = static_cast<uint64_t>(pair.token_count());
    EXPECT_EQ(SeriesView(summary, 0, TokenSlot("log_ratio")).count(), tokens);
    EXPECT_EQ(SeriesView(summary, 0, TokenSlot("kl")).missing(), tokens);
    const size_t estimate = *EstimateSeries(*FindQuantity("kl"));
    EXPECT_EQ(SeriesView(summary, 0, estimate).count(), by == SampledBy::kInfer ? tokens : 0);
  }
}

TEST(Measure, BrokenEvidenceNamesRequestAndPositionForAnyThreads) {
  const ScratchDir dir;
  SyntheticSpec spec = LogitsSpec();
  // The writer refuses NaN, so a mark is written and overwritten on disk.
  constexpr float kMark = 12345.678f;
  const std::vector<float> marked(static_cast<size_t>(spec.vocab_size), kMark);
  spec.edit = [&](TokenEvidence* token) {
    if (token->request == 9 || token->request == 17) token->logits = marked.data();
    return true;
  };
  const PairedTraces pair = MakePair(dir, spec);
  for (const auto& entry : std::filesystem::directory_iterator(dir / "infer")) {
    if (entry.path().extension() == ".safetensors") {
      Overwrite(entry.path().string(), kMark, std::nanf(""));
    }
  }
  for (const int threads : {1, 4}) {
    const Result<Summary> summary = Measure(pair, Plan::Default(), With(threads));
    ASSERT_FALSE(summary.has_value());
    const std::string text = summary.error().Format();
    EXPECT_EQ(summary.error().code(), ErrorCode::kBrokenEvidence);
    EXPECT_NE(text.find("request 'req-9', position"), std::string::npos) << text;
    EXPECT_NE(text.find(dir / "infer"), std::string::npos) << text;
  }
}

TEST(Measure, ProgressReachesTheTotals) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, LogitsSpec());
  MeasureProgress last;
  MeasureOptions options;
  options.threads = 2;
  options.progress = [&](const MeasureProgress& progress) {
    EXPECT_GT(progress.tokens, last.tokens);
    last = progress;
  };
  ASSERT_TRUE(Measure(pair, Plan::Default(), options).has_value());
  EXPECT_EQ(last.requests, 23);
  EXPECT_EQ(last.tokens, pair.token_count());
  EXPECT_EQ(last.tokens, last.tokens_total);
}

// Generated outputs are compared where the plan asks; given ones never, for they agree by
// construction.
TEST(Measure, ComparesWhatBothSidesGenerated) {
  Contract contract;
  contract.slices = {testing::MakeSlice("all", "")};
  contract.clauses = {testing::MakeClause("same_output_rate", BoundKind::kAtLeast, 0.5),
                      testing::MakeClause("p50_first_divergence", BoundKind::kAtLeast, 2)};
  SyntheticSpec spec;
  spec.requests = 4;
  spec.evidence = EvidenceLevel::kSampledToken;
  for (const TraceMode mode : {TraceMode::kGenerated, TraceMode::kScored}) {
    const ScratchDir dir;
    spec.info.mode = mode;
    spec.info.sampled_by = SampledBy::kInfer;
    spec.edit = nullptr;
    testing::WriteSynthetic(dir / "train", spec);
    const bool generated = mode == TraceMode::kGenerated;
    if (generated) {
      spec.edit = [](TokenEvidence* token) {  // the output's third token
        if (token->request == 0 && token->position == 4) token->token = (token->token + 1) % 50;
        return true;
      };
    }
    testing::WriteSynthetic(dir / "infer", spec);
    const auto pair =
        PairedTraces::Make(*TraceReader::Open(dir / "train"), *TraceReader::Open(dir / "infer"));
    ASSERT_TRUE(pair.has_value()) << pair.error().Format();
    const auto summary = Measure(*pair, Plan::FromContract(contract), With(2));
    ASSERT_TRUE(summary.has_value()) << summary.error().Format();
    const SeriesView same(*summary, 0, *FindSeries("same_output"));
    const SeriesView first(*summary, 0, *FindSeries("first_divergence"));
    EXPECT_EQ(same.count(), generated ? 4u : 0u);
    EXPECT_EQ(same.missing(), generated ? 0u : 4u);
    EXPECT_EQ(first.missing(), generated ? 0u : 4u);
    if (!generated) continue;
    EXPECT_EQ(same.Rate(SeriesView::End::kLow), 0.75);
    EXPECT_EQ(first.Min(SeriesView::End::kLow), 2);
    const auto plain = Measure(*pair, Plan::Default(), With(1));
    ASSERT_TRUE(plain.has_value());
    EXPECT_EQ(EncodeSummary(*plain).find("same_output"), std::string::npos);
  }
}

// The bytes themselves, so that another compiler, library or CPU would show: the file's own digest.
TEST(Measure, GivesTheExampleTheBytesItAlwaysGave) {
  const auto contract = ReadContractFile("examples/contract.yaml");
  ASSERT_TRUE(contract.has_value());
  const auto pair = PairedTraces::Make(*TraceReader::Open("examples/traces/train"),
                                       *TraceReader::Open("examples/traces/infer"));
  ASSERT_TRUE(pair.has_value());
  const Plan plan = Plan::FromContract(*contract->outcome.contract);
  // A plan of before the fine grid of bets gives the bytes of before.
  std::string before = plan.CanonicalJson();
  const std::string key = "\"bets\":16,";
  for (size_t at = before.find(key); at != std::string::npos; at = before.find(key)) {
    before.erase(at, key.size());
  }
  const auto coarse = Plan::Parse(before);
  ASSERT_TRUE(coarse.has_value());
  for (const Target target : AvailableTargets()) {
    MeasureOptions options = With(2);
    options.target = target;
    // Of format 1, which the statistics had when this was pinned.
    const auto digest = [&](const Plan& asked) {
      const auto summary = Measure(*pair, asked, options);
      const std::string bytes = summary ? EncodeSummary(*summary, 1) : std::string(64, '-');
      return bytes.substr(bytes.size() - 64);
    };
    EXPECT_EQ(digest(plan), "25b98806d6ed5fd5457d12723b255e19e0f847f7a98c2e1ea216f18ff8582a7a")
        << TargetName(target);
    EXPECT_EQ(digest(*coarse), "e8743ba56b6f42c497b82da444c7ddedc385901ad348ba779df34d01cdf07d7d")
        << TargetName(target);
  }
}

// A percentile shown is a bucket's edge in a stored summary and the value itself where it is judged
// at once.
TEST(Measure, KnowsPercentilesExactlyWhileTheEvidenceIsAtHand) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, LogitsSpec());
  const ReadOutcome read = ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: exact, version: 1.0.0}
spec:
  slices: [{name: late, where: "token.position >= 4"}]
  numerical:
    - {id: N-1, metric: p90_kl, atMost: 1, slices: [all, late], level: L3}
  runtime:
    - {id: R-1, metric: p50_latency_ms, atMost: 1000, level: L2}
)");
  const Contract& contract = *read.contract;
  const Plan plan = Plan::FromContract(contract);
  std::vector<double> values;
  class Collect final : public PairVisitor {
   public:
    explicit Collect(std::vector<double>* to) : to_(*to) {}
    Result<> Add(const MeasuredToken& token) override {
      to_.push_back(token.reading.drift.lo[TokenSlot("kl")]);
      return {};
    }

   private:
    std::vector<double>& to_;
  } collect(&values);
  PairVisitor* const visitors[] = {&collect};
  WalkOptions walk;
  walk.wanted.set(TokenSlot("kl"));
  ASSERT_TRUE(WalkPairs(TraceSource(pair), pair.Order(), *SliceEvaluator::Make({}), walk, visitors)
                  .has_value());
  std::sort(values.begin(), values.end());
  const double p90 = values[QuantileRank(values.size(), 900000) - 1];
  for (const int threads : {1, 3}) {
    MeasureOptions options = With(threads);
    options.exact_for = &contract;
    const Summary summary = *Measure(pair, plan, options);
    EXPECT_EQ(summary.exact_quantiles.size(), 3u);
    const auto all = static_cast<size_t>(plan.FindSlice("all"));
    EXPECT_EQ(summary.exact_quantiles.at({all, TokenSlot("kl"), 900000}), p90);
    EXPECT_EQ(EncodeSummary(summary), EncodeSummary(*Measure(pair, plan, With(1)))) << "not stored";
  }
}

}  // namespace
}  // namespace kcc
