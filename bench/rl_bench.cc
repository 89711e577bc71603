// Speed of diagnose + correct + judge on a step of 512 x 4,096 tokens in float32, after checking
// the result against plain loops. bench/compare_rl_torch.py sets it beside the frameworks'
// functions.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "kcc/rl/correction.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/rl_metrics.h"

namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1, runs = 15;
  int64_t rows = 512, columns = 4096;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--threads=", 10) == 0) threads = std::atoi(argv[i] + 10);
    if (std::strncmp(argv[i], "--rows=", 7) == 0) rows = std::atoll(argv[i] + 7);
    if (std::strncmp(argv[i], "--runs=", 7) == 0) runs = std::atoi(argv[i] + 7);
  }
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> train, rollout;
  std::vector<uint8_t> mask;
  std::vector<double> advantages;
  long double k3 = 0, n = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto length = static_cast<int64_t>(random() % static_cast<uint64_t>(columns)) + 1;
    advantages.push_back(static_cast<double>(normal(random)));
    for (int64_t t = 0; t < columns; ++t) {
      rollout.push_back(-0.3f - std::fabs(normal(random)));
      train.push_back(rollout.back() + 0.02f * normal(random));
      mask.push_back(t < length);
      if (t >= length) continue;
      const double d = static_cast<double>(train.back()) - static_cast<double>(rollout.back());
      k3 += expm1l(d) - d;
      n += 1;
    }
  }
  kcc::RlBatch batch;
  batch.rows = rows;
  batch.columns = columns;
  batch.train = {train.data(), kcc::RlType::kF32, columns};
  batch.rollout = {rollout.data(), kcc::RlType::kF32, columns};
  batch.mask = {mask.data(), kcc::RlType::kU8, columns};
  batch.advantages = {advantages.data(), kcc::RlType::kF64, 1};
  kcc::RlCorrection correction;
  correction.weight = {kcc::RlWeightMode::kTruncate, kcc::RlLevel::kToken, 0, 2, false};
  correction.reject = {{kcc::RlStatistic::kK1, kcc::RlAggregate::kSequenceMean, 0.99, 1.01}};
  const kcc::RlClause clauses[] = {{"row.mean_tv", 0.05}, {"token.mean_k3", 0.001}};
  std::vector<float> weights(train.size());
  kcc::RlCorrectOutput output;
  output.weights = weights;
  double best = 1e300, best_diagnose = 1e300, best_correct = 1e300;
  std::vector<float> separate(train.size());
  kcc::RlCorrectOutput separate_output;
  separate_output.weights = separate;
  for (int i = 0; i < runs; ++i) {
    const auto start = Clock::now();
    const auto figures = kcc::DiagnoseRl(batch, {}, threads);
    best_diagnose = std::min(best_diagnose, Milliseconds(start));
    const auto middle = Clock::now();
    const auto corrected = kcc::CorrectRl(batch, correction, separate_output, threads);
    best_correct = std::min(best_correct, Milliseconds(middle));
    const auto step = Clock::now();
    kcc::RlSummary summary;
    const auto stepped = kcc::StepRl(batch, correction, output, threads, &summary);
    const auto all = summary.Metrics();
    if (!all.has_value()) return 1;
    const auto judged = kcc::JudgeRl(*all, clauses);
    best = std::min(best, Milliseconds(step));
    if (!figures.has_value() || !corrected.has_value()) return 1;
    if (!stepped.has_value() || !judged.has_value() || separate != weights) return 1;
    const auto exact = static_cast<double>(k3 / n);
    if (std::fabs(all->at(kcc::RlLevel::kToken).k3 - exact) > 1e-9 * exact) return 1;
    if (figures->at(kcc::RlLevel::kToken).k3 != all->at(kcc::RlLevel::kToken).k3) return 1;
  }
  std::printf(
      "{\"tokens\": %lld, \"threads\": %d, \"ms\": %.3f, \"diagnose_ms\": %.3f, "
      "\"correct_ms\": %.3f}\n",
      static_cast<long long>(rows) * columns, threads, best, best_diagnose, best_correct);
  return 0;
}
