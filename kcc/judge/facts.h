// What the evidence says about one clause on one slice, before anyone asks about confidence: the
// metric's value, how many units lie beyond the threshold, what is missing, and whether the clause
// holds of the evidence itself. Exact; every comparison is made in integers or with one rounding.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"
#include "kcc/summary/summary.h"

namespace kcc {

enum class Truth : uint8_t {
  kHolds,
  kFails,
  kStraddles,   // the evidence is an interval and the threshold lies inside it
  kNoEvidence,  // nothing was measured
  kBroken,      // what was measured is not a number that could be compared
};

// The units a clause counts: each is within the threshold or beyond it, or (partial evidence)
// either. `allowed` is the most that may lie beyond.
struct UnitCounts {
  uint64_t units = 0;
  uint64_t beyond_sure = 0;
  uint64_t beyond_possible = 0;
  uint64_t allowed = 0;
  // Were all that is missing to turn up: as few as these would lie beyond, of as many as those.
  uint64_t beyond_proven = 0;
  uint64_t units_possible = 0;
};

struct Facts {
  Truth truth = Truth::kNoEvidence;  // of what was measured
  bool fails_surely = false;         // fails whatever the missing evidence would say
  Interval value;
  std::optional<UnitCounts> units;  // percentiles, extremes, rates, shares, windows
  // About traffic: the windows that no request can still join, and those with a gap, which may lie
  // beyond. `gaps` counts the latter.
  std::optional<UnitCounts> traffic_windows;
  uint64_t gaps = 0;
  SampleCount samples;
  uint64_t missing = 0;         // values or windows that should have counted
  uint64_t unmeasured = 0;      // requests of the traces that the summary lacks
  std::string why_not;          // for kNoEvidence and kBroken
  std::string why_empty;        // of a slice without requests or tokens: a field that none has
  std::string unplaced;         // requests that are in no window, and why; empty: none
  std::string lacking;          // what makes requests bad, of coverage and conformance; empty: none
  bool estimate = false;        // from sampled tokens: a Monte-Carlo mean, not a fact
  std::optional<size_t> slice;  // index in the summary's plan

  bool complete() const { return missing == 0 && unmeasured == 0; }
};

// Reads facts off a summary; remembers what it computed, since many clauses share a quantity.
class FactReader {
 public:
  explicit FactReader(const Summary& summary);

  // On the slice as one side's outcomes select it, where it reads any.
  Facts Read(const Clause& clause, const Slice& slice, Side outcomes = Side::kInfer);
  const SeriesView& View(size_t slice, size_t series);
  const Summary& summary() const { return summary_; }

 private:
  // False, with the reason, where the summary lacks what a plan keeps only if it is asked for: a
  // metric of the user's own, or by this definition, and which records keep to the schema.
  bool IsMeasured(const Clause& clause, Facts* facts) const;
  // A recorded value outside the range that the contract declares, or that the catalog gives,
  // breaks whatever rests on it.
  void CheckRange(const Clause& clause, Facts* facts);
  void ReadSeries(const Clause& clause, const Slice& slice, Facts* facts);
  void ReadMean(const Clause& clause, const SeriesView& view, Facts* facts) const;
  void ReadUnits(const Clause& clause, const SeriesView& view, Facts* facts);
  void ReadPopulation(const Clause& clause, Facts* facts);
  // From the lower edge of the quantile's bucket at the low ends to the upper edge at the high
  // ones.
  Interval Quantile(size_t slice, const Metric& metric);
  const PopulationValue& PopulationOf(size_t slice, const Clause& clause);
  void ReadWindows(const Clause& clause, const Slice& slice, Facts* facts);
  bool EstimatedWindows(const Clause& clause, size_t slice);
  // The most values that may still come, were all that is missing to turn up.
  uint64_t MissingUnits(const Clause& clause, const Facts& facts) const;

  const Summary& summary_;
  bool complete_ = true;
  uint64_t requests_missing_ = 0;
  uint64_t tokens_missing_ = 0;
  std::map<std::pair<size_t, size_t>, SeriesView> views_;
  std::map<std::tuple<size_t, size_t, int>, Interval> quantiles_;
  std::map<std::tuple<size_t, std::string, std::vector<std::string>>, PopulationValue> populations_;
};

// The most of n units that may be bad where the share of bad ones is at most (or that of good ones
// at least) `share`. A share is k/n rounded once to a double, so that 29% of 100 are 29, though the
// double 0.29 lies below. Precondition: n > 0.
uint64_t AllowedBad(double share, uint64_t n);
uint64_t AllowedBadOfGood(double share, uint64_t n);

}  // namespace kcc
