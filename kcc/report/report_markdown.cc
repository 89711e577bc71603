#include "kcc/report/report_markdown.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kcc/report/choices.h"
#include "kcc/report/next_steps.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

// Appends rows while they fit; then says how many did not.
class BoundedRows {
 public:
  BoundedRows(std::string* text, size_t bytes_max) : text_(text), bytes_max_(bytes_max) {}

  void Add(const std::string& row) {
    if (left_out_ > 0 || text_->size() + row.size() > bytes_max_) {
      ++left_out_;
    } else {
      *text_ += row;
    }
  }

  void Finish() const {
    if (left_out_ > 0) {
      *text_ += "\n_" + Grouped(left_out_) + " more in report.html and report.json._\n";
    }
  }

 private:
  std::string* text_;
  size_t bytes_max_;
  int64_t left_out_ = 0;
};

size_t LongestRun(std::string_view text, char wanted) {
  size_t longest = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == wanted ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

std::string PairRow(const ClauseVerdict& clause, const SliceVerdict& slice) {
  std::string value = IntervalText(slice.value);
  if (slice.exceedance && !clause.hard) value += "; " + ExceedanceText(*slice.exceedance);
  return "| " + MarkdownVerdict(slice.verdict()) + " | " + MarkdownCode(clause.id) + " | " +
         MarkdownCode(clause.metric) + " | " + MarkdownCode(slice.slice) + " | " +
         MarkdownText(value) + " | " + BoundText(clause.bound, slice.threshold) + " | " +
         std::string(Name(clause.level)) + " |";
}

// Why the pair has its verdict, what would have passed, and why the contract asks for it.
std::string WhyText(const ReportData& report, const ClauseVerdict& clause,
                    const SliceVerdict& slice) {
  std::string why = slice.about.reason;
  if (!why.empty() && !why.ends_with('.')) why += ".";
  if (slice.smallest_passing) {
    why += " Would pass at " + PassingNumber(clause.bound, *slice.smallest_passing) + ".";
  }
  why = MarkdownText(why);
  const std::string where = WhereOf(report, slice.slice);
  if (!where.empty()) why += " Slice: " + MarkdownCode(where) + ".";
  const std::string reason = ReasonOf(report, clause.id);
  if (!reason.empty()) why += " Clause: " + MarkdownText(reason);
  return why;
}

void WriteFindings(const ReportData& report, size_t bytes_max, std::string* text) {
  const Judgement& judgement = report.judgement;
  if (CountPairs(judgement).of(Verdict::kSatisfied) == CountPairs(judgement).all()) return;
  *text += "\n| verdict | clause | metric | slice | value | bound | level | why |\n";
  *text += "|---|---|---|---|---|---|---|---|\n";
  BoundedRows rows(text, bytes_max);
  for (const Verdict verdict : {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive}) {
    for (const ClauseVerdict& clause : judgement.clauses) {
      for (const SliceVerdict& slice : clause.slices) {
        if (slice.verdict() != verdict) continue;
        rows.Add(PairRow(clause, slice) + " " + WhyText(report, clause, slice) + " |\n");
      }
    }
  }
  rows.Finish();
}

// Each command in a block of its own, so that it is pasted without its question; the fence is
// longer than any run of backticks in it.
void WriteNextSteps(const ReportData& report, std::string* text) {
  const std::vector<NextStep> steps = NextSteps(report);
  if (steps.empty()) return;
  *text += "\n**What to do next**\n";
  for (const NextStep& step : steps) {
    const std::string fence(std::max<size_t>(3, LongestRun(step.command, '`') + 1), '`');
    *text += "\n" + MarkdownText(step.question) + "\n\n" + fence + "sh\n" + step.command + "\n" +
             fence + "\n";
  }
}

void WriteAllPairs(const Judgement& judgement, size_t bytes_max, std::string* text) {
  *text += "\n<details><summary>All " + Grouped(CountPairs(judgement).all()) +
           " clause–slice pairs</summary>\n\n";
  *text += "| verdict | clause | metric | slice | value | bound | level | requests | tokens |\n";
  *text += "|---|---|---|---|---|---|---|--:|--:|\n";
  BoundedRows rows(text, bytes_max);
  for (const ClauseVerdict& clause : judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      rows.Add(PairRow(clause, slice) + " " + Grouped(slice.count.requests) + " | " +
               Grouped(slice.count.tokens) + " |\n");
    }
  }
  rows.Finish();
  *text += "\n</details>\n";
}

