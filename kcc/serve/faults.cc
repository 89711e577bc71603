#include "kcc/serve/faults.h"

#include <algorithm>
#include <array>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/lab/sampler.h"
#include "kcc/serve/body_reader.h"

namespace kcc {
namespace {

constexpr int64_t kWaitMsMax = 600'000;
constexpr int64_t kRequestsMax = int64_t{1} << 40;
// clang-format off
constexpr std::array<std::string_view, 11> kKeys = {
    "name", "where", "switches", "drift", "latency_ms", "stall", "status", "cut", "fingerprint",
    "burst", "seed"};
// clang-format on

// A request as a predicate sees it.
class RequestFields final : public FieldSource {
 public:
  explicit RequestFields(const GenerationRequest& request) : request_(request) {}

  FieldValue RequestField(std::string_view name) const override {
    if (name == "prompt_tokens") return static_cast<double>(request_.longest_prompt());
    if (name == "max_tokens") return static_cast<double>(request_.output_tokens_max);
    if (name == "temperature") return request_.sampling.temperature;
    if (name == "n") return static_cast<double>(request_.n);
    if (name == "stream") return request_.stream;
    if (name == "endpoint") return Name(request_.kind);
    if (name == "user" && !request_.user.empty()) return std::string_view(request_.user);
    if (name == "tags") return &request_.tags;
    const auto found = request_.metadata.find(name);
    if (found == request_.metadata.end()) return {};
    return std::string_view(found->second);
  }
  FieldValue TokenField(std::string_view) const override { return {}; }

