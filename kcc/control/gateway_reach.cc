// Which kernels answer: `kcc gateway FILE --check --reach`.
#include "kcc/control/gateway_files.h"
#include "kcc/kernel/http_pool.h"

namespace kcc {
namespace {

constexpr double kSeconds = 5;

Result<> Reach(const GatewayDocuments& documents, const GatewayKernel& kernel) {
  HttpOptions http;
  http.base_url = UrlText(kernel.url);
  const auto key = documents.kernel_keys.find(kernel.name);
  if (key != documents.kernel_keys.end()) http.api_key = key->second;
  if (!kernel.ca_file.empty()) http.ca_file = documents.PathOf(kernel.ca_file);
  http.retries_max = 0;
  http.connect_timeout_s = kSeconds;
  http.timeout_s = kSeconds;
  http.batch_timeout_s = kSeconds;
  KCC_TRY(const auto pool, HttpPool::Open(http));
  KCC_TRY(const HttpReply reply, pool->Ask({"/v1/models", ""}));
  if (reply.status != 200) {
    return IoError("GET /v1/models answers with status " + std::to_string(reply.status));
  }
  return {};
}

}  // namespace

std::vector<std::string> ReachKernels(const GatewayDocuments& documents) {
  std::vector<std::string> unreached;
  for (const GatewayKernel& kernel : documents.config.kernels) {
    const Result<> reached = Reach(documents, kernel);
    if (reached.has_value()) continue;
    unreached.push_back("kernel " + kernel.name + " at " + UrlText(kernel.url) + ": " +
                        reached.error().message());
  }
  return unreached;
}

}  // namespace kcc
