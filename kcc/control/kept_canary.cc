#include "kcc/control/kept_canary.h"

#include <algorithm>

#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kKeptBytesMax = 4096;

double ShareIn(json::object object, std::string_view key) {
  const auto member = JsonMember(object, key);
  return member ? JsonNumber(*member).value_or(-1) : -1;
}

}  // namespace

Result<> KeepCanary(const std::string& path, const RouteWishes& configured,
                    const RouteWishes& asked) {
  JsonWriter json;
  json.BeginObject().Field("kernel", asked.canary).Field("share", asked.canary_share);
  json.Field("configuredKernel", configured.canary);
  json.Field("configuredShare", configured.canary_share).EndObject();
  return WriteFileAtomically(path, json.Take());
}

RouteWishes WithKeptCanary(const std::string& path, const RouteWishes& configured) {
  RouteWishes wishes = configured;
  const auto text = ReadRegularFile(path, kKeptBytesMax);
  if (!text.has_value()) return wishes;
  json::parser parser;
  const auto root = ParseJson(parser, *text);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return wishes;
  const bool same = JsonText(JsonMember(object, "configuredKernel")) == configured.canary &&
                    ShareIn(object, "configuredShare") == configured.canary_share;
  const double share = ShareIn(object, "share");
  if (!same || share < 0) return wishes;
  // Another kernel was the canary then: the configured one has no share until somebody says so.
  const bool ours = JsonText(JsonMember(object, "kernel")) == configured.canary;
  wishes.canary_share = ours ? std::min(share, wishes.canary_share) : 0;
  return wishes;
}

}  // namespace kcc
