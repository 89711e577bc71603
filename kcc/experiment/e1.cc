#include "kcc/experiment/e1.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kcc/attribution/source_envelope.h"
#include "kcc/experiment/lab_report.h"
#include "kcc/kernel/spread_requests.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

// What perturbations start from; `train` is what the others are judged against.
constexpr std::array<std::string_view, 2> kBases = {"train", "f32"};

struct Perturbation {
  std::string_view base;
  std::string_view name;
  std::string_view value;
  std::string_view also;  // "name=value" that it needs besides
};
constexpr std::array kPerturbations = {
    Perturbation{"f32", "attention", "tiles:32", ""},
    Perturbation{"train", "exp", "fast", ""},
    Perturbation{"train", "rope", "f32", ""},
    Perturbation{"f32", "rmsnorm", "fused", ""},
    Perturbation{"f32", "swiglu", "fused", ""},
    Perturbation{"train", "accumulate", "f32", ""},
    Perturbation{"train", "accumulate", "m13", ""},
    Perturbation{"train", "activations", "bf16", ""},
    Perturbation{"train", "activations", "e4m3", ""},
    Perturbation{"train", "weights", "e4m3", ""},
    Perturbation{"train", "weights", "int8", ""},
    Perturbation{"train", "weights", "int4", "scale=group:32"},
    Perturbation{"train", "kv", "e4m3", ""},
    Perturbation{"train", "logits", "bf16", ""},
    Perturbation{"f32", "batch", "dynamic", ""},
    Perturbation{"f32", "route", "replica:2", ""},
};

// Columns of the drift table, after the four quantities.
constexpr size_t kMargin = 4, kTop1 = 5, kTop5 = 6;
std::vector<size_t> Slots() {
  std::vector<size_t> slots;
  slots.reserve(kTop5 + 1);
  for (const std::string_view name : kE1Quantities) slots.push_back(TokenSlot(name));
  for (const std::string_view name : {"train_margin", "top1_overlap", "top5_overlap"}) {
    slots.push_back(TokenSlot(name));
  }
  return slots;
}

Distribution DistributionOf(std::vector<double> values) {
  Distribution made;
  made.histogram.resize(kHistogramBins);
  std::sort(values.begin(), values.end());
  made.p50 = SortedQuantile(values, 0.50);
  made.p95 = SortedQuantile(values, 0.95);
  made.p99 = SortedQuantile(values, 0.99);
  made.max = SortedQuantile(values, 1);
  for (const double value : values) {
    if (!(value > 0)) {
      ++made.zeros;
      continue;
    }
    const double place = std::floor((std::log10(value) - kHistogramLow) / kHistogramStep);
    const double bin = std::clamp(place, 0.0, static_cast<double>(kHistogramBins - 1));
    ++made.histogram[static_cast<size_t>(bin)];
  }
  return made;
}

struct FlipMargins {
  std::vector<double> top1, top5;  // of the tokens that differ
  size_t tokens = 0;

  std::vector<MarginPoint> Curve() {
    std::sort(top1.begin(), top1.end());
    std::sort(top5.begin(), top5.end());
    std::vector<MarginPoint> curve;
    const auto share = [&](const std::vector<double>& sorted, double margin) {
      const auto below = std::upper_bound(sorted.begin(), sorted.end(), margin) - sorted.begin();
      return static_cast<double>(below) / static_cast<double>(std::max<size_t>(tokens, 1));
    };
    for (size_t i = 0; i < kMarginPoints; ++i) {
      curve.push_back({share(top1, MarginAt(i)), share(top5, MarginAt(i))});
    }
    return curve;
  }
};

