// E3 in the template that every experiment fills: a cell is an arm, a step of a run is a regime.
#include <algorithm>
#include <set>

#include "kcc/contract/canonical.h"
#include "kcc/experiment/e3.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/lab_model.h"

namespace kcc {
namespace {

constexpr std::string_view kMethod = "Student's t over seeds";

void Count(std::string_view verdict, VerdictCounts* counts) {
  if (verdict == Name(Verdict::kSatisfied)) ++counts->satisfied;
  if (verdict == Name(Verdict::kViolated)) ++counts->violated;
  if (verdict == Name(Verdict::kInconclusive)) ++counts->inconclusive;
  if (verdict == Name(Verdict::kError)) ++counts->error;
}

// Clause and slice of "N-1/all".
std::pair<std::string, std::string> PartsOf(const std::string& name) {
  const size_t slash = name.find('/');
  return {name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1)};
}

// Every clause on every slice that any step of any run judged, by slice.
using SliceClauses = std::vector<std::pair<std::string, std::vector<std::string>>>;
SliceClauses JudgedSlices(const E3Result& result) {
  SliceClauses slices;
  for (const E3CellResult& cell : result.cells) {
    for (const E3Run& run : cell.runs) {
      for (const ClauseStrip& strip : run.clauses) {
        const auto [clause, slice] = PartsOf(strip.name);
        auto row =
            std::find_if(slices.begin(), slices.end(),
                         [&, &slice = slice](const auto& each) { return each.first == slice; });
        if (row == slices.end()) row = slices.insert(row, {slice, {}});
        if (std::find(row->second.begin(), row->second.end(), clause) == row->second.end()) {
          row->second.push_back(clause);
        }
      }
    }
  }
  return slices;
}

ArmPass PassOf(const E3CellResult& cell, const SliceClauses& slices) {
  ArmPass arm;
  arm.arm = cell.cell.name;
  for (const E3Run& run : cell.runs) arm.regimes += run.steps;
  for (const auto& [slice, clauses] : slices) {
    SlicePass& row = arm.slices.emplace_back();
    row.slice = slice;
    for (const std::string& clause : clauses) {
      VerdictCounts counts;
      for (const E3Run& run : cell.runs) {
        for (const ClauseStrip& strip : run.clauses) {
          if (strip.name != clause + "/" + slice) continue;
          for (const auto& [step, verdict] : strip.verdicts) Count(verdict, &counts);
        }
      }
      // A step without a scored answer is not judged.
      counts.empty = arm.regimes - counts.judged();
      row.clauses.push_back({clause, counts});
    }
  }
  return arm;
}

Part<PassRates> PassRatesOf(const E3Result& result, const Contract& contract) {
  const SliceClauses slices = JudgedSlices(result);
  if (slices.empty()) return NotMeasured{"no clause of the contract could be judged in a step"};
  PassRates rates;
  for (const E3CellResult& cell : result.cells) {
    if (!cell.runs.empty()) rates.arms.push_back(PassOf(cell, slices));
  }
  std::set<std::string> judged;
  for (const auto& [slice, clauses] : slices) judged.insert(clauses.begin(), clauses.end());
  for (const Clause& clause : contract.clauses) {
    if (judged.count(clause.id) > 0) continue;
    rates.not_judged.push_back({clause.id, "it is of a stage beyond the training loop's"});
  }
  return rates;
}

Estimate EstimateOf(const E3Estimate& from) {
  Estimate made;
  made.value = from.mean;
  made.interval = {from.mean - *from.half, from.mean + *from.half};
  made.method = kMethod;
  made.samples = from.runs;
  return made;
}

Part<std::vector<QualityFigure>> QualityOf(const E3Result& result) {
  std::vector<QualityFigure> figures;
  for (const E3CellResult& cell : result.cells) {
    if (cell.runs.size() < 2) continue;
    for (const bool trained : {true, false}) {
      const auto figure = trained ? TrainedReward : ServedReward;
      std::vector<double> values;
      for (const E3Run& run : cell.runs) values.push_back(figure(run));
      QualityFigure made;
      made.quantity =
          trained ? "held-out reward, trained kernel" : "held-out reward, served kernel";
      made.arm = cell.cell.name;
      made.slice = "all";
      made.value = EstimateOf(StudentEstimate(values));
      const auto delta = trained ? AgainstExact(result, cell) : std::nullopt;
      if (delta && delta->half) made.delta = EstimateOf(*delta);
      figures.push_back(std::move(made));
    }
  }
  if (figures.empty()) {
    return NotMeasured{
        "there is one seed a cell, and one run has no interval; its rewards are in the table of "
        "cells"};
  }
  return figures;
}

std::vector<ArmCost> WorkOf(const E3Result& result) {
  std::vector<ArmCost> work;
  for (const E3CellResult& cell : result.cells) {
    if (cell.runs.empty()) continue;
    double steps = 0, tokens = 0;
    for (const E3Run& run : cell.runs) {
      steps += static_cast<double>(run.steps);
      tokens += static_cast<double>(run.tokens);
    }
    work.push_back({cell.cell.name,
                    "",
                    {{"runs", "", static_cast<double>(cell.runs.size()), {}},
                     {"steps", "", steps, {}},
                     {"tokens sampled", "", tokens, {}}}});
  }
  return work;
}

Result<ReportedKernel> KernelOf(const Checkpoint& checkpoint, std::string_view name) {
  KCC_TRY(const LabSwitches switches, E3Switches(name));
  KCC_TRY(const LabModel model, LabModel::Make(checkpoint, switches));
  const KernelInfo info = LabKernelInfo(model, switches);
  ReportedKernel made;
  made.name = E3KernelUri(name);
  made.fingerprint = info.fingerprint;
  for (const KernelOption& option : info.options)
    made.options.emplace_back(option.name, option.value);
  return made;
}

}  // namespace

