#include "apps/kcc/console.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "apps/kcc/safe_output.h"
#include "kcc/base/file.h"
#include "kcc/base/strings.h"
#include "kcc/contract/canonical.h"
#include "kcc/contract/gateway_reader.h"
#include "kcc/contract/monitor_reader.h"
#include "kcc/contract/policy_reader.h"

namespace kcc::cli {
namespace {

std::string_view EscapeCode(Style style) {
  switch (style) {
    case Style::kPlain:
      break;
    case Style::kBold:
      return "\x1b[1m";
    case Style::kRed:
      return "\x1b[1;31m";
    case Style::kYellow:
      return "\x1b[1;33m";
    case Style::kGreen:
      return "\x1b[32m";
    case Style::kCyan:
      return "\x1b[36m";
    case Style::kDim:
      return "\x1b[2m";
  }
  return "";
}

// FormatDiagnostic's first line is "file:line:column: error: message [code]"; its last, if it has
// more than one, the caret and the hint.
std::string PaintDiagnostic(const std::string& text, DiagnosticKind kind) {
  const bool is_error = kind == DiagnosticKind::kError;
  const std::string_view word = is_error ? ": error: " : ": warning: ";
  const size_t first_end = std::min(text.find('\n'), text.size());
  const size_t at = text.find(word);
  if (at == std::string::npos || at > first_end) return text;
  const std::string_view view = text;
  std::string painted = Paint(Style::kBold, view.substr(0, at + 1), true);
  painted += ' ';
  painted += Paint(is_error ? Style::kRed : Style::kYellow, word.substr(2, word.size() - 3), true);
  const size_t message = at + word.size() - 1;
  const size_t caret_line = view.substr(0, view.find_last_not_of('\n') + 1).rfind('\n');
  if (caret_line == std::string_view::npos || caret_line <= first_end) {
    return painted.append(view.substr(message));
  }
  painted.append(view.substr(message, caret_line + 1 - message));
  const size_t end = view.find_last_not_of('\n') + 1;
  painted += Paint(Style::kGreen, view.substr(caret_line + 1, end - caret_line - 1), true);
  return painted.append(view.substr(end));
}

// The lines after the first indented: what others say in a message does not begin a line as ours
// do.
std::string Hanging(std::string_view message) {
  std::string text;
  for (const char c : message) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text;
}

size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string Paint(Style style, std::string_view text, bool colour) {
  if (!colour || style == Style::kPlain) return std::string(text);
  return std::string(EscapeCode(style)).append(text).append("\x1b[0m");
}

void PrintError(const Error& error, Console& console) {
  const Place shown{Shown(error.place().file), error.place().line, error.place().column};
  const std::string place = Error(error.code(), "", shown).Format();
  console.err << Paint(Style::kBold, place.empty() ? "kcc: " : place, console.colour_err)
              << Paint(Style::kRed, "error:", console.colour_err) << ' ' << Hanging(error.message())
              << '\n';
}

int ReportError(const Error& error, Console& console) {
  PrintError(error, console);
  if (console.json) {
    JsonWriter json;
    json.BeginObject().Key("error").BeginObject();
    json.Field("message", error.message()).Field("file", error.place().file);
    json.Field("line", error.place().line).Field("column", error.place().column);
    json.EndObject().EndObject();
    console.out << json.Take();
  }
  return error.code() == ErrorCode::kInvalid ? kExitInvalid : kExitError;
}

void PrintDiagnostics(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                      std::string_view source, Console& console) {
  for (const Diagnostic& diagnostic : diagnostics) {
    std::string text = FormatDiagnostic(diagnostic, Shown(file), source);
    if (text.empty() || text.back() != '\n') text += '\n';
    console.err << (console.colour_err ? PaintDiagnostic(text, diagnostic.kind) : text);
  }
}

std::string DisplayName(const std::string& path) { return path == "-" ? "<stdin>" : path; }

Result<std::string> ReadInput(const std::string& path, size_t max_bytes, Console& console) {
  if (path != "-") return ReadFile(path, max_bytes);
  std::string bytes(max_bytes + 1, '\0');
  console.in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (console.in.bad()) return IoError("cannot read", Place{DisplayName(path)});
  bytes.resize(static_cast<size_t>(console.in.gcount()));
  if (bytes.size() > max_bytes) {
    return InvalidError("larger than the limit of " + std::to_string(max_bytes) + " bytes",
                        Place{DisplayName(path)});
  }
  return bytes;
}

namespace {

constexpr std::string_view kContractFirst =
    ", and a contract is a YAML file; where a command takes a contract and evidence, the contract "
    "comes first";

// The file beside a missing one whose name is nearest: minimal.yaml for minimal.yml.
std::string NearestFile(const std::filesystem::path& missing) {
  const std::filesystem::path folder = missing.has_parent_path() ? missing.parent_path() : ".";
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto nearest = NearestWord(missing.filename().string(), views);
  return nearest ? (missing.parent_path() / *nearest).string() : "";
}

Result<std::string> ReadDocumentText(const std::string& path, Console& console) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return InvalidError("is a directory" + std::string(kContractFirst), Place{path});
  }
  Result<std::string> text = ReadInput(path, kContractBytesMax, console);
  if (path == "-") return text;
  if (!text.has_value() && !std::filesystem::exists(path, ignored)) {
    const std::string nearest = NearestFile(path);
    if (nearest.empty()) return text;
    return Error(text.error().code(), text.error().message() + "; did you mean '" + nearest + "'?",
                 text.error().place());
  }
  size_t bad = 0;
  if (text.has_value() && text->find('\0') != std::string::npos && !IsUtf8(*text, &bad)) {
    return InvalidError("is no text" + std::string(kContractFirst), Place{path});
  }
  return text;
}

// With --json the diagnostics are data too.
void ReportInvalid(const std::vector<Diagnostic>& diagnostics, std::string_view what,
                   const std::string& name, Console& console) {
  if (!console.json) return;
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Field("message", "not a valid " + std::string(what)).Field("file", name);
  json.Key("diagnostics");
  WriteDiagnostics(diagnostics, name, &json);
  json.EndObject().EndObject();
  console.out << json.Take();
}

}  // namespace

