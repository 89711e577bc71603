#include "kcc/experiment/e2.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"
#include "kcc/experiment/lab_report.h"
#include "kcc/kernel/spread_requests.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

// What every engine shares in this experiment: serving's path and chunk.
constexpr size_t kChunk = 64;
constexpr size_t kPage = 16;

std::string ClauseText(const Clause& clause) {
  return MetricName(clause.metric) + (clause.bound == BoundKind::kAtMost ? " ≤ " : " ≥ ") +
         ShortestNumber(clause.threshold);
}

Result<std::vector<E2Clause>> ClausesOf(const Contract& contract, const SliceEvaluator& slices) {
  std::vector<E2Clause> made;
  for (const Clause& clause : contract.clauses) {
    const Quantity& quantity = *clause.metric.quantity;
    const bool decided = quantity.level == QuantityLevel::kToken &&
                         quantity.evidence != EvidenceNeeded::kGold && quantity.own == nullptr &&
                         clause.metric.aggregate != Aggregate::kNone;
    if (!decided) continue;
    E2Clause one{clause.id,    ClauseText(clause), clause.metric,
                 clause.bound, clause.threshold,   std::vector<bool>(slices.size())};
    for (size_t s = 0; s < slices.size(); ++s) {
      one.slices[s] = std::find(clause.slices.begin(), clause.slices.end(),
                                slices.slices()[s].name) != clause.slices.end();
    }
    made.push_back(std::move(one));
  }
  if (made.empty()) {
    return InvalidError("the contract '" + contract.name +
                        "' has no clause about a quantity of tokens: nothing for E2 to judge");
  }
  return made;
}

double AggregateOf(Aggregate aggregate, std::vector<double>* values) {
  const auto count = static_cast<double>(values->size());
  if (aggregate == Aggregate::kMean || aggregate == Aggregate::kRate) {
    double sum = 0;
    for (const double v : *values) sum += aggregate == Aggregate::kMean ? v : v != 0;
    return sum / count;
  }
  std::sort(values->begin(), values->end());
  return SortedQuantile(*values, PercentilePpm(aggregate) * 1e-6);
}

// The requests of one length, served by one engine under one load.
class Regime {
 public:
  Regime(const DriftTable& drift, const std::vector<E2Clause>& clauses)
      : drift_(drift), clauses_(clauses) {}

  E2Cell CellOf(size_t slice, const std::vector<std::vector<bool>>& members) const {
    E2Cell cell;
    std::vector<size_t> chosen;
    for (size_t r = 0; r < members.size(); ++r) {
      if (!members[r][slice]) continue;
      chosen.push_back(r);
      ++cell.requests;
      bool holds = true;
      for (size_t c = 0; c < clauses_.size(); ++c) {
        if (clauses_[c].slices[slice]) holds = holds && Use(c, {&r, 1}) <= 1;
      }
      cell.passing += holds;
    }
    if (chosen.empty()) return cell;
    for (size_t c = 0; c < clauses_.size(); ++c) {
      if (!clauses_[c].slices[slice]) continue;
      const double use = Use(c, chosen);
      if (use <= cell.use) continue;
      cell.use = use;
      cell.clause = c;
    }
    return cell;
  }

 private:
  double Use(size_t clause, std::span<const size_t> requests) const {
    std::vector<double> values;
    for (const size_t r : requests) {
      for (size_t t = 0; t < drift_.tokens(r); ++t) values.push_back(drift_.at(r, t, clause));
    }
    if (values.empty()) return 0;
    return ThresholdUse(clauses_[clause], AggregateOf(clauses_[clause].metric.aggregate, &values));
  }

  const DriftTable& drift_;
  const std::vector<E2Clause>& clauses_;
};

Result<LabSwitches> EngineSwitches(const std::string& engine) {
  KCC_TRY(const LabUri uri, ParseLabUri("lab:" + engine));
  KCC_TRY(LabSwitches switches, ResolveSwitches(uri.kernel, uri.options));
  switches.path = TracePath::kDecode;
  switches.chunk = kChunk;
  switches.page = kPage;
  return switches;
}

