// GET /v1/verdict: what rollout controllers ask (Argo Rollouts, Flagger; docs/gateway-api.md).
#include <algorithm>

#include "kcc/base/json_writer.h"
#include "kcc/control/gateway_now.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

constexpr int kVerdictVersion = 1;

std::string Timestamp(int64_t time_ms) {
  return FormatTimestamp(std::clamp<int64_t>(time_ms, 0, kTimestampMsMax));
}

double SecondsSince(int64_t then_ms, int64_t now_ms) {
  return static_cast<double>(std::max<int64_t>(0, now_ms - then_ms)) / 1000;
}

// The kernel that a rollout is about: the canary, whatever its share and the stage, else the
// shadow. Without either the first of role infer, and not the one that happens to serve: that is
// the guard after an alarm.
std::string KernelAsked(const GatewayNow& now, const VerdictAsked& asked) {
  if (!asked.kernel.empty()) return asked.kernel;
  const RouteWishes& wishes = now.view->wishes;
  if (!wishes.canary.empty()) return wishes.canary;
  if (!wishes.shadow.empty()) return wishes.shadow;
  for (const KernelStatus& kernel : now.view->status.kernels) {
    if (kernel.role == KernelRole::kInfer) return kernel.name;
  }
  return {};
}

// Why nothing can be said; empty: something can.
std::string WhyNothing(const GatewayNow& now, const VerdictAsked& asked,
                       const KernelStatus* kernel) {
  const GatewayFacts& facts = *now.facts;
  if (!asked.contract.empty() && asked.contract != facts.contract.name &&
      asked.contract != facts.contract.digest) {
    return "this gateway judges contract " + facts.contract.name + ", not '" + asked.contract + "'";
  }
  if (!asked.stage.empty() && asked.stage != Name(facts.stage)) {
    return "this gateway judges stage " + std::string(Name(facts.stage)) + ", not '" + asked.stage +
           "'";
  }
  if (kernel == nullptr) return "the pool has no such kernel";
  return {};
}

struct Judged {
  Verdict verdict = Verdict::kError;
  std::string reason;
};

// A violation stands whatever fails; that nothing is wrong is said on fresh evidence alone.
Judged Judge(const GatewayNow& now, const KernelStatus& kernel) {
  if (kernel.verdict == Verdict::kViolated || kernel.state == KernelState::kGuarded) {
    return {Verdict::kViolated, kernel.name + " is " + std::string(Name(kernel.state))};
  }
  if (now.silent) return {Verdict::kError, "the evaluator is silent; the last route is held"};
  if (kernel.verdict == Verdict::kError) return {Verdict::kError, "the evidence is broken"};
  if (now.view->log_failed) {
    return {Verdict::kInconclusive, "the decision log cannot be written: " + now.view->log_error};
  }
  const EvidenceAge age = now.EvidenceOf(kernel.name);
  if (age.stale) return {Verdict::kInconclusive, WhyStale(age, now.at_ms)};
  if (kernel.verdict == Verdict::kSatisfied && kernel.audited > 0 && !kernel.pairs.empty()) {
    return {Verdict::kSatisfied, "every clause is certified on every slice"};
  }
  return {Verdict::kInconclusive,
          kernel.audited == 0 ? "no audited request yet" : "not every clause is certified yet"};
}

void WritePairs(const KernelStatus& kernel, JsonWriter* json) {
  json->Key("clauses").BeginArray();
  for (const PairStatus& pair : kernel.pairs) {
    json->BeginObject().Field("id", pair.clause).Field("slice", pair.slice);
    json->Field("verdict", Name(pair.verdict)).Field("value", pair.recent);
    json->Key("interval").Null().Field("threshold", pair.limit);
    json->Field("observations", pair.observations).Field("reason", pair.reason).EndObject();
  }
  json->EndArray();
}

void WriteEvidence(const GatewayNow& now, const KernelStatus& kernel, JsonWriter* json) {
  const auto tokens = now.view->tokens.find(kernel.name);
  json->Key("evidence").BeginObject().Field("requests", kernel.audited);
  json->Field("tokens", tokens == now.view->tokens.end() ? int64_t{0} : tokens->second);
  const EvidenceAge age = now.EvidenceOf(kernel.name);
  json->Key("newestAt");
  age.newest_ms ? json->Value(Timestamp(*age.newest_ms)) : json->Null();
  json->Key("ageSeconds");
  age.newest_ms ? json->Value(SecondsSince(*age.newest_ms, now.at_ms)) : json->Null();
  json->Field("stale", age.stale);
  json->Key("needed").BeginArray();
  for (const PairStatus& pair : kernel.pairs) {
    if (pair.verdict != Verdict::kInconclusive) continue;
    json->Value(pair.clause + " on " + pair.slice);
  }
  json->EndArray().EndObject();
}

}  // namespace

VerdictGiven VerdictOf(const GatewayNow& now, const VerdictAsked& asked) {
  const KernelStatus* kernel = now.FindKernel(KernelAsked(now, asked));
  const std::string nothing = WhyNothing(now, asked, kernel);
  const Judged judged = nothing.empty() ? Judge(now, *kernel) : Judged{Verdict::kError, nothing};
  const GatewayFacts& facts = *now.facts;
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("kccVerdict", kVerdictVersion).Key("contract").BeginObject();
  json.Field("name", facts.contract.name).Field("version", facts.contract.version);
  json.Field("digest", facts.contract.digest).EndObject();
  json.Field("stage", Name(facts.stage)).Field("verdict", Name(judged.verdict));
  json.Field("reason", judged.reason).Key("kernel");
  kernel == nullptr ? json.Null() : json.Value(kernel->name);
  json.Key("action");
  kernel != nullptr && kernel->action ? json.Value(Name(*kernel->action)) : json.Value("none");
  json.Key("health");
  kernel == nullptr ? json.Null() : json.Value(kernel->health);
  if (kernel != nullptr && nothing.empty()) {
    WriteEvidence(now, *kernel, &json);
    WritePairs(*kernel, &json);
  } else {
    json.Key("evidence").BeginObject().Field("requests", 0).Field("tokens", 0);
    json.Key("newestAt").Null().Key("ageSeconds").Null().Field("stale", false);
    json.Key("needed").BeginArray().EndArray().EndObject();
    json.Key("clauses").BeginArray().EndArray();
  }
  json.Field("seq", now.view->status.observations);
  json.Field("asOf", Timestamp(now.view->at_ms));
  return {judged.verdict, json.EndObject().Take()};
}

}  // namespace kcc
