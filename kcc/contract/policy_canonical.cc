// The canonical form of a promotion policy: keys in byte order, every default written out, times in
// their largest whole unit. Hooks and rules have no order of their own, so they are sorted by name;
// a clause that is enforced as any other is not listed.
#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/policy_metadata.h"

namespace kcc {
namespace {

void WriteNames(std::string_view key, const std::vector<std::string>& names, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& name : names) json->Value(name);
  json->EndArray();
}

// Only what the stage has a key for, so that the canonical form is a document of the language too.
void WritePolicyStage(const StagePolicy& stage, Stage which, JsonWriter* json) {
  json->BeginObject();
  if (stage.approvals.count > 0) {
    json->Key("approvals").BeginObject().Field("count", stage.approvals.count);
    if (!stage.approvals.keyring.empty()) json->Field("keyring", stage.approvals.keyring);
    if (!stage.approvals.roles.empty()) WriteNames("roles", stage.approvals.roles, json);
    if (stage.approvals.must_sign) json->Field("signed", true);
    json->EndObject();
  }
  if (!stage.clauses.empty()) WriteNames("clauses", stage.clauses, json);
  if (stage.clean) json->Field("clean", *stage.clean);
  if (stage.deadline_ms) json->Field("deadline", DurationText(*stage.deadline_ms));
  if (stage.clauses.empty()) {
    json->Key("levels").BeginArray();
    for (const ViolationLevel level : stage.levels) json->Value(Name(level));
    json->EndArray();
  }
  if (which != Stage::kOffline) {
    json->Key("looks").BeginArray();
    for (const Look& look : stage.looks) {
      json->BeginObject();
      // Where it follows from `spending`, it is not part of what the policy says.
      if (!stage.spending) json->Field("alpha", look.alpha);
      json->Field("requests", look.requests).EndObject();
    }
    json->EndArray();
  }
  json->Field("minRequests", stage.min_requests);
  if (which == Stage::kShadow) json->Field("mirror", stage.mirror);
  if (stage.deadline_ms) json->Field("onDeadline", Name(stage.on_deadline));
  if (stage.spending) json->Field("spending", Name(*stage.spending));
  if (which != Stage::kOffline) json->Field("stabilityWindow", DurationText(stage.stability_ms));
  if (which == Stage::kCanary) {
    json->Key("steps").BeginArray();
    for (const CanaryStep& step : stage.steps) {
      json->BeginObject().Field("minRequests", step.min_requests);
      json->Field("stabilityWindow", DurationText(step.stability_ms));
      json->Field("traffic", step.traffic).EndObject();
    }
    json->EndArray();
  }
  json->EndObject();
}

void WriteEnforce(const PromotionPolicy& policy, JsonWriter* json) {
  std::vector<EnforceRule> rules;
  for (const EnforceRule& rule : policy.enforce) {
    if (rule.mode != Enforce::kOn) rules.push_back(rule);
  }
  std::sort(rules.begin(), rules.end(),
            [](const EnforceRule& a, const EnforceRule& b) { return a.clause < b.clause; });
  json->Key("enforce").BeginArray();
  for (const EnforceRule& rule : rules) {
    json->BeginObject().Field("clause", rule.clause).Field("mode", Name(rule.mode)).EndObject();
  }
  json->EndArray();
}

void WriteHooks(const PromotionPolicy& policy, JsonWriter* json) {
  std::vector<PolicyHook> hooks = policy.hooks;
  std::sort(hooks.begin(), hooks.end(),
            [](const PolicyHook& a, const PolicyHook& b) { return a.name < b.name; });
  json->Key("hooks").BeginArray();
  for (const PolicyHook& hook : hooks) {
    json->BeginObject();
    WriteNonEmpty("exec", hook.exec, json);
    WriteNonEmpty("http", hook.http, json);
    json->Field("name", hook.name).Field("point", Name(hook.point));
    json->Field("timeout", DurationText(hook.timeout_ms)).EndObject();
  }
  json->EndArray();
}

// Left out where nothing is kept: policies from before the key was known keep their digest.
void WriteStorage(const RequestStorage& storage, JsonWriter* json) {
  if (storage == RequestStorage()) return;
  json->Key("requests").BeginObject().Field("flagged", storage.flagged);
  if (storage.retention_ms) json->Field("retention", DurationText(*storage.retention_ms));
  json->Field("sample", storage.sample).Field("store", Name(storage.store));
  json->Field("text", storage.text).EndObject();
}

}  // namespace

std::string CanonicalJson(const PromotionPolicy& policy) {
  JsonWriter json(JsonWriter::Style::kCompact);
  BeginPolicyJson(DocumentKind::kPromotion, ViewMetadata(policy), &json);
  // canary < confidence < coolDown < enforce < full < hooks < offline < requests < shadow
  const auto stage = [&](Stage which) {
    if (!policy.stage(which).in_force) return;
    json.Key(Name(which));
    WritePolicyStage(policy.stage(which), which, &json);
  };
  stage(Stage::kCanary);
  json.Field("confidence", policy.confidence);
  json.Field("coolDown", DurationText(policy.cool_down_ms));
  WriteEnforce(policy, &json);
  stage(Stage::kFull);
  WriteHooks(policy, &json);
  stage(Stage::kOffline);
  WriteStorage(policy.requests, &json);
  stage(Stage::kShadow);
  return EndPolicyJson(&json);
}

std::string PolicyDigest(const PromotionPolicy& policy) { return Sha256Of(CanonicalJson(policy)); }

}  // namespace kcc
