// E2 as a page of heat maps, as Markdown for docs/results, and as JSON.
#include <algorithm>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/experiment/e2.h"
#include "kcc/experiment/experiment_page.h"
#include "kcc/experiment/experiment_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

double ShareOf(const E2Cell& cell) {
  return static_cast<double>(cell.passing) / static_cast<double>(cell.requests);
}

// Wide pass, narrow pass, narrow failure, failure.
std::string_view MarkOf(const E2Cell& cell) {
  if (cell.narrow()) return cell.fails() ? "▽" : "△";
  return cell.fails() ? "✕" : "✓";
}

std::string_view HeatClass(const E2Cell& cell) {
  const double share = ShareOf(cell);
  if (cell.passing == cell.requests) return "h4";
  return share >= 0.9 ? "h3" : share >= 0.5 ? "h2" : share > 0 ? "h1" : "h0";
}

std::string UseText(const E2Cell& cell) {
  return std::isfinite(cell.use) ? Percent(cell.use) : std::string("all and more");
}

std::string CellTitle(const E2Result& result, const E2Row& row, size_t slice) {
  const E2Cell& cell = row.by_slice[slice];
  return "lab:" + result.engines[row.engine] + ", " + result.slices[slice] + ", prompts " +
         LengthText(result.lengths[row.length]) + ", " + LoadText(result.loads[row.load]) + ": " +
         std::to_string(cell.passing) + " of " + std::to_string(cell.requests) +
         " requests pass; " + result.clauses[cell.clause].id + " (" +
         result.clauses[cell.clause].text + ") uses " + UseText(cell) + " of its threshold";
}

std::string CellHtml(const E2Result& result, const E2Row& row, size_t slice) {
  const E2Cell& cell = row.by_slice[slice];
  if (cell.requests == 0) return "<td class=\"none\">·</td>";
  return "<td class=\"" + std::string(HeatClass(cell)) + (cell.narrow() ? " near" : "") +
         "\" title=\"" + MarkupEscaped(CellTitle(result, row, slice)) + "\">" +
         FixedNumber(std::floor(100 * ShareOf(cell)), 0) + " " + std::string(MarkOf(cell)) +
         "</td>";
}

std::string LoadHead(const E2Load& load) {
  return std::to_string(load.batch) + (load.pressed ? "↯" : "");
}

std::string EngineMap(const E2Result& result, size_t engine) {
  std::string map =
      "<div class=\"card panel heat\"><h3>lab:" + MarkupEscaped(result.engines[engine]) +
      "</h3><div class=\"heat-scroll\"><table class=\"map\"><thead><tr><th class=\"first\"></th>";
  for (const E2Length& length : result.lengths) {
    map += "<th class=\"gap\"></th><th class=\"group\" colspan=\"" +
           std::to_string(result.loads.size()) + "\">" + LengthText(length) + "</th>";
  }
  map += "</tr><tr><th></th>";
  for (size_t n = 0; n < result.lengths.size(); ++n) {
    map += "<th class=\"gap\"></th>";
    for (const E2Load& load : result.loads) map += "<th>" + LoadHead(load) + "</th>";
  }
  map += "</tr></thead><tbody>\n";
  for (size_t s = 0; s < result.slices.size(); ++s) {
    map += "<tr><th scope=\"row\">" + MarkupEscaped(result.slices[s]) + "</th>";
    for (size_t n = 0; n < result.lengths.size(); ++n) {
      map += "<td class=\"gap\"></td>";
      for (size_t w = 0; w < result.loads.size(); ++w) {
        map += CellHtml(result, result.row(engine, w, n), s);
      }
    }
    map += "</tr>\n";
  }
  return map + "</tbody></table></div></div>\n";
}

std::string Legend() {
  std::string legend = "<div class=\"key\" style=\"margin:0 0 12px\">";
  const std::pair<const char*, const char*> steps[] = {{"h4", "every request passes"},
                                                       {"h3", "90 % and more"},
                                                       {"h2", "50 % and more"},
                                                       {"h1", "fewer"},
                                                       {"h0", "none"}};
  for (const auto& [step, words] : steps) {
    legend += "<span><i class=\"swatch " + std::string(step) + "\"></i>" + words + "</span>";
  }
  return legend +
         "<span>✓ the slice passes</span><span><i class=\"swatch near\"></i>△ narrowly</span>"
         "<span><i class=\"swatch near\"></i>▽ fails narrowly</span><span>✕ fails</span>"
         "<span>↯ under pressure</span></div>\n";
}

struct NearCell {
  const E2Row* row;
  size_t slice;
  double distance;
};

