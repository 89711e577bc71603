// kcc lab curves: runs of kcc lab rl side by side on one page.
#include <filesystem>

#include "apps/kcc/commands.h"
#include "apps/kcc/commands_lab.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/rltrain/curves.h"

namespace kcc::cli {
namespace {

Result<std::vector<RunCurves>> ReadRuns(const std::vector<std::string>& folders) {
  std::vector<RunCurves> runs;
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
    const std::string name = path.has_filename() ? path.filename() : path.parent_path().filename();
    KCC_TRY(RunCurves run, ReadRunCurves(folder, name));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

int RunLabCurves(const LabCurvesOptions& options, Console& console) {
  const auto runs = ReadRuns(options.runs);
  if (!runs.has_value()) return ReportError(runs.error(), console);
  const std::string title = runs->size() == 1 ? runs->front().name : "Runs side by side";
  const Result<> written = WriteFileAtomically(
      options.output, CurvesPage(*runs, title, "The same curves of every run, by step."));
  if (!written.has_value()) return ReportError(written.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("kccLabCurves", 1).Field("page", options.output);
    json.Field("runs", runs->size()).EndObject();
    console.out << json.Take();
  } else {
    console.out << Shown(options.output) << ": " << Counted(runs->size(), "run") << '\n';
  }
  return kExitOk;
}

}  // namespace kcc::cli