Result<ContractFile> LoadContract(const std::string& path, Console& console) {
  KCC_TRY(std::string text, ReadDocumentText(path, console));
  ReadOutcome outcome = ReadContract(text);
  return ContractFile{std::move(text), std::move(outcome)};
}

Result<Document> LoadDocument(const std::string& path, Console& console) {
  Document document;
  KCC_TRY(document.text, ReadDocumentText(path, console));
  document.kind = KindOfDocument(document.text);
  switch (document.kind) {
    case DocumentKind::kContract: {
      ReadOutcome outcome = ReadContract(document.text);
      document.contract = std::move(outcome.contract);
      document.diagnostics = std::move(outcome.diagnostics);
      break;
    }
    case DocumentKind::kPromotion: {
      PolicyOutcome outcome = ReadPolicy(document.text);
      document.promotion = std::move(outcome.policy);
      document.diagnostics = std::move(outcome.diagnostics);
      break;
    }
    case DocumentKind::kMonitor: {
      MonitorOutcome outcome = ReadMonitorPolicy(document.text);
      document.monitor = std::move(outcome.policy);
      document.diagnostics = std::move(outcome.diagnostics);
      break;
    }
    case DocumentKind::kGateway: {
      GatewayOutcome outcome = ReadGateway(document.text);
      document.gateway = std::move(outcome.config);
      document.diagnostics = std::move(outcome.diagnostics);
      break;
    }
  }
  return document;
}

