// What the judge says: a verdict per clause and slice, and what follows from them all
// (docs/design.md section 8, docs/semantics.md). Plain data; made by judge.h, shown by kcc/report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/contract/contract.h"

namespace kcc {

// In the order in which they outweigh each other.
enum class Verdict : uint8_t { kSatisfied, kInconclusive, kError, kViolated };

std::string_view Name(Verdict verdict);  // "satisfied"

// Windows of a soft clause, or the tokens or requests behind a hard percentile or share.
struct ExceedanceCount {
  int64_t windows = 0;
  int64_t exceeding = 0;
  double budget = 0;  // largest share allowed

  double rate() const {
    return windows > 0 ? static_cast<double>(exceeding) / static_cast<double>(windows) : 0.0;
  }
};

struct SampleCount {
  int64_t requests = 0;
  int64_t tokens = 0;
};

// The judgement about one population: the evaluation set itself, or the traffic it came from.
struct PopulationVerdict {
  Verdict verdict = Verdict::kInconclusive;
  std::string reason;  // one sentence in plain words: what shows it, or what would settle it
  // For traffic: the share of units beyond the threshold, both ends together at the clause's
  // confidence. One-sided verdicts are sharper: satisfied may stand with the upper end beyond.
  Interval confidence_interval;
  std::optional<int64_t> more_requests;  // forecast: about how many more would settle it
};

struct SliceVerdict {
  std::string slice;
  PopulationVerdict about;  // the population the contract speaks about: this one counts
  PopulationVerdict other;  // the other one, for the reader
  Interval value;           // the metric over the slice
  double threshold = 0;
  std::optional<ExceedanceCount> exceedance;
  SampleCount count;
  // For a violated clause: the tightest threshold and budget that would have passed.
  std::optional<double> smallest_passing;
  std::optional<double> smallest_budget;
  double deviation = 0;  // phi of section 8, in [0, 2]
  double weight = 0;     // lambda

  Verdict verdict() const { return about.verdict; }
};

struct ClauseVerdict {
  std::string id;
  Family family = Family::kNumerical;
  std::string metric;
  ViolationLevel level = ViolationLevel::kL1;
  BoundKind bound = BoundKind::kAtMost;
  bool hard = true;
  Action action = Action::kLog;  // what a violation of this clause orders
  Mark mark;                     // the clause in the contract's source
  Verdict verdict = Verdict::kInconclusive;
  std::vector<SliceVerdict> slices;  // in the clause's order
};

struct Judgement {
  Population about = Population::kEvaluationSet;
  Stage stage = Stage::kOffline;
  double confidence = 0.95;
  Verdict verdict = Verdict::kInconclusive;
  bool convergent = false;  // every clause satisfied on every slice it names
  double health = 0;        // H
  double eta1 = 1;
  double eta2 = 1;
  std::optional<Action> action;        // none: nothing is ordered
  std::vector<ClauseVerdict> clauses;  // in the contract's order; those of other stages left out
  // What a reader of the verdict must know: where it rests on the judged side's word alone, and
  // where the two sides are one.
  std::vector<std::string> warnings;
};

}  // namespace kcc
