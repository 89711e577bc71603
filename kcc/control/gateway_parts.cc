#include "kcc/control/gateway_parts.h"

#include <algorithm>

#include "kcc/contract/canonical.h"
#include "kcc/control/gateway_reload.h"

namespace kcc {
namespace {

constexpr int64_t kSyncEvery = 200;
constexpr int64_t kSaveEvery = 20'000;

}  // namespace

StatePaths StatePathsOf(const GatewayDocuments& documents) {
  const std::string folder = documents.PathOf(documents.config.state_dir);
  return {folder,
          folder + "/decisions.jsonl",
          folder + "/monitor.state",
          folder + "/events.jsonl",
          folder + "/canary.json",
          folder + "/builds.json"};
}

EvaluatorOptions EvaluatorOptionsOf(const GatewayDocuments& documents, const StatePaths& paths,
                                    const std::string& kcc_version, const RouteWishes& wishes) {
  const GatewayConfig& config = documents.config;
  EvaluatorOptions options;
  LiveMonitorOptions& live = options.live;
  live.contract = documents.contract;
  live.policy = documents.policy;
  live.session.log = paths.decisions;
  live.session.state = paths.monitor;
  live.session.sync_every = kSyncEvery;
  live.session.save_every = kSaveEvery;
  live.session.log_bytes_max = config.decision_log.file_bytes;
  live.session.log_files_max = static_cast<size_t>(config.decision_log.files_max);
  live.session.stage = config.stage;
  live.session.kcc_version = kcc_version;
  for (const GatewayKernel& kernel : config.kernels) live.kernels.push_back(kernel.name);
  live.wishes = wishes;
  constexpr double kStaleAfterLeastS = 60;
  options.stale_after_s =
      std::max(kStaleAfterLeastS, 5 * static_cast<double>(config.scoring.timeout_ms) / 1000);
  live.hide_content = config.store != StoreRequests::kFull;
  return options;
}

GatewayFacts FactsOf(const GatewayDocuments& documents, const StatePaths& paths,
                     const std::string& kcc_version, int64_t now_ms) {
  const GatewayConfig& config = documents.config;
  GatewayFacts facts;
  facts.config = {config.name, config.version, GatewayDigest(config)};
  facts.contract = {documents.contract.name, documents.contract.version,
                    ContractDigest(documents.contract)};
  facts.policy = {documents.policy.name, documents.policy.version, PolicyDigest(documents.policy)};
  facts.contract_document = documents.contract;
  facts.kcc_version = kcc_version;
  facts.model = config.model;
  facts.store = Name(config.store);
  facts.log_path = paths.decisions;
  facts.contract_path = documents.PathOf(config.contract_file);
  facts.policy_path = documents.PathOf(config.policy_file);
  facts.stage = config.stage;
  facts.started_ms = now_ms;
  return facts;
}

RegisterLinkOptions LinkOptionsOf(const GatewayDocuments& documents) {
  const GatewayConfig& config = documents.config;
  RegisterLinkOptions options;
  options.uri = RegisterBeside(documents.path, config.register_url);
  options.gateway = config.name;
  options.contract = documents.contract;
  options.contract_text = documents.contract_text;
  for (const GatewayKernel& kernel : config.kernels) {
    const MonitorKernel* monitored = documents.policy.FindKernel(kernel.name);
    options.kernels.push_back({kernel.name, monitored != nullptr ? monitored->fingerprint : ""});
  }
  options.follows_promotion = documents.promotion.has_value();
  options.wishes = WishesOf(config);
  return options;
}

}  // namespace kcc
