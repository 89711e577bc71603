// ExperimentReport: what every experiment reports in the same form, so that experiments and teams
// can be compared (the paper's section 8.6): what was judged, the clause pass rates of baseline and
// candidates per slice, quality and reward with their intervals, runtime cost, incident figures,
// and what was predicted.
//
// A part that an experiment does not measure says why. It is never left out and never 0, since a
// reader could not tell that from a measured 0. What only one experiment has (E1's histograms, E2's
// heat maps) stays in its own result. No clock: the same evidence gives the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kcc/base/interval.h"
#include "kcc/base/json_writer.h"
#include "kcc/experiment/experiment.h"
#include "kcc/experiment/experiment_page.h"
#include "kcc/judge/verdict.h"

namespace kcc {

inline constexpr int kExperimentFormat = 1;

struct NotMeasured {
  std::string why;  // one sentence; never empty in a report
};
// What is measured has a row at least.
template <class T>
using Part = std::variant<NotMeasured, T>;

// What was judged.
struct ReportedContract {
  std::string name, version, digest;
};
struct ReportedRequests {
  std::string name;    // "as asked"
  std::string digest;  // of the requests and their tokens (trace/request_set.h)
  int64_t requests = 0;
  int64_t tokens = 0;  // that are scored or generated
};
struct ReportedKernel {
  std::string name;  // "lab:fp8"
  std::string fingerprint;
  std::vector<std::pair<std::string, std::string>> options;  // every switch and its value
};

// A pair of kernels, named by ReportedKernel::name. The baseline is what the candidates are
// compared with.
enum class ArmRole : uint8_t { kBaseline, kCandidate };
inline constexpr std::array kArmRoles = {ArmRole::kBaseline, ArmRole::kCandidate};
std::string_view Name(ArmRole role);  // "baseline"

struct ReportedArm {
  std::string name;
  ArmRole role = ArmRole::kCandidate;
  std::string train, infer;
};

// Verdicts of the judge, counted.
struct VerdictCounts {
  int64_t satisfied = 0;
  int64_t violated = 0;
  int64_t inconclusive = 0;
  int64_t error = 0;
  int64_t empty = 0;  // the slice held nothing in the regime: there was nothing to judge

  void Add(const SliceVerdict& verdict);
  void Add(const VerdictCounts& other);
  int64_t judged() const { return satisfied + violated + inconclusive + error; }
  // Satisfied among those judged: what is open has not passed. None where nothing was judged.
  std::optional<double> share() const;
};
struct ClausePass {
  std::string clause;
  VerdictCounts counts;
};
struct SlicePass {
  std::string slice;
  std::vector<ClausePass> clauses;  // those that name the slice

  VerdictCounts total() const;
};
struct ArmPass {
  std::string arm;
  int64_t regimes = 0;            // lengths, loads, seeds …: each is judged apart
  std::vector<SlicePass> slices;  // of one order in every arm

  // Counts the verdicts of one regime.
  void Add(const Judgement& judgement);
};
struct ClauseNotJudged {
  std::string clause;
  std::string why;
};
struct PassRates {
  std::vector<ArmPass> arms;
  std::vector<ClauseNotJudged> not_judged;
};

// A number with its interval; `method` says what the interval is and what it is taken over.
struct Estimate {
  double value = 0;
  Interval interval;
  double confidence = 0.95;
  std::string method;   // "bootstrap over requests, 2,000 draws"
  int64_t samples = 0;  // requests, episodes or runs behind it
};
struct QualityFigure {
  std::string quantity, unit;  // "reward"
  std::string arm, slice;
  Estimate value;
  std::optional<Estimate> delta;  // against the baseline, paired where the method says so
};

// What running an arm took. A regime of the baseline's that is the same gives the baseline.
struct CostFigure {
  std::string quantity, unit;
  double value = 0;
  std::optional<double> baseline;
};
struct ArmCost {
  std::string arm;
  std::string regime;               // empty: there is one
  std::vector<CostFigure> figures;  // of one order in every row
};

struct IncidentFigures {
  std::string arm;
  int64_t faults = 0;  // injected
  int64_t detected = 0;
  int64_t false_alarms = 0;
  int64_t rollbacks = 0;
  int64_t rollbacks_succeeded = 0;
  std::string delay_unit;                 // of both: "requests", "s"
  std::optional<Estimate> detection_lag;  // none: no fault was detected
  std::optional<Estimate> repair_time;    // none: no fault was repaired
};

struct ExperimentReport {
  std::string experiment;  // "e1"
  bool preview = false;    // a few requests, to see the form: states no finding
  ReportedContract contract;
  std::string model_digest;
  std::vector<ReportedRequests> requests;
  std::vector<ReportedKernel> kernels;
  std::vector<ReportedArm> arms;
  Part<PassRates> pass_rates;
  Part<std::vector<QualityFigure>> quality;
  Part<std::vector<ArmCost>> work;  // counted by the engine, the same on every machine
  Part<std::vector<ArmCost>> time;  // of a clock
  Part<std::vector<IncidentFigures>> incidents;
  std::vector<Finding> findings;  // predicted before the run, and what became of it
};

// Members of the object that is open; the experiment adds its own figures and closes it.
void WriteExperimentReport(const ExperimentReport& report, JsonWriter* json);
// JSON Schema (draft 2020-12) of a file with those members; committed as
// docs/experiment.schema.json.
std::string ExperimentJsonSchema();

// The parts but the findings, which the pages show first: a heading of the second level and what
// follows it, and a section of the page.
std::string ExperimentReportMarkdown(const ExperimentReport& report);
// What the paper expects and what was seen: a heading and a table, or lines for a terminal, where a
// preview says that it is one. The Markdown of a preview has said so at its top.
std::string SeenMarkdown(const ExperimentReport& report);
std::string SeenText(const ExperimentReport& report);
PageSection ReportSection(const ExperimentReport& report);

}  // namespace kcc
