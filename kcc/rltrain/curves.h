// Runs of kcc lab rl as curves: read from their logs, and one self-contained page of them.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct CurvePoint {
  double step = 0;
  double value = 0;
};
using Curve = std::vector<CurvePoint>;

// A clause on a slice, step by step.
struct ClauseStrip {
  std::string name;                                      // "N-1/all"
  std::vector<std::pair<double, std::string>> verdicts;  // by step, as words
};

struct RunCurves {
  std::string name;
  double last_step = 0;
  std::map<std::string, Curve, std::less<>> curves;  // by key: "reward", "metrics token.mean_k3"
  std::vector<ClauseStrip> clauses;
};

// Reads log.jsonl and held-out.jsonl of a run's folder. Fails on a folder without them, and on
// lines that are not theirs, naming the line.
Result<RunCurves> ReadRunCurves(const std::string& folder, const std::string& name);

// The same curves of every run beside one another. `lead`: a sentence on what they are.
std::string CurvesPage(std::span<const RunCurves> runs, std::string_view title,
                       std::string_view lead);

}  // namespace kcc
