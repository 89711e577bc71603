// Synthetic reports that agree with themselves: values come from drawn samples, verdicts from the
// values. For tests, for the browser test and for the picture in docs/report.md.
#pragma once

#include "kcc/report/report.h"

namespace kcc {

// A serving build that breaks two clauses: every verdict, a soft clause, intervals, bounds.
ReportData SampleReport();

// The same build after a fix: everything satisfied.
ReportData ConvergentSample();

// 40 clauses on 50 slices.
ReportData LargeSample();

// SampleReport with text that tries to break out of every format: markup, quotes, control
// characters, template marks, broken UTF-8, and values that are not finite.
ReportData HostileSample();

// A judgement without clauses and evidence without quantities.
ReportData EmptySample();

}  // namespace kcc
