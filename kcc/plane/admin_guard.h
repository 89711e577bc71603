// Who may ask the admin port what. It listens on the loopback, but a browser on the same machine
// carries requests of any page there, so being there is not enough:
//
// - Host must name the loopback, so that no page of elsewhere whose name was made to lead here
//   (DNS rebinding) is the operator.
// - A request that another page made (Origin, Sec-Fetch-Site) may open a page by a link and nothing
//   else.
// - Where there is a token, all but /, /healthz and /readyz need it: as `Authorization: Bearer`, as
//   the cookie that was made from it, or once as `?token=`, which becomes that cookie and leaves
//   the address bar. What is at / is a page without data, which asks for the token.
//
// The cookie holds a hash of the token with a secret of this process, never the token: cookies do
// not tell ports apart, and other programs of this machine may be shown it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kcc/gateway/head.h"

namespace kcc {

struct AdminDecision {
  int status = 0;  // 0: it may pass; 303: to `location`, with `set_cookie`
  std::string message;
  std::string location;
  std::string set_cookie;
};

class AdminGuard {
 public:
  // `token` empty: none is asked for. `secret`: random bytes of this process.
  AdminGuard(std::string_view token, std::string_view secret, uint16_t port);

  AdminDecision Check(std::string_view method, std::string_view target,
                      std::span<const HeaderField> headers) const;

 private:
  bool HasToken(std::span<const HeaderField> headers) const;
  bool IsToken(std::string_view text) const;

  const std::string token_hash_;  // empty: none is asked for
  const std::string cookie_name_;
  const std::string cookie_;
};

// The host of a Host field names the loopback: 127.x.x.x, localhost or [::1], with any port.
bool IsLoopbackHost(std::string_view host);

}  // namespace kcc
