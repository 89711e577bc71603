// What was expected of E3, what would falsify it, and what the runs show. What was not run, or not
// for long or often enough to decide, is open: it is neither seen nor not seen.
#include <algorithm>

#include "kcc/experiment/e3.h"
#include "kcc/experiment/experiment_page.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// Steps after which a run that has not fallen counts as one that holds: of the bypass, and of the
// second paper's collapse in two stages.
constexpr int64_t kBypassSteps = 400, kCollapseSteps = 1665;
constexpr double kDoubled = 2;

void Append(std::string_view text, std::string* to) {
  *to += (to->empty() ? "" : "; ") + std::string(text);
}

std::string FallsText(const E3CellResult& cell) {
  std::string steps;
  for (const E3Run& run : cell.runs) {
    steps += (steps.empty() ? "" : ", ") + (run.fell ? Grouped(*run.fell) : "–");
  }
  return cell.cell.name + ": " + steps;
}

Finding Open(std::string predicted, std::string seen) {
  return {std::move(predicted), std::move(seen), false, true};
}

bool AllFell(const E3CellResult& cell) {
  return std::all_of(cell.runs.begin(), cell.runs.end(),
                     [](const E3Run& run) { return run.fell.has_value(); });
}
bool AnyFell(const E3CellResult& cell) {
  return std::any_of(cell.runs.begin(), cell.runs.end(),
                     [](const E3Run& run) { return run.fell.has_value(); });
}

// The first mean reward of 40 steps below half of that of the first 40.
Finding BypassFinding(const E3Result& result) {
  Finding made{
      "mismatch alone destroys training in bypass mode (falsified if a run of int3, int4c "
      "or int4 has not fallen after " +
          Grouped(kBypassSteps) + " steps)",
      "", true};
  bool every = true;
  for (const std::string_view name : {"int3-bypass", "int4c-bypass", "int4-bypass"}) {
    const E3CellResult& cell = result.cell(name);
    if (cell.runs.empty()) {
      Append(std::string(name) + " not run", &made.seen);
      every = false;
      continue;
    }
    Append(FallsText(cell), &made.seen);
    if (AllFell(cell)) continue;
    every = false;
    made.holds = made.holds && result.size.steps < kBypassSteps;
  }
  made.seen = "fell at step, by seed: " + made.seen;
  made.open = made.holds && !every;
  made.holds = made.holds && every;
  return made;
}

std::optional<double> MeanFall(const E3CellResult& cell) {
  if (cell.runs.empty() || !AllFell(cell)) return std::nullopt;
  double sum = 0;
  for (const E3Run& run : cell.runs) sum += static_cast<double>(*run.fell);
  return sum / static_cast<double>(cell.runs.size());
}

Finding OrderFinding(const E3Result& result) {
  std::string predicted =
      "sooner with more mismatch (falsified if int3, int4c and int4 fall in another order)";
  const auto int3 = MeanFall(result.cell("int3-bypass"));
  const auto int4c = MeanFall(result.cell("int4c-bypass"));
  const auto int4 = MeanFall(result.cell("int4-bypass"));
  if (!int3 || !int4c || !int4) {
    return Open(std::move(predicted), "not all three were run until they fell");
  }
  return {std::move(predicted),
          "mean step of the fall " + FixedNumber(*int3, 0) + ", " + FixedNumber(*int4c, 0) + ", " +
              FixedNumber(*int4, 0),
          *int3 < *int4c && *int4c < *int4};
}

Finding CollapseFinding(const E3Result& result) {
  Finding made{
      "the second paper: with recomputed log-probs and no correction training falls, too, "
      "by step " +
          Grouped(kCollapseSteps) + " (falsified if no run has by then)",
      "", false};
  bool any = false, ran = false;
  for (const std::string_view name : {"fp8", "int4", "int3"}) {
    const E3CellResult& cell = result.cell(name);
    if (cell.runs.empty()) continue;
    ran = true;
    any = any || AnyFell(cell);
    Append(FallsText(cell), &made.seen);
  }
  made.holds = any;
  made.open = !any && (!ran || result.size.steps < kCollapseSteps);
  made.seen =
      !ran ? "not run" : "in " + Grouped(result.size.steps) + " steps, fell at step: " + made.seen;
  return made;
}

// The difference of two cells' rewards, paired by seed, is on the side that was expected.
enum class Expected { kBelow, kAbove, kNone };
Finding DifferenceFinding(std::string predicted, const E3Result& result, std::string_view cell,
                          std::string_view other, Expected expected) {
  const auto difference = PairedDifference(result.cell(cell).BySeed(TrainedReward),
                                           result.cell(other).BySeed(TrainedReward));
  if (!difference) return Open(std::move(predicted), "not run");
  const std::string figures =
      std::string(cell) + " minus " + std::string(other) + ": " + EstimateText(*difference);
  if (!difference->half) return Open(std::move(predicted), figures + ", no interval");
  const bool none = !difference->above(0) && !difference->below(0);
  const bool holds = expected == Expected::kBelow   ? difference->below(0)
                     : expected == Expected::kAbove ? difference->above(0)
                                                    : none;
  return {std::move(predicted), figures + (none ? ", no effect: the interval has 0" : ""), holds};
}

