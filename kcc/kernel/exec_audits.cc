#include "kcc/kernel/exec_audits.h"

#include <algorithm>

namespace kcc {
namespace {

Error Wrong(const char* key, const char* what) {
  return BrokenEvidenceError(std::string("'") + key + "' must be " + what);
}

Result<AuditDigests> ReadPoint(json::element item) {
  constexpr const char* kForm = "a list of {\"point\", \"digests\"}, with digests as texts";
  json::object object;
  if (item.get(object) != simdjson::SUCCESS) return Wrong("auditPoints", kForm);
  for (const auto field : object) {
    if (field.key != "point" && field.key != "digests") {
      return BrokenEvidenceError("an audit point has an unknown key '" + std::string(field.key) +
                                 "'");
    }
  }
  AuditDigests point;
  point.point = JsonText(JsonMember(object, "point"));
  const auto digests = JsonList(JsonMember(object, "digests"));
  if (!digests) return Wrong("auditPoints", kForm);
  for (const json::element digest : *digests) {
    if (!digest.is_string()) return Wrong("auditPoints", kForm);
    point.digests.emplace_back(JsonText(digest));
  }
  return point;
}

}  // namespace

Result<RequestAudit> ReadAnsweredAudit(json::object object) {
  RequestAudit audit;
  if (const auto signature = JsonMember(object, "replaySignature")) {
    audit.signature = JsonText(signature);
    if (audit.signature.empty()) return Wrong("replaySignature", "a text that is not empty");
  }
  if (const auto points = JsonMember(object, "auditPoints")) {
    const auto list = JsonList(points);
    if (!list) return Wrong("auditPoints", "a list");
    for (const json::element item : *list) {
      KCC_TRY(AuditDigests point, ReadPoint(item));
      audit.points.push_back(std::move(point));
    }
  }
  KCC_TRY_VOID(CheckAudit(audit));
  return audit;
}

}  // namespace kcc
