#include "kcc/statement/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/sha256.h"
#include "kcc/report/report_json.h"
#include "kcc/statement/json_fields.h"
#include "kcc/statement/predicate_json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

// A conclusion from the rows, by the judge's rule: the gravest counts, and nothing judged shows
// nothing.
Verdict GravestOf(const std::vector<EvaluationRow>& rows) {
  if (rows.empty()) return Verdict::kInconclusive;
  Verdict gravest = Verdict::kSatisfied;
  for (const EvaluationRow& row : rows) gravest = std::max(gravest, row.verdict);
  return gravest;
}

void AddEvidence(std::string name, const std::string& digest, std::vector<NamedDigest>* list) {
  if (IsSha256(digest)) list->push_back({std::move(name), digest});
}

void MeasuredField(std::string_view key, double value, JsonWriter* json) {
  json->Key(key);
  if (std::isnan(value)) {
    json->Null();
  } else {
    json->Value(value == 0 ? 0.0 : value);
  }
}

void WriteRow(const EvaluationRow& row, JsonWriter* json) {
  json->BeginObject();
  json->Field("id", row.id).Field("slice", row.slice).Field("metric", row.metric);
  json->Field("bound", row.bound).Field("level", row.level).Field("hard", row.hard);
  json->Field("verdict", Name(row.verdict));
  MeasuredField("value", row.value.exact() ? row.value.lo : kNotMeasured, json);
  json->Key("interval");
  if (row.value.known()) {
    json->BeginArray().Value(row.value.lo).Value(row.value.hi).EndArray();
  } else {
    json->Null();
  }
  MeasuredField("threshold", row.threshold, json);
  json->Field("requests", row.count.requests).Field("tokens", row.count.tokens);
  json->EndObject();
}

void WriteKernel(std::string_view side, const EvaluatedKernel& kernel, JsonWriter* json) {
  json->Key(side).BeginObject();
  json->Field("fingerprint", kernel.fingerprint);
  json->Key("digest");
  WriteDigestSet(KernelDigest(kernel.fingerprint), json);
  if (IsSha256(kernel.model)) {
    json->Key("model");
    WriteDigestSet(kernel.model, json);
  }
  json->EndObject();
}

EvaluationRow ReadRow(const JsonFields& node) {
  EvaluationRow row;
  row.id = node.At("id").Text();
  row.slice = node.At("slice").Text();
  row.metric = node.At("metric").Text();
  row.bound = node.At("bound").Text();
  row.level = node.At("level").Text();
  row.hard = node.At("hard").Bool();
  const auto verdict = ParseVerdict(node.At("verdict").Text());
  if (!verdict) node.At("verdict").Fail("is not a verdict");
  row.verdict = verdict.value_or(Verdict::kError);
  if (node.Has("interval")) {
    const std::vector<JsonFields> ends = node.At("interval").Items();
    if (ends.size() == 2) {
      row.value = {ends[0].Number(), ends[1].Number()};
    } else {
      node.At("interval").Fail("is not a pair of numbers");
    }
  }
  row.threshold = node.At("threshold").Number();
  row.count = {node.At("requests").Count(), node.At("tokens").Count()};
  return row;
}

EvaluatedKernel ReadKernel(const JsonFields& node) {
  EvaluatedKernel kernel;
  kernel.fingerprint = node.At("fingerprint").Text();
  if (node.At("digest").Sha256() != KernelDigest(kernel.fingerprint)) {
    node.At("digest").Fail("is not the digest of the fingerprint");
  }
  if (node.Has("model")) kernel.model = node.At("model").Sha256();
  return kernel;
}

