#include "kcc/statement/generic_predicates.h"

#include <algorithm>

#include "kcc/statement/predicate_json.h"
#include "kcc/statement/timestamp.h"

namespace kcc {
namespace {

// A scheme and more behind it, without blanks: enough to tell a URI from a slip.
bool LooksLikeUri(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == text.size()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

std::string ContractUri(const StatedEvaluation& evaluation) {
  return "kcc:contract/" + evaluation.contract_name + "@" + evaluation.contract_version;
}

std::string LevelOf(const StatedEvaluation& evaluation) {
  if (!evaluation.passed()) return "FAILED";
  std::string level = "KCC_" + evaluation.stage;
  for (char& c : level) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return level;
}

}  // namespace

Result<Statement> VsaStatement(const StatedEvaluation& evaluation, const VsaSettings& settings) {
  for (const std::string* uri : {&settings.verifier, &settings.resource}) {
    if (LooksLikeUri(*uri)) continue;
    return InvalidError("'" + *uri +
                        "' is not a URI, and a verification summary needs one for its " +
                        (uri == &settings.verifier ? "verifier" : "resource"));
  }
  KCC_TRY_VOID(CheckTime(evaluation.time_ms));
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Key("verifier").BeginObject().Field("id", settings.verifier).EndObject();
  json.Field("timeVerified", FormatTimestamp(evaluation.time_ms));
  json.Field("resourceUri", settings.resource);
  json.Key("policy").BeginObject();
  json.Field("uri", ContractUri(evaluation));
  json.Key("digest");
  WriteDigestSet(evaluation.contract_digest, &json);
  json.EndObject();
  if (!settings.input.digest.empty()) {
    KCC_TRY_VOID(CheckDigest(settings.input.digest, "the evaluation's envelope"));
    json.Key("inputAttestations").BeginArray().BeginObject();
    json.Field("uri", settings.input.name);
    json.Key("digest");
    WriteDigestSet(settings.input.digest, &json);
    json.EndObject().EndArray();
  }
  json.Field("verificationResult", evaluation.passed() ? "PASSED" : "FAILED");
  json.Key("verifiedLevels").BeginArray().Value(LevelOf(evaluation)).EndArray();
  json.Field("slsaVersion", "1.0");
  json.EndObject();
  return Statement{SubjectsOf(evaluation), std::string(kSlsaVsaType), TakePredicate(&json)};
}

Result<Statement> TestResultStatement(const StatedEvaluation& evaluation) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject();
  json.Field("result", !evaluation.passed()           ? "FAILED"
                       : !evaluation.warnings.empty() ? "WARNED"
                                                      : "PASSED");
  json.Key("configuration").BeginArray().BeginObject();
  json.Field("name", evaluation.contract_name + "@" + evaluation.contract_version);
  json.Field("uri", ContractUri(evaluation));
  json.Key("digest");
  WriteDigestSet(evaluation.contract_digest, &json);
  json.EndObject().EndArray();
  const auto list = [&](std::string_view key, bool satisfied) {
    json.Key(key).BeginArray();
    for (const EvaluationRow& row : evaluation.rows) {
      if ((row.verdict == Verdict::kSatisfied) == satisfied) json.Value(row.id + "/" + row.slice);
    }
    json.EndArray();
  };
  list("passedTests", true);
  json.Key("warnedTests").BeginArray().EndArray();
  list("failedTests", false);
  json.EndObject();
  return Statement{SubjectsOf(evaluation), std::string(kTestResultType), TakePredicate(&json)};
}

}  // namespace kcc
