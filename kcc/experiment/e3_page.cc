// E3 as a page, Markdown, JSON and text.
#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/experiment/e3.h"
#include "kcc/experiment/experiment_page.h"
#include "kcc/experiment/experiment_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::string_view kTitle = "E3: mismatch, corrections and reward";
constexpr std::string_view kCellsExplained =
    "Reward on held-out problems, mean of the last third of a run, under the kernel that is "
    "trained; under the one that served, less that; and against the exact arm, paired by seed. ± "
    "is "
    "Student's 95 % interval over seeds. Fell: the first step, by seed, at which the mean reward "
    "of "
    "a window (the first third of the run, at most 40 steps) is below half of the first one.";
constexpr std::string_view kGapExplained =
    "Means over seeds of the last third. E|w − φ| is docs/math.md A.7 at one context and E|W − φ| "
    "that of whole answers, both per unit of A G; twice the TV of a token is Proposition 2's. Skew "
    "is −(w − 1) A by the sign of A. k1 to k3 are of the trained kernel against the rollout.";
constexpr std::string_view kBiasExplained =
    "A policy of softmax tables whose continuations can be enumerated, so that the exact gradient "
    "is known: the bias of every correction in units of that gradient's length, against its bound. "
    "Only a bias above its bound falsifies one.";
constexpr std::string_view kSidesExplained =
    "Which side is inexact: the kernel that samples, or the one that computes the old log-probs. "
    "Trained is f32.";

std::vector<const E3CellResult*> RunCells(const E3Result& result) {
  std::vector<const E3CellResult*> made;
  for (const E3CellResult& cell : result.cells) {
    if (!cell.runs.empty()) made.push_back(&cell);
  }
  return made;
}

std::string NotRunText(const E3Result& result) {
  std::string text;
  for (const E3CellResult& cell : result.cells) {
    if (cell.runs.empty()) text += (text.empty() ? "" : ", ") + cell.cell.name;
  }
  return text.empty() ? "" : "Not run: " + text + ".";
}

std::string Mean(const E3CellResult& cell, double (*figure)(const E3Run&)) {
  std::vector<double> values;
  for (const E3Run& run : cell.runs) values.push_back(figure(run));
  return EstimateText(StudentEstimate(values));
}

template <class Text>
std::string BySeed(const E3CellResult& cell, const Text& text) {
  std::string made;
  for (const E3Run& run : cell.runs) made += (made.empty() ? "" : ", ") + text(run);
  return made;
}

std::string ViolationText(const E3Run& run) {
  if (!run.first_violation) return "none";
  return run.first_violation->clause + " at " + Grouped(run.first_violation->step);
}

const std::vector<std::string> kCellsHead = {
    "cell",        "arm",  "reward, trained", "served − trained",
    "minus exact", "fell", "failure",         "first violated clause"};

Rows CellsRows(const E3Result& result) {
  Rows rows;
  for (const E3CellResult* cell : RunCells(result)) {
    const auto served = PairedDifference(cell->BySeed(ServedReward), cell->BySeed(TrainedReward));
    const auto delta = AgainstExact(result, *cell);
    rows.push_back(
        {cell->cell.name, (cell->cell.ppo() ? "PPO, " : "") + cell->cell.arm,
         Mean(*cell, TrainedReward), EstimateText(*served), delta ? EstimateText(*delta) : "–",
         BySeed(*cell, [](const E3Run& run) { return run.fell ? Grouped(*run.fell) : "–"; }),
         BySeed(*cell, [](const E3Run& run) { return std::string(Name(run.failure)); }),
         BySeed(*cell, ViolationText)});
  }
  return rows;
}

std::vector<std::string> GapHead() {
  std::vector<std::string> head = {"cell"};
  for (const E3Column& column : E3Columns()) head.emplace_back(column.name);
  return head;
}

Rows GapRows(const E3Result& result) {
  Rows rows;
  for (const E3CellResult* cell : RunCells(result)) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(cell->cell.name);
    for (const E3Column& column : E3Columns()) {
      double sum = 0, count = 0;
      for (const E3Run& run : cell->runs) {
        const auto late = run.late(column.name);
        sum += late.value_or(0);
        count += late.has_value();
      }
      row.push_back(count > 0 ? BriefNumber(sum / count) : "none");
    }
  }
  return rows;
}

std::string SideText(const E3Result& result, std::string_view name) {
  const E3CellResult& cell = result.cell(name);
  if (cell.runs.empty()) return "not run";
  return Mean(cell, TrainedReward) + ", fell " +
         BySeed(cell, [](const E3Run& run) { return run.fell ? Grouped(*run.fell) : "–"; });
}