 private:
  const GenerationRequest& request_;
};

void ReadWhere(BodyReader& body, FaultRule* rule) {
  const auto text = body.Text("where");
  if (!text) return;
  Result<Predicate> where = Predicate::Parse(*text);
  if (!where.has_value()) {
    return body.Fail("where", "column " + std::to_string(where.error().place().column) + ": " +
                                  where.error().message());
  }
  if (where->reads_token()) {
    return body.Fail("where", "a fault selects requests, and token.* fields are of tokens");
  }
  rule->where = std::move(*where);
}

void ReadDrift(BodyReader& body, FaultRule* rule) {
  const auto object = body.Object("drift");
  if (!object) return;
  BodyReader part(*object, "drift.");
  const std::string parameter = part.Text("parameter").value_or("");
  if (parameter == "noise") {
    rule->drift = FaultRule::Drift::kNoise;
  } else if (parameter == "temperature") {
    rule->drift = FaultRule::Drift::kTemperature;
  } else {
    part.Fail("parameter",
              "'drift.parameter' is noise (of the logits) or temperature (that divides them)");
  }
  const bool divides = rule->drift == FaultRule::Drift::kTemperature;
  const double low = divides ? 0.01 : 0;
  const double neutral = divides ? 1 : 0;
  rule->drift_from = part.Number("from", low, 100).value_or(neutral);
  rule->drift_to = part.Number("to", low, 100).value_or(rule->drift_from);
  rule->drift_requests =
      static_cast<uint64_t>(part.Integer("requests", 1, kRequestsMax).value_or(1));
  body.Take(part);
}

// {"after_chunks": 3, "ms": 1000}; none without the member.
std::optional<size_t> ReadAfter(BodyReader& body, std::string_view name, int* ms) {
  const auto object = body.Object(name);
  if (!object) return std::nullopt;
  BodyReader part(*object, std::string(name) + ".");
  const auto after = part.Integer("after_chunks", 0, kRequestsMax).value_or(0);
  if (ms != nullptr) *ms = static_cast<int>(part.Integer("ms", 1, kWaitMsMax).value_or(1000));
  body.Take(part);
  return static_cast<size_t>(after);
}

void ReadStatus(BodyReader& body, FaultRule* rule) {
  const auto object = body.Object("status");
  if (!object) return;
  BodyReader part(*object, "status.");
  rule->status = static_cast<int>(part.Integer("code", 400, 599).value_or(500));
  rule->status_rate = part.Number("rate", 0, 1).value_or(1);
  body.Take(part);
}

void ReadBurst(BodyReader& body, FaultRule* rule) {
  const auto object = body.Object("burst");
  if (!object) return;
  BodyReader part(*object, "burst.");
  rule->burst_on = static_cast<uint64_t>(part.Integer("on", 1, kRequestsMax).value_or(1));
  rule->burst_every = static_cast<uint64_t>(part.Integer("every", 1, kRequestsMax).value_or(1));
  if (!part.failed() && rule->burst_on > rule->burst_every) {
    part.Fail("on", "'burst.on' is at most 'burst.every'");
  }
  body.Take(part);
}

}  // namespace

std::optional<ApiError> ReadFaultRule(json::object object, const EngineFinder& engine,
                                      FaultRule* rule) {
  BodyReader body(object);
  for (const auto field : object) {
    if (std::find(kKeys.begin(), kKeys.end(), field.key) != kKeys.end()) continue;
    const auto nearest = NearestWord(field.key, kKeys);
    body.Fail(field.key, "a fault has no '" + std::string(field.key) + "'" +
                             (nearest ? "; did you mean '" + std::string(*nearest) + "'?" : ""));
  }
  rule->text = simdjson::minify(object);
  rule->name = body.Text("name").value_or("fault");
  ReadWhere(body, rule);
  ReadDrift(body, rule);
  rule->latency_ms = static_cast<int>(body.Integer("latency_ms", 0, kWaitMsMax).value_or(0));
  rule->stall_after = ReadAfter(body, "stall", &rule->stall_ms);
  rule->cut_after = ReadAfter(body, "cut", nullptr);
  ReadStatus(body, rule);
  rule->fingerprint = body.Text("fingerprint");
  ReadBurst(body, rule);
  rule->seed = static_cast<uint64_t>(body.Integer("seed", 0, kRequestsMax).value_or(0));
  // Last, since it makes an engine.
  const auto switches = body.Text("switches");
  if (switches && !body.failed()) {
    const Result<size_t> found = engine(*switches);
    if (found.has_value()) {
      rule->engine = *found;
    } else {
      body.Fail("switches", found.error().message());
    }
  }
  return body.error();
}

bool FaultRule::Apply(uint64_t ordinal, FaultPlan* plan) const {
  if (burst_on > 0 && ordinal % burst_every >= burst_on) return false;
  if (status != 0 && UniformAt(seed, ordinal) < status_rate) plan->status = status;
  if (engine) plan->engine = engine;
  if (drift != Drift::kNone) {
    const double done =
        std::min(1.0, static_cast<double>(ordinal) / static_cast<double>(drift_requests));
    const double value = drift_from + (drift_to - drift_from) * done;
    (drift == Drift::kNoise ? plan->change.noise : plan->change.temperature) = value;
    plan->change.seed = seed + 0x9e3779b97f4a7c15u * (ordinal + 1);
  }
  if (latency_ms > 0) plan->latency_ms = latency_ms;
  if (stall_after) {
    plan->stall_after = stall_after;
    plan->stall_ms = stall_ms;
  }
  if (cut_after) plan->cut_after = cut_after;
  if (fingerprint) plan->fingerprint = fingerprint;
  return true;
}

bool Faults::Set(FaultRule rule) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rules_, [&](const Active& active) { return active.rule.name == rule.name; });
  if (rules_.size() == kFaultsMax) return false;
  rules_.push_back({std::move(rule)});
  return true;
}

bool Faults::Clear(std::optional<std::string_view> name) {
  const std::lock_guard lock(mutex_);
  if (!name) {
    rules_.clear();
    return true;
  }
  return std::erase_if(rules_, [&](const Active& active) { return active.rule.name == *name; }) > 0;
}

std::string Faults::Json() const {
  const std::lock_guard lock(mutex_);
  JsonWriter json;
  json.BeginObject().Key("faults").BeginArray();
  for (const Active& active : rules_) {
    json.BeginObject().Field("name", active.rule.name).Key("rule").Raw(active.rule.text);
    json.Field("matched", active.matched).Field("applied", active.applied).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

FaultPlan Faults::Plan(const GenerationRequest& request, std::vector<std::string>* applied) {
  const RequestFields fields(request);
  FaultPlan plan;
  const std::lock_guard lock(mutex_);
  for (Active& active : rules_) {
    if (active.rule.where && !active.rule.where->Evaluate(fields)) continue;
    if (!active.rule.Apply(active.matched++, &plan)) continue;
    ++active.applied;
    applied->push_back(active.rule.name);
  }
  return plan;
}

}  // namespace kcc
