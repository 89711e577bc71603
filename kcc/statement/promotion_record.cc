#include "kcc/statement/promotion_record.h"

#include "kcc/statement/json_fields.h"
#include "kcc/statement/predicate_json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

NamedDigest ReadNamed(const JsonFields& node) {
  return {node.At("name").Text(), node.At("digest").Sha256()};
}

Result<> CheckRecord(const PromotionRecord& record) {
  KCC_TRY_VOID(CheckTime(record.time_ms));
  KCC_TRY_VOID(CheckDigest(record.triple, "the triple"));
  KCC_TRY_VOID(CheckDigest(record.contract.digest, "the contract"));
  KCC_TRY_VOID(CheckDigest(record.policy.digest, "the policy"));
  if (!record.incumbent.empty()) KCC_TRY_VOID(CheckDigest(record.incumbent, "the incumbent"));
  for (const NamedDigest& evaluation : record.evaluations) {
    KCC_TRY_VOID(CheckDigest(evaluation.digest, "the evaluation '" + evaluation.name + "'"));
  }
  for (const RecordedApproval& approval : record.approvals) {
    KCC_TRY_VOID(CheckTime(approval.time_ms));
  }
  return {};
}

}  // namespace

Result<Statement> PromotionStatement(const PromotionRecord& record) {
  KCC_TRY_VOID(CheckRecord(record));
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Field("time", FormatTimestamp(record.time_ms)).Field("kcc", record.kcc);
  json.Field("promotion", record.promotion).Field("sequence", record.sequence);
  json.Field("step", record.step).Field("from", record.from).Field("to", record.to);
  json.Key("triple");
  WriteDigestSet(record.triple, &json);
  if (!record.incumbent.empty()) {
    json.Key("incumbent");
    WriteDigestSet(record.incumbent, &json);
  }
  json.Key("contract");
  WriteNamedDigest(record.contract, &json);
  json.Key("policy");
  WriteNamedDigest(record.policy, &json);
  WriteNamedDigests("evaluations", record.evaluations, &json);
  json.Key("approvals").BeginArray();
  for (const RecordedApproval& approval : record.approvals) {
    json.BeginObject();
    json.Field("by", approval.by).Field("time", FormatTimestamp(approval.time_ms));
    if (!approval.note.empty()) json.Field("note", approval.note);
    json.EndObject();
  }
  json.EndArray();
  json.Field("reason", record.reason);
  json.EndObject();
  std::vector<NamedDigest> subjects = {{"triple", record.triple},
                                       {"contract/" + record.contract.name, record.contract.digest},
                                       {"policy/" + record.policy.name, record.policy.digest}};
  if (!record.incumbent.empty()) subjects.push_back({"incumbent", record.incumbent});
  return Statement{std::move(subjects), std::string(kPromotionType), TakePredicate(&json)};
}

Result<PromotionRecord> ReadPromotionRecord(std::string_view predicate) {
  json::parser parser;
  KCC_TRY(const json::element element, ParseJson(parser, predicate));
  std::string problem;
  const JsonFields root(element, "predicate", &problem);
  PromotionRecord record;
  record.time_ms = root.At("time").Time();
  record.kcc = root.At("kcc").Text();
  record.promotion = root.At("promotion").Text();
  record.sequence = root.At("sequence").Count();
  record.step = root.At("step").Text();
  record.from = root.At("from").Text();
  record.to = root.At("to").Text();
  record.triple = root.At("triple").Sha256();
  if (root.Has("incumbent")) record.incumbent = root.At("incumbent").Sha256();
  record.contract = ReadNamed(root.At("contract"));
  record.policy = ReadNamed(root.At("policy"));
  for (const JsonFields& item : root.At("evaluations").Items()) {
    record.evaluations.push_back(ReadNamed(item));
  }
  for (const JsonFields& item : root.At("approvals").Items()) {
    record.approvals.push_back({item.At("by").Text(), item.At("time").Time(), item.TextOr("note")});
  }
  record.reason = root.At("reason").Text();
  if (!problem.empty()) return InvalidError("not a promotion: " + problem);
  return record;
}

}  // namespace kcc
