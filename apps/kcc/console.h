// What a command talks to: three streams and how to use them. Commands print through it and return
// an exit code; only main.cc knows about file descriptors, the environment and the process.
#pragma once

#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/clock.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/contract/document_kind.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/contract/policy.h"
#include "kcc/contract/reader.h"

namespace kcc::cli {

// The exit codes of every command (docs/cli.md).
enum ExitCode : int {
  kExitOk = 0,            // convergent, valid, nothing looser
  kExitViolated = 1,      // a clause is violated, something is looser, a file is not formatted
  kExitInvalid = 2,       // wrong usage or invalid input
  kExitInconclusive = 3,  // the evidence does not decide
  kExitError = 4,         // a file, an engine, broken evidence, no memory, a fault of kcc
};

enum class Style { kPlain, kBold, kRed, kYellow, kGreen, kCyan, kDim };

struct Console {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::ostream& progress;  // standard error unescaped, for the carriage returns of a progress line
  bool colour_out = false;
  bool colour_err = false;
  bool terminal_err = false;  // progress may be drawn
  int width = 80;             // columns of the terminal that `out` is
  int width_err = 80;         // columns of the terminal that `err` is
  bool json = false;          // --json: print data on `out`, and nothing else there
  bool contract = false;      // `out` takes the text of a contract, to be kept as it is
  int interrupted_by = 0;     // a signal that the command cleaned up after; main.cc ends by it
  std::vector<std::string> shipped = {};  // folders for what comes with kcc (shipped.h), in order
  std::string program = {};               // the path of the running program; empty: not known
  std::string user = {};                  // who runs it; empty: not known
  const Clock* clock = nullptr;           // null: the system's
};

std::string Paint(Style style, std::string_view text, bool colour);

// Prints `file:line:column: error: message` on err, for a command that goes on.
void PrintError(const Error& error, Console& console);
// The same and, with --json, {"error": …} on out.
int ReportError(const Error& error, Console& console);

// A diagnostic with its line and caret, in colour where wanted.
void PrintDiagnostics(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                      std::string_view source, Console& console);

// "-" is standard input, named "<stdin>" in every message.
std::string DisplayName(const std::string& path);
Result<std::string> ReadInput(const std::string& path, size_t max_bytes, Console& console);
Result<ContractFile> LoadContract(const std::string& path, Console& console);

struct ValidContract {
  std::string text;
  Contract contract;
};

// For commands that need a valid contract: reports what is wrong, warnings too, and sets
// `exit_code` if there is none.
std::optional<ValidContract> RequireContract(const std::string& path, Console& console,
                                             int* exit_code);

// A document of any kind. Of a valid one the member of its kind is filled.
struct Document {
  std::string text;
  DocumentKind kind = DocumentKind::kContract;
  std::optional<Contract> contract;
  std::optional<PromotionPolicy> promotion;
  std::optional<MonitorPolicy> monitor;
  std::optional<GatewayConfig> gateway;
  std::vector<Diagnostic> diagnostics;

  bool valid() const { return contract || promotion || monitor || gateway; }
};
Result<Document> LoadDocument(const std::string& path, Console& console);

// For commands that need a valid document of any kind, or a promotion policy; as RequireContract.
std::optional<Document> RequireDocument(const std::string& path, Console& console, int* exit_code);
std::optional<PromotionPolicy> RequirePolicy(const std::string& path, Console& console,
                                             int* exit_code);

// Precondition: the document is valid.
std::string DigestOf(const Document& document);
// {"name", "version", "digest"} and the file it came from; of all but contracts the kind too.
void WriteIdentity(const Document& document, std::string_view file, JsonWriter* json);
void WriteContractIdentity(const Contract& contract, std::string_view file, JsonWriter* json);
void WritePolicyIdentity(const PromotionPolicy& policy, std::string_view file, JsonWriter* json);
void WritePolicyIdentity(const MonitorPolicy& policy, std::string_view file, JsonWriter* json);
void WriteGatewayIdentity(const GatewayConfig& config, std::string_view file, JsonWriter* json);

// The text broken at blanks into lines of at most `width` columns; every line but the first starts
// with `indent` blanks, and the first is taken to start at column `indent`.
std::string WrapText(std::string_view text, size_t indent, size_t width);

// "1 clause", "2 clauses".
std::string Counted(size_t count, std::string_view noun);

}  // namespace kcc::cli
