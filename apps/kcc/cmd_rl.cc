// kcc rl diagnose and conform: what a step's log-probs say, and whether the dialects still speak as
// their frameworks do.
#include <algorithm>
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/rl/conform.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/published.h"
#include "kcc/rl/rl_json.h"
#include "kcc/rl/rl_metrics.h"

namespace kcc::cli {
namespace {

constexpr std::string_view kSummarySuffix = ".kccrl";
constexpr size_t kSummaryBytesMax = size_t{1} << 30;
constexpr size_t kGoldenBytesMax = size_t{64} << 20;
constexpr size_t kMissesShown = 20;

// "token.mean_k3<=0.001" or "token.ess>=0.9".
Result<RlClause> ParseLimit(const std::string& text) {
  RlClause clause;
  size_t at = text.find("<=");
  if (at == std::string::npos) {
    at = text.find(">=");
    clause.at_least = true;
  }
  const auto bound =
      at == std::string::npos ? std::nullopt : ParseNumber(std::string_view(text).substr(at + 2));
  if (!bound.has_value()) {
    return InvalidError("--limit \"" + text + "\" is not METRIC<=NUMBER or METRIC>=NUMBER");
  }
  clause.metric = text.substr(0, at);
  clause.threshold = *bound;
  return clause;
}

Result<RlSummary> Summarize(const RlStepFlags& step, Console& console) {
  RlSummary summary;
  std::vector<std::string> files;
  for (const std::string& path : step.files) {
    if (!path.ends_with(kSummarySuffix)) {
      files.push_back(path);
      continue;
    }
    KCC_TRY(const std::string bytes, ReadFile(path, kSummaryBytesMax));
    auto read = RlSummary::Parse(bytes);
    if (!read.has_value()) return std::move(read.error()).At(Place{path});
    summary.Merge(*read);
  }
  if (files.empty()) return summary;
  KCC_TRY(const RlDump dump, ReadRlStep(step, files, console));
  KCC_TRY(const RlBatch batch, dump.Batch());
  KCC_TRY_VOID(summary.Add(batch, step.threads));
  return summary;
}

void PrintLevel(std::string_view name, const RlLevelMetrics& level, Console& console) {
  const auto cell = [&](double value) {
    std::string text = ReadableNumber(value);
    console.out << std::string(text.size() < 12 ? 12 - text.size() : 1, ' ') << text;
  };
  console.out << "  " << name << std::string(name.size() < 10 ? 10 - name.size() : 1, ' ');
  for (const double value : {level.k1, level.k3, level.tv, level.mean_w, level.sd_w, level.ess,
                             level.log_ratio_min, level.log_ratio_max}) {
    cell(value);
  }
  console.out << '\n';
}

void PrintMetrics(const RlMetrics& f, Console& console) {
  console.out << (f.slice.empty() ? "everything" : Shown(f.slice)) << ": "
              << Counted(static_cast<size_t>(f.tokens), "token") << " in "
              << Counted(static_cast<size_t>(f.rows), "row");
  if (f.zero_ratio + f.infinite_ratio > 0) {
    console.out << "; without a chance on one side: " << f.zero_ratio << " (train), "
                << f.infinite_ratio << " (rollout)";
  }
  console.out
      << "\n  level               k1          k3  TV (1-w)+      mean w        sd w         ESS"
         "   min log w   max log w\n";
  for (const RlLevel level : kRlLevels) PrintLevel(RlLevelName(level), f.at(level), console);
  if (f.has_old) {
    PrintLevel("mismatch", f.mismatch, console);
    PrintLevel("staleness", f.staleness, console);
  }
  console.out << "  TV over rows " << ReadableNumber(f.tv_rows) << " in ["
              << ReadableNumber(f.tv_bound.lo) << ", " << ReadableNumber(f.tv_bound.hi)
              << "], each end at 95 %; perplexity " << ReadableNumber(f.train_ppl) << " (train), "
              << ReadableNumber(f.rollout_ppl) << " (rollout); tail index "
              << ReadableNumber(f.tail_index) << "; equal bits "
              << ReadableNumber(100 * f.bit_equal_share) << " %\n";
  if (f.has_advantages) {
    console.out << "  skew -(w-1)A: " << ReadableNumber(f.skew.positive) << " where A > 0, "
                << ReadableNumber(f.skew.negative) << " where A < 0; at most "
                << ReadableNumber(f.skew.bias_bound) << " per unit of the score\n";
  }
}

int VerdictCode(const std::vector<RlClauseVerdict>& verdicts) {
  if (verdicts.empty()) return kExitOk;  // nothing was asked
  switch (WorstVerdict(verdicts)) {
    case RlVerdict::kSatisfied:
      return kExitOk;
    case RlVerdict::kViolated:
      return kExitViolated;
    case RlVerdict::kInconclusive:
      break;
  }
  return kExitInconclusive;
}

Style StyleOf(RlVerdict verdict) {
  return verdict == RlVerdict::kSatisfied  ? Style::kGreen
         : verdict == RlVerdict::kViolated ? Style::kRed
                                           : Style::kYellow;
}

void PrintVerdicts(const std::vector<RlClauseVerdict>& verdicts, Console& console) {
  for (const RlClauseVerdict& one : verdicts) {
    console.out << Paint(StyleOf(one.verdict), RlVerdictName(one.verdict), console.colour_out)
                << "  " << one.clause.metric << (one.clause.at_least ? " >= " : " <= ")
                << ShortestNumber(one.clause.threshold) << ": " << ReadableNumber(one.value);
    if (one.certified) {
      console.out << " in [" << ReadableNumber(one.interval.lo) << ", "
                  << ReadableNumber(one.interval.hi) << "]";
    }
    console.out << " (" << RlReasonText(one.reason) << ")\n";
  }
}

// Of everything, then by slice.
Result<std::vector<RlMetrics>> AllMetrics(const RlSummary& summary) {
  std::vector<RlMetrics> out;
  KCC_TRY(RlMetrics all, summary.Metrics());
  out.push_back(std::move(all));
  for (const std::string& slice : summary.slices()) {
    KCC_TRY(RlMetrics metrics, summary.Metrics(slice));
    out.push_back(std::move(metrics));
  }
  return out;
}

void PrintConformed(const ConformedFile& file, Console& console) {
  const ConformReport& report = file.report;
  console.out << Shown(file.path) << ": " << report.cases << " cases, " << report.values
              << " values";
  if (report.refused > 0) console.out << ", " << report.refused << " refused as they must be";
  if (report.misses.empty()) {
    console.out << ", " << Paint(Style::kGreen, "all as upstream", console.colour_out) << '\n';
    return;
  }
  const std::string count = Counted(report.misses.size(), "miss") + " in " +
                            Counted(static_cast<size_t>(report.cases_missed), "case");
  console.out << ", " << Paint(Style::kRed, count, console.colour_out) << '\n';
  for (size_t i = 0; i < std::min(kMissesShown, report.misses.size()); ++i) {
    const ConformMiss& miss = report.misses[i];
    console.out << "  " << Shown(miss.case_name) << ": " << Shown(miss.what) << " is "
                << Shown(miss.got) << ", not " << Shown(miss.expected) << '\n';
  }
}

}  // namespace

int RunRlDiagnose(const RlDiagnoseOptions& options, Console& console) {
  std::vector<RlClause> clauses;
  for (const std::string& text : options.limits) {
    auto clause = ParseLimit(text);
    if (!clause.has_value()) return ReportError(clause.error(), console);
    clauses.push_back(std::move(*clause));
  }
  const auto summary = Summarize(options.step, console);
  if (!summary.has_value()) return ReportError(summary.error(), console);
  if (summary->tokens() == 0) {
    return ReportError(BrokenEvidenceError("no token was compared: the mask is empty"), console);
  }
  if (!options.output.empty()) {
    const auto written = WriteFileAtomically(options.output, summary->Serialize());
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  const auto metrics = AllMetrics(*summary);
  if (!metrics.has_value()) return ReportError(metrics.error(), console);
  const auto verdicts = JudgeRl((*metrics)[0], clauses);
  if (!verdicts.has_value()) return ReportError(verdicts.error(), console);
  if (console.json) {
    console.out << DiagnoseJson(*metrics, *verdicts);
    return VerdictCode(*verdicts);
  }
  console.out << Shown(DiagnosisSentence(*metrics)) << "\n\n";
  for (const RlMetrics& each : *metrics) PrintMetrics(each, console);
  PrintVerdicts(*verdicts, console);
  return VerdictCode(*verdicts);
}

int RunRlConform(const RlConformOptions& options, Console& console) {
  std::vector<ConformedFile> files;
  bool missed = false;
  for (const std::string& path : options.files) {
    const auto text = ReadFile(path, kGoldenBytesMax);
    if (!text.has_value()) return ReportError(text.error(), console);
    const std::string stem = std::filesystem::path(path).stem().string();
    auto report = RunConform(*text, stem, {.float64 = options.float64});
    if (!report.has_value()) return ReportError(std::move(report.error()).At(Place{path}), console);
    missed |= !report->misses.empty();
    files.push_back({path, std::move(*report)});
    if (!console.json) PrintConformed(files.back(), console);
  }
  if (console.json) console.out << ConformJson(files);
  return missed ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
