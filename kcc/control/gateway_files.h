// A gateway's configuration with everything that it names: contract, policy, keys. Read as a whole,
// so that what is wrong is said before anything starts, and a reload is taken whole or not at all.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/contract/diagnostic.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy.h"
#include "kcc/gateway/pool.h"
#include "kcc/plane/plane.h"
#include "kcc/rescore/rescorer.h"

namespace kcc {

struct GatewayDocuments {
  std::string path;  // of the configuration
  GatewayConfig config;
  Contract contract;
  std::string contract_text;
  MonitorPolicy policy;
  std::optional<PromotionPolicy> promotion;
  std::string admin_token;                     // empty: none is asked for
  std::vector<std::string> client_key_hashes;  // empty: none is asked for
  std::map<std::string, std::string> kernel_keys;

  // Beside the configuration.
  std::string PathOf(const std::string& file) const;
};

// What was found in one of the files.
struct GatewayFinding {
  Diagnostic diagnostic;
  std::string file;
  std::string source;  // text of the file, for the line; empty: it could not be read
};

struct LoadedGateway {
  std::optional<GatewayDocuments> documents;  // none: at least one finding is an error
  std::vector<GatewayFinding> findings;
};

// Opens the file and all that it names; nothing of it is changed.
LoadedGateway LoadGateway(const std::string& path);

// What the parts of the process are started with.
std::shared_ptr<const GatewayPool> PoolOf(const GatewayDocuments& documents);
PlaneOptions PlaneOptionsOf(const GatewayDocuments& documents);
RescoreOptions RescoreOptionsOf(const GatewayDocuments& documents);

// Asks every kernel for its models; a sentence for each that does not answer.
std::vector<std::string> ReachKernels(const GatewayDocuments& documents);

}  // namespace kcc