std::optional<ValidContract> RequireContract(const std::string& path, Console& console,
                                             int* exit_code) {
  Result<ContractFile> file = LoadContract(path, console);
  if (!file.has_value()) {
    *exit_code = ReportError(file.error(), console);
    return std::nullopt;
  }
  const std::string name = DisplayName(path);
  PrintDiagnostics(file->outcome.diagnostics, name, file->text, console);
  if (file->outcome.contract) {
    return ValidContract{std::move(file->text), std::move(*file->outcome.contract)};
  }
  ReportInvalid(file->outcome.diagnostics, "contract", name, console);
  *exit_code = kExitInvalid;
  return std::nullopt;
}

std::optional<Document> RequireDocument(const std::string& path, Console& console, int* exit_code) {
  Result<Document> document = LoadDocument(path, console);
  if (!document.has_value()) {
    *exit_code = ReportError(document.error(), console);
    return std::nullopt;
  }
  const std::string name = DisplayName(path);
  PrintDiagnostics(document->diagnostics, name, document->text, console);
  if (document->valid()) return std::move(*document);
  ReportInvalid(document->diagnostics, Noun(document->kind), name, console);
  *exit_code = kExitInvalid;
  return std::nullopt;
}

std::optional<PromotionPolicy> RequirePolicy(const std::string& path, Console& console,
                                             int* exit_code) {
  std::optional<Document> document = RequireDocument(path, console, exit_code);
  if (!document) return std::nullopt;
  if (document->promotion) return std::move(document->promotion);
  *exit_code = ReportError(InvalidError("is a " + std::string(Noun(document->kind)) +
                                            ", and a promotion policy is wanted (kind: "
                                            "PromotionPolicy)",
                                        Place{DisplayName(path)}),
                           console);
  return std::nullopt;
}

void WriteContractIdentity(const Contract& contract, std::string_view file, JsonWriter* json) {
  json->Field("file", file).Field("name", contract.name).Field("version", contract.version);
  json->Field("digest", ContractDigest(contract));
}

namespace {

template <class Meant>
void WriteIdentityOf(DocumentKind kind, const Meant& meant, const std::string& digest,
                     std::string_view file, JsonWriter* json) {
  json->Field("file", file).Field("kind", Name(kind));
  json->Field("name", meant.name).Field("version", meant.version).Field("digest", digest);
}

}  // namespace

void WritePolicyIdentity(const PromotionPolicy& policy, std::string_view file, JsonWriter* json) {
  WriteIdentityOf(DocumentKind::kPromotion, policy, PolicyDigest(policy), file, json);
}

void WritePolicyIdentity(const MonitorPolicy& policy, std::string_view file, JsonWriter* json) {
  WriteIdentityOf(DocumentKind::kMonitor, policy, PolicyDigest(policy), file, json);
}

void WriteGatewayIdentity(const GatewayConfig& config, std::string_view file, JsonWriter* json) {
  WriteIdentityOf(DocumentKind::kGateway, config, GatewayDigest(config), file, json);
}

void WriteIdentity(const Document& document, std::string_view file, JsonWriter* json) {
  if (document.promotion) return WritePolicyIdentity(*document.promotion, file, json);
  if (document.monitor) return WritePolicyIdentity(*document.monitor, file, json);
  if (document.gateway) return WriteGatewayIdentity(*document.gateway, file, json);
  WriteContractIdentity(*document.contract, file, json);
}

std::string DigestOf(const Document& document) {
  if (document.promotion) return PolicyDigest(*document.promotion);
  if (document.monitor) return PolicyDigest(*document.monitor);
  if (document.gateway) return GatewayDigest(*document.gateway);
  return ContractDigest(*document.contract);
}

std::string WrapText(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const size_t columns = Columns(word);
    if (column > indent && column + 1 + columns > width) {
      out.append("\n").append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
  }
  return out;
}

std::string Counted(size_t count, std::string_view noun) {
  std::string text = std::to_string(count).append(" ").append(noun);
  return count == 1 ? text : text + 's';
}

}  // namespace kcc::cli
