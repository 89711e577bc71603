#include "kcc/contract/gateway_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr size_t kHostLengthMax = 253;
constexpr size_t kLabelLengthMax = 63;
constexpr size_t kSourceLengthMax = 128;

// Not <cctype>, whose answers follow the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool AllDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Error Not(std::string_view text, std::string_view what) {
  return InvalidError("'" + std::string(text) + "' is not " + std::string(what));
}

bool IsIp4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

// In the one spelling of the address; empty where it is none.
std::string Ip6(const std::string& host) {
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_pton(AF_INET6, host.c_str(), &address) != 1) return "";
  return inet_ntop(AF_INET6, &address, text.data(), text.size()) == nullptr ? "" : text.data();
}

bool IsLabel(std::string_view label) {
  return !label.empty() && label.size() <= kLabelLengthMax && label.front() != '-' &&
         label.back() != '-' && std::all_of(label.begin(), label.end(), [](char c) {
           return IsDigit(c) || IsLower(c) || c == '-' || c == '_';
         });
}

// A name whose last label is a number would be read as an address by some and as a name by others.
bool IsHost(const std::string& host) {
  if (host.size() > kHostLengthMax) return false;
  std::string_view rest = host;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (!IsLabel(label)) return false;
    if (dot == std::string_view::npos)
      return !IsDigit(label[0]) || !AllDigits(label) || IsIp4(host);
    rest.remove_prefix(dot + 1);
  }
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  constexpr size_t kPortDigitsMax = 5;
  if (!AllDigits(text) || text.size() > kPortDigitsMax) return {};
  unsigned port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  if (port > 0xFFFF) return {};
  return static_cast<uint16_t>(port);
}

struct HostAndPort {
  std::string host;
  std::optional<uint16_t> port;  // none: there is no colon
};

// None where it is neither a name, an address nor [an IPv6 address], with or without a port.
std::optional<HostAndPort> SplitHost(std::string_view text) {
  HostAndPort split;
  size_t end = text.rfind(':');
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return {};
    split.host = Ip6(std::string(text.substr(1, close - 1)));
    if (split.host.empty()) return {};
    end = close + 1 == text.size() ? std::string_view::npos : close + 1;
    if (end != std::string_view::npos && text[end] != ':') return {};
  } else {
    split.host = Lower(text.substr(0, end));
    if (!IsHost(split.host)) return {};
  }
  if (end == std::string_view::npos) return split;
  split.port = ParsePort(text.substr(end + 1));
  if (!split.port) return {};
  return split;
}

// Printable, and without what some reader of URLs would take apart or repair.
bool IsPlainUrl(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    constexpr std::string_view kRefused = "\"<>\\^`{|}";
    return c > ' ' && c < '\x7f' && kRefused.find(c) == kRefused.npos;
  });
}

bool IsHeaderName(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return IsDigit(c) || IsLower(c) || kMarks.find(c) != kMarks.npos;
  });
}

bool IsMemberName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f' && c != '"' && c != '\\' && c != '.';
  });
}

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The password of "scheme://user:password@host" or of "?password=x".
bool HasPassword(std::string_view uri) {
  const size_t start = uri.find("://");
  const size_t at = uri.rfind('@');
  if (at != std::string_view::npos && start != std::string_view::npos &&
      uri.find(':', start + 3) < at) {
    return true;
  }
  const std::string lower = Lower(uri);
  constexpr std::array<std::string_view, 4> kKeys = {
      "?password=", "&password=", "?sslpassword=", "&sslpassword="};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view key) { return lower.find(key) != std::string::npos; });
}

// Of JSON and of nothing else: no leading zero, no sign but a minus.
bool IsJsonInteger(std::string_view text) {
  constexpr size_t kDigitsMax = 20;
  if (text.starts_with('-')) text.remove_prefix(1);
  return AllDigits(text) && text.size() <= kDigitsMax && (text == "0" || text[0] != '0');
}

}  // namespace

Result<GatewayAddress> ReadAddress(std::string_view text) {
  constexpr std::string_view kForm = "an address; write HOST:PORT, such as 127.0.0.1:8080";
  if (text.find("://") != std::string_view::npos) {
    return Not(text, std::string(kForm) + ", without http://");
  }
  if (!text.starts_with('[') && std::count(text.begin(), text.end(), ':') > 1) {
    return Not(text, "an address; write one of IPv6 in brackets, such as [::1]:8080");
  }
  if (AllDigits(text) || text.starts_with(':')) {
    return Not(text, std::string(kForm) + ", or 0.0.0.0:8080 for every network of this machine");
  }
  const std::optional<HostAndPort> split = SplitHost(text);
  if (!split) return Not(text, kForm);
  if (!split->port) return Not(text, std::string(kForm) + "; it names no port");
  return GatewayAddress{split->host, *split->port};
}

