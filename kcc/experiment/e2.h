// E2 of the paper (8.2): how the pass rate of a contract's clauses changes with engine, context
// length, batch size and load, by slice.
//
// Every engine serves the same requests along the decode path: prompts in chunks, then token by
// token in the company of the batch. A length is reached by putting requests into longer contexts;
// under pressure the KV cache holds one and a half of the longest sequences, so that others are
// preempted and computed again. A cell is one slice under one regime: the share of its requests on
// which every clause holds, and how much of its threshold the tightest clause uses on the cell as a
// whole. Cells near their threshold, on either side, are what the experiment is for.
#pragma once

#include <string>
#include <vector>

#include "kcc/experiment/experiment.h"
#include "kcc/experiment/experiment_report.h"

namespace kcc {

struct E2Load {
  size_t batch = 1;      // sequences that run at once
  bool pressed = false;  // a KV cache too small for them
  bool operator==(const E2Load&) const = default;
};
struct E2Length {
  size_t tokens = 0;    // of the prompt; 0: as asked
  size_t requests = 0;  // spread over the evaluation set
};

struct E2Options {
  std::vector<std::string> engines;  // "fp8", "bf16?rope=bf16"
  std::vector<E2Length> lengths;
  std::vector<E2Load> loads;
  std::vector<Slice> slices;
  bool preview = false;  // too few requests to conclude anything: no finding is stated
  ExperimentProgress progress;

  static E2Options Default();
  static E2Options Quick();  // a few requests: a preview
};

// A clause that the tokens of a slice decide: its metric is an aggregate of a token quantity.
struct E2Clause {
  std::string id;
  std::string text;  // "mean_kl ≤ 0.001"
  Metric metric;
  BoundKind bound = BoundKind::kAtMost;
  double threshold = 0;
  std::vector<bool> slices;  // on which of E2Result::slices it holds
};

inline constexpr double kNarrowUse = 0.8;  // from here to its inverse a threshold is near

struct E2Cell {
  int64_t requests = 0;
  int64_t passing = 0;  // requests on which every clause holds
  double use = 0;     // of the threshold, by the tightest clause on the whole cell; above 1: fails
  size_t clause = 0;  // that clause

  bool fails() const { return use > 1; }
  bool narrow() const { return use > kNarrowUse && use <= 1 / kNarrowUse; }
};

struct E2Row {
  size_t engine = 0, load = 0, length = 0;  // indices
  uint64_t preemptions = 0;
  std::vector<E2Cell> by_slice;
};

struct E2Result {
  std::string contract;  // "lab 1.0.0"
  std::vector<std::string> slices;
  std::vector<std::string> engines;
  std::vector<E2Length> lengths;
  std::vector<E2Load> loads;
  std::vector<E2Clause> clauses;
  std::vector<E2Row> rows;  // by engine, load, length
  ExperimentReport report;  // without findings, which follow from the rows

  const E2Row& row(size_t engine, size_t load, size_t length) const {
    return rows[(engine * loads.size() + load) * lengths.size() + length];
  }
};

// Fails if the contract has no clause that tokens decide, or a length exceeds the model's.
Result<E2Result> RunE2(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       const Contract& contract, const E2Options& options);

// How much of the threshold a value uses; above 1 it is exceeded. For a floor on something that
// is at most 1, what is used is the distance from 1.
double ThresholdUse(const E2Clause& clause, double value);

// Words for one thing each: "1,024 tokens", "16 at once, under pressure".
std::string LengthText(const E2Length& length);
std::string LoadText(const E2Load& load);

// What the paper expects of the sweep, and what was seen.
std::vector<Finding> E2Findings(const E2Result& result);
ExperimentReport E2Report(const E2Result& result);
// The longest context up to which an engine holds every clause on a slice, whatever the load:
// the routing rule that the sweep suggests. "any", "up to 256 tokens", "none".
std::string RoutingRule(const E2Result& result, size_t engine, size_t slice);

std::string E2Page(const E2Result& result);
std::string E2Markdown(const E2Result& result);
std::string E2Json(const E2Result& result);
std::string E2Text(const E2Result& result);  // for a terminal

}  // namespace kcc
