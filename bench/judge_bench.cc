// Judging against reading: 200 clauses x 50 slices may cost no more than reading the summary's file
// twice. The judgement is verified (every clause and slice judged, the same from the file as from
// memory) before a time is reported; exits with 1 where either fails.
//   judge_bench [rounds]      default 5; the best round counts
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "kcc/judge/judge.h"
#include "kcc/judge/judge_test_data.h"
#include "kcc/stats/simulation.h"
#include "kcc/summary/file.h"

namespace kcc {
namespace {

constexpr int kClauses = 200;
constexpr int kSlices = 50;

// All that a contract may ask: percentiles, means, rates, extremes, shares, gaps and windows.
Contract LargeContract() {
  const char* metrics[] = {
      "p99_kl",          "mean_tv",      "p999_logit_linf",   "mean_kl",
      "max_logit_span",  "flip_rate",    "rate_bit_mismatch", "p95_latency_ms",
      "mean_latency_ms", "failure_rate", "refusal_rate_gap",  "ece_gap",
      "smce_gap",        "brier_gap",    "reward_drift",      "mean_abs_log_ratio"};
  Contract contract;
  contract.name = "large";
  contract.assumptions.tokens_max = 64;
  contract.assumptions.reward_max = 1;
  contract.slices = {{"all", {}, {}}};
  std::vector<std::string> names = {"all"};
  for (int i = 1; i < kSlices; ++i) {
    names.push_back("slice-" + std::to_string(i));
    const std::string where = "prompt_tokens >= " + std::to_string(i);
    contract.slices.push_back({names.back(), *Predicate::Parse(where), {}});
  }
  for (int i = 0; i < kClauses; ++i) {
    Clause clause;
    clause.id = "C-" + std::to_string(i);
    clause.metric = *ParseMetric(metrics[static_cast<size_t>(i) % std::size(metrics)]);
    clause.threshold = 0.01 * (1 + i);
    if (MetricMax(clause.metric) == 1) clause.threshold = 0.004 * (1 + i);
    clause.slices = names;
    clause.level = static_cast<ViolationLevel>(i % 3);
    clause.stages = {Stage::kOffline};
    if (i % 10 == 9) clause.exceedance = 0.1;
    if (i % 20 == 19) clause.window = {Window::Kind::kRequests, 16};
    contract.clauses.push_back(clause);
  }
  return contract;
}

testing::Evidence MakeEvidence(int requests) {
  RandomStream random(1);
  testing::Evidence evidence;
  for (int i = 0; i < requests; ++i) {
    testing::JudgedRequest& request = evidence.Add();
    request.Both("ordinal", static_cast<double>(i)).Both("reward", random.Uniform());
    request.Both("latency_ms", 100 + 300 * random.Uniform()).Both("failed", random.Bernoulli(0.1));
    request.infer.fields["refused"] = random.Bernoulli(0.1);
    request.train.fields["refused"] = random.Bernoulli(0.1);
    for (int64_t t = random.Between(8, 24); t > 0; --t) {
      testing::JudgedToken token;
      token.gold = static_cast<int32_t>(random.Between(0, 3));
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        token.drift.Set(slot, std::pow(random.Uniform(), 4));
      }
      token.Set("top1_overlap", random.Bernoulli(0.1) ? 0 : 1);
      for (size_t side = 0; side < 2; ++side) {
        token.drift.argmax[side] = static_cast<int32_t>(random.Between(0, 3));
        token.drift.confidence[side] = random.Uniform();
      }
      request.tokens.push_back(token);
    }
  }
  return evidence;
}

std::string Digest(const Judgement& judgement) {
  std::string text;
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      text += Name(slice.verdict());
      text += slice.about.reason + slice.other.reason;
    }
  }
  return text;
}

template <class Work>
double Seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int Run(int rounds) {
  const Contract contract = LargeContract();
  const Summary made = testing::Measure(contract, MakeEvidence(2000));
  const std::string path =
      (std::filesystem::temp_directory_path() / "kcc_judge_bench.kccs").string();
  if (!WriteSummaryFile(path, made)) return 1;
  const auto size = std::filesystem::file_size(path);

  double read = 1e9;
  double judge = 1e9;
  size_t pairs = 0;
  size_t by_verdict[4] = {0, 0, 0, 0};
  const std::string expected = Digest(Judge(contract, made));
  for (int round = 0; round < rounds; ++round) {
    std::optional<Summary> summary;
    read = std::min(read, Seconds([&] {
                      Result<Summary> from_file = ReadSummaryFile(path);
                      if (from_file) summary = *std::move(from_file);
                    }));
    if (!summary) return 1;
    Judgement judgement;
    judge = std::min(judge, Seconds([&] { judgement = Judge(contract, *summary); }));
    if (Digest(judgement) != expected) {
      std::printf("the file gives another judgement than memory\n");
      return 1;
    }
    pairs = 0;
    for (size_t& count : by_verdict) count = 0;
    for (const ClauseVerdict& clause : judgement.clauses) {
      pairs += clause.slices.size();
      for (const SliceVerdict& slice : clause.slices) {
        ++by_verdict[static_cast<size_t>(slice.verdict())];
      }
    }
  }
  std::filesystem::remove(path);
  const bool decided = by_verdict[0] > 0 && by_verdict[3] > 0;
  if (pairs != size_t{kClauses} * kSlices || !decided) {
    std::printf("not every clause was judged on every slice\n");
    return 1;
  }
  std::printf("%d clauses x %d slices: %zu satisfied, %zu violated, %zu inconclusive, %zu errors\n",
              kClauses, kSlices, by_verdict[0], by_verdict[3], by_verdict[1], by_verdict[2]);
  std::printf("file %.1f MiB: read %.1f ms, judge %.1f ms = %.2f readings (at most 2)\n",
              static_cast<double>(size) / 1048576, 1e3 * read, 1e3 * judge, judge / read);
  return judge <= 2 * read ? 0 : 1;
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) { return kcc::Run(argc > 1 ? std::atoi(argv[1]) : 5); }
