// kcc import: a trace from what a server, a trainer or NumPy wrote.
#include <array>

#include "apps/kcc/commands.h"
#include "apps/kcc/safe_output.h"
#include "kcc/base/strings.h"
#include "kcc/rl/dump.h"
#include "kcc/rl/dump_import.h"
#include "kcc/trace/import.h"

namespace kcc::cli {
namespace {

// The value of an enumeration flag by its word; cli.cc has already refused any other word.
template <class T, size_t kCount>
std::optional<T> FromWord(const std::string& word, const std::array<T, kCount>& values) {
  for (const T value : values) {
    if (Name(value) == word) return value;
  }
  return {};
}

const Importer* ImporterNamed(std::string_view name) {
  for (const Importer& row : RlImporters()) {
    if (row.name == name) return &row;
  }
  return FindImporter(name);
}

// Arrays have names in dumps alone; elsewhere --map would be ignored.
Result<> TakeNames(const ImportCommandOptions& options, ImportOptions* import) {
  if (options.names.empty()) return {};
  if (FindImporter(options.format) != nullptr) {
    return InvalidError("--map names arrays of a dump; '" + options.format + "' has none");
  }
  KCC_TRY(import->names, ParseNameMap(options.names));
  return {};
}

}  // namespace

int RunImport(const ImportCommandOptions& options, Console& console) {
  const Importer* importer = ImporterNamed(options.format);
  if (importer == nullptr) {
    std::vector<std::string_view> names;
    for (const Importer& row : Importers()) names.push_back(row.name);
    for (const Importer& row : RlImporters()) names.push_back(row.name);
    std::string message = "unknown format '" + options.format + "'";
    const auto nearest = NearestWord(options.format, names);
    message += nearest ? "; did you mean '" + std::string(*nearest) + "'?"
                       : "; known: " + JoinWords(names);
    return ReportError(InvalidError(message), console);
  }
  ImportOptions import = options.import;
  import.semantics =
      FromWord(options.semantics, std::array{LogprobSemantics::kRaw, LogprobSemantics::kProcessed,
                                             LogprobSemantics::kTemperatureScaled});
  import.mode = FromWord(options.mode, std::array{TraceMode::kScored, TraceMode::kGenerated});
  import.sampled_by = FromWord(
      options.sampled_by, std::array{SampledBy::kInfer, SampledBy::kTrain, SampledBy::kDataset});
  if (options.prompt) import.prompt = true;
  if (const auto taken = TakeNames(options, &import); !taken.has_value()) {
    return ReportError(taken.error(), console);
  }
  if (!options.side.empty()) {
    import.side = options.side == "train" ? ImportSide::kTrain : ImportSide::kInfer;
  }
  const Result<ImportReport> report = importer->run(options.inputs, options.output, import);
  if (!report.has_value()) return ReportError(report.error(), console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Field("trace", options.output).Field("requests", report->requests);
    json.Field("tokens", report->tokens).Field("logprobsMissing", report->logprobs_missing);
    json.Key("warnings").BeginArray();
    for (const std::string& warning : report->warnings) json.Value(warning);
    json.EndArray().EndObject();
    console.out << json.Take();
    return kExitOk;
  }
  for (const std::string& warning : report->warnings) {
    console.err << Paint(Style::kYellow, "warning:", console.colour_err) << ' ' << Shown(warning)
                << '\n';
  }
  console.out << Shown(options.output) << ": "
              << Counted(static_cast<size_t>(report->requests), "request") << ", "
              << Counted(static_cast<size_t>(report->tokens), "token");
  if (report->logprobs_missing > 0) {
    console.out << ", " << report->logprobs_missing << " of them without a log-prob";
  }
  console.out << '\n';
  return kExitOk;
}

}  // namespace kcc::cli
