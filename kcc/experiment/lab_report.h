// LabReport: fills the template for an experiment that scores given tokens with kernels of the lab,
// as E1 and E2 do. Such an experiment has pass rates and the engine's work, and it says why it has
// no quality, no times and no incidents.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kcc/experiment/pair_judge.h"

namespace kcc {

class LabReport {
 public:
  LabReport(std::string experiment, const Contract& contract, const Checkpoint& checkpoint);

  void AddRequests(std::string name, std::span<const KernelRequest> requests);
  // A kernel that two arms share is added once.
  void AddKernel(std::string name, const KernelInfo& kernel);
  // Judge and AddWork are about the arm that was added last; its kernels have been added.
  void AddArm(ReportedArm arm);
  // One regime.
  Result<> Judge(const ScoredLogits& train, const ScoredLogits& infer,
                 std::span<const KernelRequest> requests);
  // `baseline`: what the baseline took in the same regime; null: it was not run there.
  void AddWork(std::string regime, const EngineStats& work, const EngineStats* baseline = nullptr);

  // Without findings, which follow from the experiment's own result. The report is spent.
  ExperimentReport Finish();

 private:
  PairJudge judge_;
  ExperimentReport report_;
  std::vector<ArmPass> rates_;
  std::vector<ArmCost> work_;
};

// The work of one regime added to that of others: counts add up, memory is the largest.
void AddWork(const EngineStats& work, EngineStats* to);

}  // namespace kcc