// The cells nearest to their threshold, on either side; one load stands for those that agree.
std::vector<NearCell> NearCells(const E2Result& result) {
  std::vector<NearCell> near;
  for (const E2Row& row : result.rows) {
    for (size_t s = 0; s < result.slices.size(); ++s) {
      const E2Cell& cell = row.by_slice[s];
      if (cell.requests == 0 || !cell.narrow()) continue;
      const bool again = std::any_of(near.begin(), near.end(), [&](const NearCell& other) {
        return other.slice == s && other.row->engine == row.engine &&
               other.row->length == row.length && other.row->by_slice[s].fails() == cell.fails();
      });
      if (!again) near.push_back({&row, s, std::fabs(std::log(cell.use))});
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const NearCell& a, const NearCell& b) { return a.distance < b.distance; });
  return near;
}

std::vector<std::string> NearRow(const E2Result& result, const NearCell& near) {
  const E2Cell& cell = near.row->by_slice[near.slice];
  return {"lab:" + result.engines[near.row->engine],
          result.slices[near.slice],
          LengthText(result.lengths[near.row->length]),
          result.clauses[cell.clause].id + ": " + result.clauses[cell.clause].text,
          UseText(cell),
          cell.fails() ? "▽ fails narrowly" : "△ passes narrowly"};
}

const std::vector<std::string>& NearHead() {
  static const std::vector<std::string> head = {"engine", "slice",          "prompt",
                                                "clause", "threshold used", "cell"};
  return head;
}

std::string CardTable(const std::vector<std::string>& head,
                      const std::vector<std::vector<std::string>>& rows) {
  return "<div class=\"card\">" + TableHtml(head, rows) + "</div>\n";
}

std::vector<std::vector<std::string>> NearRows(const E2Result& result, size_t most) {
  std::vector<std::vector<std::string>> rows;
  for (const NearCell& near : NearCells(result)) {
    if (rows.size() < most) rows.push_back(NearRow(result, near));
  }
  return rows;
}

std::vector<std::string> RoutingHead(const E2Result& result) {
  std::vector<std::string> head = {"engine"};
  head.insert(head.end(), result.slices.begin(), result.slices.end());
  return head;
}

std::vector<std::vector<std::string>> RoutingRows(const E2Result& result, std::string_view quote) {
  std::vector<std::vector<std::string>> rows;
  for (size_t e = 0; e < result.engines.size(); ++e) {
    rows.push_back({std::string(quote) + "lab:" + result.engines[e] + std::string(quote)});
    for (size_t s = 0; s < result.slices.size(); ++s) {
      rows.back().push_back(RoutingRule(result, e, s));
    }
  }
  return rows;
}

std::vector<std::string> PassHead(const E2Result& result) {
  std::vector<std::string> head = {"engine", "load"};
  for (const E2Length& length : result.lengths) head.push_back(LengthText(length));
  head.push_back("preempted");
  return head;
}

std::vector<std::vector<std::string>> PassRows(const E2Result& result, std::string_view quote) {
  std::vector<std::vector<std::string>> rows;
  for (size_t e = 0; e < result.engines.size(); ++e) {
    for (size_t w = 0; w < result.loads.size(); ++w) {
      std::vector<std::string>& row = rows.emplace_back();
      row = {std::string(quote) + "lab:" + result.engines[e] + std::string(quote),
             LoadText(result.loads[w])};
      uint64_t preemptions = 0;
      for (size_t n = 0; n < result.lengths.size(); ++n) {
        const E2Row& measured = result.row(e, w, n);
        const E2Cell& cell = measured.by_slice[0];
        preemptions += measured.preemptions;
        row.push_back(Percent(ShareOf(cell)) + " " + std::string(MarkOf(cell)));
      }
      row.push_back(std::to_string(preemptions));
    }
  }
  return rows;
}

std::string ClausesText(const E2Result& result) {
  std::string text;
  for (const E2Clause& clause : result.clauses) {
    text += (text.empty() ? "" : ", ") + clause.id + " (" + clause.text + ")";
  }
  return text;
}

std::string RequestsText(const E2Result& result) {
  std::string text;
  for (const E2Length& length : result.lengths) {
    text += (text.empty() ? "" : ", ") + std::to_string(length.requests) + " " +
            (length.tokens == 0 ? "as asked" : "with prompts of " + LengthText(length));
  }
  return text;
}

}  // namespace

