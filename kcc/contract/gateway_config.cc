#include "kcc/contract/gateway_config.h"

#include <algorithm>

#include "kcc/contract/words.h"

namespace kcc {
namespace {

constexpr std::string_view kSqlite = "sqlite:";

std::string HostText(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

const GatewayKernel* GatewayConfig::FindKernel(std::string_view name) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const GatewayKernel& row) { return row.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

std::span<const std::string_view> GatewayServers() { return kServerWords; }

std::string AddressText(const GatewayAddress& address) {
  return HostText(address.host) + ":" + std::to_string(address.port);
}

std::string UrlText(const GatewayUrl& url) {
  return std::string(url.scheme()) + "://" + HostText(url.host) + ":" + std::to_string(url.port);
}

std::string SourceName(const GatewaySource& source) {
  return (source.header ? "header:" : "body:") + source.name;
}

std::string_view Name(GatewayHookKind kind) { return kGradeWords[static_cast<size_t>(kind)]; }

// Hosts are valid, so one that begins as 127. does and consists of digits and dots is an address:
// "127.example.org" is a name that may lead anywhere.
bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") &&
          host.find_first_not_of("0123456789.") == std::string_view::npos);
}

std::string PathBeside(std::string_view document, const std::string& file) {
  if (file.empty() || file.starts_with('/')) return file;
  const size_t slash = document.rfind('/');
  if (slash == std::string_view::npos) return file;
  return std::string(document.substr(0, slash + 1)) + file;
}

std::string RegisterBeside(std::string_view document, const std::string& register_url) {
  if (!register_url.starts_with(kSqlite)) return register_url;
  return std::string(kSqlite) + PathBeside(document, register_url.substr(kSqlite.size()));
}

}  // namespace kcc