LabSwitches UnderLoad(LabSwitches switches, const E2Load& load,
                      std::span<const KernelRequest> requests) {
  switches.concurrency = load.batch;
  if (!load.pressed) return switches;
  size_t longest = 0;
  for (const KernelRequest& request : requests) longest = std::max(longest, request.tokens.size());
  // The second sequence fits when it comes, and no longer once both have grown.
  switches.kv_tokens = longest + longest / 2 + switches.page;
  return switches;
}

// The requests of one length with what the training kernel said, which every engine shares.
struct LengthSet {
  std::vector<KernelRequest> requests;
  std::vector<std::vector<bool>> members;
  ScoredLogits train;
};

Result<LengthSet> MakeLengthSet(const LabModel& train, const E2Length& length,
                                std::span<const KernelRequest> pool, const SliceEvaluator& slices) {
  LengthSet made;
  for (KernelRequest& request : SpreadRequests(pool, length.requests, length.tokens / 256)) {
    made.requests.push_back(length.tokens == 0 ? std::move(request)
                                               : InContext(request, pool, length.tokens));
  }
  made.members = SliceMembers(slices, made.requests);
  KCC_TRY(const LabSwitches switches, EngineSwitches("train"));
  KCC_TRY(made.train, ScoreInMemory(train, switches, made.requests));
  return made;
}

Result<> CheckPool(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                   const E2Options& options) {
  if (requests.size() < 2) {
    return InvalidError("longer contexts are made of other requests, so E2 needs at least two");
  }
  for (const E2Length& length : options.lengths) {
    if (length.tokens + 256 > checkpoint.config.positions && length.tokens != 0) {
      return InvalidError("contexts of " + std::to_string(length.tokens) +
                          " tokens and their continuations do not fit the model's " +
                          std::to_string(checkpoint.config.positions) + " positions");
    }
  }
  return {};
}

// The sweep: every engine under every load at every length, into the result and its report.
class Sweep {
 public:
  Sweep(const Checkpoint& checkpoint, const Contract& contract, const E2Options& options,
        E2Result* result)
      : checkpoint_(checkpoint),
        options_(options),
        report_("e2", contract, checkpoint),
        result_(*result) {
    for (const E2Clause& clause : result->clauses) {
      slots_.push_back(TokenSlot(*clause.metric.quantity, clause.metric.side));
    }
  }

  // First: what the training kernel says about every length. It is the report's baseline.
  Result<> ScoreTrain(std::span<const KernelRequest> requests, const SliceEvaluator& slices) {
    KCC_TRY(const LabSwitches switches, EngineSwitches("train"));
    KCC_TRY(const LabModel train, LabModel::Make(checkpoint_, switches));
    report_.AddKernel("lab:train", LabKernelInfo(train, switches));
    report_.AddArm({"train", ArmRole::kBaseline, "lab:train", "lab:train"});
    for (const E2Length& length : options_.lengths) {
      KCC_TRY(LengthSet set, MakeLengthSet(train, length, requests, slices));
      report_.AddRequests(LengthText(length), set.requests);
      KCC_TRY_VOID(report_.Judge(set.train, set.train, set.requests));
      AddWork(set.train.work, &train_work_);
      sets_.push_back(std::move(set));
      Advance();
    }
    report_.AddWork(LoadText({switches.concurrency, false}), train_work_);
    return {};
  }

  Result<> RunEngine(size_t engine) {
    const std::string name = "lab:" + options_.engines[engine];
    KCC_TRY(const LabSwitches switches, EngineSwitches(options_.engines[engine]));
    KCC_TRY_VOID(CheckSwitches(switches));
    KCC_TRY(const LabModel model, LabModel::Make(checkpoint_, switches));
    report_.AddKernel(name, LabKernelInfo(model, switches));
    report_.AddArm({name, ArmRole::kCandidate, "lab:train", name});
    for (size_t load = 0; load < options_.loads.size(); ++load) {
      KCC_TRY_VOID(RunLoad(model, switches, engine, load));
    }
    return {};
  }

  ExperimentReport Finish() { return report_.Finish(); }

