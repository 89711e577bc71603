// What kcc says about a document: errors make it invalid, warnings do not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/json_writer.h"
#include "kcc/contract/contract.h"

namespace kcc {

enum class DiagnosticKind : uint8_t { kError, kWarning };

struct Diagnostic {
  DiagnosticKind kind = DiagnosticKind::kError;
  std::string code;     // stable and searchable: "unknown-metric"
  std::string message;  // what is wrong, with the offending text
  std::string hint;     // what to do: "did you mean 'p99_logit_linf'?"; may be empty
  Mark mark;            // 0:0 for the document as a whole
  int length = 1;       // columns the caret underlines
};

// file:line:column: error: message [code]
//   the line
//       ^~~~~ hint
std::string FormatDiagnostic(const Diagnostic& diagnostic, std::string_view file,
                             std::string_view source);

void WriteDiagnostics(const std::vector<Diagnostic>& diagnostics, std::string_view file,
                      JsonWriter* json);

}  // namespace kcc
