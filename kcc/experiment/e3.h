// Experiment E3 of the paper (8.3) on the lab: reward where one kernel samples and another is
// trained, under the corrections that are published, with the contract's verdicts step by step.
//
// Every cell is a run of kcc lab rl (rltrain/rl_run.h) in a folder of its own, so that what was
// interrupted goes on, and what is there already is not computed again. All figures are read from
// the logs of the runs that have finished. A bound is falsified by a bias above it and by nothing
// else (docs/math.md, W10); in a run the exact gradient is not known, so that stands beside a
// problem that can be enumerated (gradient_bias.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/experiment/e3_cells.h"
#include "kcc/experiment/e3_run.h"
#include "kcc/experiment/experiment_report.h"
#include "kcc/experiment/gradient_bias.h"
#include "kcc/rltrain/task.h"
#include "kcc/train/run.h"

namespace kcc {

struct E3Options {
  std::string folder;         // runs stand in folder/runs/CELL-SEED
  std::vector<E3Cell> cells;  // to be run
  E3Size size;
  size_t jobs = 1;                                            // runs at once
  size_t threads = 2;                                         // of a run
  std::function<void(int64_t done, int64_t total)> progress;  // steps; from any thread, one a time
  std::function<bool()> stop;  // asked after each step; from any thread
};

// Runs the cells that have not finished. False: it was stopped, and goes on when it is asked again.
Result<bool> RunE3(const TrainStart& start, const RlTask& task, const Contract& contract,
                   const E3Options& options);

struct E3CellResult {
  E3Cell cell;
  std::vector<E3Run> runs;  // by seed; none: it was not run

  std::map<uint64_t, double> BySeed(double (*figure)(const E3Run&)) const;
};

struct E3Result {
  std::string task;
  E3Size size;
  std::vector<E3CellResult> cells;           // all of E3Cells
  std::map<std::string, double> thresholds;  // fitted, by rollout kernel
  GradientBiases biases;
  ExperimentReport report;  // without findings, which follow from the cells

  const E3CellResult& cell(std::string_view name) const;
  int64_t runs() const;
};

// From the runs under the folder that have finished with as many steps as options.size says, of
// whatever cell. Fails where there is none.
Result<E3Result> ReadE3(const TrainStart& start, const RlTask& task, const Contract& contract,
                        const E3Options& options);

// The template without findings, from the cells of the result; ReadE3 calls it.
Result<ExperimentReport> E3Identity(const TrainStart& start, const RlTask& task,
                                    const Contract& contract, const E3Result& result);

// Reward on held-out problems under the kernel that is trained.
double TrainedReward(const E3Run& run);
double ServedReward(const E3Run& run);
// Against the exact arm of the same algorithm; none: it was not run, or is this.
std::optional<E3Estimate> AgainstExact(const E3Result& result, const E3CellResult& cell);

// What was expected before the run and what would falsify it, against the figures.
std::vector<Finding> E3Findings(const E3Result& result);
ExperimentReport E3Report(const E3Result& result);

std::string E3Page(const E3Result& result);
std::string E3Markdown(const E3Result& result);
std::string E3Json(const E3Result& result);
std::string E3Text(const E3Result& result);

}  // namespace kcc
