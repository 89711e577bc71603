#include "kcc/register/register_page.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/register/event_body.h"
#include "kcc/register/register_assets.h"
#include "kcc/report/static_page.h"
#include "kcc/report/text.h"

namespace kcc {
namespace {

constexpr std::array<std::string_view, 5> kPageColumns = {"proposed", "offline", "shadow", "canary",
                                                          "full"};
constexpr std::string_view kElsewhere = "not promoted";

using TimeText = std::function<std::string(int64_t)>;

// A text of the register on the page: digests short, with the whole in the title.
std::string Id(const std::string& id) {
  if (!IsSha256(id)) return "<code>" + MarkupEscaped(id) + "</code>";
  return "<code title=\"" + id + "\">" + id.substr(7, 10) + "</code>";
}

std::string VerdictClass(const std::string& verdict) {
  for (const Verdict known :
       {Verdict::kSatisfied, Verdict::kInconclusive, Verdict::kError, Verdict::kViolated}) {
    if (verdict == Name(known)) return "v-" + verdict;
  }
  return "v-error";
}

std::string VerdictWord(const std::string& verdict) {
  return "<span class=\"verdict-word " + VerdictClass(verdict) + "\">" + MarkupEscaped(verdict) +
         "</span>";
}

std::string VerdictGlyph(const std::string& verdict) {
  return verdict == "satisfied"      ? "✓"
         : verdict == "violated"     ? "✗"
         : verdict == "inconclusive" ? "?"
                                     : "!";
}

// What the page is made of, read at one moment.
struct PageData {
  Head head;
  std::vector<Entry> triples;
  std::vector<Entry> evaluations;  // the last first
  std::vector<Entry> promotions;
  std::vector<Entry> incidents;
  std::vector<Event> moments;  // promotions, approvals and incidents, the last first
  std::map<std::string, std::string> contract_names;
};

Result<PageData> ReadPageData(Register& source) {
  PageData data;
  KCC_TRY(data.head, source.ReadHead());
  KCC_TRY(data.triples, source.List({.table = EntryTable::kTriples, .limit = kPageTriplesMax}));
  KCC_TRY(data.evaluations,
          source.List({.table = EntryTable::kEvaluations, .limit = kPageEvaluationsMax}));
  KCC_TRY(data.promotions,
          source.List({.table = EntryTable::kPromotions, .limit = kPageTriplesMax}));
  KCC_TRY(data.incidents, source.List({.table = EntryTable::kIncidents, .limit = kPageTriplesMax}));
  for (const char* kind :
       {"promotion.changed", "approval.given", "incident.opened", "incident.closed"}) {
    KCC_TRY(auto events,
            source.ReadEvents({.limit = kPageMomentsMax, .newest_first = true, .kind = kind}));
    data.moments.insert(data.moments.end(), events.begin(), events.end());
  }
  std::sort(data.moments.begin(), data.moments.end(),
            [](const Event& a, const Event& b) { return a.sequence > b.sequence; });
  if (data.moments.size() > static_cast<size_t>(kPageMomentsMax)) {
    data.moments.resize(static_cast<size_t>(kPageMomentsMax));
  }
  KCC_TRY(const auto contracts, source.List({.table = EntryTable::kContracts}));
  for (const Entry& contract : contracts) {
    data.contract_names[contract.key.id] = BodyText(contract.event.body, "name");
  }
  return data;
}

std::string TripleItem(const PageData& data, const Entry& triple) {
  const std::string& body = triple.event.body;
  std::string item = "<div class=\"item\">" + Id(BodyText(body, "infer")) + "<small>against " +
                     Id(BodyText(body, "train")) + ", model " + Id(BodyText(body, "model")) +
                     "</small><small>";
  const std::string contract = BodyText(body, "contract");
  const auto name = data.contract_names.find(contract);
  item += "contract " + (name != data.contract_names.end() && !name->second.empty()
                             ? MarkupEscaped(name->second)
                             : Id(contract));
  item += ", triple " + Id(triple.key.id) + "</small>";
  for (const Entry& evaluation : data.evaluations) {
    if (evaluation.state.subject != triple.key.id) continue;
    const RecordedEvaluation read = ReadRecordedEvaluation(evaluation.event.body);
    item += "<a href=\"#evaluation-" + evaluation.key.id + "\">" + MarkupEscaped(read.stage) +
            "</a> " + VerdictWord(read.verdict);
    return item + "</div>";
  }
  return item + "<span class=\"quiet\">never judged</span></div>";
}

// Columns: the stages of the last promotion of each triple. A state that is no stage has its own.
std::string StagesBody(const PageData& data) {
  std::map<std::string, std::string> stage_of;  // by triple; promotions come the last first
  for (const Entry& promotion : data.promotions) {
    stage_of.emplace(promotion.state.subject, BodyText(promotion.event.body, "to"));
  }
  std::vector<std::string> columns(kPageColumns.begin(), kPageColumns.end());
  std::map<std::string, std::string> items;
  for (const Entry& triple : data.triples) {
    const auto known = stage_of.find(triple.key.id);
    const std::string stage = known == stage_of.end() ? std::string(kElsewhere) : known->second;
    if (std::find(columns.begin(), columns.end(), stage) == columns.end()) columns.push_back(stage);
    items[stage] += TripleItem(data, triple);
  }
  std::string body = "<div class=\"stages\">";
  for (const std::string& column : columns) {
    const std::string& held = items[column];
    if (held.empty() && column != "full") continue;
    body += "<div class=\"card stage\"><h3>" + MarkupEscaped(column) + "</h3>" +
            (held.empty() ? "<span class=\"quiet\">none</span>" : held) + "</div>\n";
  }
  return body + "</div>";
}

std::string MomentHtml(const Event& event, const TimeText& time_text) {
  const auto text = [&](std::string_view key) { return BodyText(event.body, key); };
  std::string what;
  std::string tone;
  if (event.kind == "promotion.changed") {
    what = "<b>" + MarkupEscaped(text("promotion")) + "</b> " + MarkupEscaped(text("from")) +
           " → <b>" + MarkupEscaped(text("to")) + "</b><small>" + MarkupEscaped(text("cause")) +
           "; triple " + Id(text("triple")) + "</small>";
  } else if (event.kind == "approval.given") {
    tone = " v-satisfied";
    const std::string stage = text("stage");
    what = "<b>" + MarkupEscaped(event.actor) + "</b> approved of <b>" +
           MarkupEscaped(text("promotion")) + "</b>" +
           (stage.empty() ? "" : ", " + MarkupEscaped(stage));
  } else {
    const bool closed = event.kind == "incident.closed";
    tone = closed ? " v-satisfied" : " v-violated";
    what = "incident <b>" + MarkupEscaped(text("incident")) + "</b> " +
           (closed ? "closed" : "opened") + "<small>" + MarkupEscaped(text("what")) + "</small>";
  }
  return "<div class=\"moment" + tone + "\"><time>" + MarkupEscaped(time_text(event.time_ms)) +
         "</time><div>" + what + "<small>event " + std::to_string(event.sequence) + ", by " +
         MarkupEscaped(event.actor) + "</small></div></div>\n";
}

// One triple in one stage: a row for each clause, a column for each evaluation, the oldest first.
std::string HistoryHtml(const std::string& title, const std::string& stage,
                        const std::vector<std::pair<std::string, RecordedEvaluation>>& runs) {
  std::vector<std::string> clauses;
  std::string html = "<div class=\"card history\"><h3>" + MarkupEscaped(stage) + " <small>" +
                     title + "</small></h3><table><thead><tr><th></th>";
  for (const auto& [id, run] : runs) {
    html += "<th>" + MarkupEscaped(id) + "</th>";
    for (const RecordedClause& clause : run.clauses) {
      if (std::find(clauses.begin(), clauses.end(), clause.id) == clauses.end()) {
        clauses.push_back(clause.id);
      }
    }
  }
  html += "</tr></thead><tbody>\n";
  for (const std::string& name : clauses) {
    html += "<tr><th>" + MarkupEscaped(name) + "</th>";
    for (const auto& [id, run] : runs) {
      const auto clause = std::find_if(run.clauses.begin(), run.clauses.end(),
                                       [&](const RecordedClause& c) { return c.id == name; });
      if (clause == run.clauses.end()) {
        html += "<td></td>";
        continue;
      }
      html += "<td><a class=\"" + VerdictClass(clause->verdict) + "\" href=\"#evaluation-" + id +
              "\" title=\"" + MarkupEscaped(name + ": " + clause->verdict) + "\">" +
              VerdictGlyph(clause->verdict) + "<span class=\"hidden-text\">" +
              MarkupEscaped(clause->verdict) + "</span></a></td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string HistoriesBody(const PageData& data) {
  constexpr size_t kColumnsMax = 30;
  std::map<std::pair<std::string, std::string>,
           std::vector<std::pair<std::string, RecordedEvaluation>>>
      runs;
  for (const Entry& evaluation : data.evaluations) {
    RecordedEvaluation read = ReadRecordedEvaluation(evaluation.event.body);
    auto& column = runs[{read.triple, read.stage}];
    if (column.size() < kColumnsMax) column.emplace_back(evaluation.key.id, std::move(read));
  }
  std::map<std::string, std::string> titles;
  for (const Entry& triple : data.triples) {
    titles[triple.key.id] = Id(BodyText(triple.event.body, "infer")) + " against " +
                            Id(BodyText(triple.event.body, "train")) + ", triple " +
                            Id(triple.key.id);
  }
  std::string body;
  for (auto& [of, columns] : runs) {
    std::reverse(columns.begin(), columns.end());
    const auto title = titles.find(of.first);
    body += HistoryHtml(title == titles.end() ? "triple " + Id(of.first) : title->second, of.second,
                        columns);
  }
  return body.empty() ? "<p class=\"quiet\">Nothing was judged.</p>"
                      : "<div class=\"histories\">" + body + "</div>";
}

std::string EvaluationsBody(const PageData& data, const TimeText& time_text) {
  std::string body =
      "<div class=\"card\"><div class=\"table-scroll\"><table "
      "class=\"grid\"><thead><tr><th>No.</th>"
      "<th>when, by</th><th>stage</th><th>verdict</th><th>health</th><th>triple</th>"
      "<th>traces</th><th>report, summary</th></tr></thead><tbody>\n";
  for (const Entry& evaluation : data.evaluations) {
    const RecordedEvaluation read = ReadRecordedEvaluation(evaluation.event.body);
    std::string traces;
    for (const std::string& identity : read.evidence) traces += Id(identity) + " ";
    body += "<tr id=\"evaluation-" + evaluation.key.id + "\"><td>" + evaluation.key.id +
            "</td><td>" + MarkupEscaped(time_text(evaluation.event.time_ms)) + ", " +
            MarkupEscaped(evaluation.event.actor) + "</td><td>" + MarkupEscaped(read.stage) +
            "</td><td>" + VerdictWord(read.verdict) + "</td><td>" +
            (read.health ? ReadableNumber(*read.health) : "–") + "</td><td>" + Id(read.triple) +
            "</td><td>" + traces + "</td><td>" + (read.report.empty() ? "" : Id(read.report)) +
            " " + (read.summary.empty() ? "" : Id(read.summary)) + "</td></tr>\n";
  }
  return body + "</tbody></table></div></div>";
}

std::string LeadText(const PageData& data) {
  int64_t open = 0;
  for (const Entry& incident : data.incidents) open += incident.event.kind == "incident.opened";
  const auto count = [](size_t number, const char* noun, const char* nouns) {
    return std::to_string(number) + " " + (number == 1 ? noun : nouns);
  };
  return count(data.triples.size(), "triple", "triples") + ", " +
         count(data.promotions.size(), "promotion", "promotions") + ", " +
         count(data.evaluations.size(), "evaluation", "evaluations") + ", " +
         count(static_cast<size_t>(open), "open incident", "open incidents") + ".";
}

}  // namespace

Result<std::string> RegisterPage(Register& source, const TimeText& time_text) {
  KCC_TRY(const PageData data, ReadPageData(source));
  std::string moments;
  for (const Event& event : data.moments) moments += MomentHtml(event, time_text);
  const std::array<PageSection, 4> sections = {{
      {"stages", "Triples by stage",
       "A triple is a model, a training and an inference kernel, and a contract. It stands where "
       "its last promotion is.",
       StagesBody(data)},
      {"promotions", "Promotions",
       "What was promoted, approved, rolled back or reported, the last first.",
       moments.empty() ? "<p class=\"quiet\">Nothing was promoted.</p>"
                       : "<div class=\"card timeline\">" + moments + "</div>"},
      {"clauses", "Verdicts by clause",
       "Each column is an evaluation, the oldest on the left. A cell leads to its evidence.",
       HistoriesBody(data)},
      {"evaluations", "Evaluations and evidence",
       "Digests of the traces that were judged, and of the stored report and summary: kcc register "
       "blob DIGEST -o FILE writes them out.",
       EvaluationsBody(data, time_text)},
  }};
  const bool cut = data.evaluations.size() == static_cast<size_t>(kPageEvaluationsMax) ||
                   data.moments.size() == static_cast<size_t>(kPageMomentsMax) ||
                   data.triples.size() == static_cast<size_t>(kPageTriplesMax);
  const std::string note = cut ? "<p class=\"quiet\">Only the last " +
                                     std::to_string(kPageEvaluationsMax) + " of each are shown.</p>"
                               : "";
  const std::string foot = "Head " + HeadText(data.head);
  const std::string lead = LeadText(data);
  return StaticPageHtml({.kind = "register",
                         .title = "What was allowed, and on what evidence",
                         .lead = lead,
                         .note = note,
                         .sections = sections,
                         .foot = foot,
                         .style = kPage_register_css});
}

}  // namespace kcc
