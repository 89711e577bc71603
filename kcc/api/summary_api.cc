// Summaries and judging through the C interface.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kcc/api/guard.h"
#include "kcc/api/handles.h"
#include "kcc/api/stage_name.h"
#include "kcc/api/version.h"
#include "kcc/judge/judge.h"
#include "kcc/report/from_summary.h"
#include "kcc/report/report_formats.h"
#include "kcc/summary/file.h"

namespace kcc::api {
namespace {

Result<JudgeOptions> OptionsOf(const char* stage, const char* about) {
  JudgeOptions options;
  if (stage != nullptr) {
    KCC_TRY(options.stage, StageOf(stage));
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
    return GiveSummary(kcc::DecodeSummary({bytes, size}), out);
  });
}

kcc_status kcc_summary_read(const char* path, kcc_summary** out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(path, "path"));
    return GiveSummary(kcc::ReadSummaryFile(path), out);
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

kcc_status kcc_summary_backends(const kcc_summary* summary, kcc_text* out) {
  return Guard([&]() -> Result<> {
    KCC_TRY_VOID(RequirePointer(summary, "summary"));
    return GiveText(BackendsOf(summary->summary), out);
  });
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
