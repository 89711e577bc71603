// The statement about one evaluation: what was judged, by which contract, on which evidence, and
// what came out of it. Predicate type "kcc:evaluation/v1"; its JSON Schema is
// docs/statement.schema.json.
//
// An StatedEvaluation is made from a report whose conclusions follow from its clauses: EvaluationOf
// draws them again and refuses a report whose verdict was edited. Reading a signed one back checks
// the same of its rows, so that no statement says *satisfied* over a row that is not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/base/result.h"
#include "kcc/judge/verdict.h"
#include "kcc/report/report.h"
#include "kcc/statement/in_toto.h"

namespace kcc {

// One clause on one slice.
struct EvaluationRow {
  std::string id;
  std::string slice;
  std::string metric;
  std::string bound;  // "atMost", "atLeast"
  std::string level;  // "L1" to "L3"
  bool hard = true;
  Verdict verdict = Verdict::kInconclusive;
  Interval value;  // the metric over the slice; unknown: not measured
  double threshold = 0;
  SampleCount count;
};

struct EvaluatedKernel {
  std::string fingerprint;
  std::string model;  // digest; empty: not recorded
};

struct StatedEvaluation {
  int64_t time_ms = 0;
  std::string kcc;  // version that judged
  std::string contract_name;
  std::string contract_version;
  std::string contract_digest;
  std::string triple;  // the register's digest of the triple; empty: not known
  std::string stage;   // "offline"
  std::string about;   // "evaluation-set", "traffic"
  double confidence = 0;
  Verdict verdict = Verdict::kInconclusive;
  double health = 0;
  double eta1 = 1;
  double eta2 = 1;
  std::string action;  // "none": nothing is ordered
  std::vector<EvaluationRow> rows;
  EvaluatedKernel train;
  EvaluatedKernel infer;
  std::vector<NamedDigest> evidence;
  std::vector<std::string> warnings;

  // The one place that says what may be called passed elsewhere: every row is satisfied, and there
  // is one. Inconclusive and error never are.
  bool passed() const;
};

// What the report does not say.
struct EvaluationEvent {
  int64_t time_ms = 0;        // when it was judged: from the caller, never from a clock here
  std::string triple;         // may be empty
  std::string report_digest;  // of the report.json that was stored; empty: none was
  std::vector<NamedDigest> evidence;  // further evidence, such as the summary
};

// Fails (kInvalid) where the report contradicts itself, or does not name a contract and two kernels
// by which others could know what it is about.
Result<StatedEvaluation> EvaluationOf(const ReportData& report, const EvaluationEvent& event);

// The triple's digests: the contract; the models, where they are recorded; the kernels, by the
// SHA-256 of their fingerprints' text, or the fingerprint itself where it is such a digest; and the
// triple as a whole where the register gave one.
std::vector<NamedDigest> SubjectsOf(const StatedEvaluation& evaluation);
std::string KernelDigest(std::string_view fingerprint);

Result<Statement> EvaluationStatement(const StatedEvaluation& evaluation);
// Of a predicate's JSON. Errors (kInvalid) name the key, or the row that contradicts the verdict.
Result<StatedEvaluation> ReadEvaluation(std::string_view predicate);

std::optional<Verdict> ParseVerdict(std::string_view word);

}  // namespace kcc
