// kcc register blame: which of three it was, and the table that says so.
#include <algorithm>
#include <array>

#include "apps/kcc/commands.h"
#include "apps/kcc/registers.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/register/blame.h"
#include "kcc/register/blame_report.h"

namespace kcc::cli {
namespace {

std::string ContractWords(const BlameContract& contract) {
  if (contract.name.empty()) return ShortId(contract.digest) + ", whose text is not stored";
  return contract.name + " " + contract.version;
}

// A fingerprint may list every option of its build; what differs is printed apart.
std::string KernelWords(const std::string& fingerprint) {
  constexpr size_t kShown = 40;
  std::string text = ShortId(fingerprint);
  if (IsSha256(fingerprint) || text.size() <= kShown) return text;
  size_t end = kShown;  // not within a character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string PairWords(const Deployment& of) {
  return "model " + ShortId(of.model) + ", " + KernelWords(of.train) + " → " +
         KernelWords(of.infer);
}

std::string ChangedWords(const BlameReport& report) {
  if (!report.seen.has_before) return "nothing served before";
  std::vector<std::string_view> parts;
  for (const ChangedPart part : ChangedParts(report.before, report.after)) {
    parts.push_back(Name(part));
  }
  return parts.empty() ? "nothing changed" : "changed: " + JoinWords(parts);
}

// "violated: N-1 on all, S-1 on long-context", the findings that make the verdict.
std::string CellWords(const BlameCell& cell) {
  switch (cell.state) {
    case BlameCell::State::kAbsent:
      return "not recorded";
    case BlameCell::State::kRemoved:
      return "no longer stored";
    case BlameCell::State::kJudged:
      break;
  }
  const std::optional<Verdict> verdict = cell.verdict();
  if (!verdict) return "no clause asks";
  std::string text(Name(*verdict));
  if (*verdict == Verdict::kSatisfied) return text;
  constexpr size_t kShown = 3;
  size_t count = 0;
  for (const BlameFinding& one : cell.findings) {
    if (one.verdict != *verdict || ++count > kShown) continue;
    text += (count == 1 ? ": " : ", ") + one.clause + " on " + one.slice;
  }
  if (count > kShown) text += " and " + std::to_string(count - kShown) + " more";
  return text;
}

std::string RowWords(const BlameTableRow& row) {
  std::string text(Words(row.evidence));
  if (row.stage.empty()) return text;
  text += ", " + row.stage + ", " +
          (row.evaluation.empty() ? "joined evidence" : "evaluation " + row.evaluation);
  return text + (row.decides ? "" : " (other requests)");
}

// Lines of columns, each as wide as its widest cell; the last is not filled up.
void PrintTable(const std::vector<std::vector<std::string>>& lines, Console& console) {
  std::vector<size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : lines) {
    std::string text = " ";
    for (size_t i = 0; i < line.size(); ++i) {
      text += " " + line[i];
      if (i + 1 < line.size()) text.append(widths[i] - line[i].size() + 1, ' ');
    }
    console.out << text << '\n';
  }
}

void PrintRows(const BlameReport& report, Console& console) {
  const bool two = report.seen.contract_changed;
  std::vector<std::vector<std::string>> lines = {{"evidence", "requests"}};
  if (two) lines[0].push_back("previous contract, " + Shown(ContractWords(report.contract_old)));
  lines[0].push_back((two ? "new contract, " : "contract ") +
                     Shown(ContractWords(report.contract_new)));
  for (const BlameTableRow& row : report.table) {
    std::vector<std::string> line = {Shown(RowWords(row)),
                                     row.stage.empty() ? "-" : std::to_string(row.requests)};
    if (two) line.push_back(Shown(CellWords(row.cells.under_old)));
    line.push_back(Shown(CellWords(row.cells.under_new)));
    lines.push_back(std::move(line));
  }
  PrintTable(lines, console);
}

// What to record, for each kind of evidence that is missing.
std::string CommandFor(const BlameReport& report, const BlameMissing& missing) {
  Deployment of = report.after;
  if (missing.evidence == BlameEvidence::kBefore) of = report.before;
  if (missing.evidence == BlameEvidence::kKernelAlone) of.model = report.before.model;
  if (missing.evidence == BlameEvidence::kModelAlone) {
    of = report.before;
    of.model = report.after.model;
  }
  std::string text = "kcc run CONTRACT --train T --infer I --model " + of.model +
                     " --register …, with T and I of ";
  const auto row =
      std::find_if(report.table.begin(), report.table.end(), [&](const BlameTableRow& one) {
        return one.evidence == missing.evidence && !one.evaluation.empty();
      });
  text += row != report.table.end() ? "the kernels of evaluation " + row->evaluation
                                    : KernelWords(of.train) + " and " + KernelWords(of.infer);
  if (missing.evidence == BlameEvidence::kAfter) return text;
  const BlameTableRow& after = report.table[0];
  return text + ", on the requests of " +
         (after.evaluation.empty() ? "the promotion's evidence" : "evaluation " + after.evaluation);
}

void PrintContractFacts(const BlameReport& report, Console& console) {
  if (report.closest) {
    console.out << "  closest to its limit: " << Shown(report.closest->clause) << " on "
                << Shown(report.closest->slice) << ", with "
                << ReadableNumber(100 * *report.closest->headroom)
                << "% of it left: " << Shown(report.closest->reason) << '\n';
  }
  for (const OtherContract& other : report.others) {
    const std::optional<Verdict> verdict = other.cell.verdict();
    console.out << "  " << Shown(ContractWords(other.contract)) << ' '
                << (verdict == Verdict::kViolated    ? "would have caught it: "
                    : verdict == Verdict::kSatisfied ? "would not have caught it: "
                                                     : "cannot be held against it: ")
                << Shown(CellWords(other.cell)) << '\n';
  }
}

void PrintBlame(const BlameReport& report, Console& console) {
  console.out << Shown(report.about) << (report.what.empty() ? "" : ": " + Shown(report.what))
              << '\n';
  if (report.seen.has_before) {
    console.out << "  before: " << Shown(PairWords(report.before)) << '\n';
  }
  console.out << "  after:  " << Shown(PairWords(report.after)) << '\n';
  console.out << "  " << ChangedWords(report) << "\n\n";
  PrintRows(report, console);
  const Style style =
      report.answer.cause == BlameCause::kCannotTell ? Style::kYellow : Style::kBold;
  console.out << '\n' << Paint(style, Shown(report.answer.sentence), console.colour_out) << '\n';
  PrintContractFacts(report, console);
  for (const BuildChange& change : report.build) {
    console.out << "  " << change.kernel << " build, " << Shown(change.word) << ": "
                << (change.before.empty() ? "not said" : Shown(change.before)) << " → "
                << (change.after.empty() ? "not said" : Shown(change.after))
                << (change.source.empty() ? "" : " (" + change.source + ")") << '\n';
  }
  for (const BlameOwner& owner : report.owners) {
    console.out << "  owner of " << Shown(owner.of) << ": " << Shown(owner.owner) << '\n';
  }
  for (const BlameMissing& missing : report.answer.missing) {
    console.out << (report.answer.cause == BlameCause::kCannotTell
                        ? "  would tell: "
                        : "  would tell whether more is to blame: ")
                << Shown(CommandFor(report, missing)) << '\n';
  }
}

// --- JSON.

void WriteContract(std::string_view key, const BlameContract& contract, JsonWriter* json) {
  json->Key(key).BeginObject().Field("digest", contract.digest).Field("name", contract.name);
  json->Field("version", contract.version).EndObject();
}

void WriteFindings(const std::vector<BlameFinding>& findings, JsonWriter* json) {
  json->BeginArray();
  for (const BlameFinding& one : findings) {
    json->BeginObject().Field("clause", one.clause).Field("slice", one.slice);
    json->Field("verdict", Name(one.verdict)).Field("reason", one.reason);
    if (one.headroom) json->Field("headroom", *one.headroom);
    json->EndObject();
  }
  json->EndArray();
}

void WriteCell(const BlameCell& cell, JsonWriter* json) {
  constexpr std::array<std::string_view, 3> kStates = {"absent", "removed", "judged"};
  json->BeginObject().Field("state", kStates[static_cast<size_t>(cell.state)]);
  if (const auto verdict = cell.verdict()) json->Field("verdict", Name(*verdict));
  json->Key("findings");
  WriteFindings(cell.findings, json);
  json->EndObject();
}

void WriteDeployment(std::string_view key, const Deployment& of, JsonWriter* json) {
  json->Key(key).BeginObject().Field("model", of.model).Field("train", of.train);
  json->Field("infer", of.infer).Field("contract", of.contract).EndObject();
}

void WriteTable(const BlameReport& report, JsonWriter* json) {
  json->Key("table").BeginArray();
  for (const BlameTableRow& row : report.table) {
    json->BeginObject().Field("evidence", Words(row.evidence)).Field("model", row.of.model);
    json->Field("train", row.of.train).Field("infer", row.of.infer);
    json->Field("evaluation", row.evaluation).Field("stage", row.stage);
    json->Field("requests", row.requests).Field("decides", row.decides).Key("new");
    WriteCell(row.cells.under_new, json);
    if (report.seen.contract_changed) {
      json->Key("old");
      WriteCell(row.cells.under_old, json);
    }
    json->EndObject();
  }
  json->EndArray();
}

void WriteBlame(const BlameReport& report, JsonWriter* json) {
  json->Field("about", report.about).Field("what", report.what);
  json->Field("promotion", report.promotion).Field("cause", Name(report.answer.cause));
  json->Field("answer", report.answer.sentence);
  json->Field("contract", report.answer.under_old ? "old" : "new");
  json->Key("findings");
  WriteFindings(report.answer.findings, json);
  json->Key("missing").BeginArray();
  for (const BlameMissing& one : report.answer.missing) {
    json->BeginObject().Field("evidence", Words(one.evidence));
    json->Field("contract", one.under_old ? "old" : "new").Field("why", one.why);
    json->Field("run", CommandFor(report, one)).EndObject();
  }
  json->EndArray();
  if (report.seen.has_before) WriteDeployment("before", report.before, json);
  WriteDeployment("after", report.after, json);
  WriteContract("newContract", report.contract_new, json);
  if (report.seen.contract_changed) WriteContract("oldContract", report.contract_old, json);
  WriteTable(report, json);
  json->Key("build").BeginArray();
  for (const BuildChange& one : report.build) {
    json->BeginObject().Field("kernel", one.kernel).Field("word", one.word);
    json->Field("before", one.before).Field("after", one.after);
    json->Field("source", one.source).EndObject();
  }
  json->EndArray().Key("owners").BeginArray();
  for (const BlameOwner& one : report.owners) {
    json->BeginObject().Field("of", one.of).Field("owner", one.owner).EndObject();
  }
  json->EndArray();
  if (report.closest) {
    json->Key("closest");
    WriteFindings({*report.closest}, json);
  }
  json->Key("otherContracts").BeginArray();
  for (const OtherContract& one : report.others) {
    json->BeginObject();
    WriteContract("contract", one.contract, json);
    json->Key("cell");
    WriteCell(one.cell, json);
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace

int RunRegisterBlame(const RegisterOptions& options, Console& console) {
  Result<Register> source = Register::Open(options.flags.uri);
  if (!source.has_value()) return ReportError(source.error(), console);
  const Result<BlameReport> report = MakeBlameReport(*source, options.id);
  if (!report.has_value()) return ReportError(report.error(), console);
  if (console.json) {
    JsonWriter json = RegisterJson();
    WriteBlame(*report, &json);
    PrintRegisterJson(json, console);
  } else {
    PrintBlame(*report, console);
  }
  return report->answer.cause == BlameCause::kCannotTell ? kExitInconclusive : kExitOk;
}

}  // namespace kcc::cli
