#include "kcc/measure/measure_arrays.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "kcc/contract/reader.h"
#include "kcc/measure/pair_walk.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/file.h"
#include "kcc/summary/series.h"
#include "kcc/trace/pairing.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::ScratchDir;
using testing::SyntheticSpec;

Plan TestPlan() {
  const ReadOutcome read = ReadContract(R"(
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: arrays, version: 1.0.0}
spec:
  slices:
    - {name: even, where: "'even' in tags"}
    - {name: late, where: "token.position >= 4"}
  numerical:
    - {id: N-1, metric: p99_abs_log_ratio, atMost: 0.05, slices: [all, even, late], level: L3}
    - {id: N-2, metric: mean_kl, atMost: 0.01, exceedance: 10%, window: request, level: L2}
)");
  return Plan::FromContract(read.contract.value());
}

// The rows of a pair of traces, in the caller's memory.
struct Arrays {
  std::vector<Request> requests;
  std::vector<int64_t> first_rows, row_counts;
  std::vector<int32_t> positions, tokens;
  std::vector<float> train_logprobs, infer_logprobs;
  std::vector<std::byte> train_logits, infer_logits;

  explicit Arrays(const PairedTraces& pair) {
    PairCursor cursor(pair);
    const size_t width = static_cast<size_t>(pair.vocab_size()) * 4;
    for (int32_t i = 0; i < static_cast<int32_t>(pair.requests().size()); ++i) {
      requests.push_back(pair.infer_request(i));
      first_rows.push_back(static_cast<int64_t>(tokens.size()));
      cursor.Seek(i);
      while (cursor.Next().value()) {
        positions.push_back(cursor.infer().position);
        tokens.push_back(cursor.infer().token);
        train_logprobs.push_back(static_cast<float>(cursor.train().logprob));
        infer_logprobs.push_back(static_cast<float>(cursor.infer().logprob));
        Append(cursor.train().logits, width, &train_logits);
        Append(cursor.infer().logits, width, &infer_logits);
      }
      row_counts.push_back(static_cast<int64_t>(tokens.size()) - first_rows.back());
    }
  }

  static void Append(const void* row, size_t bytes, std::vector<std::byte>* out) {
    if (row == nullptr) return;
    const auto* from = static_cast<const std::byte*>(row);
    out->insert(out->end(), from, from + bytes);
  }

  ArrayPair View(const PairedTraces& pair) const {
    ArrayPair view;
    if (train_logits.empty()) {
      view.train.logprobs = train_logprobs.data();
      view.infer.logprobs = infer_logprobs.data();
    } else {
      view.train.logits = train_logits.data();
      view.infer.logits = infer_logits.data();
    }
    view.train.fingerprint = pair.train().info().kernel_fingerprint;
    view.infer.fingerprint = pair.infer().info().kernel_fingerprint;
    view.requests = requests;
    view.first_rows = first_rows;
    view.row_counts = row_counts;
    view.positions = positions;
    view.tokens = tokens;
    view.vocab_size = pair.vocab_size();
    view.sampled_by = pair.infer().info().sampled_by;
    return view;
  }
};

// Arrays have one record for both sides, infer's: two sides' records cannot be compared, and of
// train's run nothing is known.
void ForgetCompared(Request* request) {
  request->fields.erase("reward");
  request->fields.erase("parsed");
}
void ForgetTrainsRun(Request* request) {
  ForgetCompared(request);
  request->fields.erase("latency_ms");
}

PairedTraces MakePair(const ScratchDir& dir, EvidenceLevel evidence) {
  SyntheticSpec spec;
  spec.edit_request = ForgetTrainsRun;
  spec.requests = 9;
  spec.output_tokens = 6;
  spec.evidence = evidence;
  spec.info.sampled_by = SampledBy::kInfer;
  spec.info.sampling_temperature = 1;
  testing::WriteSynthetic(dir / "train", spec);
  spec.edit_request = ForgetCompared;
  spec.noise = 0.01;
  testing::WriteSynthetic(dir / "infer", spec);
  return PairedTraces::Make(testing::MustOpen(dir / "train"), testing::MustOpen(dir / "infer"))
      .value();
}

