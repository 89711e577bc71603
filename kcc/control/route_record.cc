#include "kcc/control/route_record.h"

#include <algorithm>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/control/json_members.h"

namespace kcc {
namespace {

Result<JsonMembers> ParseMembers(json::parser& parser, std::string_view text) {
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("what is recorded is no object");
  return JsonMembers(object);
}

void WriteTexts(std::string_view key, const std::vector<std::string>& texts, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->Value(text);
  json->EndArray();
}

void WriteDocumentsOf(const PeerDocuments& documents, JsonWriter* json) {
  json->Field("contract", documents.contract).Field("policy", documents.policy);
  json->Field("stage", documents.stage).Field("model", documents.model);
}

PeerDocuments DocumentsIn(const JsonMembers& members) {
  return {members.Text("contract"), members.Text("policy"), members.Text("stage"),
          members.Text("model")};
}

std::string WithoutEnd(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

uint8_t PlaceOf(const std::string& name, const std::vector<std::string>& kernels) {
  const auto found = std::find(kernels.begin(), kernels.end(), name);
  if (name.empty() || found == kernels.end()) return kNoKernel;
  return static_cast<uint8_t>(found - kernels.begin());
}

}  // namespace

std::string DocumentsText(const PeerDocuments& documents) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  WriteDocumentsOf(documents, &json);
  return WithoutEnd(json.EndObject().Take());
}

std::string WhatDiffers(const std::string& theirs, const PeerDocuments& ours) {
  json::parser parser;
  const auto members = ParseMembers(parser, theirs);
  if (!members.has_value()) return "its documents cannot be read";
  const PeerDocuments other = DocumentsIn(*members);
  const auto differs = [](const char* what, const std::string& is, const std::string& here) {
    return std::string("it judges by the ") + what + " " + is + ", and this one by " + here;
  };
  if (other.contract != ours.contract) return differs("contract", other.contract, ours.contract);
  if (other.policy != ours.policy) return differs("monitor policy", other.policy, ours.policy);
  if (other.stage != ours.stage) return differs("clauses of stage", other.stage, ours.stage);
  if (other.model == ours.model) return {};
  return "it serves the model '" + other.model + "', and this one '" + ours.model + "'";
}

bool RouteRecord::SameRoute(const RouteRecord& other) const {
  return serves == other.serves && canary == other.canary && canary_share == other.canary_share &&
         allowed == other.allowed && guarded == other.guarded &&
         wished_canary == other.wished_canary && wished_share == other.wished_share &&
         panic == other.panic;
}

std::string RouteBody(const RouteRecord& record) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  WriteDocumentsOf(record.documents, &json);
  json.Field("gateway", record.gateway).Field("instance", record.instance);
  json.Field("term", record.term).Field("serves", record.serves).Field("canary", record.canary);
  json.Field("share", record.canary_share);
  WriteTexts("allowed", record.allowed, &json);
  WriteTexts("guarded", record.guarded, &json);
  json.Field("wishedCanary", record.wished_canary).Field("wishedShare", record.wished_share);
  json.Field("panic", record.panic).Field("reason", record.reason);
  json.Field("observations", record.observations).Field("head", record.head);
  return WithoutEnd(json.EndObject().Take());
}

Result<RouteRecord> ReadRouteBody(std::string_view body) {
  json::parser parser;
  KCC_TRY(const JsonMembers members, ParseMembers(parser, body));
  RouteRecord record;
  record.documents = DocumentsIn(members);
  record.gateway = members.Text("gateway");
  record.instance = members.Text("instance");
  record.term = members.Integer("term");
  record.serves = members.Text("serves");
  record.canary = members.Text("canary");
  record.canary_share = members.Number("share");
  record.allowed = members.Texts("allowed");
  record.guarded = members.Texts("guarded");
  record.wished_canary = members.Text("wishedCanary");
  record.wished_share = members.Number("wishedShare");
  record.panic = members.Truth("panic");
  record.reason = members.Text("reason");
  record.observations = members.Integer("observations");
  record.head = members.Text("head");
  const bool share = record.canary_share >= 0 && record.canary_share <= 1;
  if (record.documents.contract.empty() || record.term < 1 || !share) {
    return InvalidError("the recorded route is not one that a gateway writes");
  }
  return record;
}

RouteRecord RecordOf(const RoutePlan& plan, const MonitorStatus& status, const RouteWishes& wishes,
                     const std::vector<std::string>& kernels) {
  RouteRecord record;
  record.serves = plan.serves;
  record.canary = plan.canary;
  record.canary_share = plan.canary_share;
  record.panic = plan.panic;
  record.reason = plan.reason;
  record.wished_canary = wishes.canary;
  record.wished_share = wishes.canary_share;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if ((plan.allowed >> i & 1) != 0) record.allowed.push_back(kernels[i]);
  }
  // By the monitor, or by evidence that is in no log yet: then it may not serve, and is not barred.
  for (const KernelStatus& kernel : status.kernels) {
    const bool listed = PlaceOf(kernel.name, kernels) != kNoKernel && IsServable(kernel.role);
    const bool out = std::find(record.allowed.begin(), record.allowed.end(), kernel.name) ==
                     record.allowed.end();
    const bool guarded =
        kernel.state == KernelState::kGuarded || (out && !wishes.barred.contains(kernel.name));
    if (listed && guarded) record.guarded.push_back(kernel.name);
  }
  return record;
}

std::string LiveText(const LiveWords& live) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("auditShare", live.audit_share).Field("probed", live.probed);
  json.Field("probeShare", live.probe_share).Field("shadow", live.shadow);
  json.Field("evaluator", live.evaluator).Field("logError", live.log_error);
  return WithoutEnd(json.EndObject().Take());
}

Result<LiveWords> ReadLive(std::string_view text) {
  json::parser parser;
  KCC_TRY(const JsonMembers members, ParseMembers(parser, text));
  LiveWords live;
  live.audit_share = members.Number("auditShare");
  live.probed = members.Text("probed");
  live.probe_share = members.Number("probeShare");
  live.shadow = members.Text("shadow");
  live.evaluator = members.Text("evaluator");
  live.log_error = members.Text("logError");
  return live;
}

Result<RoutePlan> PlanOf(const RouteRecord& record, const LiveWords& live,
                         const std::vector<std::string>& kernels) {
  RoutePlan plan;
  for (const std::string& name : {record.serves, record.canary}) {
    if (name.empty() || PlaceOf(name, kernels) != kNoKernel) continue;
    return InvalidError("the route names the kernel '" + name + "', which this gateway has not");
  }
  plan.serves = record.serves;
  plan.canary = record.canary;
  plan.canary_share = record.canary_share;
  plan.panic = record.panic;
  plan.reason = record.reason;
  plan.audit_share = live.audit_share;
  plan.probed = live.probed;
  plan.probe_share = live.probe_share;
  plan.route = {.serves = PlaceOf(plan.serves, kernels),
                .canary = PlaceOf(plan.canary, kernels),
                .canary_share = ShareOf(plan.canary_share)};
  plan.sampling = {.audit_share = ShareOf(plan.audit_share),
                   .probed = PlaceOf(plan.probed, kernels),
                   .probe_share = ShareOf(plan.probe_share),
                   .shadow = PlaceOf(live.shadow, kernels)};
  for (const std::string& name : record.allowed) {
    const uint8_t place = PlaceOf(name, kernels);
    if (place != kNoKernel) plan.allowed |= uint64_t{1} << place;
  }
  return plan;
}

}  // namespace kcc