E1Slice SliceOf(const DriftTable& drift, const std::vector<std::vector<bool>>& members,
                size_t slice) {
  std::array<std::vector<double>, 4> values;
  FlipMargins flips;
  for (size_t r = 0; r < members.size(); ++r) {
    if (!members[r][slice]) continue;
    for (size_t t = 0; t < drift.tokens(r); ++t) {
      for (size_t q = 0; q < 4; ++q) values[q].push_back(drift.at(r, t, q));
      const double margin = drift.at(r, t, kMargin);
      if (drift.at(r, t, kTop1) < 1) flips.top1.push_back(margin);
      if (drift.at(r, t, kTop5) < 1) flips.top5.push_back(margin);
      ++flips.tokens;
    }
  }
  E1Slice made;
  for (size_t q = 0; q < 4; ++q) made.drift[q] = DistributionOf(std::move(values[q]));
  made.curve = flips.Curve();
  return made;
}

void ReadFlips(const DriftTable& drift, E1Row* row) {
  for (size_t r = 0; r < drift.values.size(); ++r) {
    for (size_t t = 0; t < drift.tokens(r); ++t) {
      if (drift.at(r, t, kTop1) >= 1) continue;
      row->flip_margin_max = std::max(row->flip_margin_max, drift.at(r, t, kMargin));
      row->flip_span_max = std::max(row->flip_span_max, drift.at(r, t, 0));
    }
  }
}

Result<LabSwitches> Perturbed(const Perturbation& p) {
  NamedValues options;
  if (!p.also.empty()) {
    const size_t equals = p.also.find('=');
    options.emplace_back(p.also.substr(0, equals), p.also.substr(equals + 1));
  }
  options.emplace_back(p.name, p.value);
  return ResolveSwitches(p.base, options);
}

ErrorSource SourceOf(std::string_view name) {
  const SwitchInfo* info = FindSwitch(name);
  return info == nullptr ? ErrorSource::kNone : info->source;
}

Result<ScoredLogits> ScoreWith(const Checkpoint& checkpoint, const LabSwitches& switches,
                               std::span<const KernelRequest> requests) {
  KCC_TRY(const LabModel model, LabModel::Make(checkpoint, switches));
  return ScoreInMemory(model, switches, requests);
}

Result<std::vector<KernelRequest>> WithLongOnes(const Checkpoint& checkpoint,
                                                std::span<const KernelRequest> requests,
                                                const E1Options& options) {
  std::vector<KernelRequest> every(requests.begin(), requests.end());
  if (options.long_requests == 0 || requests.size() < 2) return every;
  if (options.long_tokens + 256 > checkpoint.config.positions) {
    return InvalidError("prompts of " + std::to_string(options.long_tokens) +
                        " tokens do not fit the model's " +
                        std::to_string(checkpoint.config.positions) + " positions");
  }
  for (const KernelRequest& request : SpreadRequests(requests, options.long_requests)) {
    KernelRequest made = InContext(request, requests, options.long_tokens);
    if (made.request.id != request.request.id) every.push_back(std::move(made));
  }
  return every;
}

// A kernel of the experiment with what it said.
struct Scored {
  std::string name;
  LabSwitches switches;
  ScoredLogits logits;
};
using Bases = std::map<std::string_view, Scored>;

Result<Bases> ScoreBases(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                         LabReport* report) {
  Bases bases;
  for (const std::string_view name : kBases) {
    Scored& base = bases[name];
    base.name = "lab:" + std::string(name);
    KCC_TRY(base.switches, ResolveSwitches(name, {}));
    KCC_TRY(base.logits, ScoreWith(checkpoint, base.switches, requests));
    const Scored& train = bases.at(kBases[0]);
    report->AddKernel(base.name, base.logits.kernel);
    report->AddArm({std::string(name), ArmRole::kBaseline, train.name, base.name});
    KCC_TRY_VOID(report->Judge(train.logits, base.logits, requests));
    report->AddWork("", base.logits.work);
  }
  return bases;
}

