// kcc diff: what changed between two documents of one kind. Exit code 1 if anything became looser.
#include <algorithm>
#include <array>

#include "apps/kcc/commands.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/diff.h"
#include "kcc/contract/gateway_diff.h"
#include "kcc/contract/monitor_diff.h"
#include "kcc/contract/policy_diff.h"

namespace kcc::cli {
namespace {

Style StyleOf(const Change& change) {
  if (change.loosens) return Style::kRed;
  return change.kind == ChangeKind::kOther ? Style::kDim : Style::kGreen;
}

std::string Tally(const std::vector<Change>& changes) {
  std::string text;
  for (const ChangeKind kind : {ChangeKind::kLooser, ChangeKind::kGone, ChangeKind::kTighter,
                                ChangeKind::kNew, ChangeKind::kOther}) {
    const auto count = std::count_if(changes.begin(), changes.end(),
                                     [&](const Change& change) { return change.kind == kind; });
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(Name(kind));
  }
  return text;
}

void PrintChanges(const std::vector<Change>& changes, bool looser, std::string_view word,
                  Console& console) {
  size_t kind_width = 0;
  size_t where_width = 0;
  for (const Change& change : changes) {
    kind_width = std::max(kind_width, Name(change.kind).size());
    where_width = std::max(where_width, change.where.size());
  }
  constexpr size_t kWhereWidthMax = 24;
  where_width = std::min(where_width, kWhereWidthMax);
  for (const Change& change : changes) {
    const std::string kind(Name(change.kind));
    console.out << Paint(StyleOf(change), kind, console.colour_out)
                << std::string(kind_width + 2 - kind.size(), ' ') << change.where
                << std::string(std::max(where_width, change.where.size()) + 2 - change.where.size(),
                               ' ')
                << WrapText(change.what, kind_width + where_width + 4, 100) << '\n';
  }
  console.out << (changes.empty() ? "" : "\n") << (changes.empty() ? "" : Tally(changes) + ": ")
              << Paint(looser ? Style::kRed : Style::kGreen,
                       looser ? "the new " + std::string(word) + " is looser" : "nothing is looser",
                       console.colour_out)
              << '\n';
}

std::string_view WordOf(const Document& document) {
  if (document.kind == DocumentKind::kGateway) return Noun(document.kind);
  return document.kind == DocumentKind::kContract ? "contract" : "policy";
}

// Of two valid documents of one kind.
std::vector<Change> Compare(const Document& before, const Document& after) {
  if (after.promotion) return DiffPolicies(*before.promotion, *after.promotion);
  if (after.monitor) return DiffMonitorPolicies(*before.monitor, *after.monitor);
  if (after.gateway) return DiffGateways(*before.gateway, *after.gateway);
  return DiffContracts(*before.contract, *after.contract);
}

}  // namespace

int RunDiff(const DiffOptions& options, Console& console) {
  if (options.before == "-" && options.after == "-") {
    return ReportError(InvalidError("only one of the two contracts can come from standard input"),
                       console);
  }
  int exit_code = kExitOk;
  const auto before = RequireDocument(options.before, console, &exit_code);
  if (!before) return exit_code;
  const auto after = RequireDocument(options.after, console, &exit_code);
  if (!after) return exit_code;
  if (before->kind != after->kind) {
    const auto [first, second] = std::minmax(before->kind, after->kind);
    return ReportError(InvalidError("one is a " + std::string(Noun(first)) + " and the other a " +
                                    std::string(Noun(second))),
                       console);
  }
  const std::vector<Change> changes = Compare(*before, *after);
  const bool looser = std::any_of(changes.begin(), changes.end(),
                                  [](const Change& change) { return change.loosens; });
  const std::string digest = DigestOf(*after);
  const bool same = DigestOf(*before) == digest;
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccDiff", 1).Key("before").BeginObject();
    WriteIdentity(*before, DisplayName(options.before), &json);
    json.EndObject().Key("after").BeginObject();
    WriteIdentity(*after, DisplayName(options.after), &json);
    json.EndObject().Field("same", same).Field("looser", looser).Key("changes");
    WriteChanges(changes, &json);
    json.EndObject();
    console.out << json.Take();
  } else if (same) {
    console.out << "the same " << WordOf(*after) << ", " << digest << '\n';
  } else {
    PrintChanges(changes, looser, WordOf(*after), console);
  }
  return looser ? kExitViolated : kExitOk;
}

}  // namespace kcc::cli
