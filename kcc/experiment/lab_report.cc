#include "kcc/experiment/lab_report.h"

#include <algorithm>
#include <utility>

#include "kcc/contract/canonical.h"

namespace kcc {
namespace {

std::vector<CostFigure> WorkFigures(const EngineStats& work, const EngineStats* baseline) {
  const auto figure = [&](const char* quantity, const char* unit, auto read) {
    std::optional<double> other;
    if (baseline != nullptr) other = read(*baseline);
    return CostFigure{quantity, unit, read(work), other};
  };
  return {figure("steps", "", [](const EngineStats& s) { return static_cast<double>(s.steps); }),
          figure("tokens computed", "",
                 [](const EngineStats& s) { return static_cast<double>(s.tokens); }),
          figure("preemptions", "",
                 [](const EngineStats& s) { return static_cast<double>(s.preemptions); }),
          figure("peak memory", "MB",
                 [](const EngineStats& s) { return static_cast<double>(s.peak_bytes) / 1e6; })};
}

}  // namespace

LabReport::LabReport(std::string experiment, const Contract& contract, const Checkpoint& checkpoint)
    : judge_(contract) {
  report_.experiment = std::move(experiment);
  report_.contract = {contract.name, contract.version, ContractDigest(contract)};
  report_.model_digest = checkpoint.digest;
  report_.quality = NotMeasured{
      "the experiment scores given tokens, so there is no answer to grade and no reward"};
  report_.time = NotMeasured{
      "what the experiment writes holds no clock, so that the same evidence gives the same bytes; "
      "kcc generate records latency_ms and ttft_ms"};
  report_.incidents = NotMeasured{
      "kernels are compared offline, so nothing raises an alarm and nothing is rolled back"};
}

void LabReport::AddRequests(std::string name, std::span<const KernelRequest> requests) {
  ReportedRequests set{std::move(name), RequestSetOf(requests).Digest(), 0, 0};
  for (const KernelRequest& request : requests) {
    ++set.requests;
    set.tokens += static_cast<int64_t>(request.tokens.size()) - request.prompt_tokens;
  }
  report_.requests.push_back(std::move(set));
}

void LabReport::AddKernel(std::string name, const KernelInfo& kernel) {
  for (const ReportedKernel& other : report_.kernels) {
    if (other.name == name) return;
  }
  ReportedKernel& made = report_.kernels.emplace_back();
  made.name = std::move(name);
  made.fingerprint = kernel.fingerprint;
  for (const KernelOption& option : kernel.options) {
    made.options.emplace_back(option.name, option.value);
  }
}

void LabReport::AddArm(ReportedArm arm) {
  rates_.push_back({arm.name, 0, {}});
  report_.arms.push_back(std::move(arm));
}

Result<> LabReport::Judge(const ScoredLogits& train, const ScoredLogits& infer,
                          std::span<const KernelRequest> requests) {
  return judge_.Judge(train, infer, requests, &rates_.back());
}

void LabReport::AddWork(std::string regime, const EngineStats& work, const EngineStats* baseline) {
  work_.push_back({report_.arms.back().name, std::move(regime), WorkFigures(work, baseline)});
}

ExperimentReport LabReport::Finish() {
  report_.pass_rates = judge_.Rates(std::move(rates_));
  report_.work = std::move(work_);
  return std::move(report_);
}

void AddWork(const EngineStats& work, EngineStats* to) {
  to->steps += work.steps;
  to->tokens += work.tokens;
  to->preemptions += work.preemptions;
  to->peak_bytes = std::max(to->peak_bytes, work.peak_bytes);
}

}  // namespace kcc
