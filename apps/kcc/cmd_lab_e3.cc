// kcc lab e3: the experiment on reinforcement learning, cell by cell.
#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/kernels.h"
#include "apps/kcc/progress.h"
#include "apps/kcc/published.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/shipped.h"
#include "kcc/base/strings.h"
#include "kcc/experiment/e3.h"
#include "kcc/experiment/e3_cells.h"

namespace kcc::cli {
namespace {

Result<E3Options> E3PlanOf(const LabE3Options& options) {
  E3Options made;
  made.folder = options.output;
  made.size = options.full ? E3Size{} : kE3ShortSize;
  if (options.steps > 0) made.size.steps = options.steps;
  if (options.seeds > 0) made.size.seeds = options.seeds;
  if (options.held_out_problems > 0) made.size.held_out_problems = options.held_out_problems;
  made.jobs = static_cast<size_t>(options.jobs);
  made.threads = static_cast<size_t>(options.threads);
  const std::string_view usual = options.full ? "*" : kE3ShortCells;
  KCC_TRY(made.cells, ChooseE3Cells(options.cells.empty() ? usual : options.cells));
  return made;
}

void ListCellsJson(const E3Options& plan, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccLabE3", 1).Field("steps", plan.size.steps);
  json.Field("seeds", plan.size.seeds).Field("rate", kE3Rate).Key("cells").BeginArray();
  double total = 0;
  for (const E3Cell& cell : plan.cells) {
    const double seconds = E3CpuSeconds(cell, plan.size);
    total += seconds;
    json.BeginObject().Field("cell", cell.name).Field("part", cell.part).Field("arm", cell.arm);
    json.Field("infer", E3KernelUri(cell.rollout)).Field("cpuSeconds", seconds).EndObject();
  }
  console.out << json.EndArray().Field("cpuSeconds", total).EndObject().Take();
}

std::string FilledTo(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string CpuMinutes(double seconds) { return ReadableNumber(seconds / 60) + " CPU-min"; }

void ListCells(const E3Options& plan, Console& console) {
  double total = 0;
  for (const E3Cell& cell : plan.cells) {
    const double seconds = E3CpuSeconds(cell, plan.size);
    total += seconds;
    console.out << FilledTo(cell.name, 19) << FilledTo(cell.part, 6) << FilledTo(cell.rollout, 7)
                << FilledTo(cell.arm, 40) << CpuMinutes(seconds) << '\n';
  }
  console.out << Counted(plan.cells.size(), "cell") << " × "
              << Counted(static_cast<size_t>(plan.size.seeds), "seed") << " × "
              << Counted(static_cast<size_t>(plan.size.steps), "step") << ": " << CpuMinutes(total)
              << " (0.5 CPU-s a step)\n";
}

Result<> TakeE3(const LabE3Options& options, const Contract& contract, E3Options plan,
                Console& console) {
  std::string model = options.model;
  if (model.empty()) {
    KCC_TRY(model, ShippedModelOf(console)());
  }
  KCC_TRY(const RlTask task, RlTask::Make(options.task));
  KCC_TRY(const TrainStart start, StartFromCheckpoint(model));
  const Interruptible interruptible(console);
  const SystemClock clock;
  Progress progress(console, clock, "steps");
  plan.progress = [&](int64_t done, int64_t total) { progress.Show(done, total, 0); };
  plan.stop = [&] { return interruptible.stop_asked(); };
  KCC_TRY(const bool done, RunE3(start, task, contract, plan));
  progress.Clear();
  if (!done) {
    if (!console.json) console.out << "stopped early; the same command goes on\n";
    return {};
  }
  KCC_TRY(const E3Result result, ReadE3(start, task, contract, plan));
  return Publish(options.output,
                 {"e3", E3Page(result), E3Markdown(result), E3Json(result), E3Text(result)},
                 console);
}

}  // namespace

int RunLabE3(const LabE3Options& options, Console& console) {
  Result<E3Options> plan = E3PlanOf(options);
  if (!plan.has_value()) return ReportError(plan.error(), console);
  if (options.list) {
    console.json ? ListCellsJson(*plan, console) : ListCells(*plan, console);
    return kExitOk;
  }
  if (options.output.empty()) {
    return ReportError(InvalidError("-o says where the runs and the page go; --list runs nothing"),
                       console);
  }
  int exit_code = kExitOk;
  const Result<std::string> path =
      options.contract.empty() ? ShippedRlContract(console) : options.contract;
  if (!path.has_value()) return ReportError(path.error(), console);
  const std::optional<ValidContract> contract = RequireContract(*path, console, &exit_code);
  if (!contract) return exit_code;
  const Result<> done = TakeE3(options, contract->contract, std::move(*plan), console);
  return done.has_value() ? kExitOk : ReportError(done.error(), console);
}

}  // namespace kcc::cli
