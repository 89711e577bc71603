#include "kcc/register/register_uri.h"

#include <algorithm>
#include <string_view>

namespace kcc {
namespace {

bool IsScheme(std::string_view text) {
  return text.size() > 1 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
         });
}

// "…?password=x&y" without x.
std::string WithoutPasswordParameter(std::string uri) {
  for (const std::string_view key :
       {"?password=", "&password=", "?sslpassword=", "&sslpassword="}) {
    const size_t at = uri.find(key);
    if (at == std::string::npos) continue;
    const size_t begin = at + key.size();
    const size_t end = std::min(uri.find('&', begin), uri.size());
    uri.replace(begin, end - begin, "***");
  }
  return uri;
}

}  // namespace

Result<RegisterUri> ParseRegisterUri(const std::string& uri) {
  if (uri.empty()) {
    return InvalidError("no register is named; use --register FILE or postgresql://…");
  }
  if (uri.starts_with("postgresql://") || uri.starts_with("postgres://"))
    return RegisterUri{true, uri};
  if (uri.starts_with("sqlite:")) {
    const std::string path = uri.substr(std::string_view("sqlite:").size());
    if (path.empty()) return InvalidError("sqlite: names no file; use sqlite:PATH");
    return RegisterUri{false, path};
  }
  const size_t colon = uri.find("://");
  if (colon != std::string::npos && IsScheme(std::string_view(uri).substr(0, colon))) {
    return InvalidError("'" + uri.substr(0, colon) +
                        "' registers are not known; use a file, sqlite:PATH or postgresql://…");
  }
  return RegisterUri{false, uri};
}

std::string ShownUri(const std::string& uri) {
  const size_t start = uri.find("://");
  if (start == std::string::npos) return uri;
  // A password may hold any character but "/" and "@"; one that holds them by mistake must not
  // show either, so that the last "@" ends it.
  const size_t at = uri.rfind('@');
  const size_t colon = uri.find(':', start + 3);
  std::string shown = uri;
  if (at != std::string::npos && colon < at) shown.replace(colon + 1, at - colon - 1, "***");
  return WithoutPasswordParameter(std::move(shown));
}

}  // namespace kcc