Result<Scored> ScorePerturbed(const Checkpoint& checkpoint, const Perturbation& p,
                              const Scored& base, std::span<const KernelRequest> requests,
                              LabReport* report) {
  Scored made;
  const std::string thrown = std::string(p.name) + "=" + std::string(p.value);
  made.name = base.name + "?" + (p.also.empty() ? "" : std::string(p.also) + "&") + thrown;
  KCC_TRY(made.switches, Perturbed(p));
  KCC_TRY(made.logits, ScoreWith(checkpoint, made.switches, requests));
  report->AddKernel(made.name, made.logits.kernel);
  report->AddArm({thrown, ArmRole::kCandidate, base.name, made.name});
  KCC_TRY_VOID(report->Judge(base.logits, made.logits, requests));
  report->AddWork("", made.logits.work, &base.logits.work);
  return made;
}

void CountSlices(const SliceEvaluator& slices, const std::vector<std::vector<bool>>& members,
                 std::span<const KernelRequest> requests, E1Result* result) {
  result->requests.resize(slices.size());
  result->tokens.resize(slices.size());
  for (size_t s = 0; s < slices.size(); ++s) {
    result->slices.push_back(slices.slices()[s].name);
    for (size_t r = 0; r < requests.size(); ++r) {
      if (!members[r][s]) continue;
      ++result->requests[s];
      result->tokens[s] +=
          static_cast<int64_t>(requests[r].tokens.size()) - requests[r].prompt_tokens;
    }
  }
}

}  // namespace

double MarginAt(size_t point) { return std::pow(10, -4 + static_cast<double>(point) / 8); }

size_t WorstSlice(const E1Row& row) {
  size_t worst = 0;
  for (size_t s = 1; s < row.by_slice.size(); ++s) {
    if (row.by_slice[s].drift[3].p99 > row.by_slice[worst].drift[3].p99) worst = s;
  }
  return worst;
}

Result<E1Result> RunE1(const Checkpoint& checkpoint, std::span<const KernelRequest> asked,
                       const Contract& contract, const E1Options& options) {
  KCC_TRY(const SliceEvaluator slices, RequestSlices(options.slices));
  KCC_TRY(const std::vector<KernelRequest> requests, WithLongOnes(checkpoint, asked, options));
  KCC_TRY(const EnvelopeModel model, EnvelopeModel::Measure(checkpoint, requests, 32));
  const std::vector<std::vector<bool>> members = SliceMembers(slices, requests);
  const std::vector<size_t> slots = Slots();
  E1Result result;
  CountSlices(slices, members, requests, &result);
  LabReport report("e1", contract, checkpoint);
  report.AddRequests("all", requests);
  KCC_TRY(const Bases bases, ScoreBases(checkpoint, requests, &report));
  for (const Perturbation& p : kPerturbations) {
    const Scored& base = bases.at(p.base);
    KCC_TRY(const Scored infer, ScorePerturbed(checkpoint, p, base, requests, &report));
    KCC_TRY(const DriftTable drift,
            MeasureDrift(base.logits, infer.logits, requests, checkpoint.config.vocab, slots));
    E1Row row;
    row.name = std::string(p.name) + "=" + std::string(p.value);
    row.source = SourceOf(p.name);
    row.base = p.base;
    for (size_t s = 0; s < slices.size(); ++s) row.by_slice.push_back(SliceOf(drift, members, s));
    ReadFlips(drift, &row);
    row.linf_max = row.by_slice[0].drift[1].max;
    const SourceEnvelope envelope = model.Between(base.switches, infer.switches);
    row.envelope = envelope.worst_linf;
    row.vacuous = envelope.vacuous;
    row.typical = envelope.statistical_linf;
    result.rows.push_back(std::move(row));
    if (options.progress) {
      options.progress(static_cast<int64_t>(result.rows.size()),
                       static_cast<int64_t>(kPerturbations.size()));
    }
  }
  result.report = report.Finish();
  result.report.preview = options.preview;
  return result;
}

ExperimentReport E1Report(const E1Result& result) {
  ExperimentReport report = result.report;
  if (!report.preview) report.findings = E1Findings(result);
  return report;
}

}  // namespace kcc
