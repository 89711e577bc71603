// Two reports: what changed from one build to the next (`kcc compare A B`).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/report/report.h"
#include "kcc/report/terminal.h"

namespace kcc {

// What became of a clause-slice pair, in the order in which they are listed.
enum class PairChange : uint8_t {
  kRegressed,  // the verdict outweighs the one before (violated > error > inconclusive > satisfied)
  kImproved,   // the other way round
  kNew,
  kGone,
  kMoved,      // same verdict; value, threshold or exceedance differ
  kUnchanged,  // counted, not listed
};
std::string_view Name(PairChange change);  // "regressed"

struct PairSide {
  Verdict verdict = Verdict::kInconclusive;
  Interval value;
  double threshold = 0;
  std::optional<ExceedanceCount> exceedance;
  std::string reason;
};

struct PairComparison {
  PairChange change = PairChange::kUnchanged;
  std::string clause;
  std::string metric;
  std::string slice;
  BoundKind bound = BoundKind::kAtMost;
  std::optional<PairSide> before;  // none: new
  std::optional<PairSide> after;   // none: gone
  // Whether the value went to the worse side of its bound; none: unclear, or it did not move.
  std::optional<bool> worse;
};

struct ReportComparison {
  ReportContract contract_before, contract_after;
  Verdict verdict_before = Verdict::kInconclusive;
  Verdict verdict_after = Verdict::kInconclusive;
  double health_before = 0;
  double health_after = 0;
  std::vector<PairComparison> pairs;  // by change, then in the order of the later report
  int64_t unchanged = 0;

  int64_t Count(PairChange change) const;
  bool same_contract() const { return contract_before.digest == contract_after.digest; }
};

ReportComparison CompareReports(const ReportData& before, const ReportData& after);

std::string ComparisonTerminal(const ReportComparison& comparison, const TerminalStyle& style);
std::string ComparisonMarkdown(const ReportComparison& comparison);
std::string ComparisonJson(const ReportComparison& comparison);

}  // namespace kcc
