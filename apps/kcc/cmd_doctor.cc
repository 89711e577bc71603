// kcc doctor: whether the installation, the engines, the GPU and a server are fit for use. A part
// that is optional may be missing; what is there must work.
#include "apps/kcc/doctor.h"
#include "apps/kcc/safe_output.h"

namespace kcc::cli {
namespace {

std::string_view Word(Found found) {
  switch (found) {
    case Found::kOk:
      return "ok";
    case Found::kMissing:
      return "missing";
    case Found::kBroken:
      return "broken";
  }
  return "";
}

Style StyleOf(Found found) {
  switch (found) {
    case Found::kOk:
      return Style::kGreen;
    case Found::kMissing:
      return Style::kYellow;
    case Found::kBroken:
      return Style::kRed;
  }
  return Style::kPlain;
}

bool IsFault(const Finding& finding) {
  return finding.found == Found::kBroken || (finding.needed && finding.found == Found::kMissing);
}

std::string Padded(std::string_view text, size_t width) {
  std::string padded(text);
  padded.append(text.size() < width ? width - text.size() : 1, ' ');
  return padded;
}

void Print(const std::vector<Finding>& findings, Console& console) {
  constexpr size_t kStateColumns = 9;
  constexpr size_t kNameColumns = 13;
  std::string_view group;
  for (const Finding& finding : findings) {
    if (finding.group != group) {
      console.out << (group.empty() ? "" : "\n")
                  << Paint(Style::kBold, finding.group, console.colour_out) << '\n';
      group = finding.group;
    }
    const std::string state = Padded(Word(finding.found), kStateColumns);
    console.out << "  " << Paint(StyleOf(finding.found), state, console.colour_out)
                << Padded(finding.name, kNameColumns) << Shown(finding.detail);
    if (!finding.remedy.empty()) console.out << " → " << Shown(finding.remedy);
    console.out << '\n';
  }
}

void PrintJson(const std::vector<Finding>& findings, bool ok, Console& console) {
  JsonWriter json;
  json.BeginObject().Field("kccDoctor", 1).Field("ok", ok).Key("findings").BeginArray();
  for (const Finding& finding : findings) {
    json.BeginObject().Field("group", finding.group).Field("name", finding.name);
    json.Field("found", Word(finding.found)).Field("detail", finding.detail);
    if (!finding.remedy.empty()) json.Field("remedy", finding.remedy);
    json.Field("needed", finding.needed).EndObject();
  }
  console.out << json.EndArray().EndObject().Take();
}

}  // namespace

int RunDoctor(const DoctorOptions& options, Console& console) {
  std::vector<Finding> findings;
  CheckInstallation(console, &findings);
  CheckEngines(options, &findings);
  CheckGpu(options, &findings);
  if (!options.server.empty()) CheckServer(options, console, &findings);
  size_t faults = 0;
  for (const Finding& finding : findings) faults += IsFault(finding) ? 1 : 0;
  if (console.json) {
    PrintJson(findings, faults == 0, console);
  } else {
    Print(findings, console);
    console.out << '\n'
                << (faults == 0 ? "nothing that kcc needs is missing or broken"
                                : Counted(faults, "fault"))
                << '\n';
  }
  return faults == 0 ? kExitOk : kExitError;
}

}  // namespace kcc::cli
