// Collects what is wrong with one document: positions from its nodes, limits on how much is said.
#pragma once

#include <string>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

// The most errors, and the most warnings, that one run lists.
inline constexpr size_t kProblemsMax = 200;

class Problems {
 public:
  explicit Problems(const YamlDocument& document) : document_(document) {}

  void Error(const YamlNode& at, std::string code, std::string message, std::string hint = {}) {
    Add(DiagnosticKind::kError, at.offset, document_.LengthOf(at), std::move(code),
        std::move(message), std::move(hint));
  }
  void Warning(const YamlNode& at, std::string code, std::string message, std::string hint = {}) {
    Add(DiagnosticKind::kWarning, at.offset, document_.LengthOf(at), std::move(code),
        std::move(message), std::move(hint));
  }
  void ErrorAtOffset(size_t offset, std::string code, std::string message, std::string hint = {}) {
    Add(DiagnosticKind::kError, offset, 1, std::move(code), std::move(message), std::move(hint));
  }

  bool any_error() const { return errors_ > 0; }
  // Enough errors to stop reading: suggestions cost time, and nobody reads further.
  bool full() const { return errors_ >= kProblemsMax; }
  Mark MarkOf(const YamlNode& node) const { return document_.MarkOf(node); }

  // In the order of the text, with a last line if some were left out.
  std::vector<Diagnostic> Take();

 private:
  void Add(DiagnosticKind kind, size_t offset, int length, std::string code, std::string message,
           std::string hint);

  const YamlDocument& document_;
  std::vector<Diagnostic> found_;
  size_t errors_ = 0;
  size_t warnings_ = 0;
};

}  // namespace kcc
