#include "kcc/gateway/header_rules.h"

#include <algorithm>
#include <array>

namespace kcc {
namespace {

constexpr size_t kRequestIdMax = 128;

constexpr std::array<std::string_view, 18> kNever = {"authorization",
                                                     "proxy-authorization",
                                                     "proxy-authenticate",
                                                     "proxy-connection",
                                                     "cookie",
                                                     "connection",
                                                     "keep-alive",
                                                     "te",
                                                     "trailer",
                                                     "upgrade",
                                                     "transfer-encoding",
                                                     "expect",
                                                     "host",
                                                     "content-length",
                                                     "content-type",
                                                     "content-encoding",
                                                     "accept-encoding",
                                                     "x-request-id"};

// `x-ratelimit-*` beside them.
constexpr std::array<std::string_view, 6> kOfAnswer = {"content-type",   "retry-after",
                                                       "retry-after-ms", "openai-processing-ms",
                                                       "openai-version", "cache-control"};

bool IsIn(std::span<const std::string_view> names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view one) { return SameHeaderName(one, name); });
}

}  // namespace

bool NeverPassed(std::string_view name) { return IsIn(kNever, name); }

bool IsKeptOfAnswer(std::string_view name) {
  constexpr std::string_view kLimits = "x-ratelimit-";
  return IsIn(kOfAnswer, name) || SameHeaderName(name.substr(0, kLimits.size()), kLimits);
}

bool IsHeaderValue(std::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7F;
  });
}

bool IsRequestId(std::string_view value) {
  if (value.empty() || value.size() > kRequestIdMax) return false;
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("-_.:/+=@").find(c) != std::string_view::npos;
  });
}

bool IsMediaType(std::string_view content_type, std::string_view type) {
  std::string_view media = content_type.substr(0, content_type.find(';'));
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!media.empty() && blank(media.front())) media.remove_prefix(1);
  while (!media.empty() && blank(media.back())) media.remove_suffix(1);
  return SameHeaderName(media, type);
}

void AddHeader(std::string_view name, std::string_view value, HeaderList* headers) {
  if (!value.empty() && IsHeaderValue(value)) headers->emplace_back(name, value);
}

}  // namespace kcc
