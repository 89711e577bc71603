#include "apps/kcc/gateway_client.h"

#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/reader.h"
#include "kcc/kernel/http_pool.h"

namespace kcc::cli {
namespace {

constexpr const char* kDefaultFile = "gateway.yaml";
constexpr size_t kTokenBytesMax = size_t{64} << 10;

struct Address {
  std::string url;
  std::string token_file;
};

Result<Address> AddressOf(const GatewayAddressFlags& flags) {
  const std::string& where = flags.where;
  if (where.starts_with("http://") || where.starts_with("https://")) {
    std::string url = where;
    while (url.ends_with('/')) url.pop_back();
    return Address{url, ""};
  }
  const std::string file = where.empty() ? kDefaultFile : where;
  std::error_code unseen;
  if (where.empty() && !std::filesystem::exists(file, unseen)) {
    return InvalidError(
        "name the gateway: the address of its admin port, http://127.0.0.1:8081, or its "
        "configuration; without a gateway, 'kcc report out/report.json' shows the last verdict "
        "again, and 'kcc promote status --register R' where promotions stand");
  }
  KCC_TRY(const std::string text, ReadFile(file, kContractBytesMax));
  const GatewayOutcome outcome = ReadGateway(text);
  if (!outcome.config) {
    return InvalidError("not a valid configuration of a gateway; kcc gateway " + file +
                            " --check says what is wrong",
                        Place{file});
  }
  const GatewayConfig& config = *outcome.config;
  if (config.admin.port == 0) {
    return InvalidError(
        "the configuration leaves the admin port to the system; name the address that `kcc "
        "gateway` printed",
        Place{file});
  }
  Address address{"http://" + AddressText(config.admin), ""};
  if (!config.admin_token_file.empty()) {
    address.token_file = PathBeside(file, config.admin_token_file);
  }
  return address;
}

}  // namespace

Result<std::string> AskGateway(const GatewayAddressFlags& flags, const std::string& path) {
  KCC_TRY(const Address address, AddressOf(flags));
  HttpOptions http;
  http.base_url = address.url;
  http.retries_max = 0;
  http.timeout_s = 10;
  http.batch_timeout_s = 10;
  const std::string& token_file = flags.token_file.empty() ? address.token_file : flags.token_file;
  if (!token_file.empty()) {
    KCC_TRY(http.api_key, ReadFile(token_file, kTokenBytesMax));
    while (http.api_key.ends_with('\n') || http.api_key.ends_with('\r')) http.api_key.pop_back();
  }
  KCC_TRY(const auto pool, HttpPool::Open(http));
  auto reply = pool->Ask({path, ""});
  if (!reply.has_value()) {
    return IoError("no gateway answers at " + address.url + ": " + reply.error().message());
  }
  if (reply->status == 401 || reply->status == 403) {
    return InvalidError("the gateway at " + address.url +
                        " does not take this token; --token-file names the file that holds it");
  }
  if (reply->status != 200) {
    return IoError("the gateway at " + address.url + " answers with status " +
                   std::to_string(reply->status) + ": " + reply->body.substr(0, 500));
  }
  return std::move(reply->body);
}

}  // namespace kcc::cli