void ReadConclusion(const JsonFields& root, StatedEvaluation* evaluation) {
  const auto verdict = ParseVerdict(root.At("verdict").Text());
  if (!verdict) root.At("verdict").Fail("is not a verdict");
  evaluation->verdict = verdict.value_or(Verdict::kError);
  evaluation->health = root.At("health").Number();
  const std::vector<JsonFields> thresholds = root.At("thresholds").Items();
  if (thresholds.size() == 2) {
    evaluation->eta1 = thresholds[0].Number();
    evaluation->eta2 = thresholds[1].Number();
  } else {
    root.At("thresholds").Fail("is not a pair of numbers");
  }
  evaluation->action = root.At("action").Text();
  for (const JsonFields& row : root.At("clauses").Items()) {
    evaluation->rows.push_back(ReadRow(row));
  }
  const Verdict follows = GravestOf(evaluation->rows);
  if (verdict && follows != *verdict) {
    root.At("verdict").Fail("is '" + std::string(Name(*verdict)) + "', but the clauses make it '" +
                            std::string(Name(follows)) + "'");
  }
  if (root.At("passed").Bool() != evaluation->passed()) {
    root.At("passed").Fail("is not what the clauses say");
  }
}

}  // namespace

std::optional<Verdict> ParseVerdict(std::string_view word) {
  for (const Verdict verdict :
       {Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError, Verdict::kViolated}) {
    if (Name(verdict) == word) return verdict;
  }
  return std::nullopt;
}

bool StatedEvaluation::passed() const {
  return !rows.empty() && verdict == Verdict::kSatisfied &&
         std::all_of(rows.begin(), rows.end(),
                     [](const EvaluationRow& row) { return row.verdict == Verdict::kSatisfied; });
}

std::string KernelDigest(std::string_view fingerprint) {
  return IsSha256(fingerprint) ? std::string(fingerprint) : Sha256Of(fingerprint);
}

Result<StatedEvaluation> EvaluationOf(const ReportData& report, const EvaluationEvent& event) {
  // Through report.json and back: its reader draws every conclusion again, so that what is not
  // consistent is refused here whether it came from a file or from a program.
  auto checked = ReadReport(ReportJson(report, JsonWriter::Style::kCompact));
  if (!checked.has_value()) return std::move(checked.error());
  KCC_TRY_VOID(CheckTime(event.time_ms));
  KCC_TRY_VOID(CheckDigest(report.contract.digest, "the contract"));
  if (!event.triple.empty()) KCC_TRY_VOID(CheckDigest(event.triple, "the triple"));
  const Provenance& provenance = report.provenance;
  for (const KernelProvenance* kernel : {&provenance.train, &provenance.infer}) {
    if (kernel->fingerprint.empty()) {
      return InvalidError(std::string("the report names no fingerprint of the ") +
                          (kernel == &provenance.train ? "train" : "infer") +
                          " kernel, so a statement about it would be about any build");
    }
  }
  const Judgement& judgement = report.judgement;
  StatedEvaluation made;
  made.time_ms = event.time_ms;
  made.kcc = provenance.kcc;
  made.contract_name = report.contract.name;
  made.contract_version = report.contract.version;
  made.contract_digest = report.contract.digest;
  made.triple = event.triple;
  made.stage = Name(judgement.stage);
  made.about = Name(judgement.about);
  made.confidence = judgement.confidence;
  made.verdict = judgement.verdict;
  made.health = judgement.health;
  made.eta1 = judgement.eta1;
  made.eta2 = judgement.eta2;
  made.action = ActionText(judgement);
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      made.rows.push_back({clause.id, slice.slice, clause.metric, std::string(Name(clause.bound)),
                           std::string(Name(clause.level)), clause.hard, slice.verdict(),
                           slice.value, slice.threshold, slice.count});
    }
  }
  made.train = {provenance.train.fingerprint, provenance.train.model};
  made.infer = {provenance.infer.fingerprint, provenance.infer.model};
  AddEvidence("report.json", event.report_digest, &made.evidence);
  AddEvidence("plan", provenance.plan, &made.evidence);
  AddEvidence("trace/train", provenance.train.trace, &made.evidence);
  AddEvidence("trace/infer", provenance.infer.trace, &made.evidence);
  for (const NamedDigest& further : event.evidence) {
    KCC_TRY_VOID(CheckDigest(further.digest, "the evidence '" + further.name + "'"));
    made.evidence.push_back(further);
  }
  made.warnings = judgement.warnings;
  return made;
}