void WriteQuantities(const std::vector<QuantitySlice>& quantities, size_t bytes_max,
                     std::string* text) {
  if (quantities.empty() || text->size() > bytes_max) return;
  *text += "\n<details><summary>Quantities</summary>\n\n";
  *text += "| quantity | slice | count | mean | p50 | p90 | p95 | p99 | p99.9 | max |\n";
  *text += "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  BoundedRows rows(text, bytes_max);
  const auto cell = [](double value) {
    return " " + (value == value ? ShortNumber(value) : std::string("–")) + " |";
  };
  for (const QuantitySlice& row : quantities) {
    const QuantityStatistics& s = row.statistics;
    rows.Add("| " + MarkdownCode(row.quantity) + " | " + MarkdownCode(row.slice) + " | " +
             Grouped(s.count) + " |" + cell(s.mean) + cell(s.p50) + cell(s.p90) + cell(s.p95) +
             cell(s.p99) + cell(s.p999) + cell(s.max) + "\n");
  }
  rows.Finish();
  *text += "\n</details>\n";
}

void WriteBounds(const std::vector<ImpliedBound>& bounds, size_t bytes_max, std::string* text) {
  if (bounds.empty() || text->size() > bytes_max) return;
  *text += "\n<details><summary>What the clauses imply where they hold</summary>\n\n";
  *text += "| clause | bounds | at most |\n|---|---|--:|\n";
  BoundedRows rows(text, bytes_max);
  for (const ImpliedBound& bound : bounds) {
    rows.Add("| " + MarkdownCode(bound.clause) + " | " + MarkdownText(bound.text) + " | " +
             ShortNumber(bound.value) + (bound.vacuous ? " (says nothing)" : "") + " |\n");
  }
  rows.Finish();
  *text += "\n</details>\n";
}

void WriteWorst(const std::vector<WorstToken>& worst, size_t bytes_max, std::string* text) {
  if (worst.empty() || text->size() > bytes_max) return;
  *text += "\n<details><summary>Worst tokens</summary>\n\n";
  *text += "| quantity | slice | value | request | tags | position | token | context |\n";
  *text += "|---|---|--:|---|---|--:|--:|---|\n";
  BoundedRows rows(text, bytes_max);
  for (const WorstToken& row : worst) {
    std::string tags;
    for (const std::string& tag : row.tags) tags += (tags.empty() ? "" : ", ") + tag;
    const bool request_level = row.position < 0;
    rows.Add("| " + MarkdownCode(row.quantity) + " | " + MarkdownCode(row.slice) + " | " +
             ShortNumber(row.value) + " | " + MarkdownCode(row.request) + " | " +
             MarkdownText(tags) + " | " + (request_level ? "–" : Grouped(row.position)) + " | " +
             (request_level ? "–" : std::to_string(row.token)) + " | " +
             MarkdownText(row.context.value_or("")) + " |\n");
  }
  rows.Finish();
  *text += "\n</details>\n";
}

void WriteProvenance(const ReportData& report, std::string* text) {
  const Provenance& provenance = report.provenance;
  *text += "\n<details><summary>Provenance</summary>\n\n| | |\n|---|---|\n";
  const auto row = [text](std::string_view label, const std::string& value) {
    if (!value.empty()) *text += "| " + std::string(label) + " | " + MarkdownCode(value) + " |\n";
  };
  row("contract", report.contract.digest);
  row("train kernel", provenance.train.fingerprint);
  row("train trace", provenance.train.trace);
  row("train model", provenance.train.model);
  row("infer kernel", provenance.infer.fingerprint);
  row("infer trace", provenance.infer.trace);
  row("infer model", provenance.infer.model);
  row("plan", provenance.plan);
  row("evidence", provenance.evidence);
  row("measured by", provenance.backend);
  *text += "| requests | " + Grouped(provenance.requests) + " |\n";
  row("kcc", provenance.kcc);
  *text += "\n</details>\n";
}

}  // namespace

