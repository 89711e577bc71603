#include "kcc/experiment/e3.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "kcc/base/check.h"
#include "kcc/base/directory.h"
#include "kcc/experiment/experiment.h"
#include "kcc/rltrain/rl_run.h"
#include "kcc/rltrain/rl_trainer.h"

namespace kcc {
namespace {

constexpr uint64_t kFitSeed = 1;      // no run has it
constexpr int64_t kFitProblems = 32;  // times the answers of a group
constexpr size_t kBiasVocabulary = 4, kBiasLength = 3, kBiasSamples = 25600;
constexpr double kBiasGap = 0.2;

std::string RunFolder(const std::string& folder, const E3Cell& cell, uint64_t seed) {
  return folder + "/runs/" + cell.name + "-" + std::to_string(seed);
}

// The mean k3 of an answer that all but 1 - kE3Kept of the answers stay below before the first
// step.
Result<double> FittedThreshold(const TrainStart& start, const RlTask& task, std::string_view kernel,
                               size_t threads) {
  E3Cell cell;
  cell.rollout = kernel;
  KCC_TRY(RlTrainOptions options, E3RunOptions(cell, {1, 1, 1}, kFitSeed, 0));
  options.problems = kFitProblems;
  options.score_all = true;
  options.held_out.every = 0;
  options.reference_every = 0;
  ForkJoin pool(threads);
  KCC_TRY(const auto trainer, RlTrainer::Make(start.checkpoint, options, task, std::nullopt, pool));
  KCC_TRY(const RlStepReport step, trainer->Step());
  const RlDump::Array* train = step.dump.Find("train");
  const RlDump::Array* rollout = step.dump.Find("rollout");
  KCC_CHECK(train != nullptr && rollout != nullptr);
  std::vector<double> means;
  for (size_t a = 0; a + 1 < step.dump.offsets.size(); ++a) {
    const auto begin = static_cast<size_t>(step.dump.offsets[a]);
    const auto end = static_cast<size_t>(step.dump.offsets[a + 1]);
    if (begin == end) continue;
    double sum = 0;
    for (size_t t = begin; t < end; ++t) {
      const double log_ratio = train->values[t] - rollout->values[t];
      sum += std::expm1(log_ratio) - log_ratio;
    }
    means.push_back(sum / static_cast<double>(end - begin));
  }
  std::sort(means.begin(), means.end());
  return SortedQuantile(means, kE3Kept);
}

Result<std::map<std::string, double>> FitThresholds(const TrainStart& start, const RlTask& task,
                                                    const std::set<std::string>& kernels,
                                                    size_t threads) {
  std::map<std::string, double> made;
  for (const std::string& kernel : kernels) {
    KCC_TRY(made[kernel], FittedThreshold(start, task, kernel, threads));
  }
  return made;
}

double ThresholdOf(const std::map<std::string, double>& thresholds, const E3Cell& cell) {
  return cell.fitted ? thresholds.at(cell.rollout) : 0;
}

// The runs of an experiment, taken one after the other by as many threads as there are jobs.
class Runner {
 public:
  Runner(const TrainStart& start, const RlTask& task, const Contract& contract,
         const E3Options& options, std::map<std::string, double> thresholds)
      : start_(start),
        task_(task),
        contract_(contract),
        options_(options),
        thresholds_(std::move(thresholds)) {
    for (const E3Cell& cell : options.cells) {
      for (int64_t s = 0; s < options.size.seeds; ++s) {
        works_.push_back({&cell, kE3FirstSeed + static_cast<uint64_t>(s), 0});
      }
    }
  }

  // False: it was stopped.
  Result<bool> RunAll() {
    std::vector<std::thread> others;
    for (size_t j = 1; j < std::min(options_.jobs, works_.size()); ++j) {
      others.emplace_back([this] { TakeWorks(); });
    }
    TakeWorks();
    for (std::thread& other : others) other.join();
    if (error_) return *error_;
    return !stopped_;
  }

 private:
  struct Work {
    const E3Cell* cell;
    uint64_t seed;
    int64_t done;  // steps
  };

  void TakeWorks() {
    for (size_t at = next_++; at < works_.size() && !Stopping(); at = next_++) {
      const Result<> done = RunOne(works_[at]);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!done.has_value() && !error_) error_ = done.error();
      if (!done.has_value()) stopped_ = true;
    }
  }

  bool Stopping() {
    if (options_.stop && options_.stop()) stopped_ = true;
    return stopped_;
  }

  Result<> RunOne(Work& work) {
    RlRunPlan plan;
    plan.folder = RunFolder(options_.folder, *work.cell, work.seed);
    std::error_code unknown;  // what cannot be looked at is not there
    plan.resume = std::filesystem::exists(plan.folder + "/state.safetensors", unknown);
    plan.threads = options_.threads;
    plan.contract = contract_;
    KCC_TRY(plan.options, E3RunOptions(*work.cell, options_.size, work.seed,
                                       ThresholdOf(thresholds_, *work.cell)));
    plan.options.train.threads = plan.options.infer.threads = options_.threads;
    if (plan.options.recompute) plan.options.recompute->threads = options_.threads;
    RlRunHooks hooks;
    hooks.step = [&](const RlStepReport& report) { Show(work, report.step); };
    hooks.stop = [this] { return Stopping(); };
    KCC_TRY(const RlRunResult run, RunRl(start_, task_, plan, hooks));
    Show(work, run.step);
    return {};
  }

