// kcc calibrate: does a contract tell a kernel that conforms from one that does not?
// (docs/calibrate.md)
#include "apps/kcc/commands.h"
#include "apps/kcc/evidence.h"
#include "apps/kcc/judging.h"
#include "apps/kcc/safe_output.h"
#include "apps/kcc/three_states.h"
#include "kcc/base/strings.h"
#include "kcc/judge/judge.h"

namespace kcc::cli {
namespace {

std::string SeverityText(const std::optional<double>& severity) {
  return severity ? ReadableNumber(*severity) : "–";
}

std::string Column(std::string text, size_t width) {
  // The dash is three bytes and one column.
  const size_t columns = text == "–" ? 1 : text.size();
  return text.append(columns < width ? width - columns : 0, ' ') + " ";
}

}  // namespace

int ExitCodeOf(const ThreeStateTest& test) {
  switch (test.state) {
    case ContractState::kTellsApart:
    case ContractState::kUntested:
      return kExitOk;
    case ContractState::kInconclusive:
      return kExitInconclusive;
    case ContractState::kVacuous:
    case ContractState::kRejectsConforming:
      return kExitViolated;
    case ContractState::kError:
      break;
  }
  return kExitError;
}

void WriteThreeStates(const ThreeStateTest& test, JsonWriter* json) {
  const auto number = [json](std::string_view key, const std::optional<double>& value) {
    json->Key(key);
    if (value) {
      json->Value(*value);
    } else {
      json->Null();
    }
  };
  json->Field("state", Name(test.state)).Field("reason", test.reason);
  number("headroom", test.headroom);
  number("rejection", test.rejection);
  json->Key("evidence").BeginArray();
  for (const EvidenceState& row : test.evidence) {
    json->BeginObject().Field("name", row.name).Field("conforming", row.conforming);
    json->Field("verdict", Name(row.verdict)).Field("clause", row.clause);
    json->Field("slice", row.slice);
    number("severity", row.severity);
    json->EndObject();
  }
  json->EndArray().Key("pairs").BeginArray();
  for (const PairState& row : test.pairs) {
    json->BeginObject().Field("clause", row.clause).Field("metric", row.metric);
    json->Field("slice", row.slice).Field("bound", Name(row.bound));
    json->Field("threshold", row.threshold);
    number("conforming", row.conforming);
    number("violating", row.violating);
    json->Field("rejects", row.rejects).Field("rejectsConforming", row.rejects_conforming);
    json->EndObject();
  }
  json->EndArray();
}

void PrintThreeStates(const ThreeStateTest& test, std::ostream& out, bool colour) {
  const bool good = test.state <= ContractState::kUntested;
  out << Paint(good ? Style::kGreen : Style::kRed, Name(test.state), colour) << ": "
      << Shown(test.reason) << '\n';
  if (good && test.headroom) {
    out << "margin: thresholds could be " << ReadableNumber(*test.headroom)
        << " times tighter before conforming evidence is rejected";
    if (test.rejection) {
      out << ", and " << ReadableNumber(*test.rejection)
          << " times looser before violating evidence is accepted";
    }
    out << '\n';
  }
  size_t width = 5;
  for (const PairState& row : test.pairs) {
    width = std::max(width, row.clause.size() + Shown(row.slice).size() + 4);
  }
  out << "\nseverity: 1 at the threshold, below it within, above it beyond\n";
  const auto line = [&](std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    out << "  " << text << '\n';
  };
  line(Column("clause", width) + Column("metric", 24) + Column("conforming", 11) + "violating");
  for (const PairState& row : test.pairs) {
    line(Column(row.clause + " on " + Shown(row.slice), width) + Column(row.metric, 24) +
         Column(SeverityText(row.conforming), 11) + Column(SeverityText(row.violating), 10) +
         (row.rejects_conforming > 0 ? "rejects conforming evidence"
          : row.rejects > 0          ? "tells them apart"
                                     : ""));
  }
  out << '\n';
  for (const EvidenceState& row : test.evidence) {
    out << "  " << (row.conforming ? "conforming " : "violating  ") << row.name << ": "
        << Name(row.verdict);
    if (row.severity) {
      out << ", at most severity " << ReadableNumber(*row.severity) << " (" << row.clause << " on "
          << row.slice << ')';
    }
    out << '\n';
  }
}

int RunCalibrate(const CalibrateOptions& options, Console& console) {
  int exit_code = kExitOk;
  const auto contract = RequireContract(options.contract, console, &exit_code);
  if (!contract) return exit_code;
  std::vector<JudgedEvidence> judged;
  for (const bool conforming : {true, false}) {
    for (const std::string& name : conforming ? options.conforming : options.violating) {
      const auto summary = LoadEvidence(name, &contract->contract, options.measure, console);
      if (!summary.has_value()) return ReportError(summary.error(), console);
      judged.push_back(
          {name, conforming, Judge(contract->contract, *summary, ToJudgeOptions(options.flags))});
    }
  }
  const ThreeStateTest test = TestThreeStates(judged);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccCalibrate", 1).Key("contract").BeginObject();
    WriteContractIdentity(contract->contract, DisplayName(options.contract), &json);
    json.EndObject();
    WriteThreeStates(test, &json);
    json.EndObject();
    console.out << json.Take();
  } else {
    console.out << Shown(contract->contract.name) << ' ' << Shown(contract->contract.version)
                << " is ";
    PrintThreeStates(test, console.out, console.colour_out);
  }
  return ExitCodeOf(test);
}

}  // namespace kcc::cli
