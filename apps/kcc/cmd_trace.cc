// kcc trace info, head and verify: what a trace holds, its first rows, whether its bytes are sound.
#include <cmath>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/request_schema.h"
#include "kcc/trace/request_set.h"

namespace kcc::cli {
namespace {

void Row(std::string_view name, const std::string& value, Console& console) {
  console.out << "  " << Shown(name) << std::string(name.size() < 14 ? 14 - name.size() : 1, ' ')
              << Shown(value) << '\n';
}

void WriteInfo(const TraceReader& trace, JsonWriter* json) {
  const TraceInfo& info = trace.info();
  json->Field("directory", trace.directory()).Field("identity", trace.identity());
  json->Field("kernelFingerprint", info.kernel_fingerprint);
  json->Field("modelDigest", info.model_digest).Field("vocabSize", info.vocab_size);
  json->Field("evidence", Name(info.evidence)).Field("semantics", Name(info.semantics));
  json->Field("path", Name(info.path)).Field("temperature", info.temperature);
  if (info.sampling_temperature) json->Field("samplingTemperature", *info.sampling_temperature);
  if (info.sampling_altered) json->Field("samplingAltered", true);
  json->Field("mode", Name(info.mode)).Field("sampledBy", Name(info.sampled_by));
  json->Key("declares").BeginObject();
  for (const auto& [name, value] : info.declares) json->Field(name, value);
  json->EndObject();
  json->Field("requests", trace.requests().size()).Field("tokens", trace.token_count());
  json->Field("files", trace.files().size()).Field("payloadBytes", trace.payload_bytes());
}

void PrintInfo(const TraceReader& trace, Console& console) {
  const TraceInfo& info = trace.info();
  console.out << Shown(trace.directory()) << '\n';
  Row("identity", trace.identity(), console);
  Row("kernel", info.kernel_fingerprint, console);
  Row("model", info.model_digest.empty() ? "not said" : info.model_digest, console);
  Row("evidence",
      std::string(Name(info.evidence)) + ", " + std::string(Name(info.semantics)) + " log-probs, " +
          std::string(Name(info.path)) + " path",
      console);
  const bool apart = info.sampling_temperature && *info.sampling_temperature != info.temperature;
  const std::string sampled =
      !apart ? ""
      : *info.sampling_temperature == 0
          ? ", tokens chosen greedily"
          : ", tokens sampled at " + ShortestNumber(*info.sampling_temperature);
  Row("temperature",
      ShortestNumber(info.temperature) + sampled +
          (info.sampling_altered ? ", not from the whole distribution" : ""),
      console);
  for (const auto& [name, value] : info.declares) Row(name, value, console);
  Row("mode", std::string(Name(info.mode)) + ", sampled by " + std::string(Name(info.sampled_by)),
      console);
  Row("vocabulary", std::to_string(info.vocab_size), console);
  Row("requests", std::to_string(trace.requests().size()), console);
  Row("tokens",
      std::to_string(trace.token_count()) + " in " + Counted(trace.files().size(), "file") + ", " +
          ReadableNumber(static_cast<double>(trace.payload_bytes()) / 1e6) + " MB",
      console);
}

// Records that do not keep to `kcc schema --trace`. They are kept and lose a value, so that the
// trace is sound and event_conformance below 1.
struct NotConforming {
  int64_t count = 0;
  std::string request;  // of the first
  std::string fault;
};

NotConforming FindNotConforming(const TraceReader& trace) {
  NotConforming found;
  for (const Request& request : trace.requests()) {
    const auto fault = SchemaFault(request);
    if (!fault) continue;
    if (found.count++ > 0) continue;
    found.request = request.id;
    found.fault = *fault;
  }
  return found;
}

Result<> PrintRows(const TraceReader& trace, int64_t rows, Console& console) {
  TokenCursor cursor(trace);
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginArray();
  if (!console.json) console.out << "request\tposition\ttoken\tlogprob\ttop\n";
  for (int64_t i = 0; i < std::min(rows, trace.token_count()); ++i) {
    KCC_TRY(const TokenEvidence* row, cursor.At(i));
    const std::string& id = trace.requests()[static_cast<size_t>(row->request)].id;
    if (console.json) {
      json.BeginObject().Field("request", id).Field("position", row->position);
      json.Field("token", row->token);
      if (!std::isnan(row->logprob)) json.Field("logprob", static_cast<double>(row->logprob));
      json.EndObject();
      continue;
    }
    console.out << Shown(id) << '\t' << row->position << '\t' << row->token << '\t'
                << (std::isnan(row->logprob) ? "-" : ReadableNumber(row->logprob));
    console.out << '\t';
    for (int32_t k = 0; k < std::min(row->top_k, 3); ++k) {
      console.out << (k > 0 ? " " : "") << row->top_ids[k] << ':'
                  << ReadableNumber(row->top_logprobs[k]);
    }
    console.out << '\n';
  }
  json.EndArray();
  if (console.json) console.out << json.Take();
  return {};
}

}  // namespace

int RunTraceInfo(const TraceOptions& options, Console& console) {
  const Result<TraceReader> trace = TraceReader::Open(options.directory);
  if (!trace.has_value()) return ReportError(trace.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject();
    WriteInfo(*trace, &json);
    json.EndObject();
    console.out << json.Take();
  } else {
    PrintInfo(*trace, console);
  }
  return kExitOk;
}

int RunTraceHead(const TraceOptions& options, Console& console) {
  const Result<TraceReader> trace = TraceReader::Open(options.directory);
  if (!trace.has_value()) return ReportError(trace.error(), console);
  const Result<> printed = PrintRows(*trace, options.rows, console);
  return printed.has_value() ? kExitOk : ReportError(printed.error(), console);
}

int RunTraceVerify(const TraceOptions& options, Console& console) {
  const Result<TraceReader> trace = TraceReader::Open(options.directory);
  if (!trace.has_value()) return ReportError(trace.error(), console);
  const Result<TraceReader::Verified> verified = trace->VerifyPayload();
  if (!verified.has_value()) return ReportError(verified.error(), console);
  const Result<RequestSet> set = RequestSet::Of(*trace);
  if (!set.has_value()) return ReportError(set.error(), console);
  const NotConforming wrong = FindNotConforming(*trace);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("identity", trace->identity());
    json.Field("payload", verified->payload_digest).Field("requestSet", set->Digest());
    json.Field("tokens", verified->tokens);
    json.Field("requestsWithoutTokens", verified->requests_without_tokens);
    json.Field("notConforming", wrong.count);
    if (wrong.count > 0) {
      json.Key("firstNotConforming").BeginObject().Field("request", wrong.request);
      json.Field("fault", wrong.fault).EndObject();
    }
    json.EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  console.out << Shown(options.directory) << ": " << Paint(Style::kGreen, "ok", console.colour_out)
              << ": " << Counted(static_cast<size_t>(verified->tokens), "token") << '\n';
  Row("identity", trace->identity(), console);
  Row("payload", verified->payload_digest, console);
  Row("requests", set->Digest(), console);
  if (wrong.count > 0) {
    Row("note",
        Counted(static_cast<size_t>(wrong.count), "record") + (wrong.count == 1 ? " does" : " do") +
            " not keep to kcc schema --trace; the first, '" + wrong.request + "': " + wrong.fault,
        console);
  }
  if (verified->requests_without_tokens > 0) {
    Row("note", std::to_string(verified->requests_without_tokens) + " requests have no token",
        console);
  }
  return kExitOk;
}

}  // namespace kcc::cli