std::string E2Page(const E2Result& result) {
  const ExperimentReport report = E2Report(result);
  std::string maps = Legend();
  for (size_t e = 0; e < result.engines.size(); ++e) maps += EngineMap(result, e);
  ExperimentParts parts;
  parts.title = "E2: where an engine stops keeping the contract";
  parts.lead = "The contract " + result.contract + " on engines of the lab against " +
               "lab:train, by slice, length, batch and load. Clauses: " + ClausesText(result) + ".";
  parts.foot = "Requests: " + RequestsText(result) +
               ". Longer prompts are requests after whole other requests. Made by kcc "
               "lab e2; the same figures give the same page.";
  parts.figures = {
      {"maps", "Pass rates",
       "Rows are slices; columns are lengths of the prompt, and within each how many sequences run "
       "at once. The number is the share of requests, in percent, on which every clause holds; the "
       "mark is the verdict on the slice as a whole.",
       std::move(maps)},
      {"near", "Where it fails next",
       "Cells within a fifth of their threshold, nearest first: the ones to watch.",
       CardTable(NearHead(), NearRows(result, 40))},
      {"routing", "Routing rules",
       "The longest prompts up to which an engine holds every clause on a slice, whatever the "
       "load.",
       CardTable(RoutingHead(result), RoutingRows(result, ""))}};
  parts.seen = {"seen", "What was seen",
                "The paper's expectations of the sweep, against these figures.", ""};
  parts.report = ReportSection(report);
  return ExperimentPage(parts, report.findings, report.preview);
}

std::string E2Markdown(const E2Result& result) {
  const ExperimentReport report = E2Report(result);
  std::string text =
      "# " + std::string(report.preview ? "Preview of " : "") +
      "E2: pass rates over slice, engine, length, batch and load\n\nThe contract " +
      result.contract + " on the lab's engines against `lab:train`, made by `kcc lab e2` (`make " +
      "results` writes this page again). Clauses: " + ClausesText(result) +
      ". Requests: " + RequestsText(result) +
      "; a longer prompt is a request after whole other requests. Every engine serves along the "
      "decode path; *under pressure* the KV cache holds one and a half of the longest sequences, "
      "and the rest are preempted and computed again. Loads repeat the same requests and slices "
      "overlap, so cells are not independent, and those of few requests are coarse. The page "
      "`e2.html` that the command writes beside it is the heat map with every slice.\n";
  if (report.preview) text += "\n" + std::string(kPreviewText) + "\n";
  text +=
      "\n## Pass rates over all requests\n\nThe share of requests on which every clause holds, and "
      "the verdict on them together: ✓ passes, △ narrowly, ▽ fails narrowly, ✕ fails. *Preempted* "
      "counts preemptions.\n\n";
  text += MarkdownTable(PassHead(result), PassRows(result, "`"));
  text +=
      "\n## Routing rules\n\nThe longest prompts up to which an engine holds every clause on a "
      "slice, whatever the load.\n\n";
  text += MarkdownTable(RoutingHead(result), RoutingRows(result, "`"));
  text += "\n## Where it fails next\n\nCells within a fifth of their threshold, nearest first.\n\n";
  text += MarkdownTable(NearHead(), NearRows(result, 20));
  return text + "\n" + SeenMarkdown(report) + ExperimentReportMarkdown(report);
}

std::string E2Text(const E2Result& result) {
  return TextParagraph("E2: the contract " + result.contract +
                       " on the lab's engines against lab:train. Shares of requests on which every "
                       "clause holds; ✓ passes, △ narrowly, ▽ fails narrowly, ✕ fails") +
         "\n" + TextTable(PassHead(result), PassRows(result, "")) + SeenText(E2Report(result));
}

std::string E2Json(const E2Result& result) {
  JsonWriter json;
  json.BeginObject().Field("kccLab", 1);
  WriteExperimentReport(E2Report(result), &json);
  json.Field("contract", result.contract).Key("clauses").BeginArray();
  for (const E2Clause& clause : result.clauses) {
    json.BeginObject().Field("id", clause.id).Field("text", clause.text).EndObject();
  }
  json.EndArray().Key("cells").BeginArray();
  for (const E2Row& row : result.rows) {
    for (size_t s = 0; s < result.slices.size(); ++s) {
      const E2Cell& cell = row.by_slice[s];
      if (cell.requests == 0) continue;
      json.BeginObject().Field("engine", result.engines[row.engine]);
      json.Field("slice", result.slices[s]);
      json.Field("promptTokens", static_cast<int64_t>(result.lengths[row.length].tokens));
      json.Field("batch", static_cast<int64_t>(result.loads[row.load].batch));
      json.Field("pressed", result.loads[row.load].pressed);
      json.Field("preemptions", static_cast<int64_t>(row.preemptions));
      json.Field("requests", cell.requests).Field("passing", cell.passing);
      json.Field("clause", result.clauses[cell.clause].id).Field("use", cell.use);
      json.Field("fails", cell.fails()).Field("narrow", cell.narrow()).EndObject();
    }
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace kcc
