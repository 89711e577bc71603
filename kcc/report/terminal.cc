#include "kcc/report/terminal.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kcc/report/terminal_text.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

std::string Upper(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

void WriteHead(const ReportData& report, TerminalText* out) {
  const Judgement& judgement = report.judgement;
  const std::string badge =
      std::string(Glyph(judgement.verdict)) + " " + Upper(Name(judgement.verdict));
  const std::string title = OneLine(report.contract.name + " " + report.contract.version);
  const size_t room = out->width() - std::min(out->width(), DisplayWidth(badge) + 2);
  out->Line(out->Colored(judgement.verdict, badge) + "  " + out->Bold(Truncated(title, room)));
  out->Paragraph(Headline(judgement), 2);
  out->Paragraph("action: " + std::string(ActionText(judgement)) +
                     " · stage: " + std::string(Name(judgement.stage)) +
                     " · about: " + std::string(Name(judgement.about)),
                 2);
  out->Paragraph(RiskText(judgement), 2);
  for (const std::string& warning : judgement.warnings) out->Paragraph("warning: " + warning, 2);
}

// "0.0712 against ≤ 0.05 · 3.2% of 4,000 windows beyond (budget 1%) · 512 requests".
std::string SliceFacts(const ClauseVerdict& clause, const SliceVerdict& slice) {
  std::string text =
      IntervalText(slice.value) + " against " + BoundText(clause.bound, slice.threshold);
  if (slice.exceedance && !clause.hard) text += " · " + ExceedanceText(*slice.exceedance);
  text += " · " + CountText(slice.count);
  return text;
}

std::string SliceAdvice(const ClauseVerdict& clause, const SliceVerdict& slice) {
  std::string text;
  // A single value would pass at itself, which is known already.
  if (slice.smallest_passing && slice.value.lo != slice.smallest_passing)
    text = "would pass at " + PassingNumber(clause.bound, *slice.smallest_passing);
  if (slice.smallest_budget) {
    text += (text.empty() ? "would pass" : ", or") + std::string(" with a budget of ") +
            Percent(*slice.smallest_budget);
  }
  return text;
}

void WriteSlice(const ClauseVerdict& clause, const SliceVerdict& slice, TerminalText* out) {
  const size_t room = out->width() - 8;
  out->Line("    " + out->Colored(slice.verdict(), Glyph(slice.verdict())) + " " +
            Truncated(OneLine(slice.slice), room));
  out->Paragraph(SliceFacts(clause, slice), 6);
  if (slice.verdict() != Verdict::kSatisfied && !slice.about.reason.empty()) {
    out->Paragraph(slice.about.reason, 6);
  }
  if (const std::string advice = SliceAdvice(clause, slice); !advice.empty())
    out->Paragraph(advice, 6);
}

// Slices of a clause that are shown without --all.
constexpr size_t kSlicesShownMax = 100;

// "… and 4,901 further slices, 4,800 of them violated; --all shows them".
void WriteRest(const ClauseVerdict& clause, size_t rest, size_t violated, TerminalText* out) {
  std::string text = "… and " + Grouped(static_cast<int64_t>(rest)) +
                     (rest == 1 ? " further slice" : " further slices") + " not satisfied";
  if (clause.verdict == Verdict::kViolated) {
    text += ", " + Grouped(static_cast<int64_t>(violated)) + " of them violated";
  }
  out->Paragraph(text + "; --all shows them", 4);
}

void WriteClause(const ClauseVerdict& clause, bool all, TerminalText* out) {
  const std::string right =
      std::string(Name(clause.level)) + " · " + std::string(Name(clause.action));
  const std::string glyph(Glyph(clause.verdict));
  const size_t id_room = std::max<size_t>(out->width() / 4, 8);
  const std::string id = Truncated(OneLine(clause.id), id_room);
  const size_t used = 2 + 2 + DisplayWidth(id) + 2 + 2 + DisplayWidth(right);
  const size_t metric_room = out->width() > used ? out->width() - used : 1;
  out->Line("  " + out->Colored(clause.verdict, glyph) + " " + out->Bold(id) + "  " +
            Padded(OneLine(clause.metric), metric_room) + "  " + out->Dim(right));
  size_t satisfied = 0;
  std::vector<const SliceVerdict*> shown;
  for (const SliceVerdict& slice : clause.slices) {
    if (!all && slice.verdict() == Verdict::kSatisfied) {
      ++satisfied;
    } else {
      shown.push_back(&slice);
    }
  }
  if (!all && shown.size() > kSlicesShownMax) {
    // The violated ones first; in their order among themselves.
    const auto violated = [](const SliceVerdict* s) { return s->verdict() == Verdict::kViolated; };
    std::stable_partition(shown.begin(), shown.end(), violated);
    const auto first_left = shown.begin() + kSlicesShownMax;
    const auto left = static_cast<size_t>(std::count_if(first_left, shown.end(), violated));
    for (auto slice = shown.begin(); slice != first_left; ++slice) WriteSlice(clause, **slice, out);
    WriteRest(clause, shown.size() - kSlicesShownMax, left, out);
  } else {
    for (const SliceVerdict* slice : shown) WriteSlice(clause, *slice, out);
  }
  if (satisfied > 0) {
    out->Line("    " + out->Dim("✓ satisfied on " + std::to_string(satisfied) +
                                (satisfied == 1 ? " further slice" : " further slices")));
  }
}

void WriteClauses(const Judgement& judgement, bool all, TerminalText* out) {
  constexpr std::array kOrder = {Verdict::kViolated, Verdict::kError, Verdict::kInconclusive,
                                 Verdict::kSatisfied};
  for (const Verdict verdict : kOrder) {
    if (verdict == Verdict::kSatisfied && !all) continue;
    for (const ClauseVerdict& clause : judgement.clauses) {
      if (clause.verdict != verdict) continue;
      out->Line();
      WriteClause(clause, all, out);
    }
  }
  if (all || judgement.convergent) return;
  std::string names;
  for (const ClauseVerdict& clause : judgement.clauses) {
    if (clause.verdict != Verdict::kSatisfied) continue;
    names += (names.empty() ? "" : ", ") + clause.id;
  }
  if (names.empty()) return;
  out->Line();
  out->Paragraph("✓ satisfied: " + names, 2);
}

// With --all only: what the judged clauses guarantee where they hold.
void WriteBounds(const ReportData& report, TerminalText* out) {
  if (report.bounds.empty()) return;
  out->Line();
  out->Line("  " + out->Bold("what the clauses imply where they hold"));
  for (const ImpliedBound& bound : report.bounds) {
    out->Paragraph(bound.clause + ": " + bound.text + ": at most " + ShortNumber(bound.value) +
                       (bound.vacuous ? " (says nothing)" : ""),
                   4);
  }
}

}  // namespace

std::string ReportTerminal(const ReportData& report, const TerminalStyle& style) {
  TerminalText out(style.width, style.color);
  WriteHead(report, &out);
  WriteClauses(report.judgement, style.all, &out);
  if (style.all) WriteBounds(report, &out);
  out.Line();
  const Provenance& provenance = report.provenance;
  out.Paragraph("evidence: " + provenance.evidence + ", " + Grouped(provenance.requests) +
                    " requests · contract " + report.contract.digest,
                2);
  return out.Take();
}

}  // namespace kcc
