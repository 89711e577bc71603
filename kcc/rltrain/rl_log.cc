#include "kcc/rltrain/rl_log.h"

#include <algorithm>
#include <array>
#include <map>

#include "kcc/base/json_writer.h"
#include "kcc/rl/rl_metrics.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 18> kLogged = {"token.mean_abs_log_ratio",
                                                      "token.mean_k1",
                                                      "token.mean_k2",
                                                      "token.mean_k3",
                                                      "token.mean_tv",
                                                      "token.mean_w",
                                                      "token.mean_chi2",
                                                      "token.ess",
                                                      "token.min_log_ratio",
                                                      "token.max_log_ratio",
                                                      "sequence.mean_k3",
                                                      "sequence.ess",
                                                      "skew.positive",
                                                      "skew.negative",
                                                      "skew.bias_bound",
                                                      "bit_equal_share",
                                                      "mismatch.mean_k3",
                                                      "staleness.mean_k3"};

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void WriteMetrics(const RlMetrics& metrics, JsonWriter* json) {
  json->Key("metrics").BeginObject();
  const std::vector<RlNamedMetric> all = NamedMetrics(metrics);
  for (const std::string_view name : kLogged) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const RlNamedMetric& each) { return each.name == name; });
    if (found != all.end()) json->Field(name, found->value);
  }
  json->EndObject();
}

void WriteCorrected(const RlCorrectionMetrics& f, JsonWriter* json) {
  json->Key("correction").BeginObject();
  json->Field("keptShare", Share(f.tokens_kept, f.tokens));
  json->Field("keptAnswers", Share(f.rows_kept, f.rows));
  json->Field("unitsOutside", f.units_outside).Field("meanWeight", f.mean_weight);
  json->Field("ess", f.ess).Field("biasToken", f.bias_token);
  json->Field("biasSequence", f.bias_sequence).Field("variance", f.variance).EndObject();
}

void WriteJudgement(const StepJudgement& judgement, JsonWriter* json) {
  json->Key("contract").BeginObject().Field("verdict", Name(judgement.verdict));
  json->Key("action");
  if (judgement.order) {
    json->Value(Name(*judgement.order));
  } else {
    json->Null();
  }
  json->Field("health", judgement.health).Key("clauses").BeginObject();
  for (const StepClause& clause : judgement.clauses) {
    json->Key(clause.id + "/" + clause.slice).BeginObject();
    json->Field("verdict", Name(clause.verdict)).Key("value");
    if (clause.value.known() && clause.value.exact()) {
      json->Value(clause.value.lo);
    } else if (clause.value.known()) {
      json->BeginArray().Value(clause.value.lo).Value(clause.value.hi).EndArray();
    } else {
      json->Null();
    }
    json->EndObject();
  }
  json->EndObject().EndObject();
}

}  // namespace

std::span<const std::string_view> LoggedMetrics() { return kLogged; }

std::string StepLine(const RlStepReport& report) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("step", report.step).Field("reward", report.reward);
  json.Field("answers", report.answers).Field("tokens", report.tokens);
  json.Field("groups", report.groups).Field("groupsScored", report.groups_scored);
  json.Field("tokensScored", report.tokens_scored).Field("rate", report.rate);
  json.Field("updated", report.updated);
  if (report.tokens_scored > 0) {
    json.Field("loss", report.loss).Field("valueLoss", report.value_loss);
    json.Field("gradientLength", report.gradient_length).Key("klToReference");
    if (report.kl_to_reference) {
      json.Value(*report.kl_to_reference);
    } else {
      json.Null();
    }
    json.Key("clip").BeginObject();
    json.Field("low", Share(report.clipped_low, report.tokens_scored));
    json.Field("high", Share(report.clipped_high, report.tokens_scored));
    json.Field("dual", Share(report.clipped_dual, report.tokens_scored)).EndObject();
    WriteMetrics(report.metrics, &json);
    WriteCorrected(report.correction, &json);
    if (report.judgement) WriteJudgement(*report.judgement, &json);
  }
  return json.EndObject().Take();
}

std::string HeldOutLine(const HeldOutReport& report, bool greedy) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("step", report.step).Field("problems", report.problems);
  json.Field("answers", greedy ? "greedy" : "sampled").Field("rewardTrain", report.reward_train);
  return json.Field("rewardInfer", report.reward_infer).EndObject().Take();
}

}  // namespace kcc
