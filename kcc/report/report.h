// Everything a report shows, as plain data. Each format (report_formats.h) is a pure function of
// it: same data, same bytes, no clock.
//
// It knows nothing of how the evidence was summarised, so a report read back from report.json
// (report_json.h) renders exactly as the run that made it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kcc/judge/verdict.h"
#include "kcc/metric/catalog.h"

namespace kcc {

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

struct ReportContract {
  std::string name;
  std::string version;
  std::string digest;
  std::string file;  // as the user named it; may be empty
};

// Of one quantity on one slice. A statistic that is not known is NaN.
struct QuantityStatistics {
  int64_t count = 0;
  double mean = kNotMeasured;
  double min = kNotMeasured;
  double max = kNotMeasured;
  double p50 = kNotMeasured;
  double p90 = kNotMeasured;
  double p95 = kNotMeasured;
  double p99 = kNotMeasured;
  double p999 = kNotMeasured;
};

struct QuantitySlice {
  std::string quantity;  // as a metric names it: "kl", "train_entropy"
  std::string slice;
  QuantityStatistics statistics;
};

// Bucket i holds counts[i] values in [edges[i], edges[i+1]); the last bucket is closed.
struct ReportHistogram {
  std::string quantity;
  std::string slice;
  std::vector<double> edges;  // rising; one more than counts, or both empty
  std::vector<int64_t> counts;
  int64_t infinite = 0;  // values that overflowed, in no bucket
};

// The cumulative disagreement of the two kernels: of the tokens whose margin (largest less second
// largest logit) is at most `margin`, how many differ in their most likely token, and how many
// in the set of their five most likely ones. All counts rise with the margin.
struct DisagreementPoint {
  double margin = 0;
  int64_t tokens = 0;
  int64_t top1 = 0;
  int64_t top5 = 0;
};

struct DisagreementCurve {
  std::string slice;
  int64_t tokens = 0;  // in the slice, of any margin
  std::vector<DisagreementPoint> points;
};

struct WorstToken {
  std::string quantity;
  std::string slice;
  double value = 0;
  std::string request;
  int64_t position = 0;
  int64_t token = 0;
  // The token as ⟦id⟧ among its neighbours' ids, or among the request's own text.
  std::optional<std::string> context;
  std::vector<std::string> tags;  // of its request
};

// What a clause implies if it holds: "reward drift at most 0.1" (docs/bounds.md).
struct ImpliedBound {
  std::string clause;
  std::string text;
  double value = 0;
  std::string quantity;   // as in bounds/implied.h
  bool vacuous = false;   // hardly less than what holds of any two kernels
  double exceedance = 0;  // the share of windows, at most, in which it may not hold
};

struct KernelProvenance {
  std::string fingerprint;
  std::string trace;  // identity
  std::string model;  // digest; may be empty
};

struct Provenance {
  std::string kcc;  // version
  KernelProvenance train;
  KernelProvenance infer;
  std::string evidence;  // "logits", "top-k", "sampled-token"
  std::string backend;   // what measured it, if not the CPU alone: "cuda"
  std::string plan;      // digest
  int64_t requests = 0;
};

// What a report says about a metric of the user's own, as the catalog says it of the others.
struct OwnLabel {
  std::string id;  // without train_
  std::string unit;
  std::string direction;
  std::string level;
  std::string definition;
};

// What the user named on the command line, so that a next command can be written with it
// (next_steps.h). Only names of traces and of the lab's kernels are kept: a program's command line
// or a server's address may hold a secret. Each may be empty.
struct ReportInputs {
  std::string train;  // a trace's directory or "lab:…"
  std::string infer;
  std::string requests;  // a file
};

// A slice as the contract defines it.
struct ReportSlice {
  std::string name;
  std::string where;  // canonical; empty: every request
};

// Why the contract has a clause, in its author's words.
struct ClauseReason {
  std::string clause;
  std::string why;
};

struct ReportData {
  ReportContract contract;
  Judgement judgement;
  std::vector<ReportSlice> slices;    // those that a clause names; empty where that is not known
  std::vector<ClauseReason> reasons;  // of the clauses that have one
  ReportInputs inputs;
  std::vector<QuantitySlice> quantities;    // grouped by quantity
  std::vector<ReportHistogram> histograms;  // grouped by quantity
  std::vector<DisagreementCurve> curves;
  std::vector<WorstToken> worst;
  // What a register keeps of `worst`, by the policy's word: "none", "hashes" or "full" without
  // texts. Empty: all of it.
  std::string worst_kept;
  std::vector<ImpliedBound> bounds;   // empty: the section is left out
  int64_t slices_without_detail = 0;  // beyond the limit of shown.h: in no list but the clauses'
  std::vector<OwnLabel> own;          // distinct ids
  Provenance provenance;
};

OwnLabel LabelOf(const Quantity& quantity);

// Clause-slice pairs by verdict, indexed by Verdict.
struct VerdictTotals {
  int64_t by_verdict[4] = {};

  int64_t of(Verdict verdict) const { return by_verdict[static_cast<size_t>(verdict)]; }
  int64_t all() const;
};
VerdictTotals CountPairs(const Judgement& judgement);
VerdictTotals CountClauses(const Judgement& judgement);

// One sentence: "2 of 14 clauses are violated, on 3 of 38 clause-slice pairs."
std::string Headline(const Judgement& judgement);

// The violated pair of the gravest level, of those the one farthest beyond its limit.
struct WorstPair {
  const ClauseVerdict* clause = nullptr;
  const SliceVerdict* slice = nullptr;
  std::optional<double> factor;  // of the limit (judge/severity.h); none: not measured
};
std::optional<WorstPair> FindWorstPair(const Judgement& judgement);

// "Worst on long-context: mean_kl is 0.04359, 2.9 times its limit of 0.015 (N-1). On all requests
// N-1 holds." Empty where nothing is violated.
std::string WorstText(const Judgement& judgement);

// Empty where the contract gives none, or the report does not know it.
std::string ReasonOf(const ReportData& report, std::string_view clause);
std::string WhereOf(const ReportData& report, std::string_view slice);

// What a kernel is called where there is little room: its fingerprint, or the user's name for it
// where the fingerprint is long. "unnamed" where neither is known.
std::string KernelName(const KernelProvenance& kernel, const std::string& input);

// What the health says: "an L3 clause is violated".
std::string HealthText(const Judgement& judgement);

// "Risk 31.06 (0 is good): an L3 clause is violated", or that nothing was measured.
std::string RiskText(const Judgement& judgement);

// "none" where nothing is ordered.
std::string_view ActionText(const Judgement& judgement);
// "serve from the fallback kernel".
std::string_view ActionMeaning(const Judgement& judgement);

// False where no clause has a value: then a health of 0 says nothing.
bool AnythingMeasured(const Judgement& judgement);

// Adjacent buckets merged by the leading bits of their lower edges (equal ratios of width), until
// at most `buckets_max` are left. Counts are kept; empty buckets at either end are dropped.
ReportHistogram Coarsen(ReportHistogram histogram, size_t buckets_max);

}  // namespace kcc
