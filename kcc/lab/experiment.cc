#include "kcc/lab/experiment.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kcc/kernel/private_dir.h"
#include "kcc/lab/lab_kernel.h"
#include "kcc/lab/source_envelope.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/token_meter.h"
#include "kcc/trace/slices.h"

namespace kcc {
namespace {

struct Perturbation {
  std::string_view base;
  std::string_view name;
  std::string_view value;
  std::string_view also;  // "name=value" that it needs besides
};
// One at a time. What only reorders operations is seen in f32, where the order matters.
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
constexpr std::array<std::string_view, 4> kEngines = {"bf16", "fp8", "int8", "int4"};
constexpr std::array<size_t, 3> kConcurrencies = {1, 4, 16};

Result<SliceEvaluator> Evaluator(const ExperimentOptions& options) {
  std::vector<Slice> slices = {Slice{"all", {}, {}}};
  for (const Slice& slice : options.slices) {
    if (slice.name != "all") slices.push_back(slice);
  }
  return SliceEvaluator::Make(std::move(slices));
}

std::vector<std::string> NamesOf(const SliceEvaluator& evaluator) {
  std::vector<std::string> names;
  for (const Slice& slice : evaluator.slices()) names.push_back(slice.name);
  return names;
}

Result<std::vector<RequestSample>> Collect(const std::string& train, const std::string& infer,
                                           const SliceEvaluator& evaluator) {
  KCC_TRY(TraceReader train_reader, TraceReader::Open(train));
  KCC_TRY(TraceReader infer_reader, TraceReader::Open(infer));
  KCC_TRY(const PairedTraces pair,
          PairedTraces::Make(std::move(train_reader), std::move(infer_reader)));
  SlotSet wanted;
  std::array<size_t, 4> slots{};
  for (size_t q = 0; q < slots.size(); ++q) wanted.set(slots[q] = TokenSlot(kE1Quantities[q]));
  const size_t margin = TokenSlot("train_margin");
  const size_t top1 = TokenSlot("top1_overlap");
  const size_t top5 = TokenSlot("top5_overlap");
  for (const size_t slot : {margin, top1, top5}) wanted.set(slot);
  TokenMeter meter(MeterSettings::Of(pair), wanted);
  PairCursor cursor(pair);
  TokenReading reading;
  std::vector<RequestSample> samples;
  for (size_t i = 0; i < pair.requests().size(); ++i) {
    RequestSample sample;
    sample.id = pair.requests()[i].id;
    SliceBits bits(evaluator.size());
    const auto request = static_cast<int32_t>(i);
    evaluator.ForRequest(pair.train_request(request), pair.infer_request(request), &bits);
    for (size_t s = 0; s < evaluator.size(); ++s) sample.slices.push_back(bits.Test(s));
    cursor.Seek(static_cast<int32_t>(i));
    for (;;) {
      KCC_TRY(const bool more, cursor.Next());
      if (!more) break;
      KCC_TRY_VOID(meter.Read(cursor.train(), cursor.infer(), &reading));
      DriftSample token;
      for (size_t q = 0; q < slots.size(); ++q) token.drift[q] = reading.drift.lo[slots[q]];
      token.margin = reading.drift.lo[margin];
      token.top1_differs = reading.drift.lo[top1] < 1;
      token.top5_differs = reading.drift.lo[top5] < 1;
      sample.tokens.push_back(token);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

Distribution DistributionOf(std::vector<double> values) {
  Distribution made;
  made.histogram.resize(kHistogramBins);
  if (values.empty()) return made;
  std::sort(values.begin(), values.end());
  const auto at = [&](double p) {  // type-1 quantile
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
    return values[std::min(values.size(), std::max<size_t>(rank, 1)) - 1];
  };
  made.p50 = at(0.50);
  made.p95 = at(0.95);
  made.p99 = at(0.99);
  made.max = values.back();
  for (const double value : values) {
    const double place = value > 0 ? (std::log10(value) - kHistogramLow) / kHistogramStep : 0;
    const double bin = std::clamp(std::floor(place), 0.0, static_cast<double>(kHistogramBins - 1));
    ++made.histogram[static_cast<size_t>(bin)];
  }
  return made;
}

std::vector<MarginPoint> CurveOf(const std::vector<RequestSample>& samples) {
  std::vector<MarginPoint> curve;
  double total = 0;
  for (const RequestSample& sample : samples) total += static_cast<double>(sample.tokens.size());
  for (double exponent = -4; exponent <= 1.01; exponent += 0.25) {
    MarginPoint point{std::pow(10, exponent), 0, 0};
    for (const RequestSample& sample : samples) {
      for (const DriftSample& token : sample.tokens) {
        if (token.margin > point.margin) continue;
        point.top1 += token.top1_differs;
        point.top5 += token.top5_differs;
      }
    }
    point.top1 /= std::max(total, 1.0);
    point.top5 /= std::max(total, 1.0);
    curve.push_back(point);
  }
  return curve;
}

void Fill(const std::vector<RequestSample>& samples, size_t slices, E1Row* row) {
  for (size_t s = 0; s < slices; ++s) {
    std::array<Distribution, 4> of_slice;
    for (size_t q = 0; q < 4; ++q) {
      std::vector<double> values;
      for (const RequestSample& sample : samples) {
        if (!sample.slices[s]) continue;
        for (const DriftSample& token : sample.tokens) values.push_back(token.drift[q]);
      }
      of_slice[q] = DistributionOf(std::move(values));
    }
    row->by_slice.push_back(std::move(of_slice));
  }
  row->curve = CurveOf(samples);
  row->linf_max = row->by_slice[0][1].max;
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
  for (const SwitchInfo& info : SwitchTable()) {
    if (info.name == name) return info.source;
  }
  return ErrorSource::kNone;
}

Result<> ScoreWith(const Checkpoint& checkpoint, const LabSwitches& switches,
                   std::span<const KernelRequest> requests, const std::string& directory) {
  KCC_TRY(const std::unique_ptr<LabKernel> kernel, LabKernel::Make(checkpoint, switches));
  return kernel->Score(requests, directory);
}

}  // namespace

Result<E1Result> RunE1(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       const ExperimentOptions& options) {
  KCC_TRY(const SliceEvaluator evaluator, Evaluator(options));
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
  KCC_TRY(const EnvelopeModel model, EnvelopeModel::Measure(checkpoint, requests, 32));
  E1Result result;
  result.slices = NamesOf(evaluator);
  const auto total = static_cast<int64_t>(kPerturbations.size());
  std::map<std::string, LabSwitches> bases;
  for (const Perturbation& p : kPerturbations) {
    const std::string base(p.base);
    if (!bases.contains(base)) {
      KCC_TRY(bases[base], ResolveSwitches(base, {}));
      KCC_TRY_VOID(ScoreWith(checkpoint, bases[base], requests, scratch / base));
    }
    KCC_TRY(const LabSwitches switches, Perturbed(p));
    KCC_TRY_VOID(ScoreWith(checkpoint, switches, requests, scratch / "infer"));
    KCC_TRY(const std::vector<RequestSample> samples,
            Collect(scratch / base, scratch / "infer", evaluator));
    KCC_TRY_VOID(RemoveTree(scratch / "infer"));
    E1Row row;
    row.name = std::string(p.name) + "=" + std::string(p.value);
    row.source = SourceOf(p.name);
    row.base = base;
    Fill(samples, result.slices.size(), &row);
    const SourceEnvelope envelope = model.Between(bases[base], switches);
    row.envelope = envelope.worst_linf;
    row.vacuous = envelope.vacuous;
    row.typical = envelope.statistical_linf;
    result.rows.push_back(std::move(row));
    if (result.tokens.empty()) {
      for (size_t s = 0; s < result.slices.size(); ++s) {
        int64_t tokens = 0;
        for (const RequestSample& sample : samples) {
          if (sample.slices[s]) tokens += static_cast<int64_t>(sample.tokens.size());
        }
        result.tokens.push_back(tokens);
      }
    }
    if (options.progress) options.progress(static_cast<int64_t>(result.rows.size()), total);
  }
  return result;
}

Result<E2Result> RunE2(const Checkpoint& checkpoint, std::span<const KernelRequest> requests,
                       double threshold, const ExperimentOptions& options) {
  KCC_TRY(const SliceEvaluator evaluator, Evaluator(options));
  KCC_TRY(const PrivateDir scratch, PrivateDir::Make(options.scratch));
  E2Result result;
  result.slices = NamesOf(evaluator);
  result.threshold = threshold;
  KCC_TRY(const LabSwitches train, ResolveSwitches("train", {}));
  KCC_TRY_VOID(ScoreWith(checkpoint, train, requests, scratch / "train"));
  const auto total = static_cast<int64_t>(kEngines.size() * kConcurrencies.size());
  for (const std::string_view engine : kEngines) {
    for (const size_t concurrency : kConcurrencies) {
      KCC_TRY(LabSwitches switches, ResolveSwitches(engine, {}));
      switches.concurrency = concurrency;
      switches.chunk = 16 * concurrency;  // the step's size follows the load
      KCC_TRY_VOID(ScoreWith(checkpoint, switches, requests, scratch / "infer"));
      KCC_TRY(const std::vector<RequestSample> samples,
              Collect(scratch / "train", scratch / "infer", evaluator));
      KCC_TRY_VOID(RemoveTree(scratch / "infer"));
      E2Row row{std::string(engine), concurrency, std::vector<E2Cell>(result.slices.size())};
      for (const RequestSample& sample : samples) {
        double sum = 0;
        for (const DriftSample& token : sample.tokens) sum += token.drift[3];
        const double mean = sum / std::max(1.0, static_cast<double>(sample.tokens.size()));
        for (size_t s = 0; s < result.slices.size(); ++s) {
          if (!sample.slices[s]) continue;
          ++row.by_slice[s].requests;
          row.by_slice[s].passing += mean <= threshold;
          row.by_slice[s].narrow += mean <= threshold && mean > 0.8 * threshold;
        }
      }
      result.rows.push_back(std::move(row));
      if (options.progress) options.progress(static_cast<int64_t>(result.rows.size()), total);
    }
  }
  return result;
}

}  // namespace kcc
