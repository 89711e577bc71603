// Measuring, summaries and judging through the C interface.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/sized.h"
#include "kcc/api/version.h"
#include "kcc/drift/c_dtype.h"
#include "kcc/judge/judge.h"
#include "kcc/measure/measure.h"
#include "kcc/measure/measure_arrays.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/report_formats.h"
#include "kcc/summary/file.h"
#include "kcc/trace/requests.h"

namespace kcc::api {
namespace {

Plan PlanOf(const kcc_contract* contract, Plan::Breadth breadth = Plan::Breadth::kAll) {
  return contract == nullptr ? Plan::Default() : Plan::FromContract(contract->contract, breadth);
}

Result<DType> RequireDType(kcc_dtype dtype, const char* name) {
  if (const std::optional<DType> known = DTypeOf(dtype)) return *known;
  return InvalidError(std::string(name) + ": unknown dtype " + std::to_string(dtype));
}

Result<ArraySide> SideOf(const kcc_array& logits, const kcc_array& logprobs,
                         const char* fingerprint, const char* name) {
  ArraySide side;
  if (logits.row_stride < 0) return InvalidError(std::string(name) + ": row_stride is negative");
  side.logits = logits.data;
  KCC_TRY(side.logits_dtype, RequireDType(logits.dtype, name));
  side.logits_stride = logits.row_stride;
  side.logprobs = logprobs.data;
  KCC_TRY(side.logprobs_dtype, RequireDType(logprobs.dtype, name));
  if (fingerprint != nullptr) side.fingerprint = fingerprint;
  return side;
}

Result<std::vector<Request>> RequestsOf(std::string_view jsonl, int64_t count) {
  std::vector<Request> requests;
  int line_number = 0;
  while (!jsonl.empty()) {
    const size_t end = jsonl.find('\n');
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(end == std::string_view::npos ? jsonl.size() : end + 1);
    ++line_number;
    if (line.empty()) continue;
    Result<Request> request = ParseRequest(line);
    if (!request) return std::move(request.error()).At({"requests", line_number, 0});
    requests.push_back(std::move(*request));
  }
  if (static_cast<int64_t>(requests.size()) == count) return requests;
  return InvalidError("requests: " + std::to_string(requests.size()) + " lines for " +
                      std::to_string(count) + " requests");
}

template <class T>
std::span<const T> SpanOf(const T* data, int64_t size) {
  if (data == nullptr) return {};
  return {data, static_cast<size_t>(size)};
}

Result<> CheckRows(const kcc_arrays& arrays) {
  if (arrays.rows < 0 || arrays.requests < 0) {
    return InvalidError("rows and requests must not be negative");
  }
  KCC_TRY_VOID(
      RequirePointer(arrays.requests > 0 ? arrays.first_rows : &arrays.rows, "first_rows"));
  KCC_TRY_VOID(
      RequirePointer(arrays.requests > 0 ? arrays.row_counts : &arrays.rows, "row_counts"));
  KCC_TRY_VOID(RequirePointer(arrays.requests > 0 ? arrays.requests_jsonl : "", "requests_jsonl"));
  for (int64_t r = 0; r < arrays.requests; ++r) {
    const int64_t first = arrays.first_rows[r];
    const int64_t count = arrays.row_counts[r];
    if (first >= 0 && count >= 0 && first <= arrays.rows && count <= arrays.rows - first) continue;
    return InvalidError("request " + std::to_string(r) + ": rows " + std::to_string(first) + " + " +
                        std::to_string(count) + " are outside the arrays' " +
                        std::to_string(arrays.rows));
  }
  return {};
}

Result<Summary> MeasureFrom(const kcc_arrays& given, const kcc_contract* contract, int threads) {
  KCC_TRY(const kcc_arrays arrays, Sized(&given, kArraysFirstSize, "kcc_arrays"));
  KCC_TRY_VOID(CheckRows(arrays));
  ArrayPair pair;
  KCC_TRY(pair.train,
          SideOf(arrays.train_logits, arrays.train_logprobs, arrays.train_fingerprint, "train"));
  KCC_TRY(pair.infer,
          SideOf(arrays.infer_logits, arrays.infer_logprobs, arrays.infer_fingerprint, "infer"));
  KCC_TRY(const std::vector<Request> requests,
          RequestsOf({arrays.requests_jsonl == nullptr ? "" : arrays.requests_jsonl,
                      arrays.requests_jsonl_size},
                     arrays.requests));
  pair.requests = requests;
  pair.first_rows = SpanOf(arrays.first_rows, arrays.requests);
  pair.row_counts = SpanOf(arrays.row_counts, arrays.requests);
  pair.positions = SpanOf(arrays.positions, arrays.rows);
  pair.tokens = SpanOf(arrays.tokens, arrays.rows);
  pair.mask = SpanOf(arrays.mask, arrays.rows);
  pair.advantages = SpanOf(arrays.advantages, arrays.rows);
  pair.vocab_size = arrays.vocab_size;
  pair.temperature = arrays.temperature;
  if (arrays.sampling_temperature == KCC_GREEDY) {
    pair.sampling_temperature = 0;
  } else if (arrays.sampling_temperature != 0) {
    pair.sampling_temperature = arrays.sampling_temperature;
  }
  if (arrays.sampled_by != nullptr) {
    const std::optional<SampledBy> side = ParseSampledBy(arrays.sampled_by);
    if (!side) {
      return InvalidError("sampled_by: '" + std::string(arrays.sampled_by) +
                          "' is none of infer, train, dataset");
    }
    pair.sampled_by = *side;
  }
  MeasureOptions options;
  KCC_TRY(options.threads, ThreadCount(threads));
  options.request_set = contract != nullptr && !contract->contract.request_set.empty();
  const auto breadth = arrays.clauses_only != 0 ? Plan::Breadth::kClauses : Plan::Breadth::kAll;
  return MeasureArrays(pair, PlanOf(contract, breadth), options);
}

Result<Summary> MeasureFiles(const char* train, const char* infer, const kcc_contract* contract,
                             int threads) {
  KCC_TRY_VOID(RequirePointer(train, "train"));
  KCC_TRY_VOID(RequirePointer(infer, "infer"));
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  MeasureOptions options;
  KCC_TRY(options.threads, ThreadCount(threads));
  options.request_set = contract != nullptr && !contract->contract.request_set.empty();
  return Measure(pair, PlanOf(contract), options);
}

Result<> Give(Result<Summary> summary, kcc_summary** out) {
  KCC_TRY_VOID(RequirePointer(out, "out"));
  if (!summary) return std::move(summary.error());
  *out = std::make_unique<kcc_summary>(kcc_summary{std::move(*summary)}).release();
  return {};
}

Result<JudgeOptions> OptionsOf(const char* stage, const char* about) {
  JudgeOptions options;
  if (stage != nullptr) {
    bool found = false;
    for (const Stage each : {Stage::kOffline, Stage::kShadow, Stage::kCanary, Stage::kFull}) {
      if (Name(each) != stage) continue;
      options.stage = each;
      found = true;
    }
    if (!found) {
      return InvalidError("stage: '" + std::string(stage) +
                          "' is none of offline, shadow, canary, full");
    }
  }
  if (about == nullptr) return options;
  for (const Population each : {Population::kEvaluationSet, Population::kTraffic}) {
    if (Name(each) == about) options.about = each;
  }
  if (options.about) return options;
  return InvalidError("about: '" + std::string(about) + "' is neither evaluation-set nor traffic");
}

Result<std::string> Render(const ReportData& report, std::string_view format) {
  if (const ReportFormat* found = FindReportFormat(format)) return found->write(report, {});
  std::string names;
  for (const ReportFormat& one : ReportFormats()) {
    if (!names.empty()) names += ", ";
    names += one.name;
  }
  return InvalidError("format: '" + std::string(format) + "' is none of " + names);
}

}  // namespace
}  // namespace kcc::api

