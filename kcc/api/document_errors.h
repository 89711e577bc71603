// Every error of a document in one message, as `kcc check` prints them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kcc/contract/diagnostic.h"

namespace kcc::api {

inline std::string JoinErrors(std::span<const Diagnostic> diagnostics, const std::string& name,
                              std::string_view text) {
  std::string message;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.kind != DiagnosticKind::kError) continue;
    if (!message.empty()) message += '\n';
    message += FormatDiagnostic(diagnostic, name, text);
  }
  return message;
}

}  // namespace kcc::api
