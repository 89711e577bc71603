#include "kcc/statement/predicate_json.h"

#include "kcc/base/sha256.h"
#include "kcc/statement/timestamp.h"

namespace kcc {

void WriteDigestSet(std::string_view digest, JsonWriter* json) {
  json->BeginObject();
  json->Field("sha256", digest.substr(std::string_view("sha256:").size()));
  json->EndObject();
}

void WriteNamedDigest(const NamedDigest& named, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", named.name);
  json->Key("digest");
  WriteDigestSet(named.digest, json);
  json->EndObject();
}

void WriteNamedDigests(std::string_view key, const std::vector<NamedDigest>& list,
                       JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const NamedDigest& named : list) WriteNamedDigest(named, json);
  json->EndArray();
}

Result<> CheckDigest(std::string_view digest, const std::string& what) {
  if (IsSha256(digest)) return {};
  return InvalidError(what + " has the digest '" + std::string(digest) +
                      "', which is not 'sha256:' and 64 lower-case hexadecimal digits");
}

Result<> CheckTime(int64_t time_ms) {
  if (time_ms >= 0 && time_ms <= kTimestampMsMax) return {};
  return InvalidError("the time of the event, " + std::to_string(time_ms) +
                      " ms since 1970, is not within the years 1970 to 9999");
}

std::string TakePredicate(JsonWriter* json) {
  std::string text = json->Take();
  text.pop_back();
  return text;
}

}  // namespace kcc
