#include "kcc/control/gateway_reload.h"

#include <algorithm>

#include "kcc/contract/canonical.h"

namespace kcc {
namespace {

std::vector<std::string> NamesOf(const GatewayConfig& config) {
  std::vector<std::string> names;
  for (const GatewayKernel& kernel : config.kernels) names.push_back(kernel.name);
  return names;
}

bool SameHook(const GradeHook& a, const GradeHook& b) {
  return a.field == b.field && a.kind == b.kind && a.schema_file == b.schema_file &&
         a.phrases == b.phrases && a.command == b.command && a.url == b.url && a.when == b.when;
}

}  // namespace

std::vector<std::string> KeepWhatNeedsRestart(const GatewayDocuments& now, GatewayDocuments* next) {
  std::vector<std::string> changed;
  GatewayConfig& config = next->config;
  const GatewayConfig& old = now.config;
  const auto keep = [&](const char* key, const auto& before, auto& after) {
    if (before == after) return;
    changed.emplace_back(key);
    after = before;
  };
  keep("listen", old.listen, config.listen);
  keep("admin", old.admin, config.admin);
  keep("adminToken", now.admin_token, next->admin_token);
  keep("threads", old.threads, config.threads);
  keep("register", old.register_url, config.register_url);
  keep("promotion", old.promotion_file, config.promotion_file);
  keep("state", old.state_dir, config.state_dir);
  keep("decisionLog", old.decision_log, config.decision_log);
  keep("stage", old.stage, config.stage);
  keep("canary", old.canary, config.canary);
  keep("shadow", old.shadow, config.shadow);
  keep("telemetry.log", old.telemetry.log_file, config.telemetry.log_file);
  keep("telemetry.otlp", old.telemetry.otlp_url, config.telemetry.otlp_url);
  // Decisions are of one contract and one policy; the log says so in its first line.
  if (ContractDigest(now.contract) != ContractDigest(next->contract)) {
    changed.emplace_back("contract");
    next->contract = now.contract;
    next->contract_text = now.contract_text;
  }
  if (PolicyDigest(now.policy) != PolicyDigest(next->policy)) {
    changed.emplace_back("policy");
    next->policy = now.policy;
  }
  // Routes name kernels by their place.
  if (NamesOf(old) != NamesOf(config)) {
    changed.emplace_back("kernels");
    config.kernels = old.kernels;
    next->kernel_keys = now.kernel_keys;
  }
  next->promotion = now.promotion;
  return changed;
}

bool SameScoring(const GatewayDocuments& a, const GatewayDocuments& b) {
  const RescoreOptions x = RescoreOptionsOf(a), y = RescoreOptionsOf(b);
  return x.uris == y.uris && a.kernel_keys == b.kernel_keys && x.top == y.top &&
         x.in_flight_max == y.in_flight_max && x.waiting_max == y.waiting_max &&
         x.timeout_s == y.timeout_s && x.determinism_rate == y.determinism_rate &&
         x.keep_texts == y.keep_texts &&
         std::equal(x.hooks.begin(), x.hooks.end(), y.hooks.begin(), y.hooks.end(), SameHook);
}

RouteWishes WishesOf(const GatewayConfig& config) {
  RouteWishes wishes;
  wishes.shadow = config.shadow;
  // In the stage of shadows nobody is answered by what is not promoted yet.
  if (config.canary && config.stage != Stage::kShadow) {
    wishes.canary = config.canary->kernel;
    wishes.canary_share = config.canary->share;
  }
  return wishes;
}

}  // namespace kcc