Result<UrlWithPath> ReadUrl(std::string_view text) {
  constexpr std::string_view kForm = "an address; write http://HOST:PORT, or https://HOST";
  UrlWithPath read;
  read.url.tls = text.starts_with("https://");
  if (!read.url.tls && !text.starts_with("http://")) return Not(text, kForm);
  if (!IsPlainUrl(text)) {
    return Not(text, "an address; blanks and special characters are written as %20");
  }
  std::string_view rest = text.substr(read.url.tls ? 8 : 7);
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::string_view authority = rest.substr(0, end);
  read.path = rest.substr(end);
  // Without the text: it may hold a secret.
  if (authority.find('@') != std::string_view::npos) {
    return InvalidError(
        "the address holds a name or a password; write it without, and put keys into files");
  }
  if (read.path.find('#') != std::string::npos) {
    return Not(text, "an address that a server is asked at; leave out what follows '#'");
  }
  const std::optional<HostAndPort> split = SplitHost(authority);
  if (!split || split->port == 0) return Not(text, kForm);
  read.url.host = split->host;
  read.url.port = split->port.value_or(read.url.tls ? 443 : 80);
  return read;
}

Result<GatewaySource> ReadSource(std::string_view text) {
  constexpr std::string_view kHeader = "header:";
  constexpr std::string_view kBody = "body:";
  constexpr std::array<std::string_view, 5> kSecretHeaders = {
      "authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"};
  constexpr std::array<std::string_view, 3> kTexts = {"messages", "prompt", "input"};
  GatewaySource source;
  source.header = text.starts_with(kHeader);
  if (source.header) {
    source.name = Lower(text.substr(kHeader.size()));
  } else if (text.starts_with(kBody)) {
    source.name = text.substr(kBody.size());
  } else {
    return Not(text,
               "a source; write header:NAME for a header, or body:NAME for a member of the "
               "request's body");
  }
  if (source.name.size() > kSourceLengthMax) {
    return Not(text, "a source; its name is longer than 128 characters");
  }
  if (source.header) {
    if (!IsHeaderName(source.name)) return Not(text, "a source; this is no header's name");
    if (IsOneOf(source.name, kSecretHeaders)) {
      return Not(text, "a source; the header holds a secret, and what is read here is recorded");
    }
    return source;
  }
  const std::string_view name = source.name;
  const size_t dot = name.find('.');
  const std::string_view first = name.substr(0, dot);
  if (!IsMemberName(first) ||
      (dot != std::string_view::npos && !IsMemberName(name.substr(dot + 1)))) {
    return Not(text, "a source; write body:NAME, or body:NAME.NAME for a member of a member");
  }
  if (IsOneOf(first, kTexts)) {
    return Not(text, "a source; it is the text of the request, and what is read here is recorded");
  }
  return source;
}

Result<std::string> ReadRegister(std::string_view text) {
  constexpr std::string_view kSqlite = "sqlite:";
  constexpr std::string_view kForm = "a register; write sqlite:FILE or postgresql://HOST/DATABASE";
  if (text.starts_with("postgresql://") || text.starts_with("postgres://")) {
    if (HasPassword(text)) {
      return InvalidError(
          "the register's address holds a password; leave it out and put it into ~/.pgpass");
    }
    return std::string(text);
  }
  if (text.find("://") != std::string_view::npos) return Not(text, kForm);
  if (text.starts_with(kSqlite)) text.remove_prefix(kSqlite.size());
  if (text.empty()) return Not(text, kForm);
  return std::string(kSqlite).append(text);
}

std::string ScalarJson(const YamlNode& scalar) {
  if (scalar.quoted) return JsonQuote(scalar.text);
  if (scalar.text == "true" || scalar.text == "false") return std::string(scalar.text);
  if (scalar.text == "-0") return "0";
  // As it stands: a seed of 64 bits is no double.
  if (IsJsonInteger(scalar.text)) return std::string(scalar.text);
  const std::optional<double> number = ParseNumber(scalar.text);
  return number ? ShortestNumber(*number + 0.0) : JsonQuote(scalar.text);
}

std::optional<std::string> TextOfJson(std::string_view json) {
  if (json.size() < 2 || json.front() != '"') return {};
  constexpr std::string_view kCodes = "bfnrt";
  constexpr std::string_view kMeant = "\b\f\n\r\t";
  std::string text;
  json = json.substr(1, json.size() - 2);
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] != '\\' || i + 1 == json.size()) {
      text += json[i];
      continue;
    }
    const char code = json[++i];
    if (code == 'u' && i + 4 < json.size()) {  // controls alone are written so
      unsigned point = 0;
      std::from_chars(json.data() + i + 1, json.data() + i + 5, point, 16);
      text += static_cast<char>(point);
      i += 4;
    } else {
      const size_t at = kCodes.find(code);
      text += at == kCodes.npos ? code : kMeant[at];
    }
  }
  return text;
}

}  // namespace kcc
