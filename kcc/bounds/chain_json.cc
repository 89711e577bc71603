#include "kcc/bounds/chain_json.h"

#include <string_view>
#include <vector>

#include "kcc/base/json_writer.h"

namespace kcc {
namespace {

void WriteAssumptions(const BoundAssumptions& given, JsonWriter* json) {
  json->Key("assumptions").BeginObject().Field("temperature", given.temperature);
  if (given.reward_max) {
    const double r = *given.reward_max;
    json->Field("rewardMax", r);
    json->Field("rewardMin", given.reward_range == RewardRange::kZeroToR ? 0 : -r);
  }
  if (given.advantage_max) json->Field("advantageMax", *given.advantage_max);
  if (given.score_norm_max) json->Field("scoreNormMax", *given.score_norm_max);
  if (given.tokens) json->Field("tokensMax", *given.tokens);
  json->Field("advantages", Name(given.advantages));
  json->Field("weightMin", given.weights.low).Field("weightMax", given.weights.high);
  json->EndObject();
}

}  // namespace

std::string ForwardJson(DriftForm form, double value, const BoundAssumptions& assumptions) {
  const Chain chain = ForwardChain(form, value, assumptions);
  JsonWriter json;
  json.BeginObject().Field("kccBound", 1).Key("given").BeginObject();
  json.Field("quantity", CatalogName(form)).Field("atMost", value).EndObject();
  WriteAssumptions(assumptions, &json);
  json.Key("bounds").BeginObject();
  for (const ChainRow& row : chain.rows) {
    json.Key(row.name).BeginObject().Field("atMost", row.value).Field("formula", row.formula);
    if (row.textbook) {
      json.Field("textbook", *row.textbook).Field("textbookFormula", row.textbook_formula);
    }
    json.Field("what", row.what).EndObject();
  }
  json.EndObject().Key("missing").BeginArray();
  for (const std::string_view name : chain.missing) json.Value(name);
  json.EndArray().EndObject();
  return json.Take();
}

Result<std::string> BackwardJson(Tolerated what, double budget,
                                 const BoundAssumptions& assumptions) {
  KCC_TRY(const std::vector<ThresholdRow> rows, BackwardChain(what, budget, assumptions));
  JsonWriter json;
  json.BeginObject().Field("kccBound", 1).Key("tolerated").BeginObject();
  json.Field("quantity", Name(what)).Field("atMost", budget).EndObject();
  WriteAssumptions(assumptions, &json);
  json.Key("thresholds").BeginObject();
  for (const ThresholdRow& row : rows) {
    json.Key(row.quantity).BeginObject().Field("atMost", row.at_most);
    json.Field("metric", row.metric).Field("formula", row.formula).EndObject();
  }
  json.EndObject().EndObject();
  return json.Take();
}

}  // namespace kcc
