// Contracts through the C interface.
#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "kcc/api/document_errors.h"
#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/base/json_writer.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/reader.h"
#include "kcc/metric/metric.h"

namespace kcc::api {
namespace {

Result<std::unique_ptr<kcc_contract>> Make(ReadOutcome outcome, std::string_view text,
                                           const std::string& name) {
  if (!outcome.contract) return InvalidError(JoinErrors(outcome.diagnostics, name, text));
  return std::make_unique<kcc_contract>(kcc_contract{name, std::move(*outcome.contract)});
}

Result<std::string_view> TextOf(const char* yaml, size_t size) {
  KCC_TRY_VOID(RequirePointer(yaml, "yaml"));
  if (size > kContractBytesMax) return InvalidError("a contract is at most 4 MiB");
  return std::string_view(yaml, size);
}

std::string NameOr(const char* name) { return name == nullptr ? "contract" : name; }

// The metrics that the contract defines itself.
void DescribeMetrics(const Contract& contract, JsonWriter* json) {
  json->Key("metrics").BeginArray();
  for (const OwnDefinition& definition : contract.metrics) {
    const OwnMetric& metric = *definition.row->own;
    json->BeginObject().Field("name", metric.name).Field("of", Name(metric.of));
    json->Field("from", metric.from.Canonical()).Field("unit", Name(metric.unit));
    json->Field("direction", Name(metric.direction));
    if (std::isfinite(metric.min)) json->Field("min", metric.min);
    if (std::isfinite(metric.max)) json->Field("max", metric.max);
    json->Field("version", metric.version).Field("doc", definition.doc).EndObject();
  }
  json->EndArray();
}

std::string Describe(const Contract& contract) {
  JsonWriter json;
  json.BeginObject().Field("name", contract.name).Field("version", contract.version);
  json.Field("digest", ContractDigest(contract)).Key("slices").BeginArray();
  for (const Slice& slice : contract.slices) json.Value(slice.name);
  json.EndArray();
  DescribeMetrics(contract, &json);
  json.Key("clauses").BeginArray();
  for (const Clause& clause : contract.clauses) {
    json.BeginObject().Field("id", clause.id).Field("family", Name(clause.family));
    json.Field("metric", MetricName(clause.metric)).Field("bound", Name(clause.bound));
    json.Field("threshold", clause.threshold).Field("exceedance", clause.exceedance);
    json.Field("level", Name(clause.level)).Key("slices").BeginArray();
    for (const std::string& slice : clause.slices) json.Value(slice);
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace
}  // namespace kcc::api

using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_contract_parse(const char* yaml, size_t size, const char* name, kcc_contract** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY(const std::string_view text, TextOf(yaml, size));
    KCC_TRY(auto contract, Make(kcc::ReadContract(text), text, NameOr(name)));
    *out = contract.release();
    return {};
  });
}

kcc_status kcc_contract_read(const char* path, kcc_contract** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY_VOID(RequirePointer(path, "path"));
    KCC_TRY(kcc::ContractFile file, kcc::ReadContractFile(path));
    KCC_TRY(auto contract, Make(std::move(file.outcome), file.text, path));
    *out = contract.release();
    return {};
  });
}

kcc_status kcc_contract_json(const kcc_contract* contract, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(contract, "contract"));
    return GiveText(Describe(contract->contract), out);
  });
}

kcc_status kcc_contract_check(const char* yaml, size_t size, const char* name, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY(const std::string_view text, TextOf(yaml, size));
    const kcc::ReadOutcome outcome = kcc::ReadContract(text);
    kcc::JsonWriter json;
    json.BeginObject().Field("file", NameOr(name));
    json.Field("valid", outcome.contract.has_value()).Key("diagnostics");
    kcc::WriteDiagnostics(outcome.diagnostics, NameOr(name), &json);
    json.EndObject();
    return GiveText(json.Take(), out);
  });
}

void kcc_contract_free(kcc_contract* contract) { delete contract; }

}  // extern "C"