std::string MarkdownText(std::string_view raw) {
  constexpr std::string_view kMeaningful = "\\`*_{}[]()#+!|~$";
  constexpr std::string_view kZeroWidthSpace = "\xE2\x80\x8B";
  std::string out;
  for (const char c : OneLine(raw)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (kMeaningful.find(c) != std::string_view::npos) {
      out += '\\';
      out += c;
    } else {
      out += c;
      if (c == '@') out += kZeroWidthSpace;
    }
  }
  return out;
}

std::string MarkdownCode(std::string_view raw) {
  const std::string text = OneLine(raw);
  // A fence longer than any run of backticks inside.
  const size_t longest = LongestRun(text, '`');
  const std::string fence(longest + 1, '`');
  const bool blank = text.find_first_not_of(' ') == std::string::npos;
  if (blank) return "";
  // A table splits at every bar, inside a code span too, unless it is escaped.
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  const std::string_view pad = longest > 0 ? " " : "";
  return fence + std::string(pad) + cell + std::string(pad) + fence;
}

std::string MarkdownVerdict(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kSigns = {"✅", "❔", "⚠️", "❌"};
  return std::string(kSigns[static_cast<size_t>(verdict)]) + " " + std::string(Name(verdict));
}

std::string ReportMarkdown(const ReportData& report, size_t bytes_max) {
  const Judgement& judgement = report.judgement;
  std::string text = "## " + MarkdownVerdict(judgement.verdict) + ": " +
                     MarkdownText(report.contract.name) + " " +
                     MarkdownText(report.contract.version) + "\n\n";
  text += MarkdownCode(KernelName(report.provenance.infer, report.inputs.infer)) + " against " +
          MarkdownCode(KernelName(report.provenance.train, report.inputs.train)) + ". " +
          Headline(judgement);
  const std::string worst = WorstText(judgement);
  text += (worst.empty() ? "" : " " + MarkdownText(worst)) + "\n\n";
  text += "**Action:** " + std::string(ActionText(judgement)) + " (" +
          std::string(ActionMeaning(judgement)) + ") · **" + RiskText(judgement) + "** (η₁ " +
          ShortNumber(judgement.eta1) + ", η₂ " + ShortNumber(judgement.eta2) + ") · **Stage:** " +
          std::string(Name(judgement.stage)) + " · **About:** " +
          std::string(Name(judgement.about)) + "\n";
  for (const std::string& warning : judgement.warnings) {
    text += "\n> **Warning:** " + MarkdownText(warning) + "\n";
  }
  // Findings may use most of the room, the folded tables what is left; the provenance is short.
  const size_t room = bytes_max > 4'000 ? bytes_max - 4'000 : 0;
  WriteFindings(report, room * 3 / 4, &text);
  WriteNextSteps(report, &text);
  WriteAllPairs(judgement, room * 17 / 20, &text);
  WriteBounds(report.bounds, room * 18 / 20, &text);
  WriteWorst(report.worst, room * 19 / 20, &text);
  WriteQuantities(report.quantities, room, &text);
  WriteProvenance(report, &text);
  return text;
}

// "## ✅ satisfied: name version", and the lines that follow every such heading.
bool IsReportMarkdown(std::string_view bytes) {
  const auto contains = [bytes](std::string_view part) {
    return bytes.find(part) != std::string_view::npos;
  };
  const bool titled = std::any_of(kVerdicts.begin(), kVerdicts.end(), [bytes](Verdict verdict) {
    return bytes.starts_with("## " + MarkdownVerdict(verdict) + ": ");
  });
  return titled && contains("\n**Action:** ") && contains("<details><summary>Provenance</summary>");
}

}  // namespace kcc
