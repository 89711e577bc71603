#include "kcc/experiment/e3_cells.h"

#include <algorithm>
#include <utility>

namespace kcc {
namespace {

constexpr int64_t kProblems = 8, kGroup = 8;
constexpr int64_t kHeldOutEvery = 25;
// CPU seconds, two cores (docs/lab-rl.md): a step of each algorithm; an answer to a held-out
// problem.
constexpr double kGrpoStep = 0.5, kPpoStep = 0.75, kHeldOutAnswer = 0.008;

RlCorrection CorrectedBy(RlWeightMode mode, RlLevel level, double low, double high) {
  RlCorrection made;
  made.weight = {mode, level, low, high, false};
  return made;
}

RlCorrection RejectingK3(RlCorrection made, double threshold) {
  made.reject = {{RlStatistic::kK3, RlAggregate::kSequenceMean, 0, threshold}};
  return made;
}

E3Cell Cell(std::string name, std::string part, std::string arm, std::string rollout) {
  E3Cell cell;
  cell.name = std::move(name);
  cell.part = std::move(part);
  cell.arm = std::move(arm);
  cell.rollout = std::move(rollout);
  return cell;
}

E3Cell Bypass(std::string name, std::string part, std::string rollout) {
  E3Cell cell = Cell(std::move(name), std::move(part), "bypass", std::move(rollout));
  cell.recompute.clear();
  return cell;
}

struct CorrectedArm {
  const char* suffix;
  const char* arm;
  RlCorrection correction;
  bool fitted;
};
std::vector<CorrectedArm> CorrectedArms() {
  using M = RlWeightMode;
  constexpr RlLevel kToken = RlLevel::kToken, kSequence = RlLevel::kSequence;
  const RlCorrection truncated = CorrectedBy(M::kTruncate, kToken, 0, 2);
  constexpr double kStrict = 0.001;
  return {
      {"-paper", "the paper's weight, clip to [0.8, 1.2]", PaperCorrection(0.2), false},
      {"-tis", "truncation at 2 (TIS)", truncated, false},
      {"-clip", "clip to [0.5, 2]", CorrectedBy(M::kClip, kToken, 0.5, 2), false},
      {"-mask", "mask outside [0.5, 2]", CorrectedBy(M::kMask, kToken, 0.5, 2), false},
      {"-mis", "sequence mask (MIS)", CorrectedBy(M::kMask, kSequence, 0.5, 2), false},
      {"-rs", "k3 rejection at 0.001", RejectingK3({}, kStrict), false},
      {"-rs-fitted", "k3 rejection, fitted", RejectingK3({}, kStrict), true},
      {"-tis-rs", "TIS and rejection at 0.001", RejectingK3(truncated, kStrict), false},
      {"-tis-rs-fitted", "TIS and rejection, fitted", RejectingK3(truncated, kStrict), true},
  };
}

void AddGrpoCells(std::vector<E3Cell>* cells) {
  cells->push_back(Cell("exact", "GRPO", "exact", "f32"));
  cells->push_back(Cell("stale", "GRPO", "exact, 4 updates behind", "f32"));
  cells->back().stale = 4;
  for (const std::string kernel : {"fp8", "int4"}) {
    cells->push_back(Cell(kernel, "GRPO", "recompute, uncorrected", kernel));
    cells->push_back(Bypass(kernel + "-bypass", "GRPO", kernel));
    for (const CorrectedArm& arm : CorrectedArms()) {
      cells->push_back(Cell(kernel + arm.suffix, "GRPO", arm.arm, kernel));
      cells->back().correction = arm.correction;
      cells->back().fitted = arm.fitted;
    }
  }
  cells->push_back(Bypass("int4c-bypass", "GRPO", "int4c"));
  cells->push_back(Cell("int3", "GRPO", "recompute, uncorrected", "int3"));
  cells->push_back(Bypass("int3-bypass", "GRPO", "int3"));
}

void AddPpoCells(std::vector<E3Cell>* cells) {
  cells->push_back(Cell("ppo-exact", "PPO", "exact", "f32"));
  cells->push_back(Cell("ppo-int4", "PPO", "recompute, uncorrected", "int4"));
  cells->push_back(Bypass("ppo-int4-bypass", "PPO", "int4"));
  cells->push_back(Cell("ppo-int4-tis", "PPO", "truncation at 2 (TIS)", "int4"));
  cells->back().correction = CorrectedBy(RlWeightMode::kTruncate, RlLevel::kToken, 0, 2);
}

// The other two of the four are `exact` and `int4`.
void AddSideCells(std::vector<E3Cell>* cells) {
  for (const std::string rollout : {"f32", "int4"}) {
    cells->push_back(Cell("side-" + rollout + "-int4", "2x2",
                          "old log-probs by int4, rollouts by " + rollout, rollout));
    cells->back().recompute = "int4";
  }
}

void AddRateCells(std::vector<E3Cell>* cells) {
  for (const auto& [rate, value] : {std::pair{"3e-5", 3e-5}, std::pair{"3e-4", 3e-4}}) {
    const std::string name(rate);
    cells->push_back(Cell("rate-" + name, "rate", "exact, learning rate " + name, "f32"));
    cells->back().rate = value;
  }
}

bool Matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    for (size_t skipped = 0; skipped <= name.size(); ++skipped) {
      if (Matches(pattern.substr(1), name.substr(skipped))) return true;
    }
    return false;
  }
  return !name.empty() && name.front() == pattern.front() &&
         Matches(pattern.substr(1), name.substr(1));
}

}  // namespace