 private:
  Result<> RunLoad(const LabModel& model, const LabSwitches& switches, size_t engine, size_t at) {
    const E2Load& load = options_.loads[at];
    EngineStats work;
    for (size_t n = 0; n < sets_.size(); ++n) {
      const LengthSet& set = sets_[n];
      KCC_TRY(const ScoredLogits infer,
              ScoreInMemory(model, UnderLoad(switches, load, set.requests), set.requests));
      KCC_TRY(const DriftTable drift,
              MeasureDrift(set.train, infer, set.requests, checkpoint_.config.vocab, slots_));
      KCC_TRY_VOID(report_.Judge(set.train, infer, set.requests));
      AddWork(infer.work, &work);
      E2Row row{engine, at, n, infer.work.preemptions, {}};
      const Regime regime(drift, result_.clauses);
      for (size_t s = 0; s < result_.slices.size(); ++s) {
        row.by_slice.push_back(regime.CellOf(s, set.members));
      }
      result_.rows.push_back(std::move(row));
      Advance();
    }
    // The training kernel served one load only; the others have no baseline.
    const bool same = load == E2Load{switches.concurrency, false};
    report_.AddWork(LoadText(load), work, same ? &train_work_ : nullptr);
    return {};
  }

  void Advance() {
    const size_t total =
        options_.lengths.size() * (1 + options_.engines.size() * options_.loads.size());
    if (options_.progress) options_.progress(++done_, static_cast<int64_t>(total));
  }

  const Checkpoint& checkpoint_;
  const E2Options& options_;
  LabReport report_;
  E2Result& result_;
  std::vector<size_t> slots_;
  std::vector<LengthSet> sets_;
  EngineStats train_work_;
  int64_t done_ = 0;
};

}  // namespace

E2Options E2Options::Default() {
  E2Options options;
  options.engines = {"bf16", "bf16?kv=e4m3", "bf16?rope=bf16", "int8", "fp8", "int4"};
  options.lengths = {{0, 40}, {256, 25}, {1024, 10}, {2048, 5}};
  options.loads = {{1, false}, {4, false}, {16, false}, {16, true}};
  return options;
}

E2Options E2Options::Quick() {
  E2Options options = Default();
  options.lengths = {{0, 5}, {256, 5}};
  options.loads = {{1, false}, {8, true}};
  options.preview = true;
  return options;
}

double ThresholdUse(const E2Clause& clause, double value) {
  if (clause.bound == BoundKind::kAtMost) {
    if (clause.threshold > 0) return std::max(value, 0.0) / clause.threshold;
    return value <= clause.threshold ? 0 : INFINITY;
  }
  if (MetricMax(clause.metric) == 1 && clause.threshold <= 1) {
    if (clause.threshold < 1) return (1 - value) / (1 - clause.threshold);
    return value >= 1 ? 0 : INFINITY;
  }
  if (value >= clause.threshold) return value > 0 ? std::max(clause.threshold / value, 0.0) : 0;
  return value > 0 ? clause.threshold / value : INFINITY;
}

Result<E2Result> RunE2(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       const Contract& contract, const E2Options& options) {
  KCC_TRY_VOID(CheckPool(checkpoint, requests, options));
  KCC_TRY(const SliceEvaluator slices, RequestSlices(options.slices));
  E2Result result;
  result.contract = contract.name + " " + contract.version;
  for (const Slice& slice : slices.slices()) result.slices.push_back(slice.name);
  result.engines = options.engines;
  result.lengths = options.lengths;
  result.loads = options.loads;
  KCC_TRY(result.clauses, ClausesOf(contract, slices));
  Sweep sweep(checkpoint, contract, options, &result);
  KCC_TRY_VOID(sweep.ScoreTrain(requests, slices));
  for (size_t e = 0; e < options.engines.size(); ++e) KCC_TRY_VOID(sweep.RunEngine(e));
  result.report = sweep.Finish();
  result.report.preview = options.preview;
  return result;
}

ExperimentReport E2Report(const E2Result& result) {
  ExperimentReport report = result.report;
  if (!report.preview) report.findings = E2Findings(result);
  return report;
}

}  // namespace kcc
