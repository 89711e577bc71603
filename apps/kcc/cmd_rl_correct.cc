// kcc rl translate, correct and replay: a framework's options in canonical words, the weights and
// mask that a correction gives, and all corrections side by side.
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
#include "kcc/rl/replay.h"
#include "kcc/rl/replay_advice.h"
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

void PrintReplay(const RlReplay& replay, Console& console) {
  console.out << "     kept  worst slice      ESS  bias (sequence)   E phi^2  correction\n";
  const auto cell = [&](const std::string& text, size_t width) {
    console.out << std::string(text.size() < width ? width - text.size() : 1, ' ') << text;
  };
  for (size_t i = 0; i < replay.rows.size(); ++i) {
    const RlReplayRow& row = replay.rows[i];
    const RlCorrectionMetrics& f = row.metrics[0];
    const double kept = static_cast<double>(f.tokens_kept) / static_cast<double>(f.tokens);
    console.out << (static_cast<int>(i) == replay.recommended ? "=>" : row.pareto ? " *" : "  ");
    cell(ReadableNumber(100 * kept) + "%", 7);
    cell(ReadableNumber(100 * row.kept_min) + "%", 13);
    cell(ReadableNumber(f.ess), 9);
    cell(ReadableNumber(f.bias_sequence), 17);
    cell(ReadableNumber(f.variance), 10);
    console.out << "  " << DescribeCorrection(row.correction) << '\n';
  }
  console.out << "\n* no other is better in both bias and variance\n";
  if (replay.recommended >= 0) {
    console.out << "=> "
                << DescribeCorrection(
                       replay.rows[static_cast<size_t>(replay.recommended)].correction)
                << '\n';
  }
  console.out << Shown(replay.reason) << '\n';
}

std::string SpendingText(std::string_view what, const RlClipSpending& spent) {
  return std::string(what) + " " + ReadableNumber(100 * spent.share) + " % of it (mean |w - 1| " +
         ReadableNumber(spent.mean_distance) + "), " + std::to_string(spent.tokens_outside) +
         " of " + Counted(static_cast<size_t>(spent.tokens), "token") + " all of it";
}

// What the gap spends of the range in which PPO does not clip.
std::string ClipBudgetText(const RlClipBudget& clip) {
  const std::string whole = "PPO's epsilon " + ShortestNumber(clip.epsilon) + ": ";
  if (!clip.kernels || !clip.staleness) {
    return whole + SpendingText("kernels and staleness together spend", clip.together) +
           "; the dump has no log-probs of the weights that sampled (old) to tell them apart";
  }
  return whole + SpendingText("the kernels spend", *clip.kernels) +
         SpendingText("; staleness spends", *clip.staleness);
}

RlReplayAnswer AnswerOf(const RlReplayAdvice& advice) {
  RlReplayAnswer answer;
  (advice.correction_needed ? answer.advised : answer.unneeded) = advice.need_reason;
  answer.clip = ClipBudgetText(advice.clip);
  if (!advice.settings) return answer;
  answer.framework = advice.dialect;
  answer.settings = advice.settings->lines;
  return answer;
}

void PrintAdvice(const RlReplayAdvice& advice, Console& console) {
  console.out << '\n'
              << (advice.correction_needed
                      ? Paint(Style::kYellow, "correction advised", console.colour_out)
                      : Paint(Style::kGreen, "no correction needed", console.colour_out))
              << ": " << Shown(advice.need_reason) << '\n';
  console.out << ClipBudgetText(advice.clip) << '\n';
  if (advice.dialect.empty()) return;
  if (!advice.settings_reason.empty()) console.out << Shown(advice.settings_reason) << '\n';
  if (!advice.settings) return;
  console.out << "settings for " << advice.dialect << ":\n";
  for (const std::string& line : advice.settings->lines) console.out << "  " << line << '\n';
  for (const std::string& note : advice.settings->notes) {
    console.err << "note: " << Shown(note) << '\n';
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

int RunRlReplay(const RlReplayCommandOptions& options, Console& console) {
  const auto dump = ReadRlStep(options.step, console);
  if (!dump.has_value()) return ReportError(dump.error(), console);
  const auto batch = dump->Batch();
  if (!batch.has_value()) return ReportError(batch.error(), console);
  RlReplayOptions how;
  how.kept_min = options.kept_min;
  how.ess_min = options.ess_min;
  how.outcome_advantages = !options.token_advantages;
  how.threads = options.step.threads;
  const auto replay = ReplayRl(*batch, ReplayGrid(), how);
  if (!replay.has_value()) return ReportError(replay.error(), console);
  const auto advice = AdviseRl(*batch, *replay, how, options.epsilon, options.framework);
  if (!advice.has_value()) return ReportError(advice.error(), console);
  if (!options.output.empty()) {
    const auto written = WriteFileAtomically(
        options.output,
        ReplayHtml(*replay, "Replay of " + options.step.files.front(), AnswerOf(*advice)));
    if (!written.has_value()) return ReportError(written.error(), console);
  }
  if (console.json) {
    console.out << ReplayJson(*replay, &*advice);
  } else {
    PrintReplay(*replay, console);
    PrintAdvice(*advice, console);
  }
  return replay->recommended >= 0 || !advice->correction_needed ? kExitOk : kExitViolated;
}

}  // namespace kcc::cli
