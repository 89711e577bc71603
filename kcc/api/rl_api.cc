// RL diagnostics, corrections, lint, replay and dialects through the C interface.
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/sized.h"
#include "kcc/base/json_writer.h"
#include "kcc/format/json.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/lint.h"
#include "kcc/rl/lint_settings.h"
#include "kcc/rl/replay.h"
#include "kcc/rl/rl_metrics.h"
#include "kcc/rl/rl_version1.h"

namespace kcc::api {
namespace {

Result<RlArray> ArrayOf(const kcc_array& from, int64_t columns, const char* name) {
  RlArray array;
  array.data = from.data;
  if (from.data == nullptr) return array;
  if (from.row_stride < 0) return InvalidError(std::string(name) + ": row_stride is negative");
  array.row_stride = from.row_stride == 0 ? columns : from.row_stride;
  switch (from.dtype) {
    case KCC_F32:
      array.type = RlType::kF32;
      return array;
    case KCC_F64:
      array.type = RlType::kF64;
      return array;
    case KCC_U8:
      array.type = RlType::kU8;
      return array;
    case KCC_I32:
      array.type = RlType::kI32;
      return array;
    case KCC_I64:
      array.type = RlType::kI64;
      return array;
    default:
      return InvalidError(std::string(name) +
                          ": must be F32, F64, U8, I32 or I64; widen half precision first");
  }
}

// A batch and what it points to.
struct OwnedBatch {
  RlBatch batch;
  std::vector<std::string> slice_names;
};

Result<> TakeSlices(const kcc_rl_batch& from, OwnedBatch* owned) {
  if (from.slice_count < 0) return InvalidError("slice_count must not be negative");
  if (from.slice_of_row == nullptr) return {};
  KCC_TRY_VOID(RequirePointer(from.slice_names, "slice_names"));
  for (int32_t i = 0; i < from.slice_count; ++i) {
    KCC_TRY_VOID(RequirePointer(from.slice_names[i], "slice_names[i]"));
    owned->slice_names.emplace_back(from.slice_names[i]);
  }
  owned->batch.slice_of_row = {from.slice_of_row, static_cast<size_t>(from.rows)};
  owned->batch.slice_names = owned->slice_names;
  return {};
}

Result<> TakeBatch(const kcc_rl_batch* given, OwnedBatch* owned) {
  KCC_TRY_VOID(RequirePointer(given, "batch"));
  KCC_TRY(const kcc_rl_batch from, Sized(given, kRlBatchFirstSize, "kcc_rl_batch"));
  constexpr int64_t kElementsMax = std::numeric_limits<int64_t>::max() / 16;
  if (from.rows < 0 || from.columns < 0 ||
      (from.columns > 0 && from.rows > kElementsMax / from.columns)) {
    return InvalidError("rows and columns must not be negative nor overflow: " +
                        std::to_string(from.rows) + " x " + std::to_string(from.columns));
  }
  RlBatch& batch = owned->batch;
  batch.rows = from.rows;
  batch.columns = from.columns;
  if (from.offsets != nullptr) {
    batch.offsets = {from.offsets, static_cast<size_t>(from.rows) + 1};
  }
  KCC_TRY(batch.train, ArrayOf(from.train, from.columns, "train"));
  KCC_TRY(batch.rollout, ArrayOf(from.rollout, from.columns, "rollout"));
  KCC_TRY(batch.old, ArrayOf(from.old_logprobs, from.columns, "old_logprobs"));
  KCC_TRY(batch.mask, ArrayOf(from.mask, from.columns, "mask"));
  batch.advantage_per_row = from.advantage_per_row != 0;
  KCC_TRY(batch.advantages,
          ArrayOf(from.advantages, batch.advantage_per_row ? 1 : from.columns, "advantages"));
  KCC_TRY_VOID(TakeSlices(from, owned));
  return CheckRlBatch(batch);
}

size_t Elements(const RlBatch& batch) {
  const int64_t count = batch.packed() ? batch.offsets.back() : batch.rows * batch.columns;
  return static_cast<size_t>(count);
}

Result<std::vector<RlClause>> ParseLimits(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const Result<simdjson::dom::element> parsed = ParseJson(parser, text);
  if (!parsed.has_value() || parsed->get(object) != simdjson::SUCCESS) {
    return InvalidError("limits: must be a JSON object such as {\"token.tv\": 0.01}");
  }
  std::vector<RlClause> clauses;
  for (const auto& [key, value] : object) {
    RlClause clause{std::string(key), 0, false};
    simdjson::dom::element number = value;
    if (value.is_object()) {
      clause.at_least = value["atLeast"].get(number) == simdjson::SUCCESS;
      if (!clause.at_least && value["atMost"].get(number) != simdjson::SUCCESS) number = value;
    }
    if (number.get(clause.threshold) != simdjson::SUCCESS) {
      return InvalidError("limits: '" + std::string(key) +
                          "' must be a number, or {\"atLeast\": number}");
    }
    clauses.push_back(std::move(clause));
  }
  return clauses;
}

// Corrects; with a summary, diagnoses in the same visit.
Result<> Correct(const kcc_rl_batch* batch, const char* correction, int threads, float* weights,
                 uint8_t* mask, RlSummary* summary, kcc_text* figures) {
  KCC_TRY_VOID(RequirePointer(correction, "correction"));
  OwnedBatch owned;
  KCC_TRY_VOID(TakeBatch(batch, &owned));
  KCC_TRY(const RlCorrection parsed, ParseCorrection(correction));
  KCC_TRY(const int count, ThreadCount(threads));
  RlCorrectOutput output;
  const size_t elements = Elements(owned.batch);
  if (weights != nullptr) output.weights = {weights, elements};
  if (mask != nullptr) output.mask = {mask, elements};
  RlSummary added;
  KCC_TRY(const auto result, summary == nullptr
                                 ? CorrectRl(owned.batch, parsed, output, count)
                                 : StepRl(owned.batch, parsed, output, count, &added));
  // The text before the summary: what can still fail comes before what cannot be taken back.
  kcc_text text{};
  if (figures != nullptr) KCC_TRY_VOID(GiveText(rl_version1::CorrectionFiguresJson(result), &text));
  const std::unique_ptr<kcc_text, decltype(&kcc_text_free)> unless_given(&text, kcc_text_free);
  if (summary != nullptr) summary->Merge(std::move(added));
  if (figures != nullptr) *figures = std::exchange(text, {});
  return {};
}

Result<std::string> AllFigures(const RlSummary& summary, double confidence) {
  RlReportOptions options;
  options.confidence = confidence;
  JsonWriter json;
  KCC_TRY(const RlMetrics all, summary.Metrics(options));
  json.BeginObject().Key("").Raw(rl_version1::FiguresJson(all));
  for (const std::string& slice : summary.slices()) {
    KCC_TRY(const RlMetrics figures, summary.Metrics(slice, options));
    json.Key(slice).Raw(rl_version1::FiguresJson(figures));
  }
  json.EndObject();
  return json.Take();
}

}  // namespace
}  // namespace kcc::api

