// For tests: a pool of kernels, records that they served, and the contract they are held to.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/gateway/gateway_core.h"
#include "kcc/gateway/served_record.h"
#include "kcc/metric/metric.h"

namespace kcc::testing {

inline Clause RescoreClause(const std::string& id, const std::string& metric, double threshold) {
  Clause clause;
  clause.id = id;
  clause.metric = *ParseMetric(metric);
  clause.bound = MetricDirection(clause.metric) == Direction::kHigherIsBetter ? BoundKind::kAtLeast
                                                                              : BoundKind::kAtMost;
  clause.threshold = threshold;
  clause.slices = {"all"};
  clause.stages = {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull};
  return clause;
}

inline Contract RescoreContract(std::vector<Clause> clauses = {}) {
  Contract contract;
  contract.name = "served";
  contract.version = "1";
  contract.slices = {Slice{"all", std::nullopt, {}}};
  if (clauses.empty()) {
    clauses = {RescoreClause("N-1", "p99_abs_log_ratio", 0.1), RescoreClause("N-2", "max_kl", 0.5),
               RescoreClause("N-3", "mean_tv", 0.5),
               RescoreClause("S-1", "mean_top1_overlap", 0.9)};
  }
  contract.clauses = std::move(clauses);
  return contract;
}

// fp8 serves, bf16 guards, audit audits, next is the candidate.
inline MonitorPolicy RescorePolicy() {
  MonitorPolicy policy;
  policy.name = "pool";
  policy.version = "1";
  policy.kernels = {{"fp8", KernelRole::kInfer, "", {}},
                    {"bf16", KernelRole::kFallback, "", {}},
                    {"audit", KernelRole::kAudit, "", {}},
                    {"next", KernelRole::kCandidate, "", {}}};
  return policy;
}

inline std::shared_ptr<GatewayPool> RescorePool(const std::string& server = "vllm") {
  auto pool = std::make_shared<GatewayPool>();
  pool->model = "tiny";
  pool->top = 20;
  for (const MonitorKernel& from : RescorePolicy().kernels) {
    PoolKernel kernel;
    kernel.name = from.name;
    kernel.role = from.role;
    kernel.wire = FindWireDialect(server);
    pool->kernels.push_back(std::move(kernel));
  }
  return pool;
}

// A whole answer of kernel 0 to a prompt of ids, at temperature 1.
inline ServedRecord RecordOf(std::shared_ptr<const GatewayPool> pool, const std::string& id,
                             std::vector<int32_t> prompt, std::vector<ServedToken> tokens) {
  ServedRecord record;
  record.pool = std::move(pool);
  record.id = id;
  record.session = "session of " + id;
  record.path = "/v1/completions";
  record.request_body = R"({"model":"tiny","temperature":1,"max_tokens":8,"prompt":[)";
  for (size_t i = 0; i < prompt.size(); ++i) {
    record.request_body += (i > 0 ? "," : "") + std::to_string(prompt[i]);
  }
  record.request_body += "]}";
  record.started_at_ms = 1000;
  record.latency_ms = 12;
  record.ttft_ms = 3;
  record.stream = true;
  record.status = 200;
  record.finish_reason = "stop";
  record.fingerprint = "build-1";
  record.text = "words";
  record.prompt_ids = std::move(prompt);
  record.tokens = std::move(tokens);
  return record;
}

}  // namespace kcc::testing
