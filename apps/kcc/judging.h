// From the flags of judge, run and calibrate to the judge's options, and from a summary to a
// verdict and its report.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/kcc/commands.h"
#include "kcc/judge/judge.h"
#include "kcc/replay/run_log.h"
#include "kcc/report/report.h"
#include "kcc/report/report_directory.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc::cli {

JudgeOptions ToJudgeOptions(const JudgeFlags& flags);

// Judges, prints the verdict, then writes the summary (if `summary_file` names one) and the report;
// gives the exit code. A summary alone does not hold what stands around the worst tokens; traces
// add it. `shown`: what the report is of, where more was measured; null: all of it.
int JudgeAndReport(const ValidContract& contract, const std::string& file, const Summary& summary,
                   const std::string& summary_file, std::span<const PairedTraces> traces,
                   const ReportInputs& inputs, const JudgeFlags& flags,
                   std::optional<ReportDirectory>& directory, Console& console,
                   const Plan* shown = nullptr, RunLog* log = nullptr);

// Before the work of hours: whether the register that --register names can be opened, and the rest
// of its flags read. Nothing is named: fine.
Result<> CheckRecording(const JudgeFlags& flags, const Console& console);

// The contracts that evidence for this one must be judged under too, because a promotion of the
// register compares the two. One whose text is not stored is left out with a warning. None where
// --register names nothing.
Result<std::vector<Contract>> ContractsBeside(const Contract& contract, const JudgeFlags& flags,
                                              Console& console);

// Records the verdict where --register says; gives the evaluation's id, empty where it says
// nothing. Requests are kept as a policy says: that of a promotion of this triple that is under
// way, else the flags; and so is what summary and report say of single ones. Null `log`: what was
// judged has no requests at hand.
Result<std::string> RecordVerdict(const ValidContract& contract, const Summary& summary,
                                  const Judgement& judgement, const ReportData& report,
                                  const JudgeFlags& flags, Console& console, RunLog* log = nullptr);

}  // namespace kcc::cli
