// Measuring as measure, run, calibrate and author do it: two kernels and flags in, a summary out,
// progress on a terminal. Two traces are read as they are; if one side is an engine, both are asked
// in batches.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "apps/kcc/commands.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/replay/run_log.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc::cli {

// Says before the work what writing a file after it would say: that its directory is missing or
// cannot be written to, or that a directory has its name. An empty path is no file.
Result<> CheckWritable(const std::string& path);

// Two traces side by side.
Result<PairedTraces> OpenPair(const std::string& train, const std::string& infer,
                              const MeasureFlags& flags);

// What is measured: what a contract needs, or the default plan where it is null, and what further
// contracts need beside it.
struct MeasuredFor {
  MeasuredFor(const Contract* its_contract, std::span<const Contract> further = {})  // NOLINT
      : contract(its_contract), also(further) {}
  const Contract* contract;
  std::span<const Contract> also;
};

// A null contract measures the default plan. What `kernels` names as requests must be what both
// traces hold, and its word about them counts.
Result<Summary> MeasurePair(const PairedTraces& pair, const MeasuredFor& by,
                            const MeasureFlags& flags, Console& console,
                            const KernelFlags& kernels = {});

// Two kernels by URI. `traces`, where given, gets the pair if both sides are traces; `log`, what a
// stored request needs.
Result<Summary> MeasureSides(const std::string& train, const std::string& infer,
                             const MeasuredFor& by, const MeasureFlags& flags,
                             const KernelFlags& kernels, Console& console,
                             std::optional<PairedTraces>* traces = nullptr, RunLog* log = nullptr);

}  // namespace kcc::cli
