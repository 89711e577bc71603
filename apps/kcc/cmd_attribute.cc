// kcc attribute: which error source brings which part of the drift, and where two kernels part.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/attribution/attribution.h"
#include "kcc/attribution/attribution_page.h"
#include "kcc/attribution/corners.h"
#include "kcc/attribution/divergence.h"
#include "kcc/attribution/source_envelope.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/kernel/spread_requests.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc::cli {
namespace {

// The lab's own; other kernels have no envelope that kcc could compute.
struct LabSides {
  Checkpoint checkpoint;
  LabSwitches train;
  LabSwitches infer;
};

Result<std::optional<LabSides>> LabSidesOf(const AttributeOptions& options,
                                           const Console& console) {
  if (!options.train.starts_with("lab:")) return std::optional<LabSides>();
  KCC_TRY(const LabUri train, ParseLabUri(options.train));
  KCC_TRY(const LabUri infer, ParseLabUri(options.infer));
  LabSides sides;
  KCC_TRY(sides.train, ResolveSwitches(train.kernel, train.options));
  KCC_TRY(sides.infer, ResolveSwitches(infer.kernel, infer.options));
  KCC_TRY(const std::string model, train.ModelDirectory(ShippedModelOf(console)));
  KCC_TRY(sides.checkpoint, ReadCheckpoint(model));
  return std::optional<LabSides>(std::move(sides));
}

// Read once: they may come from a pipe.
Result<std::vector<KernelRequest>> ChosenRequests(const AttributeOptions& options,
                                                  const Console& console) {
  KernelFlags flags = options.kernels;
  if (flags.requests.empty()) {
    KCC_TRY(flags.requests, ShippedRequests(console));
  }
  KCC_TRY(const auto source, OpenRequests(flags, RequestUse::kScore, SampledBy::kDataset));
  return ReadSpread(*source, options.requests_max);
}

struct Attributed {
  Attribution attribution;
  std::optional<std::array<SourceEnvelope, 5>> envelopes;
};

Result<Attributed> Compute(const AttributeOptions& options, const Contract* contract,
                           Console& console) {
  const Interruptible interruptible(console);
  const std::vector<KernelScheme> schemes = KernelSchemes(console);
  const SystemClock clock;
  // One corner's answer to one batch: what a corner has to compute is no count of tokens.
  Progress progress(console, clock, "corner runs");
  progress.Wait("starting train and infer");
  KCC_TRY(CornerSet corners, CornersBetween(options.train, options.infer,
                                            OpenOptionsOf(options.kernels, interruptible), schemes,
                                            ShippedModelOf(console)));
  AttributionOptions attribution;
  attribution.active = corners.active;
  attribution.measure_base = !corners.repeatable;
  attribution.quantities = options.quantities;
  attribution.batch_requests = options.kernels.batch;
  attribution.scratch = StreamOptionsOf(options.kernels, interruptible).scratch;
  if (contract != nullptr) attribution.slices = contract->slices;
  attribution.progress = [&](int64_t done, int64_t total) { progress.Show(done, total, 0); };
  KCC_TRY(const std::vector<KernelRequest> requests, ChosenRequests(options, console));
  Attributed made;
  KCC_TRY(made.attribution, Attribute(*corners.train, corners.open, requests, attribution));
  KCC_TRY(const std::optional<LabSides> sides, LabSidesOf(options, console));
  if (sides && EnvelopeModel::Covers(sides->checkpoint.config)) {
    KCC_TRY(const EnvelopeModel model,
            EnvelopeModel::Measure(sides->checkpoint, requests, sides->infer.group));
    made.envelopes = model.BySource(sides->train, sides->infer);
  }
  return made;
}

std::string Percent(double part, double total) {
  if (total == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part / total);
  return text;
}

void Pad(std::string_view text, size_t width, std::ostream& out) {
  out << text << ' ';
  for (size_t i = text.size() + 1; i < width; ++i) out << ' ';
}

// A line a source: its share in the quantity's own unit, the interval of it, and its part of the
// total.
void PrintCell(const AttributedCell& cell, Console& console) {
  console.out << "  mean " << cell.quantity << ' ' << ReadableNumber(cell.shapley.total) << '\n';
  for (size_t i = 0; i < kShapleySources; ++i) {
    Pad("    " + std::string(Name(kErrorSources[i])), 16, console.out);
    Pad(ReadableNumber(cell.shapley.share[i]), 14, console.out);
    Pad("[" + ReadableNumber(cell.interval[i].lo) + ", " + ReadableNumber(cell.interval[i].hi) +
            "]",
        28, console.out);
    console.out << Percent(cell.shapley.share[i], cell.shapley.total) << '\n';
  }
  Pad("    interaction", 16, console.out);
  Pad(ReadableNumber(cell.shapley.interaction), 14 + 28, console.out);
  console.out << Percent(cell.shapley.interaction, cell.shapley.total) << '\n';
}

void PrintCells(const Attributed& made, Console& console) {
  const Attribution& a = made.attribution;
  const std::string headline = AttributionHeadline(a);
  if (!headline.empty()) console.out << headline << '\n';
  console.out << "train  " << Shown(a.train_fingerprint) << "\ninfer  "
              << Shown(a.infer_fingerprint) << '\n';
  std::string slice;
  for (const AttributedCell& cell : a.cells) {
    if (cell.slice != slice) {
      slice = cell.slice;
      console.out << '\n'
                  << Paint(Style::kBold, Shown(slice), console.colour_out) << ": "
                  << Counted(static_cast<size_t>(cell.requests), "request") << ", "
                  << Counted(static_cast<size_t>(cell.tokens), "token") << '\n';
    }
    PrintCell(cell, console);
  }
  if (!made.envelopes) return;
  console.out << "\nlargest logit_linf beside its envelope (worst case; statistical)\n";
  for (size_t i = 0; i < 5; ++i) {
    const SourceEnvelope& envelope = (*made.envelopes)[i];
    const size_t corner = i < 4 ? size_t{1} << i : kCorners - 1;
    Pad("  " + std::string(i < 4 ? Name(kErrorSources[i]) : "all"), 18, console.out);
    Pad(ReadableNumber(a.corner_linf_max[corner]), 12, console.out);
    console.out << ReadableNumber(envelope.worst_linf) << (envelope.vacuous ? " (vacuous)" : "")
                << "; " << ReadableNumber(envelope.statistical_linf) << '\n';
  }
}

void WriteJson(const Attributed& made, Console& console) {
  const Attribution& a = made.attribution;
  JsonWriter json;
  json.BeginObject().Field("kccAttribution", 1);
  json.Field("train", a.train_fingerprint).Field("infer", a.infer_fingerprint);
  json.Field("confidence", a.confidence).Key("cells").BeginArray();
  for (const AttributedCell& cell : a.cells) {
    json.BeginObject().Field("slice", cell.slice).Field("quantity", cell.quantity);
    json.Field("requests", cell.requests).Field("tokens", cell.tokens);
    json.Field("total", cell.shapley.total).Field("interaction", cell.shapley.interaction);
    for (size_t i = 0; i < kShapleySources; ++i) {
      json.Key(Name(kErrorSources[i])).BeginObject().Field("share", cell.shapley.share[i]);
      json.Field("alone", cell.shapley.alone[i]).Key("interval").BeginArray();
      json.Value(cell.interval[i].lo).Value(cell.interval[i].hi).EndArray().EndObject();
    }
    json.Key("corners").BeginArray();
    for (const double corner : cell.shapley.corners) json.Value(corner);
    json.EndArray().EndObject();
  }
  json.EndArray();
  if (made.envelopes) {
    json.Key("envelopes").BeginObject();
    for (size_t i = 0; i < 5; ++i) {
      const SourceEnvelope& envelope = (*made.envelopes)[i];
      json.Key(i < 4 ? Name(kErrorSources[i]) : "all").BeginObject();
      json.Field("measuredLinf", a.corner_linf_max[i < 4 ? size_t{1} << i : kCorners - 1]);
      json.Field("worstLinf", envelope.worst_linf).Field("vacuous", envelope.vacuous);
      json.Field("statisticalLinf", envelope.statistical_linf).EndObject();
    }
    json.EndObject();
  }
  console.out << json.EndObject().Take();
}

Result<FirstDivergence> FindDivergence(const AttributeOptions& options, const Console& console) {
  KCC_TRY(std::optional<LabSides> sides, LabSidesOf(options, console));
  if (!sides) {
    return InvalidError("--first-divergence reads replay signatures of lab: kernels only");
  }
  sides->train.audit = sides->infer.audit = AuditLevel::kEverything;
  KCC_TRY(const auto train, LabKernel::Make(sides->checkpoint, sides->train));
  KCC_TRY(const auto infer, LabKernel::Make(sides->checkpoint, sides->infer));
  KCC_TRY(const std::vector<KernelRequest> requests, ChosenRequests(options, console));
  return FindFirstDivergence(*train, *infer, requests);
}

void PrintDivergence(const FirstDivergence& found, Console& console) {
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccFirstDivergence", 1).Field("requests", found.requests);
    json.Field("diverging", found.diverging);
    if (found.diverging > 0) {
      json.Field("request", found.request).Field("position", found.position);
      json.Field("point", found.point_name).Field("operator", found.operator_name);
      json.Field("width", found.width).Field("elements", found.elements);
      json.Field("element", found.element).Field("train", double{found.train});
      json.Field("infer", double{found.infer}).Field("relative", found.relative);
      json.Key("firstPoints").BeginObject();
      for (const auto& [name, count] : found.first_points) json.Field(name, count);
      json.EndObject();
    }
    console.out << json.EndObject().Take();
    return;
  }
  if (found.diverging == 0) {
    console.out << "the kernels agree bit for bit on "
                << Counted(static_cast<size_t>(found.requests), "request") << '\n';
    return;
  }
  console.out << found.diverging << " of "
              << Counted(static_cast<size_t>(found.requests), "request") << " part; the first at "
              << found.point_name << " (" << found.operator_name << "), request "
              << Shown(found.request) << ", position " << found.position << "\n  " << found.elements
              << " of " << found.width << " elements differ, " << ReadableNumber(found.relative)
              << " in relative norm; most at element " << found.element << ": "
              << ShortestNumber(found.train) << " against " << ShortestNumber(found.infer) << '\n';
  for (const auto& [name, count] : found.first_points) {
    console.out << "  first at " << name << ": " << Counted(static_cast<size_t>(count), "request")
                << '\n';
  }
}