using kcc::Result;
using namespace kcc::api;

extern "C" {

kcc_status kcc_measure_traces(const char* train, const char* infer, const kcc_contract* contract,
                              int threads, kcc_summary** out) {
  return Guard([&] { return Give(MeasureFiles(train, infer, contract, threads), out); });
}

kcc_status kcc_measure_arrays(const kcc_arrays* arrays, const kcc_contract* contract, int threads,
                              kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(arrays, "arrays"));
    return Give(MeasureFrom(*arrays, contract, threads), out);
  });
}

kcc_status kcc_summary_merge(kcc_summary* into, const kcc_summary* from) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(into, "into"));
    KCC_TRY_VOID(RequirePointer(from, "from"));
    KCC_TRY(into->summary, kcc::Merge(into->summary, from->summary));
    return {};
  });
}

kcc_status kcc_summary_encode(const kcc_summary* summary, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    return GiveText(kcc::EncodeSummary(summary->summary), out);
  });
}

kcc_status kcc_summary_decode(const char* bytes, size_t size, kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(bytes, "bytes"));
    return Give(kcc::DecodeSummary({bytes, size}), out);
  });
}

kcc_status kcc_summary_read(const char* path, kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(path, "path"));
    return Give(kcc::ReadSummaryFile(path), out);
  });
}

kcc_status kcc_summary_write(const kcc_summary* summary, const char* path) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    KCC_TRY_VOID(RequirePointer(path, "path"));
    return kcc::WriteSummaryFile(path, summary->summary);
  });
}

int64_t kcc_summary_tokens(const kcc_summary* summary) {
  const kcc::SliceStats* all = summary == nullptr ? nullptr : summary->summary.FindSlice("all");
  return all == nullptr ? 0 : static_cast<int64_t>(all->tokens);
}

int64_t kcc_summary_requests(const kcc_summary* summary) {
  return summary == nullptr ? 0 : static_cast<int64_t>(summary->summary.requests.size());
}

void kcc_summary_free(kcc_summary* summary) { delete summary; }

kcc_status kcc_judge(const kcc_contract* contract, const kcc_summary* summary, const char* stage,
                     const char* about, const char* format, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(contract, "contract"));
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    KCC_TRY_VOID(RequirePointer(format, "format"));
    KCC_TRY(const kcc::JudgeOptions options, OptionsOf(stage, about));
    const kcc::Judgement judgement = kcc::Judge(contract->contract, summary->summary, options);
    const kcc::ReportData report =
        kcc::MakeReport(contract->contract, contract->name, Version(), summary->summary, judgement);
    KCC_TRY(const std::string text, Render(report, format));
    return GiveText(text, out);
  });
}

}  // extern "C"
