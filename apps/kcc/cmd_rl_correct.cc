// kcc rl translate and correct: a framework's options in canonical words, and the weights and mask
// that a correction gives.
#include <bit>
#include <cstring>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/format/safetensors.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/rl_json.h"

namespace kcc::cli {
namespace {

void PrintTranslation(const DialectTranslation& translation, Console& console) {
  for (const std::string& warning : translation.warnings) {
    console.err << Paint(Style::kYellow, "warning", console.colour_err) << ": " << Shown(warning)
                << '\n';
  }
  for (const std::string& note : translation.notes) console.err << "note: " << Shown(note) << '\n';
}

// A safetensors file of the weights (F32) and the mask (U8).
std::string WeightFile(const RlBatch& batch, std::span<const float> weights,
                       std::span<const uint8_t> mask) {
  const std::vector<int64_t> shape = batch.packed()
                                         ? std::vector<int64_t>{batch.offsets.back()}
                                         : std::vector<int64_t>{batch.rows, batch.columns};
  TensorInfo tensors[2];
  tensors[0].name = "weights";
  tensors[0].dtype = DType::kF32;
  tensors[0].shape = shape;
  tensors[1].name = "mask";
  tensors[1].dtype = DType::kU8;
  tensors[1].shape = shape;
  std::string bytes = SafetensorsPrefix(tensors, {{"made_by", "kcc rl correct"}});
  static_assert(std::endian::native == std::endian::little);
  const auto append = [&](const void* data, size_t size) {
    if (size > 0) bytes.append(static_cast<const char*>(data), size);
  };
  append(weights.data(), weights.size_bytes());
  append(mask.data(), mask.size_bytes());
  return bytes;
}

void PrintCorrection(const RlCorrection& correction, std::span<const RlCorrectionMetrics> metrics,
                     Console& console) {
  console.out << DescribeCorrection(correction) << "\n  bias at most " << BiasExpression(correction)
              << '\n';
  for (const RlCorrectionMetrics& f : metrics) {
    console.out << "  " << (f.slice.empty() ? "everything" : Shown(f.slice)) << ": keeps "
                << f.tokens_kept << " of " << f.tokens << " tokens, " << f.rows_kept << " of "
                << f.rows << " rows; mean weight " << ReadableNumber(f.mean_weight) << ", ESS "
                << ReadableNumber(f.ess) << ", bias " << ReadableNumber(f.bias_token) << " (token) "
                << ReadableNumber(f.bias_sequence) << " (sequence), E phi^2 "
                << ReadableNumber(f.variance) << '\n';
    if (f.everything_rejected()) {
      console.out << "  " << Paint(Style::kRed, "everything is rejected", console.colour_out)
                  << '\n';
    }
  }
}

}  // namespace

Result<RlCorrection> RlCorrectionOf(const RlCorrectionFlags& flags, Console& console) {
  const RlDialectFlags& framework = flags.framework;
  if (framework.dialect.empty()) {
    if (flags.rule.empty()) {
      return InvalidError("say which correction: --rule JSON, or --dialect with --options JSON");
    }
    return ParseCorrection(flags.rule);
  }
  if (!flags.rule.empty()) return InvalidError("--rule and --dialect exclude each other");
  KCC_TRY(const DialectTranslation translation,
          TranslateDialect(framework.dialect, framework.function, framework.options));
  PrintTranslation(translation, console);
  if (!translation.complete) {
    return InvalidError(
        "these options have no canonical counterpart; kcc rl conform and the "
        "dialect functions compute them as they are");
  }
  return translation.correction;
}

int RunRlTranslate(const RlDialectFlags& options, Console& console) {
  const auto translation = TranslateDialect(options.dialect, options.function, options.options);
  if (!translation.has_value()) return ReportError(translation.error(), console);
  if (console.json) {
    console.out << TranslateJson(*translation);
    return kExitOk;
  }
  console.out << DescribeCorrection(translation->correction) << '\n';
  for (const std::string& warning : translation->warnings) {
    console.out << Paint(Style::kYellow, "warning", console.colour_out) << ": " << Shown(warning)
                << '\n';
  }
  for (const std::string& note : translation->notes) console.out << "note: " << Shown(note) << '\n';
  if (!translation->complete) console.out << "not all of it can be said in canonical words\n";
  return kExitOk;
}

int RunRlCorrect(const RlCorrectOptions& options, Console& console) {
  const auto correction = RlCorrectionOf(options.correction, console);
  if (!correction.has_value()) return ReportError(correction.error(), console);
  const auto dump = ReadRlStep(options.step, console);
  if (!dump.has_value()) return ReportError(dump.error(), console);
  const auto batch = dump->Batch();
  if (!batch.has_value()) return ReportError(batch.error(), console);
  std::vector<float> weights;
  std::vector<uint8_t> mask;
  if (!options.output.empty()) {
    weights.resize(dump->Find("train")->values.size());
    mask.resize(weights.size());
  }
  RlCorrectOutput output;
  output.weights = weights;
  output.mask = mask;
  const auto metrics = CorrectRl(*batch, *correction, output, options.step.threads);
  if (!metrics.has_value()) return ReportError(metrics.error(), console);
  if (!options.output.empty()) {
    const auto written = WriteFileAtomically(options.output, WeightFile(*batch, weights, mask));
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  if (console.json) {
    console.out << CorrectJson(*correction, *metrics);
  } else {
    PrintCorrection(*correction, *metrics, console);
  }
  return (*metrics)[0].everything_rejected() ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
