// What the parts of a gateway's process are made with, from the documents.
#pragma once

#include <cstdint>
#include <string>

#include "kcc/control/evaluator.h"
#include "kcc/control/gateway_files.h"
#include "kcc/control/gateway_now.h"
#include "kcc/control/register_link.h"

namespace kcc {

// The files of the state's folder.
struct StatePaths {
  std::string folder;
  std::string decisions;  // the decision log
  std::string monitor;    // the monitor's state
  std::string events;
  std::string canary;  // kept_canary.h
  std::string builds;  // kernel_builds.h
};
StatePaths StatePathsOf(const GatewayDocuments& documents);

EvaluatorOptions EvaluatorOptionsOf(const GatewayDocuments& documents, const StatePaths& paths,
                                    const std::string& kcc_version, const RouteWishes& wishes);
GatewayFacts FactsOf(const GatewayDocuments& documents, const StatePaths& paths,
                     const std::string& kcc_version, int64_t now_ms);
RegisterLinkOptions LinkOptionsOf(const GatewayDocuments& documents);

}  // namespace kcc
