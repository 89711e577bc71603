#include "kcc/report/sarif.h"

#include <array>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

std::string_view LevelOf(ViolationLevel level) {
  constexpr std::array<std::string_view, 3> kWords = {"note", "warning", "error"};
  return kWords[static_cast<size_t>(level)];
}

// A relative reference (RFC 3986): what a path may not hold is percent-encoded.
std::string PathToUri(std::string_view path) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/!$&'()*+,;=@";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    if (kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      uri += '%';
      uri += kHex[byte >> 4];
      uri += kHex[byte & 15];
    }
  }
  return uri;
}

void WriteRule(const ClauseVerdict& clause, JsonWriter* json) {
  const double threshold = clause.slices.empty() ? 0 : clause.slices[0].threshold;
  json->BeginObject().Field("id", clause.id).Field("name", clause.metric);
  json->Key("shortDescription").BeginObject();
  json->Field("text", clause.metric + " " + BoundText(clause.bound, threshold));
  json->EndObject();
  json->Key("defaultConfiguration").BeginObject().Field("level", LevelOf(clause.level)).EndObject();
  json->Key("properties").BeginObject();
  json->Field("family", Name(clause.family)).Field("level", Name(clause.level));
  json->Field("action", Name(clause.action));
  json->EndObject().EndObject();
}

void WriteLocation(const ReportData& report, const ClauseVerdict& clause, JsonWriter* json) {
  if (report.contract.file.empty()) return;
  json->Key("locations").BeginArray().BeginObject().Key("physicalLocation").BeginObject();
  json->Key("artifactLocation").BeginObject();
  json->Field("uri", PathToUri(report.contract.file)).EndObject();
  if (clause.mark.line > 0) {
    json->Key("region").BeginObject().Field("startLine", clause.mark.line);
    if (clause.mark.column > 0) json->Field("startColumn", clause.mark.column);
    json->EndObject();
  }
  json->EndObject().EndObject().EndArray();
}

void WriteResult(const ReportData& report, size_t rule, const SliceVerdict& slice,
                 JsonWriter* json) {
  const ClauseVerdict& clause = report.judgement.clauses[rule];
  // Undecided is "open", and SARIF gives a level to failures alone (3.27.9, 3.27.10).
  const bool open = slice.verdict() == Verdict::kInconclusive;
  const bool error = slice.verdict() == Verdict::kError;
  json->BeginObject().Field("ruleId", clause.id).Field("ruleIndex", rule);
  json->Field("kind", open ? "open" : "fail");
  json->Field("level", open ? "none" : error ? "error" : LevelOf(clause.level));
  std::string message = clause.id + " is " +
                        (error ? "in error" : std::string(Name(slice.verdict()))) + " on slice " +
                        slice.slice + ": " + IntervalText(slice.value) + " against " +
                        BoundText(clause.bound, slice.threshold) + ".";
  if (!slice.about.reason.empty()) message += " " + slice.about.reason;
  json->Key("message").BeginObject().Field("text", OneLine(message)).EndObject();
  WriteLocation(report, clause, json);
  json->Key("partialFingerprints").BeginObject();
  json->Field("kccClauseSlice/v1", Sha256Of(clause.id + '\n' + slice.slice)).EndObject();
  json->Key("properties").BeginObject();
  json->Field("verdict", Name(slice.verdict())).Field("slice", slice.slice);
  json->EndObject().EndObject();
}

}  // namespace

std::string ReportSarif(const ReportData& report) {
  const std::vector<ClauseVerdict>& clauses = report.judgement.clauses;
  JsonWriter json;
  json.BeginObject();
  json.Field("$schema", "https://json.schemastore.org/sarif-2.1.0.json").Field("version", "2.1.0");
  json.Key("runs").BeginArray().BeginObject();
  json.Key("tool").BeginObject().Key("driver").BeginObject();
  json.Field("name", "kcc");
  if (!report.provenance.kcc.empty()) json.Field("version", report.provenance.kcc);
  json.Key("rules").BeginArray();
  for (const ClauseVerdict& clause : clauses) WriteRule(clause, &json);
  json.EndArray().EndObject().EndObject();
  json.Field("columnKind", "unicodeCodePoints");
  json.Key("results").BeginArray();
  for (size_t i = 0; i < clauses.size(); ++i) {
    for (const SliceVerdict& slice : clauses[i].slices) {
      if (slice.verdict() != Verdict::kSatisfied) WriteResult(report, i, slice, &json);
    }
  }
  json.EndArray().EndObject().EndArray().EndObject();
  return json.Take();
}

bool IsReportSarif(std::string_view bytes) {
  return WithoutBlanks(bytes).find("\"driver\":{\"name\":\"kcc\"") != std::string::npos;
}

}  // namespace kcc