using kcc::InvalidError;
using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_rl_summary_new(kcc_rl_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(out, "out"));
    *out = std::make_unique<kcc_rl_summary>().release();
    return {};
  });
}

kcc_status kcc_rl_summary_add(kcc_rl_summary* summary, const kcc_rl_batch* batch, int threads) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    OwnedBatch owned;
    KCC_TRY_VOID(TakeBatch(batch, &owned));
    KCC_TRY(const int count, ThreadCount(threads));
    return summary->summary.Add(owned.batch, count);
  });
}

kcc_status kcc_rl_summary_merge(kcc_rl_summary* into, const kcc_rl_summary* from) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(into, "into"));
    KCC_TRY_VOID(RequirePointer(from, "from"));
    into->summary.Merge(from->summary);
    return {};
  });
}

kcc_status kcc_rl_summary_encode(const kcc_rl_summary* summary, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    return GiveText(summary->summary.Serialize(), out);
  });
}

kcc_status kcc_rl_summary_decode(const char* bytes, size_t size, kcc_rl_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(bytes, "bytes"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    KCC_TRY(kcc::RlSummary summary, kcc::RlSummary::Parse({bytes, size}));
    *out = std::make_unique<kcc_rl_summary>(kcc_rl_summary{std::move(summary)}).release();
    return {};
  });
}

kcc_status kcc_rl_summary_figures(const kcc_rl_summary* summary, double confidence, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    if (!(confidence > 0 && confidence < 1)) return InvalidError("confidence must be in (0, 1)");
    KCC_TRY(const std::string figures, AllFigures(summary->summary, confidence));
    return GiveText(figures, out);
  });
}

kcc_status kcc_rl_summary_judge(const kcc_rl_summary* summary, const char* limits,
                                double confidence, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    KCC_TRY_VOID(RequirePointer(limits, "limits"));
    if (!(confidence > 0 && confidence < 1)) return InvalidError("confidence must be in (0, 1)");
    KCC_TRY(const std::vector<kcc::RlClause> parsed, ParseLimits(limits));
    kcc::RlReportOptions options;
    options.confidence = confidence;
    KCC_TRY(const kcc::RlMetrics figures, summary->summary.Metrics(options));
    KCC_TRY(const std::vector<kcc::RlClauseVerdict> verdicts, kcc::JudgeRl(figures, parsed));
    return GiveText(kcc::rl_version1::JudgementsJson(verdicts), out);
  });
}