std::vector<NamedDigest> SubjectsOf(const StatedEvaluation& evaluation) {
  std::vector<NamedDigest> subjects;
  AddEvidence("triple", evaluation.triple, &subjects);
  AddEvidence("contract/" + evaluation.contract_name + "@" + evaluation.contract_version,
              evaluation.contract_digest, &subjects);
  AddEvidence("model/train", evaluation.train.model, &subjects);
  AddEvidence("model/infer", evaluation.infer.model, &subjects);
  AddEvidence("kernel/train", KernelDigest(evaluation.train.fingerprint), &subjects);
  AddEvidence("kernel/infer", KernelDigest(evaluation.infer.fingerprint), &subjects);
  return subjects;
}

Result<Statement> EvaluationStatement(const StatedEvaluation& evaluation) {
  KCC_TRY_VOID(CheckTime(evaluation.time_ms));
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Field("time", FormatTimestamp(evaluation.time_ms)).Field("kcc", evaluation.kcc);
  json.Key("contract").BeginObject();
  json.Field("name", evaluation.contract_name).Field("version", evaluation.contract_version);
  json.Key("digest");
  WriteDigestSet(evaluation.contract_digest, &json);
  json.EndObject();
  if (!evaluation.triple.empty()) {
    json.Key("triple");
    WriteDigestSet(evaluation.triple, &json);
  }
  json.Field("stage", evaluation.stage).Field("about", evaluation.about);
  json.Field("confidence", evaluation.confidence);
  json.Field("verdict", Name(evaluation.verdict)).Field("passed", evaluation.passed());
  MeasuredField("health", evaluation.health, &json);
  json.Key("thresholds").BeginArray().Value(evaluation.eta1).Value(evaluation.eta2).EndArray();
  json.Field("action", evaluation.action);
  json.Key("clauses").BeginArray();
  for (const EvaluationRow& row : evaluation.rows) WriteRow(row, &json);
  json.EndArray();
  json.Key("kernels").BeginObject();
  WriteKernel("train", evaluation.train, &json);
  WriteKernel("infer", evaluation.infer, &json);
  json.EndObject();
  WriteNamedDigests("evidence", evaluation.evidence, &json);
  json.Key("warnings").BeginArray();
  for (const std::string& warning : evaluation.warnings) json.Value(warning);
  json.EndArray().EndObject();
  return Statement{SubjectsOf(evaluation), std::string(kEvaluationType), TakePredicate(&json)};
}

Result<StatedEvaluation> ReadEvaluation(std::string_view predicate) {
  json::parser parser;
  KCC_TRY(const json::element element, ParseJson(parser, predicate));
  std::string problem;
  const JsonFields root(element, "predicate", &problem);
  StatedEvaluation evaluation;
  evaluation.time_ms = root.At("time").Time();
  evaluation.kcc = root.At("kcc").Text();
  const JsonFields contract = root.At("contract");
  evaluation.contract_name = contract.At("name").Text();
  evaluation.contract_version = contract.At("version").Text();
  evaluation.contract_digest = contract.At("digest").Sha256();
  if (root.Has("triple")) evaluation.triple = root.At("triple").Sha256();
  evaluation.stage = root.At("stage").Text();
  evaluation.about = root.At("about").Text();
  evaluation.confidence = root.At("confidence").Number();
  ReadConclusion(root, &evaluation);
  evaluation.train = ReadKernel(root.At("kernels").At("train"));
  evaluation.infer = ReadKernel(root.At("kernels").At("infer"));
  for (const JsonFields& item : root.At("evidence").Items()) {
    evaluation.evidence.push_back({item.At("name").Text(), item.At("digest").Sha256()});
  }
  for (const JsonFields& item : root.At("warnings").Items()) {
    evaluation.warnings.push_back(item.Text());
  }
  if (!problem.empty()) return InvalidError("not an evaluation: " + problem);
  return evaluation;
}

}  // namespace kcc