const std::vector<std::string> kSidesHead = {"sampled by", "old log-probs by f32",
                                             "old log-probs by int4"};
Rows SidesRows(const E3Result& result) {
  return {{"f32", SideText(result, "exact"), SideText(result, "side-f32-int4")},
          {"int4", SideText(result, "int4"), SideText(result, "side-int4-int4")}};
}

std::string SizeText(const E3Result& result) {
  return std::string("GRPO and PPO on the task ") + result.task +
         " from the lab's model: " + std::to_string(result.runs()) +
         (result.runs() == 1 ? " run" : " runs") + " of " + Grouped(result.size.steps) +
         " steps, 8 problems × 8 answers a step, temperature 1, AdamW at 0.0001 (fixed on the "
         "exact "
         "arm first), PPO clip 0.2.";
}

std::string ThresholdText(const E3Result& result) {
  std::string text;
  for (const auto& [kernel, threshold] : result.thresholds) {
    text += (text.empty() ? "" : ", ") + kernel + " " + BriefNumber(threshold);
  }
  return text.empty() ? "" : "Thresholds of k3 fitted before the first step: " + text + ".";
}

std::string Card(std::span<const std::string> head, const Rows& rows) {
  return "<div class=\"card panel\">" + TableHtml(head, rows) + "</div>\n";
}

// A bar from the exact arm's 0 to 1, with the interval as a whisker.
std::string RewardBars(const E3Result& result) {
  std::string body = "<div class=\"card panel\">\n";
  for (const E3CellResult* cell : RunCells(result)) {
    std::vector<double> values;
    for (const E3Run& run : cell->runs) values.push_back(run.reward_train);
    const E3Estimate estimate = StudentEstimate(values);
    const auto at = [](double value) { return FixedNumber(100 * std::clamp(value, 0.0, 1.0), 2); };
    std::string marks;
    for (const double value : values) {
      marks += "<line class=\"q\" x1=\"" + at(value) + "\" x2=\"" + at(value) +
               "\" y1=\"3\" y2=\"21\"/>";
    }
    if (estimate.half) {
      marks += "<line class=\"base\" x1=\"" + at(estimate.mean - *estimate.half) + "\" x2=\"" +
               at(estimate.mean + *estimate.half) + "\" y1=\"12\" y2=\"12\"/>";
    }
    const std::string text = EstimateText(estimate);
    body += "<div class=\"ridge wide\" title=\"" + MarkupEscaped(cell->cell.name + ": " + text) +
            "\"><span class=\"name\">" + MarkupEscaped(cell->cell.name) +
            "</span><svg viewBox=\"0 0 100 24\" preserveAspectRatio=\"none\" role=\"img\" "
            "aria-label=\"" +
            MarkupEscaped("reward of " + cell->cell.name + ": " + text) +
            "\"><rect class=\"area\" x=\"0\" y=\"4\" width=\"" + at(estimate.mean) +
            "\" height=\"16\"/>" + marks + "</svg><span class=\"num\">" + MarkupEscaped(text) +
            "</span></div>\n";
  }
  return body + "</div>\n";
}

void WriteOptional(std::string_view key, const std::optional<double>& value, JsonWriter* json) {
  json->Key(key);
  if (value) {
    json->Value(*value);
  } else {
    json->Null();
  }
}

void WriteRun(const E3Run& run, JsonWriter* json) {
  json->BeginObject().Field("seed", static_cast<int64_t>(run.seed)).Field("steps", run.steps);
  json->Field("tokens", run.tokens).Field("startTrain", run.start_train);
  json->Field("startInfer", run.start_infer).Field("rewardTrain", run.reward_train);
  json->Field("rewardInfer", run.reward_infer).Field("failure", Name(run.failure));
  json->Key("fell");
  if (run.fell) {
    json->Value(*run.fell);
  } else {
    json->Null();
  }
  WriteOptional("k3BeforeFall", run.k3_before_fall, json);
  json->Key("firstViolation");
  if (run.first_violation) {
    json->BeginObject().Field("clause", run.first_violation->clause);
    json->Field("step", run.first_violation->step).EndObject();
  } else {
    json->Null();
  }
  json->Key("measures").BeginObject();
  for (size_t c = 0; c < run.columns.size(); ++c) {
    if (!run.columns[c]) continue;
    json->Key(E3Columns()[c].key).BeginObject().Field("early", run.columns[c]->early);
    json->Field("late", run.columns[c]->late).EndObject();
  }
  json->EndObject().EndObject();
}

}  // namespace

