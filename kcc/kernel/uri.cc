#include "kcc/kernel/uri.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "kcc/base/strings.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

bool IsSchemeCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
}

// The length of a scheme before its colon; 0 for a path.
size_t SchemeLength(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 2) return 0;
  return std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(colon), IsSchemeCharacter)
             ? colon
             : 0;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return InvalidError("'" + std::string(text) +
                          "': a percent sign stands before two hexadecimal digits; write %25 for "
                          "the sign itself");
    }
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

Result<> ReadOptions(std::string_view text, KernelUri* uri) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    const size_t equals = piece.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return InvalidError("the option '" + std::string(piece) + "' is not name=value",
                          Place{uri->text});
    }
    KernelUri::Option option;
    KCC_TRY(option.name, PercentDecoded(piece.substr(0, equals)));
    KCC_TRY(option.value, PercentDecoded(piece.substr(equals + 1)));
    if (uri->Find(option.name) != nullptr) {
      return InvalidError("the option '" + option.name + "' stands twice", Place{uri->text});
    }
    uri->options.push_back(std::move(option));
  }
  return {};
}

bool IsHostCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
}

// "localhost:8000/v1?x=y" -> "localhost:8000", if it is that.
std::string_view HostAndPort(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos) return {};
  const auto host = text.substr(0, colon);
  if (!std::all_of(host.begin(), host.end(), IsHostCharacter)) return {};
  size_t end = colon + 1;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const bool port = end > colon + 1 && end <= colon + 6;
  return port && (end == text.size() || text[end] == '/' || text[end] == '?') ? text.substr(0, end)
                                                                              : std::string_view();
}

// What stands before "://" where people write a server's address: http, https, openai, the name of
// a server, or two of them with a plus.
struct PastedScheme {
  bool known = true;
  bool tls = false;
  std::string_view server;  // empty: not said
};

PastedScheme ReadScheme(std::string_view scheme) {
  PastedScheme read;
  if (scheme == "openai+http" || scheme == "openai+https") read.known = false;  // needs no advice
  while (!scheme.empty()) {
    const size_t plus = scheme.find('+');
    const std::string_view part = scheme.substr(0, plus);
    scheme.remove_prefix(plus == std::string_view::npos ? scheme.size() : plus + 1);
    const std::vector<std::string_view> servers = ServerNames();
    if (std::find(servers.begin(), servers.end(), part) != servers.end()) {
      read.server = part;
    } else if (part == "https") {
      read.tls = true;
    } else if (part != "http" && part != "openai") {
      read.known = false;
    }
  }
  return read;
}

Result<const KernelScheme*> SchemeOf(const KernelUri& uri, std::span<const KernelScheme> schemes) {
  std::vector<std::string_view> names;
  std::vector<std::string_view> forms;
  for (const KernelScheme& scheme : schemes) {
    if (scheme.name == uri.scheme) return &scheme;
    names.push_back(scheme.name);
    forms.push_back(scheme.form);
  }
  if (const std::string server = ServerUriFor(uri.text); !server.empty()) {
    return InvalidError(AddressMessage(server), Place{uri.text});
  }
  const auto nearest = NearestWord(uri.scheme, names);
  return InvalidError("no kernel of kind '" + uri.scheme + "'" +
                          (nearest ? "; did you mean '" + std::string(*nearest) + ":'?"
                                   : "; there are " + JoinWords(forms)),
                      Place{uri.text});
}

}  // namespace

std::string AddressMessage(const std::string& server) {
  return "an address alone is no kernel; if a server is meant, write '" + server +
         "', where server is " + JoinWords(ServerNames(), "or");
}

std::string ServerUriFor(std::string_view text) {
  const size_t slashes = text.find("://");
  const bool has_scheme = slashes != std::string_view::npos;
  const PastedScheme pasted = ReadScheme(has_scheme ? text.substr(0, slashes) : std::string_view());
  if (has_scheme && !pasted.known) return "";
  if (!has_scheme && HostAndPort(text).empty()) return "";
  const size_t mark = text.find('?');
  std::string_view address = text.substr(0, mark);
  if (has_scheme) address.remove_prefix(slashes + 3);
  // A gateway's path is part of the address; the routes of the interface are added later.
  address = address.substr(0, address.find("/v1"));
  while (address.ends_with('/')) address.remove_suffix(1);
  if (address.empty() || address.find('@') != std::string_view::npos) return "";
  // What was said of the server is kept; who it is must be said.
  std::string options(mark == std::string_view::npos ? "" : text.substr(mark + 1));
  if (options.find("server=") == std::string::npos) {
    options = "server=" + std::string(pasted.server.empty() ? "NAME" : pasted.server) +
              (options.empty() ? "" : "&" + options);
  }
  return (pasted.tls ? "openai+https://" : "openai+http://") + std::string(address) + "?" + options;
}

const std::string* KernelUri::Find(std::string_view name) const {
  for (const Option& option : options) {
    if (option.name == name) return &option.value;
  }
  return nullptr;
}

Result<> KernelUri::CheckOptions(std::span<const std::string_view> known) const {
  for (const Option& option : options) {
    if (std::find(known.begin(), known.end(), option.name) != known.end()) continue;
    std::string message = "the kernel has no option '" + option.name + "'";
    if (const auto nearest = NearestWord(option.name, known)) {
      message += "; did you mean '" + std::string(*nearest) + "'?";
    } else if (!known.empty()) {
      message += "; it has " + JoinWords(known);
    }
    return InvalidError(std::move(message), Place{text});
  }
  return {};
}

Result<KernelUri> ParseKernelUri(std::string_view text) {
  KernelUri uri;
  uri.text = text;
  if (text.empty()) return InvalidError("a kernel is named by a URI, and this one is empty");
  const size_t scheme = SchemeLength(text);
  if (scheme == 0) {  // a path may hold anything, a question mark too
    uri.scheme = "trace";
    uri.rest = text;
    return uri;
  }
  uri.scheme = text.substr(0, scheme);
  std::string_view rest = text.substr(scheme + 1);
  if (uri.scheme != "exec" && uri.scheme != "trace") {
    const size_t mark = rest.rfind('?');
    if (mark != std::string_view::npos) {
      KCC_TRY_VOID(ReadOptions(rest.substr(mark + 1), &uri));
      rest = rest.substr(0, mark);
    }
  }
  uri.rest = rest;
  if (uri.rest.empty())
    return InvalidError("nothing follows '" + uri.scheme + ":'", Place{uri.text});
  return uri;
}

Error InterruptedError() { return IoError("interrupted"); }

Result<> CheckKernelUri(std::string_view text, std::span<const KernelScheme> schemes) {
  KCC_TRY(const KernelUri uri, ParseKernelUri(text));
  KCC_TRY(const KernelScheme* const scheme, SchemeOf(uri, schemes));
  return scheme->check ? scheme->check(uri) : Result<>();
}

Result<std::unique_ptr<Kernel>> OpenKernel(std::string_view text, const KernelOpenOptions& options,
                                           std::span<const KernelScheme> schemes) {
  KCC_TRY(const KernelUri uri, ParseKernelUri(text));
  KCC_TRY(const KernelScheme* const scheme, SchemeOf(uri, schemes));
  return scheme->open(uri, options);
}

}  // namespace kcc
