// What slices and clauses cost: the time of `measure` with 50 slices and 200 clauses beside one of
// each, on the same trace in the page cache, and what merging, writing and reading a summary cost.
// Both plans in turn, the best of each: a slow moment of the machine is neither plan's.
// Usage: summary_bench [vocabulary] [requests] [tokens per request] [repetitions] [JSON file]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/measure/measure.h"
#include "kcc/summary/file.h"
#include "kcc/trace/writer.h"

namespace {

using namespace kcc;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

void WriteTrace(const std::string& directory, int64_t vocab, int requests, int tokens,
                float noise) {
  TraceInfo info;
  info.kernel_fingerprint = noise == 0 ? "train" : "infer";
  info.vocab_size = vocab;
  info.evidence = EvidenceLevel::kLogits;
  Result<TraceWriter> writer = TraceWriter::Create(directory, info, {});
  KCC_CHECK(writer.has_value());
  // A pool of rows, used in turn: writing must not take longer than what is measured.
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> pool(32, std::vector<float>(static_cast<size_t>(vocab)));
  for (std::vector<float>& row : pool) {
    for (float& logit : row) {
      logit = 3 * normal(random);
      const float shift = normal(random);
      logit += noise * shift;
    }
  }
  for (int r = 0; r < requests; ++r) {
    Request request;
    request.id = "request-" + std::to_string(r);
    request.fields["prompt_tokens"] = 1.0;
    request.fields["output_tokens"] = static_cast<double>(tokens);
    request.fields["length"] = static_cast<double>(r * 37 % 1000);
    request.fields["tags"] = std::vector<std::string>{"tag" + std::to_string(r % 10)};
    const auto index = writer->AddRequest(request);
    KCC_CHECK(index.has_value());
    for (int t = 0; t < tokens; ++t) {
      TokenEvidence token;
      token.request = r;
      token.position = t + 1;
      token.token = t;
      token.logits = pool[static_cast<size_t>(r + t) % pool.size()].data();
      KCC_CHECK(writer->AddToken(token).has_value());
    }
  }
  KCC_CHECK(writer->Finish().has_value());
}

Clause MakeClause(const std::string& metric, double threshold,
                  const std::vector<std::string>& slices, bool soft) {
  Clause clause;
  clause.metric = *ParseMetric(metric);
  clause.threshold = threshold;
  clause.slices = slices;
  clause.exceedance = soft ? 0.01 : 0;
  return clause;
}

// Slices of both kinds, each clause on every slice; a tenth of the clauses are soft.
Contract MakeContract(int slices, int clauses) {
  Contract contract;
  std::vector<std::string> names;
  for (int i = 0; i < slices; ++i) {
    Slice slice;
    slice.name = i == 0 ? "all" : "slice-" + std::to_string(i);
    std::string where = "length >= " + std::to_string(20 * i);
    if (i % 3 == 1) where = "'tag" + std::to_string(i % 10) + "' in tags";
    if (i % 10 == 2) where = "token.position >= " + std::to_string(i / 2);
    if (i != 0) slice.where = *Predicate::Parse(where);
    names.push_back(slice.name);
    contract.slices.push_back(std::move(slice));
  }
  const char* metrics[] = {
      "p99_kl",  "p95_tv",   "p50_entropy_gap", "p999_logit_linf", "mean_kl", "p90_abs_log_ratio",
      "mean_tv", "p99_chi2", "p95_k3",          "p99_prob_gap"};
  for (int i = 0; i < clauses; ++i) {
    const int round = 1 + i / 10;
    contract.clauses.push_back(MakeClause(metrics[i % 10], 1e-4 * round, names, i % 10 == 4));
  }
  return contract;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int standard) {
    return argc > i ? std::atoi(argv[i]) : standard;
  };
  const int vocab = argument(1, 32000);
  const int requests = argument(2, 64);
  const int tokens = argument(3, 128);
  const int repetitions = argument(4, 15);
  const std::string directory = std::filesystem::temp_directory_path() / "kcc-summary-bench";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  WriteTrace(directory + "/train", vocab, requests, tokens, 0);
  WriteTrace(directory + "/infer", vocab, requests, tokens, 0.01f);
  Result<PairedTraces> pair = PairedTraces::Make(*TraceReader::Open(directory + "/train"),
                                                 *TraceReader::Open(directory + "/infer"));
  KCC_CHECK(pair.has_value());
  const Plan small = Plan::FromContract(MakeContract(1, 1));
  const Plan large = Plan::FromContract(MakeContract(50, 200));
  // Verified before timed: what both plans count must agree.
  const Summary one = *Measure(*pair, small);
  const Summary many = *Measure(*pair, large);
  KCC_CHECK(one.FindSlice("all")->series[5].point.tally.sum ==
            many.FindSlice("all")->series[5].point.tally.sum);
  std::vector<double> small_times, large_times;
  for (int i = 0; i < repetitions; ++i) {
    small_times.push_back(Seconds([&] { KCC_CHECK(Measure(*pair, small).has_value()); }));
    large_times.push_back(Seconds([&] { KCC_CHECK(Measure(*pair, large).has_value()); }));
  }
  const double all_tokens = static_cast<double>(requests) * tokens;
  const double small_us = 1e6 * Least(small_times) / all_tokens;
  const double large_us = 1e6 * Least(large_times) / all_tokens;
  const std::string bytes = EncodeSummary(many);
  const auto half = [&](int index) {
    MeasureOptions options;
    options.shard = {index, 2};
    return *Measure(*pair, large, options);
  };
  const Summary first = half(1);
  const Summary second = half(2);
  const double encode = Seconds([&] { EncodeSummary(many); });
  const double decode = Seconds([&] { KCC_CHECK(DecodeSummary(bytes).has_value()); });
  const double merge = Seconds([&] { KCC_CHECK(Merge(first, second).has_value()); });
  std::printf("V %d, %d requests x %d tokens\n", vocab, requests, tokens);
  std::printf("1 slice, 1 clause         %8.3f us/token\n", small_us);
  std::printf("50 slices, 200 clauses    %8.3f us/token  (+%.1f %%)\n", large_us,
              100 * (large_us / small_us - 1));
  std::printf("summary file              %8.1f KiB (one slice: %.1f KiB)\n",
              static_cast<double>(bytes.size()) / 1024,
              static_cast<double>(EncodeSummary(one).size()) / 1024);
  std::printf("encode %.2f ms, decode %.2f ms, merge %.2f ms\n", 1e3 * encode, 1e3 * decode,
              1e3 * merge);
  if (argc > 5) {
    JsonWriter json;
    json.BeginObject().Field("vocab", vocab).Field("oneUsPerToken", small_us);
    json.Field("manyUsPerToken", large_us).Field("encodeMs", 1e3 * encode);
    json.Field("decodeMs", 1e3 * decode).Field("mergeMs", 1e3 * merge).EndObject();
    KCC_CHECK(WriteFileAtomically(argv[5], json.Take()).has_value());
  }
  std::filesystem::remove_all(directory);
  return 0;
}