class MeasureArraysTest : public ::testing::TestWithParam<EvidenceLevel> {};

TEST_P(MeasureArraysTest, GivesTheStatisticsOfTracesWithTheSameContent) {
  const ScratchDir dir;
  const PairedTraces pair = MakePair(dir, GetParam());
  const Plan plan = TestPlan();
  Summary from_traces = Measure(pair, plan).value();
  const Arrays arrays(pair);
  for (const int threads : {1, 2, 7, 100}) {
    MeasureOptions options;
    options.threads = threads;
    Result<Summary> summary = MeasureArrays(arrays.View(pair), plan, options);
    ASSERT_TRUE(summary.has_value()) << summary.error().Format();
    EXPECT_EQ(summary->sources[0].tokens, from_traces.sources[0].tokens);
    EXPECT_EQ(summary->sources[0].manifest, from_traces.sources[0].manifest);
    EXPECT_TRUE(summary->Complete());
    from_traces.sources = summary->sources;
    EXPECT_EQ(EncodeSummary(*summary), EncodeSummary(from_traces)) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Evidence, MeasureArraysTest,
                         ::testing::Values(EvidenceLevel::kLogits, EvidenceLevel::kSampledToken),
                         [](const auto& info) {
                           return info.param == EvidenceLevel::kLogits ? "Logits" : "SampledToken";
                         });

// Found by fuzzing: the length that a request claims was believed where arrays were measured.
TEST(MeasureArrays, ALengthThatARequestClaimsCountsNoMoreThanInATrace) {
  const ScratchDir dir;
  SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kSampledToken;
  spec.prompt_tokens = 0;
  spec.info.sampled_by = SampledBy::kInfer;
  spec.info.sampling_temperature = 1;
  spec.edit_request = [](Request* request) {
    ForgetTrainsRun(request);
    request->fields.erase("prompt_tokens");
    request->fields["output_tokens"] = request->id == testing::RequestId(1) ? 2.0 : 9.0;
  };
  testing::WriteSynthetic(dir / "train", spec);
  spec.noise = 0.01;
  testing::WriteSynthetic(dir / "infer", spec);
  const PairedTraces pair =
      PairedTraces::Make(testing::MustOpen(dir / "train"), testing::MustOpen(dir / "infer"))
          .value();
  Summary from_traces = Measure(pair, TestPlan()).value();
  const Arrays arrays(pair);
  const Summary from_arrays = MeasureArrays(arrays.View(pair), TestPlan()).value();
  from_traces.sources = from_arrays.sources;
  EXPECT_EQ(EncodeSummary(from_arrays), EncodeSummary(from_traces));
}

TEST(MeasureArrays, APositionThatStandsTwiceIsAnErrorAsInATrace) {
  const std::vector<float> logprobs = {-1, -2, -3};
  std::vector<Request> requests(1);
  requests[0].id = "a";
  const std::vector<int64_t> first_rows = {0};
  const std::vector<int64_t> row_counts = {3};
  const auto problem = [&](const std::vector<int32_t>& positions,
                           const std::vector<uint8_t>& mask) -> std::string {
    ArrayPair pair;
    pair.train.logprobs = pair.infer.logprobs = logprobs.data();
    pair.requests = requests;
    pair.first_rows = first_rows;
    pair.row_counts = row_counts;
    pair.positions = positions;
    pair.mask = mask;
    const auto summary = MeasureArrays(pair, Plan::Default());
    return summary.has_value() ? "" : summary.error().Format();
  };
  EXPECT_EQ(problem({4, 2, 9}, {}), "");
  EXPECT_EQ(problem({4, 2, 4}, {}), "request 'a': position 4 stands twice");
  EXPECT_EQ(problem({4, 2, 4}, {1, 1, 0}), "request 'a': position 4 stands twice");
  EXPECT_EQ(problem({4, -2, 5}, {1, 0, 1}), "request 'a': position -2 is negative");
}

TEST(MeasureArrays, RowsThatARequestClaimsAndLacksAreMissing) {
  const std::vector<float> logprobs = {-1, -2, -3};
  std::vector<Request> requests(2);
  requests[0].id = "a";
  requests[1].id = "b";
  requests[1].fields["output_tokens"] = 4.0;
  const std::vector<int64_t> first_rows = {0, 2};
  const std::vector<int64_t> row_counts = {2, 1};
  ArrayPair pair;
  pair.train.logprobs = pair.infer.logprobs = logprobs.data();
  pair.requests = requests;
  pair.first_rows = first_rows;
  pair.row_counts = row_counts;
  const auto summary = MeasureArrays(pair, Plan::Default());
  ASSERT_TRUE(summary.has_value()) << summary.error().Format();
  const SeriesView ratios(*summary, 0, *FindSeries("log_ratio"));
  EXPECT_EQ(ratios.count(), 3u);
  EXPECT_EQ(ratios.missing(), 3u);
}

TEST(MeasureArrays, PaddingAndMaskedRowsDoNotCount) {
  const float train[] = {-1, -2, -9, -3, -9, NAN};
  const float infer[] = {-1, -2.5f, -9, -3, -1, NAN};
  const uint8_t mask[] = {1, 1, 0, 1, 0, 0};
  const std::vector<Request> requests = {{"a", {}}, {"b", {}}};
  const int64_t first[] = {0, 3};
  const int64_t counts[] = {3, 3};
  ArrayPair pair;
  pair.train.logprobs = train;
  pair.infer.logprobs = infer;
  pair.requests = requests;
  pair.first_rows = first;
  pair.row_counts = counts;
  pair.mask = mask;
  const Summary summary = MeasureArrays(pair, Plan::Default()).value();
  EXPECT_EQ(summary.sources[0].tokens, 3u);
  EXPECT_EQ(summary.FindSlice("all")->tokens, 3u);
}

// Positions and KL of every token that a sink was shown, by request.
class SeenTokens final : public TokenSink {
 public:
  explicit SeenTokens(size_t requests) : output_rows(requests), positions(requests), kl(requests) {}
  void Begin(size_t request, const RequestPair& pair) override {
    output_rows[request] = pair.output_rows;
  }
  void Take(size_t request, const MeasuredToken& token) override {
    positions[request].push_back(token.position);
    kl[request].push_back(token.reading.drift.lo[TokenSlot("kl")]);
  }

  std::vector<int64_t> output_rows;
  std::vector<std::vector<int32_t>> positions;
  std::vector<std::vector<double>> kl;
};

TEST(MeasureArrays, ASinkIsShownEveryTokenThatCountsOnceAndInOrder) {
  // Two tokens of two entries each; the second request's first row is masked.
  const std::vector<float> train = {1, 0, 0, 1, 5, 5, 2, 0};
  const std::vector<float> infer = {1, 0, 1, 0, 9, 9, 0, 0};
  const std::vector<Request> requests = {{"a", {}}, {"b", {}}};
  const std::vector<int64_t> first = {0, 2}, counts = {2, 2};
  const std::vector<uint8_t> mask = {1, 1, 0, 1};
  ArrayPair pair;
  pair.train.logits = train.data();
  pair.infer.logits = infer.data();
  pair.requests = requests;
  pair.first_rows = first;
  pair.row_counts = counts;
  pair.mask = mask;
  pair.vocab_size = 2;
  for (const int threads : {1, 2}) {
    MeasureOptions options;
    options.threads = threads;
    auto measurement = ArrayMeasurement::Begin(pair, TestPlan(), options);
    ASSERT_TRUE(measurement.has_value());
    SeenTokens seen(2);
    const Result<Summary> summary = measurement->Finish(&seen);
    ASSERT_TRUE(summary.has_value());
    EXPECT_EQ(EncodeSummary(*summary), EncodeSummary(*MeasureArrays(pair, TestPlan(), options)));
    EXPECT_EQ(seen.positions, (std::vector<std::vector<int32_t>>{{0, 1}, {1}}));
    EXPECT_EQ(seen.output_rows, (std::vector<int64_t>{2, 1}));
    EXPECT_EQ(seen.kl[0][0], 0);
    // p = softmax(0, 1), q = softmax(1, 0): KL(p || q) = p1 - p0 = tanh(1/2).
    EXPECT_NEAR(seen.kl[0][1], std::tanh(0.5), 1e-6);
  }
}

TEST(MeasureArrays, PartsMergeToTheBytesOfTheWhole) {
  const float train[] = {-1, -2, -0.5f, -3};
  const float infer[] = {-1.1f, -2, -0.6f, -3.5f};
  const std::vector<Request> requests = {{"b", {}}, {"a", {}}, {"c", {}}};
  const int64_t first[] = {0, 1, 3};
  const int64_t counts[] = {1, 2, 1};
  const auto measure = [&](size_t from, size_t to) {
    ArrayPair pair;
    pair.train.logprobs = train;
    pair.infer.logprobs = infer;
    pair.requests = std::span(requests).subspan(from, to - from);
    pair.first_rows = std::span(first).subspan(from, to - from);
    pair.row_counts = std::span(counts).subspan(from, to - from);
    return MeasureArrays(pair, Plan::Default()).value();
  };
  const std::string whole = EncodeSummary(measure(0, 3));
  const Summary parts[] = {measure(0, 1), measure(1, 2), measure(2, 3)};
  for (const auto& order : {std::array{0, 1, 2}, std::array{2, 0, 1}, std::array{1, 2, 0}}) {
    Summary merged = parts[order[0]];
    ASSERT_TRUE(MergeInto(parts[order[1]], &merged).has_value());
    ASSERT_TRUE(MergeInto(parts[order[2]], &merged).has_value());
    EXPECT_EQ(EncodeSummary(merged), whole);
  }
}

TEST(MeasureArrays, NamesWhatIsWrongAndWhere) {
  const float good[] = {-1, -2, -3};
  const float bad[] = {-1, NAN, -3};
  const std::vector<Request> requests = {{"a", {}}};
  const int64_t first[] = {0};
  const int64_t counts[] = {3};
  ArrayPair pair;
  pair.train.logprobs = good;
  pair.infer.logprobs = bad;
  pair.requests = requests;
  pair.first_rows = first;
  pair.row_counts = counts;
  const auto message = [&] {
    const Result<Summary> summary = MeasureArrays(pair, Plan::Default());
    return summary.has_value() ? std::string("none") : summary.error().message();
  };
  EXPECT_EQ(message(), "request 'a', position 1 (row 1), infer: the log-prob is NaN");
  const uint8_t short_mask[] = {1, 1};
  pair.mask = short_mask;
  EXPECT_EQ(message(), "request 'a': rows 0 to 0 + 3 are not all in the arrays");
  pair.mask = {};
  pair.infer.logits = good;
  EXPECT_EQ(message(), "infer: give either logits or log-probs, or top-k lists");
  pair.infer.logprobs = nullptr;
  pair.vocab_size = 3;
  EXPECT_EQ(message(),
            "both sides must hold logits or both log-probs; top-k lists face lists or logits");
  pair.train.logprobs = nullptr;
  pair.train.logits = good;
  const int64_t one[] = {1};
  pair.row_counts = one;
  pair.temperature = 0;
  EXPECT_EQ(message(),
            "temperatures must be positive and finite; that of sampling may be 0, for greedy "
            "decoding");
  pair.temperature = 1;
  const int32_t token[] = {3};
  pair.tokens = token;
  EXPECT_EQ(
      message(),
      "request 'a', position 0 (row 0), train: the token id 3 is outside the vocabulary of 3: "
      "another tokeniser, or a vocabSize that is too small?");
  pair.infer.logits_stride = 2;
  EXPECT_EQ(message(), "infer: rows of 2 entries cannot hold a vocabulary of 3");
}

}  // namespace
}  // namespace kcc