  void Show(Work& work, int64_t step) {
    if (!options_.progress) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    work.done = step;
    int64_t done = 0;
    for (const Work& each : works_) done += each.done;
    options_.progress(done, static_cast<int64_t>(works_.size()) * options_.size.steps);
  }

  const TrainStart& start_;
  const RlTask& task_;
  const Contract& contract_;
  const E3Options& options_;
  const std::map<std::string, double> thresholds_;
  std::vector<Work> works_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::optional<Error> error_;  // the first
};

// The seeds of a cell that have runs, in order.
Result<std::vector<E3Run>> ReadRuns(const E3Cell& cell, const E3Options& options) {
  std::set<uint64_t> seeds;
  std::error_code failed;
  const auto names = ListDirectory(options.folder + "/runs");
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const size_t dash = name.rfind('-');
    if (dash == std::string::npos || name.substr(0, dash) != cell.name) continue;
    const std::string digits = name.substr(dash + 1);
    const bool number = !digits.empty() && digits.size() < 10 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
    if (number) seeds.insert(std::stoull(digits));
  }
  std::vector<E3Run> runs;
  for (const uint64_t seed : seeds) {
    const std::string folder = RunFolder(options.folder, cell, seed);
    if (!std::filesystem::exists(folder + "/model.safetensors", failed)) continue;
    KCC_TRY(const RunCurves curves, ReadRunCurves(folder, cell.name));
    KCC_TRY(E3Run run, ReadE3Run(curves, seed));
    if (run.steps == options.size.steps) runs.push_back(std::move(run));
  }
  return runs;
}

std::set<std::string> FittedKernels(const std::vector<E3Cell>& cells) {
  std::set<std::string> kernels;
  for (const E3Cell& cell : cells) {
    if (cell.fitted) kernels.insert(cell.rollout);
  }
  return kernels;
}

}  // namespace

Result<bool> RunE3(const TrainStart& start, const RlTask& task, const Contract& contract,
                   const E3Options& options) {
  using Thresholds = std::map<std::string, double>;
  KCC_TRY(Thresholds thresholds,
          FitThresholds(start, task, FittedKernels(options.cells), options.threads));
  return Runner(start, task, contract, options, std::move(thresholds)).RunAll();
}

Result<E3Result> ReadE3(const TrainStart& start, const RlTask& task, const Contract& contract,
                        const E3Options& options) {
  E3Result result;
  result.task = task.name();
  result.size = options.size;
  std::vector<E3Cell> seen;
  for (const E3Cell& cell : E3Cells()) {
    KCC_TRY(std::vector<E3Run> runs, ReadRuns(cell, options));
    if (!runs.empty()) seen.push_back(cell);
    result.cells.push_back({cell, std::move(runs)});
  }
  if (seen.empty()) {
    return InvalidError(
        "no run of " + std::to_string(options.size.steps) + " steps has finished in the folder",
        Place{options.folder});
  }
  KCC_TRY(result.thresholds, FitThresholds(start, task, FittedKernels(seen), options.threads));
  const EnumerableProblem problem = RandomEnumerable(kBiasVocabulary, kBiasLength, kBiasGap, 1);
  KCC_TRY(result.biases, MeasureBiases(problem, ExperimentCorrections(), kBiasSamples, 2));
  KCC_TRY(result.report, E3Identity(start, task, contract, result));
  return result;
}

std::map<uint64_t, double> E3CellResult::BySeed(double (*figure)(const E3Run&)) const {
  std::map<uint64_t, double> made;
  for (const E3Run& run : runs) made[run.seed] = figure(run);
  return made;
}

const E3CellResult& E3Result::cell(std::string_view name) const {
  const auto found = std::find_if(cells.begin(), cells.end(),
                                  [&](const E3CellResult& each) { return each.cell.name == name; });
  KCC_CHECK(found != cells.end());
  return *found;
}

int64_t E3Result::runs() const {
  int64_t count = 0;
  for (const E3CellResult& each : cells) count += static_cast<int64_t>(each.runs.size());
  return count;
}

double TrainedReward(const E3Run& run) { return run.reward_train; }
double ServedReward(const E3Run& run) { return run.reward_infer; }

std::optional<E3Estimate> AgainstExact(const E3Result& result, const E3CellResult& cell) {
  const E3CellResult& exact = result.cell(cell.cell.ppo() ? "ppo-exact" : "exact");
  if (&exact == &cell) return std::nullopt;
  return PairedDifference(cell.BySeed(TrainedReward), exact.BySeed(TrainedReward));
}

}  // namespace kcc