// The page links the report that stands beside it.
Result<> WritePage(const Attributed& made, const std::string& path) {
  const std::filesystem::path report = std::filesystem::path(path).parent_path() / "report.html";
  std::error_code unknown;
  const bool beside = std::filesystem::exists(report, unknown);
  return WriteFileAtomically(path, AttributionHtml(made.attribution, made.envelopes, beside));
}

}  // namespace

int RunAttribute(const AttributeOptions& options, Console& console) {
  if (options.first_divergence) {
    const Result<FirstDivergence> found = FindDivergence(options, console);
    if (!found.has_value()) return ReportError(found.error(), console);
    PrintDivergence(*found, console);
    return kExitOk;
  }
  std::optional<ValidContract> contract;
  if (!options.contract.empty()) {
    int exit_code = kExitOk;
    contract = RequireContract(options.contract, console, &exit_code);
    if (!contract) return exit_code;
  }
  const Result<Attributed> made =
      Compute(options, contract ? &contract->contract : nullptr, console);
  if (!made.has_value()) return ReportError(made.error(), console);
  if (!options.output.empty()) {
    const Result<> written = WritePage(*made, options.output);
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  if (console.json) {
    WriteJson(*made, console);
  } else {
    PrintCells(*made, console);
    if (!options.output.empty()) console.out << "\npage in " << Shown(options.output) << '\n';
  }
  return kExitOk;
}

}  // namespace kcc::cli