std::string E3Page(const E3Result& result) {
  const ExperimentReport report = E3Report(result);
  const std::string lead = SizeText(result) + " " + NotRunText(result);
  const std::string foot =
      ThresholdText(result) + " Made by kcc lab e3; the same runs give the same page.";
  ExperimentParts parts;
  parts.title = kTitle;
  parts.lead = lead;
  parts.foot = foot;
  parts.figures = {
      {"reward", "Reward",
       "Held-out reward of the trained kernel, 0 to 1: the mean of a cell's runs, a mark for each "
       "run, and the interval over seeds where there are several.",
       RewardBars(result)},
      {"cells", "Cells", kCellsExplained, Card(kCellsHead, CellsRows(result))},
      {"gap", "Gap and bias", kGapExplained, Card(GapHead(), GapRows(result))},
      {"sides", "Two sides", kSidesExplained, Card(kSidesHead, SidesRows(result))},
      {"bias", "Where the gradient is known", kBiasExplained,
       Card(BiasTableHead(), BiasTableRows(result.biases))}};
  parts.seen = {"seen", "What was seen",
                "Expectations, with what would have falsified them, against these figures.", ""};
  parts.report = ReportSection(report);
  return ExperimentPage(parts, report.findings, false);
}

std::string E3Markdown(const E3Result& result) {
  const ExperimentReport report = E3Report(result);
  std::string text = "# " + std::string(kTitle) + "\n\n" + SizeText(result) +
                     " Made by `kcc lab e3`, whose page `e3.html` has the same figures.";
  for (const std::string& more : {NotRunText(result), ThresholdText(result)}) {
    if (!more.empty()) text += " " + more;
  }
  text += "\n\n## Cells\n\n" + std::string(kCellsExplained) + "\n\n" +
          MarkdownTable(kCellsHead, CellsRows(result)) + "\n## Gap and bias\n\n" +
          std::string(kGapExplained) + "\n\n" + MarkdownTable(GapHead(), GapRows(result)) +
          "\n## Two sides\n\n" + std::string(kSidesExplained) + "\n\n" +
          MarkdownTable(kSidesHead, SidesRows(result)) + "\n## Where the gradient is known\n\n" +
          std::string(kBiasExplained) + "\n\n" +
          MarkdownTable(BiasTableHead(), BiasTableRows(result.biases)) + "\n";
  return text + SeenMarkdown(report) + ExperimentReportMarkdown(report);
}

std::string E3Text(const E3Result& result) {
  const std::vector<std::string> head = {"cell", "reward", "minus exact", "fell"};
  Rows rows;
  for (const std::vector<std::string>& row : CellsRows(result)) {
    rows.push_back({row[0], row[2], row[4], row[5]});
  }
  return TextParagraph(std::string(kTitle) + ". " + SizeText(result)) + "\n" +
         TextTable(head, rows) + SeenText(E3Report(result));
}

std::string E3Json(const E3Result& result) {
  JsonWriter json;
  json.BeginObject().Field("kccLab", 1);
  WriteExperimentReport(E3Report(result), &json);
  json.Field("task", result.task).Field("steps", result.size.steps);
  json.Field("heldOutProblems", result.size.held_out_problems).Field("rate", kE3Rate);
  json.Key("thresholds").BeginObject();
  for (const auto& [kernel, threshold] : result.thresholds) json.Field(kernel, threshold);
  json.EndObject().Key("cells").BeginArray();
  for (const E3CellResult& cell : result.cells) {
    json.BeginObject().Field("cell", cell.cell.name).Field("part", cell.cell.part);
    json.Field("arm", cell.cell.arm).Field("infer", E3KernelUri(cell.cell.rollout));
    json.Key("recompute");
    if (cell.cell.recompute.empty()) {
      json.Null();  // bypass
    } else {
      json.Value(E3KernelUri(cell.cell.recompute));
    }
    json.Field("stale", cell.cell.stale).Field("rate", cell.cell.rate);
    json.Field("correction", DescribeCorrection(cell.cell.correction));
    json.Field("fitted", cell.cell.fitted).Key("runs").BeginArray();
    for (const E3Run& run : cell.runs) WriteRun(run, &json);
    json.EndArray().EndObject();
  }
  json.EndArray().Key("enumerable");
  WriteBiases(result.biases, &json);
  return json.EndObject().Take();
}

}  // namespace kcc
