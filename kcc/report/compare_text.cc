// A comparison in words: terminal, Markdown and JSON.
#include <array>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/report/compare.h"
#include "kcc/report/report_markdown.h"
#include "kcc/report/terminal_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr std::array kListed = {PairChange::kRegressed, PairChange::kImproved, PairChange::kNew,
                                PairChange::kGone, PairChange::kMoved};

// "2 regressed, 1 new, 35 unchanged".
std::string CountsLine(const ReportComparison& comparison) {
  std::string text;
  for (const PairChange change : kListed) {
    const int64_t count = comparison.Count(change);
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + Grouped(count) + " " + std::string(Name(change));
  }
  return (text.empty() ? "" : text + ", ") + Grouped(comparison.unchanged) + " unchanged";
}

std::string ContractText(const ReportContract& contract) {
  return contract.name + " " + contract.version;
}

std::string ContractLine(const ReportComparison& comparison) {
  const std::string before = ContractText(comparison.contract_before);
  const std::string after = ContractText(comparison.contract_after);
  if (comparison.same_contract()) return after + ", the same contract";
  if (before != after) return "contract changed: " + before + " → " + after;
  return "contract changed: " + after + ", another digest under the same version";
}

std::string SideText(const std::optional<PairSide>& side, BoundKind bound) {
  if (!side) return "–";
  std::string text = IntervalText(side->value) + " against " + BoundText(bound, side->threshold);
  if (side->exceedance) text += " (" + Percent(side->exceedance->rate()) + " beyond)";
  return text;
}

std::string VerdictChange(const PairComparison& pair) {
  const std::string before = pair.before ? std::string(Name(pair.before->verdict)) : "";
  const std::string after = pair.after ? std::string(Name(pair.after->verdict)) : "";
  if (before.empty() || after.empty() || before == after) return before.empty() ? after : before;
  return before + " → " + after;
}

std::string_view Drift(const PairComparison& pair) {
  return !pair.worse ? "" : *pair.worse ? "worse" : "better";
}

void WriteSide(std::string_view key, const std::optional<PairSide>& side, JsonWriter* json) {
  json->Key(key);
  if (!side) {
    json->Null();
    return;
  }
  json->BeginObject().Field("verdict", Name(side->verdict));
  json->Key("interval");
  if (side->value.known()) {
    json->BeginArray().Value(side->value.lo).Value(side->value.hi).EndArray();
  } else {
    json->Null();
  }
  json->Field("threshold", side->threshold);
  if (side->exceedance) {
    json->Key("exceedance").BeginObject();
    json->Field("windows", side->exceedance->windows);
    json->Field("exceeding", side->exceedance->exceeding);
    json->Field("rate", side->exceedance->rate()).Field("budget", side->exceedance->budget);
    json->EndObject();
  }
  json->Field("reason", side->reason).EndObject();
}

void WriteReportSide(std::string_view key, const ReportContract& contract, Verdict verdict,
                     double health, JsonWriter* json) {
  json->Key(key).BeginObject().Key("contract").BeginObject();
  json->Field("name", contract.name).Field("version", contract.version);
  json->Field("digest", contract.digest).EndObject();
  json->Field("verdict", Name(verdict)).Field("health", health).EndObject();
}

}  // namespace

std::string ComparisonTerminal(const ReportComparison& comparison, const TerminalStyle& style) {
  TerminalText out(style.width, style.color);
  out.Line(out.Colored(comparison.verdict_before, Name(comparison.verdict_before)) + " → " +
           out.Colored(comparison.verdict_after, Name(comparison.verdict_after)));
  out.Paragraph(ContractLine(comparison), 2);
  out.Paragraph("health " + ShortNumber(comparison.health_before) + " → " +
                    ShortNumber(comparison.health_after),
                2);
  out.Paragraph(CountsLine(comparison), 2);
  PairChange heading = PairChange::kUnchanged;
  for (const PairComparison& pair : comparison.pairs) {
    if (pair.change != heading) {
      heading = pair.change;
      out.Line().Line(out.Bold(Name(heading)));
    }
    const Verdict verdict = pair.after ? pair.after->verdict : pair.before->verdict;
    const std::string title = OneLine(pair.clause + " " + pair.metric + " [" + pair.slice + "]");
    out.Line("  " + out.Colored(verdict, Glyph(verdict)) + " " + Truncated(title, out.width() - 4));
    out.Paragraph(VerdictChange(pair), 4);
    std::string values =
        SideText(pair.before, pair.bound) + " → " + SideText(pair.after, pair.bound);
    if (!Drift(pair).empty()) values += ", " + std::string(Drift(pair));
    out.Paragraph(values, 4);
    if (pair.change == PairChange::kRegressed) out.Paragraph(pair.after->reason, 4);
  }
  return out.Take();
}

std::string ComparisonMarkdown(const ReportComparison& comparison) {
  std::string text = "## " + MarkdownVerdict(comparison.verdict_before) + " → " +
                     MarkdownVerdict(comparison.verdict_after) + "\n\n";
  text += MarkdownText(ContractLine(comparison)) + ". Health " +
          ShortNumber(comparison.health_before) + " → " + ShortNumber(comparison.health_after) +
          ". " + CountsLine(comparison) + ".\n";
  if (comparison.pairs.empty()) return text;
  text += "\n| change | clause | metric | slice | verdict | before | after | value |\n";
  text += "|---|---|---|---|---|---|---|---|\n";
  size_t shown = 0;
  for (const PairComparison& pair : comparison.pairs) {
    const std::string row =
        "| " + std::string(Name(pair.change)) + " | " + MarkdownCode(pair.clause) + " | " +
        MarkdownCode(pair.metric) + " | " + MarkdownCode(pair.slice) + " | " + VerdictChange(pair) +
        " | " + MarkdownText(SideText(pair.before, pair.bound)) + " | " +
        MarkdownText(SideText(pair.after, pair.bound)) + " | " + std::string(Drift(pair)) + " |\n";
    if (text.size() + row.size() > kMarkdownBytesMax) break;
    text += row;
    ++shown;
  }
  if (shown < comparison.pairs.size()) {
    text += "\n_" + std::to_string(comparison.pairs.size() - shown) + " more._\n";
  }
  return text;
}

std::string ComparisonJson(const ReportComparison& comparison) {
  JsonWriter json;
  json.BeginObject().Field("kccComparison", 1);
  WriteReportSide("before", comparison.contract_before, comparison.verdict_before,
                  comparison.health_before, &json);
  WriteReportSide("after", comparison.contract_after, comparison.verdict_after,
                  comparison.health_after, &json);
  json.Field("sameContract", comparison.same_contract());
  json.Key("totals").BeginObject();
  for (const PairChange change : kListed) json.Field(Name(change), comparison.Count(change));
  json.Field("unchanged", comparison.unchanged).EndObject();
  json.Key("pairs").BeginArray();
  for (const PairComparison& pair : comparison.pairs) {
    json.BeginObject().Field("change", Name(pair.change)).Field("clause", pair.clause);
    json.Field("metric", pair.metric).Field("slice", pair.slice);
    json.Field("bound", Name(pair.bound));
    json.Key("worse");
    if (pair.worse) {
      json.Value(*pair.worse);
    } else {
      json.Null();
    }
    WriteSide("before", pair.before, &json);
    WriteSide("after", pair.after, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace kcc
