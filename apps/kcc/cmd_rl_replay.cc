// kcc rl replay: all corrections side by side, and which to take.
#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/own_kernel.h"
#include "kcc/rl/replay_advice.h"
#include "kcc/rl/replay_search.h"
#include "kcc/rl/rl_json.h"

namespace kcc::cli {
namespace {

// What is said of a threshold beside the kernel's own values: "own p50 2e-05, p95 0.03: below it".
std::string OwnText(const std::vector<RlOwnKernel>& owns) {
  std::string text;
  for (const RlOwnKernel& own : owns) {
    text += text.empty() ? "  (own" : ", own";
    for (const RlOwnQuantile& quantile : own.quantiles) {
      if (quantile.p != 0.5 && quantile.p != 0.95) continue;
      text += " p" + ReadableNumber(100 * quantile.p) + " " + ReadableNumber(quantile.value);
    }
    if (own.below_own()) text += ", BELOW IT";
  }
  return text.empty() ? text : text + ")";
}

void PrintReplay(const RlReplay& replay, const RlReplayAdvice& advice, Console& console) {
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
    console.out << (row.searched ? " ~" : "  ") << DescribeCorrection(row.correction)
                << OwnText(advice.own[i]) << '\n';
  }
  console.out
      << "\n* no other is better in both bias and variance\n"
      << "~ the best threshold of its kind that qualifies, searched for\n"
      << "own: what the kernels' gap itself gives; BELOW IT: a rejection that keeps less than "
      << ReadableNumber(100 * kRlKeptShareMin) << " % for that\n";
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

// What --kept-min below the line lets through.
void WarnBelowOwn(const RlReplay& replay, const RlReplayAdvice& advice, Console& console) {
  const int row = advice.row >= 0 ? advice.row : replay.recommended;
  if (row < 0) return;
  for (const RlOwnKernel& own : advice.own[static_cast<size_t>(row)]) {
    if (!own.below_own()) continue;
    console.err << Paint(Style::kYellow, "warning", console.colour_err) << ": "
                << DescribeCorrection(replay.rows[static_cast<size_t>(row)].correction) << " keeps "
                << ReadableNumber(100 * own.kept()) << " % of the kernels' own gap ("
                << OwnKernelText(own) << "); such a threshold cost reward in E3 (" << kE3Page
                << ")\n";
  }
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
  console.out << "E3 at " << Shown(advice.evidence) << '\n';
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
  const auto replay = ReplayAndSearch(*batch, how);
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
    PrintReplay(*replay, *advice, console);
    PrintAdvice(*advice, console);
  }
  WarnBelowOwn(*replay, *advice, console);
  return replay->recommended >= 0 || !advice->correction_needed ? kExitOk : kExitViolated;
}

}  // namespace kcc::cli
