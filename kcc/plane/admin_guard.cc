#include "kcc/plane/admin_guard.h"

#include <algorithm>
#include <optional>

#include "kcc/base/sha256.h"
#include "kcc/plane/client_keys.h"
#include "kcc/plane/http_text.h"

namespace kcc {
namespace {

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string PercentDecoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && Digit(text[i + 1]) >= 0 &&
        Digit(text[i + 2]) >= 0) {
      plain += static_cast<char>(Digit(text[i + 1]) * 16 + Digit(text[i + 2]));
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Takes token=... out of the query.
std::optional<std::string> TakeToken(std::string_view target, std::string* rest) {
  const size_t mark = target.find('?');
  if (mark == target.npos) return std::nullopt;
  std::optional<std::string> token;
  *rest = target.substr(0, mark);
  char between = '?';
  for (std::string_view query = target.substr(mark + 1); !query.empty();) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view part = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (part.starts_with("token=") && !token) {
      token = PercentDecoded(part.substr(6));
      continue;
    }
    *rest += between;
    rest->append(part);
    between = '&';
  }
  return token;
}

// Made by a page of another origin, as far as the browser tells.
bool IsCrossSite(std::span<const HeaderField> headers, std::string_view host) {
  if (const auto site = FindHeader(headers, "sec-fetch-site")) {
    if (*site != "same-origin" && *site != "none") return true;
  }
  const auto origin = FindHeader(headers, "origin");
  return origin && *origin != "http://" + std::string(host);
}

bool OpensPage(std::string_view method, std::span<const HeaderField> headers) {
  const auto mode = FindHeader(headers, "sec-fetch-mode");
  return method == "GET" && mode == "navigate" && !FindHeader(headers, "origin");
}

}  // namespace

bool IsLoopbackHost(std::string_view host) {
  std::string_view port;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (host.substr(0, end + (end != host.npos)) != "[::1]") return false;
    port = host.substr(end + 1);
  } else {
    const size_t colon = std::min(host.find(':'), host.size());
    port = host.substr(colon);
    host = host.substr(0, colon);
    // A name may begin with 127., so that an address has digits and three points alone.
    const bool address = host.starts_with("127.") && host.size() <= 15 &&
                         std::count(host.begin(), host.end(), '.') == 3 &&
                         host.find_first_not_of("0123456789.") == host.npos && host.back() != '.';
    if (!address && !EqualsIgnoringCase(host, "localhost")) return false;
  }
  return port.empty() || (port.front() == ':' && port.size() <= 6 &&
                          port.substr(1).find_first_not_of("0123456789") == port.npos);
}

AdminGuard::AdminGuard(std::string_view token, std::string_view secret, uint16_t port)
    : token_hash_(token.empty() ? "" : Sha256Of(token)),
      cookie_name_("kcc_admin_" + std::to_string(port)),
      cookie_(token.empty() ? ""
                            : Sha256Of(std::string(secret) + "\n" + std::string(token)).substr(7)) {
}

bool AdminGuard::IsToken(std::string_view text) const {
  return EqualInConstantTime(Sha256Of(text), token_hash_);
}

bool AdminGuard::HasToken(std::span<const HeaderField> headers) const {
  if (const auto authorization = FindHeader(headers, "authorization")) {
    const std::string_view key = BearerKey(*authorization);
    if (!key.empty() && IsToken(key)) return true;
  }
  for (const HeaderField& field : headers) {
    if (!EqualsIgnoringCase(field.name, "cookie")) continue;
    for (std::string_view rest = field.value; !rest.empty();) {
      const size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view part = TrimBlanks(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const size_t equals = std::min(part.find('='), part.size());
      if (part.substr(0, equals) == cookie_name_ &&
          EqualInConstantTime(part.substr(std::min(equals + 1, part.size())), cookie_)) {
        return true;
      }
    }
  }
  return false;
}

AdminDecision AdminGuard::Check(std::string_view method, std::string_view target,
                                std::span<const HeaderField> headers) const {
  const auto host = FindHeader(headers, "host");
  if (host && !IsLoopbackHost(*host)) {
    return {403, "this port is for the loopback: open it as 127.0.0.1 or localhost", "", ""};
  }
  if (IsCrossSite(headers, host.value_or("")) && !OpensPage(method, headers)) {
    return {403, "another site's page asked for this", "", ""};
  }
  const std::string_view path = target.substr(0, target.find('?'));
  if (token_hash_.empty() || path == "/healthz" || path == "/readyz") return {};
  std::string rest;
  const auto token = method == "GET" ? TakeToken(target, &rest) : std::nullopt;
  if (token && IsToken(*token)) {
    // Two slashes at the front would name another host.
    rest.erase(0, std::min(rest.find_first_not_of('/'), rest.size()));
    return {303, "", "/" + rest,
            cookie_name_ + "=" + cookie_ + "; HttpOnly; SameSite=Strict; Path=/"};
  }
  if (HasToken(headers)) return {};
  // The page holds no data, and asks its reader for the token itself.
  if (method == "GET" && path == "/" && !token) return {};
  return {
      401,
      "the admin token is needed: as 'Authorization: Bearer TOKEN', or once as ?token=TOKEN in a "
      "browser",
      "", ""};
}

}  // namespace kcc
