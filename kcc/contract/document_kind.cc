#include "kcc/contract/document_kind.h"

#include <algorithm>
#include <array>

#include "kcc/base/strings.h"
#include "kcc/contract/words.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

std::string_view Name(DocumentKind kind) { return kKindWords[static_cast<size_t>(kind)]; }

std::string_view Noun(DocumentKind kind) {
  constexpr std::array<std::string_view, 4> kNouns = {"contract", "promotion policy",
                                                      "monitor policy", "gateway"};
  return kNouns[static_cast<size_t>(kind)];
}

// Reads the text once more than needed; documents are small, and one place then knows all kinds.
DocumentKind KindOfDocument(std::string_view yaml) {
  const auto document = YamlDocument::Parse(yaml);
  if (!document.has_value()) return DocumentKind::kContract;
  const YamlNode& root = document->root();
  if (root.kind != YamlNode::Kind::kMapping) return DocumentKind::kContract;
  for (size_t i = 0; i < document->size(root); ++i) {
    if (document->key(root, i).text != "kind") continue;
    const auto position = [](std::string_view word) {
      return static_cast<size_t>(std::find(kKindWords.begin(), kKindWords.end(), word) -
                                 kKindWords.begin());
    };
    const std::string_view kind = document->value(root, i).text;
    size_t found = position(kind);
    if (found == kKindWords.size()) found = position(NearestWord(kind, kKindWords).value_or(""));
    return found == kKindWords.size() ? DocumentKind::kContract : static_cast<DocumentKind>(found);
  }
  return DocumentKind::kContract;
}

}  // namespace kcc