void kcc_rl_summary_free(kcc_rl_summary* summary) { delete summary; }

kcc_status kcc_rl_correct(const kcc_rl_batch* batch, const char* correction, int threads,
                          float* weights, uint8_t* mask, kcc_text* figures) {
  return Guard([&]() -> Result<> {
    return Correct(batch, correction, threads, weights, mask, nullptr, figures);
  });
}

kcc_status kcc_rl_step(kcc_rl_summary* summary, const kcc_rl_batch* batch, const char* correction,
                       int threads, float* weights, uint8_t* mask, kcc_text* figures) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    return Correct(batch, correction, threads, weights, mask, &summary->summary, figures);
  });
}

kcc_status kcc_rl_lint(const kcc_rl_batch* batch, kcc_text* out) {
  return Guard([&]() -> Result<> {
    OwnedBatch owned;
    KCC_TRY_VOID(TakeBatch(batch, &owned));
    KCC_TRY(const kcc::RlLintReport report, kcc::LintRl(owned.batch));
    return GiveText(kcc::rl_version1::LintJson(report), out);
  });
}

kcc_status kcc_rl_lint_correction(const kcc_rl_batch* batch, const char* correction, int threads,
                                  kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(correction, "correction"));
    OwnedBatch owned;
    KCC_TRY_VOID(TakeBatch(batch, &owned));
    KCC_TRY(const kcc::RlCorrection parsed, kcc::ParseCorrection(correction));
    KCC_TRY(const int count, ThreadCount(threads));
    KCC_TRY(const kcc::RlLintReport report, kcc::LintRl(owned.batch));
    KCC_TRY(const std::vector<kcc::RlSettingFinding> settings,
            kcc::LintCorrection(owned.batch, parsed, count));
    return GiveText(kcc::rl_version1::LintJson(report, &settings), out);
  });
}

kcc_status kcc_rl_replay(const kcc_rl_batch* batch, int threads, const char* format,
                         kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(format, "format"));
    const std::string_view wanted = format;
    if (wanted != "json" && wanted != "html") {
      return InvalidError("format: '" + std::string(wanted) + "' is neither json nor html");
    }
    OwnedBatch owned;
    KCC_TRY_VOID(TakeBatch(batch, &owned));
    kcc::RlReplayOptions options;
    options.kept_min = 0.5;  // what version 1 has always recommended by
    options.masked_is_lost = false;
    KCC_TRY(options.threads, ThreadCount(threads));
    const std::vector<kcc::RlCorrection> grid = kcc::ReplayGrid();
    KCC_TRY(const kcc::RlReplay replay, kcc::ReplayRl(owned.batch, grid, options));
    return GiveText(
        wanted == "json" ? kcc::rl_version1::ReplayJson(replay) : kcc::ReplayHtml(replay, "replay"),
        out);
  });
}

kcc_status kcc_rl_dialect_run(const char* dialect, const char* function, const kcc_rl_batch* batch,
                              const char* options, kcc_rl_dialect** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(dialect, "dialect"));
    KCC_TRY_VOID(RequirePointer(out, "out"));
    OwnedBatch owned;
    KCC_TRY_VOID(TakeBatch(batch, &owned));
    KCC_TRY(kcc::DialectResult result,
            kcc::RunDialect(dialect, function == nullptr ? "" : function, owned.batch, {},
                            options == nullptr ? "{}" : options));
    *out = std::make_unique<kcc_rl_dialect>(kcc_rl_dialect{std::move(result)}).release();
    return {};
  });
}

kcc_status kcc_rl_dialect_metrics(const kcc_rl_dialect* result, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(result, "result"));
    kcc::JsonWriter json;
    json.BeginObject();
    for (const auto& [name, value] : result->result.metrics) json.Field(name, value);
    json.EndObject();
    return GiveText(json.Take(), out);
  });
}

kcc_status kcc_rl_dialect_array(const kcc_rl_dialect* result, const char* name,
                                const double** values, const int64_t** offsets, int64_t* rows) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(result, "result"));
    KCC_TRY_VOID(RequirePointer(name, "name"));
    KCC_TRY_VOID(RequirePointer(values, "values"));
    const kcc::DialectArray* array = result->result.Array(name);
    if (array == nullptr) {
      std::string known;
      for (const kcc::DialectArray& each : result->result.arrays) known += " " + each.name;
      return InvalidError("no array '" + std::string(name) + "'; there are:" + known);
    }
    *values = array->values.data();
    if (offsets != nullptr) *offsets = array->offsets.data();
    if (rows != nullptr) *rows = static_cast<int64_t>(array->offsets.size()) - 1;
    return {};
  });
}

void kcc_rl_dialect_free(kcc_rl_dialect* result) { delete result; }

}  // extern "C"
