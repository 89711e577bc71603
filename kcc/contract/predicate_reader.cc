#include "kcc/contract/predicate_reader.h"

#include <string>
#include <utility>

namespace kcc {

std::optional<Predicate> ReadPredicate(const YamlDocument& document, std::string_view key,
                                       const YamlNode& node, Problems* problems) {
  const std::string name(key);
  if (node.kind != YamlNode::Kind::kScalar) {
    problems->Error(node, "wrong-type", name + " must be an expression in quotes",
                    "e.g. " + name + ": \"prompt_tokens >= 8192\"");
    return {};
  }
  Result<Predicate> predicate = Predicate::Parse(node.text);
  if (predicate.has_value()) return std::move(*predicate);
  const std::string& message = predicate.error().message();
  const size_t split = message.find("; ");
  const int column = predicate.error().place().column;
  const size_t within = column > 0 ? static_cast<size_t>(column - 1) : 0;
  problems->ErrorAtOffset(document.OffsetWithin(node, within), "bad-" + name,
                          name + ": " + message.substr(0, split),
                          split == std::string::npos ? "" : message.substr(split + 2));
  return {};
}

}  // namespace kcc