Result<ExperimentReport> E3Identity(const TrainStart& start, const RlTask& task,
                                    const Contract& contract, const E3Result& result) {
  ExperimentReport report;
  report.experiment = "e3";
  report.contract = {contract.name, contract.version, ContractDigest(contract)};
  report.model_digest = start.checkpoint.digest;
  ReportedRequests requests{task.name(), task.digest(), static_cast<int64_t>(task.train().size()),
                            0};
  std::vector<std::string> kernels = {"f32"};
  for (const E3CellResult& cell : result.cells) {
    if (cell.runs.empty()) continue;
    for (const E3Run& run : cell.runs) requests.tokens += run.tokens;
    for (const std::string& kernel : {cell.cell.rollout, cell.cell.recompute}) {
      const bool known = std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
      if (!known && !kernel.empty()) kernels.push_back(kernel);
    }
    const bool exact = cell.cell.arm == "exact";
    report.arms.push_back({cell.cell.name, exact ? ArmRole::kBaseline : ArmRole::kCandidate,
                           E3KernelUri("f32"), E3KernelUri(cell.cell.rollout)});
  }
  report.requests.push_back(std::move(requests));
  for (const std::string& kernel : kernels) {
    KCC_TRY(ReportedKernel made, KernelOf(start.checkpoint, kernel));
    report.kernels.push_back(std::move(made));
  }
  report.pass_rates = PassRatesOf(result, contract);
  report.quality = QualityOf(result);
  report.work = WorkOf(result);
  report.time = NotMeasured{
      "what the experiment writes holds no clock, so that the same evidence gives the same bytes; "
      "docs/lab-rl.md says what a step costs"};
  report.incidents = NotMeasured{
      "no fault is injected, and what a violated clause orders is written down and not done, since "
      "an arm that is stopped shows no failure"};
  return report;
}

ExperimentReport E3Report(const E3Result& result) {
  ExperimentReport report = result.report;
  report.findings = E3Findings(result);
  return report;
}

}  // namespace kcc
