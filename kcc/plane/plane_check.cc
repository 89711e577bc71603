#include "kcc/plane/plane_check.h"

#include <arpa/inet.h>

#include "kcc/plane/client_keys.h"

namespace kcc {
namespace {

bool IsAddress(const std::string& text) {
  in6_addr bytes;
  return inet_pton(AF_INET, text.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

bool IsLoopbackAddress(const std::string& text) {
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return text == "::1";
}

}  // namespace

std::string ListenAddress(const std::string& host) {
  return host == "localhost" ? "127.0.0.1" : host;
}

Result<> CheckPlaneOptions(const PlaneOptions& options) {
  for (const std::string& host : {options.host, options.admin_host}) {
    if (!IsAddress(ListenAddress(host))) {
      return InvalidError("'" + host +
                          "' is not an address to listen on; use 127.0.0.1 or 0.0.0.0");
    }
  }
  if (!IsLoopbackAddress(ListenAddress(options.admin_host))) {
    return InvalidError("the admin port must be on the loopback, not on '" + options.admin_host +
                        "'; use 127.0.0.1");
  }
  if (options.port != 0 && options.port == options.admin_port &&
      ListenAddress(options.host) == ListenAddress(options.admin_host)) {
    return InvalidError("clients and the admin port cannot have the same port");
  }
  if (options.tls.certificate.empty() != options.tls.key.empty()) {
    return InvalidError("TLS needs a certificate and its key");
  }
  const std::pair<const char*, int64_t> at_least_one[] = {
      {"header bytes", static_cast<int64_t>(options.header_bytes_max)},
      {"body bytes", static_cast<int64_t>(options.body_bytes_max)},
      {"connections", static_cast<int64_t>(options.connections_max)},
      {"the idle time", options.idle_ms},
      {"the time for a request", options.request_ms},
      {"the time to connect", options.connect_ms},
      {"the time to the first byte", options.first_byte_ms},
      {"the time between bytes", options.between_ms},
      {"the time to write", options.write_ms}};
  for (const auto& [name, value] : at_least_one) {
    if (value < 1) return InvalidError(std::string("the limit of ") + name + " must be at least 1");
  }
  if (options.header_bytes_max < 256 || options.header_bytes_max > (size_t{1} << 20)) {
    return InvalidError("the limit of header bytes must be between 256 and 1 MiB");
  }
  if (options.drain_ms < 0 || !(options.requests_per_second_max >= 0)) {
    return InvalidError("a negative limit");
  }
  KCC_TRY_VOID(ClientKeys::Of(options.client_key_hashes));
  return {};
}

Result<> CheckPlaneReload(const PlaneOptions& old, const PlaneOptions& now) {
  KCC_TRY_VOID(CheckPlaneOptions(now));
  if (old.host != now.host || old.port != now.port || old.admin_host != now.admin_host ||
      old.admin_port != now.admin_port) {
    return InvalidError("addresses and ports cannot change while the gateway runs; start it again");
  }
  if (old.tls.certificate.empty() != now.tls.certificate.empty()) {
    return InvalidError("TLS cannot be turned on or off while the gateway runs; start it again");
  }
  return {};
}

}  // namespace kcc