std::vector<E3Cell> E3Cells() {
  std::vector<E3Cell> cells;
  AddGrpoCells(&cells);
  AddPpoCells(&cells);
  AddSideCells(&cells);
  AddRateCells(&cells);
  return cells;
}

Result<std::vector<E3Cell>> ChooseE3Cells(std::string_view patterns) {
  const std::vector<E3Cell> all = E3Cells();
  std::vector<bool> chosen(all.size());
  for (size_t begin = 0; begin <= patterns.size();) {
    const size_t end = std::min(patterns.find(',', begin), patterns.size());
    const std::string_view pattern = patterns.substr(begin, end - begin);
    begin = end + 1;
    bool found = false;
    for (size_t c = 0; c < all.size(); ++c) {
      if (!Matches(pattern, all[c].name)) continue;
      chosen[c] = found = true;
    }
    if (!found) {
      return InvalidError("no cell of E3 is called '" + std::string(pattern) +
                          "'; kcc lab e3 --list prints them, and * stands for any text");
    }
  }
  std::vector<E3Cell> cells;
  for (size_t c = 0; c < all.size(); ++c) {
    if (chosen[c]) cells.push_back(all[c]);
  }
  return cells;
}

double E3CpuSeconds(const E3Cell& cell, const E3Size& size) {
  const auto steps = static_cast<double>(size.steps);
  // Before the first step, every so many, and after the last.
  const int64_t points = 1 + size.steps / kHeldOutEvery + (size.steps % kHeldOutEvery != 0 ? 1 : 0);
  const double answers = static_cast<double>(points * size.held_out_problems) *
                         (cell.rollout == "f32" ? 1 : 2);  // by one kernel, or by two
  return static_cast<double>(size.seeds) *
         (steps * (cell.ppo() ? kPpoStep : kGrpoStep) + answers * kHeldOutAnswer);
}

std::string E3KernelUri(std::string_view kernel) {
  if (kernel == "f32") return "lab:f32";
  if (kernel == "int4c") return "lab:int4?batch=invariant&scale=channel";
  return "lab:" + std::string(kernel) + "?batch=invariant";
}

Result<LabSwitches> E3Switches(std::string_view kernel) {
  KCC_TRY(const LabUri uri, ParseLabUri(E3KernelUri(kernel)));
  KCC_TRY(LabSwitches switches, ResolveSwitches(uri.kernel, uri.options));
  switches.concurrency = static_cast<size_t>(kProblems * kGroup);
  switches.audit = AuditLevel::kOff;  // nobody reads it
  return switches;
}

Result<RlTrainOptions> E3RunOptions(const E3Cell& cell, const E3Size& size, uint64_t seed,
                                    double threshold) {
  RlTrainOptions made;
  KCC_TRY(made.train, E3Switches("f32"));
  KCC_TRY(made.infer, E3Switches(cell.rollout));
  if (cell.recompute.empty()) {
    made.old_policy = OldPolicy::kBypass;
  } else if (cell.recompute != "f32") {
    KCC_TRY(made.recompute, E3Switches(cell.recompute));
  }
  made.correction = cell.correction;
  if (cell.fitted) made.correction.reject.front().high = threshold;
  if (cell.ppo()) made.ppo = ValueOptions{};
  made.problems = kProblems;
  made.group = kGroup;
  made.stale = cell.stale;
  made.schedule = {ScheduleKind::kConstant, cell.rate, 1, 0, size.steps};
  made.seed = seed;
  made.held_out = {kHeldOutEvery, size.held_out_problems, true};
  made.obey = false;  // an arm that is stopped shows no failure
  return made;
}

}  // namespace kcc