Finding ServedFinding(const E3Result& result, std::string_view name) {
  std::string predicted =
      "without correction the served policy is optimised: " + std::string(name) +
      " earns more under the kernel that served than under the trained one (falsified if the "
      "interval of the difference is not above 0)";
  const E3CellResult& cell = result.cell(name);
  const auto difference = PairedDifference(cell.BySeed(ServedReward), cell.BySeed(TrainedReward));
  if (!difference) return Open(std::move(predicted), "not run");
  if (!difference->half) {
    return Open(std::move(predicted), EstimateText(*difference) + ", no interval");
  }
  return {std::move(predicted), EstimateText(*difference), difference->above(0)};
}

Finding StaleFinding(const E3Result& result) {
  Finding made{
      "staleness is not mismatch: weights that sample 4 updates behind, with the same "
      "kernel, do not fall (falsified by a fall)",
      "", false};
  const E3CellResult& cell = result.cell("stale");
  if (cell.runs.empty()) return Open(std::move(made.predicted), "not run");
  made.holds = !AnyFell(cell);
  made.seen = FallsText(cell);
  if (const auto delta = AgainstExact(result, cell)) {
    made.seen += "; minus exact " + EstimateText(*delta);
  }
  return made;
}

// Of the runs that fell.
Finding WarningFinding(const E3Result& result) {
  Finding made{
      "the second paper: k3 says nothing before the fall (falsified where, in every run "
      "that fell, it has doubled in the window before)",
      "", false};
  size_t fell = 0, doubled = 0;
  for (const E3CellResult& cell : result.cells) {
    for (const E3Run& run : cell.runs) {
      if (!run.fell || !run.k3_before_fall) continue;
      ++fell;
      doubled += *run.k3_before_fall >= kDoubled;
      Append(cell.cell.name + " × " + BriefNumber(*run.k3_before_fall), &made.seen);
    }
  }
  if (fell == 0) return Open(std::move(made.predicted), "no run with mismatch fell");
  made.holds = doubled < fell;
  return made;
}

Finding ClauseFinding(const E3Result& result) {
  Finding made{
      "a clause of the contract is violated before each fall (falsified by a fall before "
      "any)",
      "", true};
  size_t fell = 0;
  for (const E3CellResult& cell : result.cells) {
    for (const E3Run& run : cell.runs) {
      if (!run.fell) continue;
      ++fell;
      const bool before = run.first_violation && run.first_violation->step < *run.fell;
      made.holds = made.holds && before;
      Append(cell.cell.name + ": " +
                 (before ? run.first_violation->clause + " at " + Grouped(run.first_violation->step)
                         : "none") +
                 ", fell at " + Grouped(*run.fell),
             &made.seen);
    }
  }
  return fell == 0 ? Open(std::move(made.predicted), "no run fell") : made;
}

Finding BoundFinding(const E3Result& result) {
  const size_t refuted = result.biases.refuted();
  return {
      "Proposition 2 and docs/math.md A.7 bound the bias of the gradient (falsified by one bias "
      "above its bound, not by a small difference between arms: W10)",
      std::to_string(refuted) + " bounds refuted, of " +
          std::to_string(result.biases.exact.size()) +
          " corrections on the problem that can be enumerated",
      refuted == 0};
}

}  // namespace

std::vector<Finding> E3Findings(const E3Result& result) {
  const std::string strict =
      "a threshold of 0.001, below the kernel's own k3, costs reward (falsified if the interval of "
      "the difference is not below 0)";
  const std::string falsified = " (falsified if the interval of the difference is not below 0)";
  return {
      BypassFinding(result),
      OrderFinding(result),
      DifferenceFinding("fp8 in bypass mode costs reward" + falsified, result, "fp8-bypass",
                        "exact", Expected::kBelow),
      CollapseFinding(result),
      DifferenceFinding(strict, result, "int4-rs", "int4", Expected::kBelow),
      DifferenceFinding(strict, result, "int4-tis-rs", "int4-tis", Expected::kBelow),
      DifferenceFinding("a fitted threshold costs none (falsified if the interval of the "
                        "difference is apart from 0)",
                        result, "int4-tis-rs-fitted", "int4-tis", Expected::kNone),
      DifferenceFinding("the rollout side matters" + falsified, result, "int4", "exact",
                        Expected::kBelow),
      DifferenceFinding("the recompute side matters" + falsified, result, "side-f32-int4", "exact",
                        Expected::kBelow),
      ServedFinding(result, "int4"),
      ServedFinding(result, "int3"),
      StaleFinding(result),
      WarningFinding(result),
      ClauseFinding(result),
      BoundFinding(result),
  };
}

}  // namespace kcc
