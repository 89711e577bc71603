// What the readers of all kinds of documents do around their own work. Internal to contract/.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/problems.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {

// Parses the text, lets `read(document, problems)` go through it, and hands out in `made` what that
// gave, if nothing was wrong. The diagnostics are those of the text, in its order.
template <class T, class Read>
std::vector<Diagnostic> ReadDocument(std::string_view yaml, Read read, std::optional<T>* made) {
  auto document = YamlDocument::Parse(yaml);
  if (!document.has_value()) return {std::move(document.error())};
  Problems problems(*document);
  T value = read(*document, &problems);
  if (!problems.any_error()) *made = std::move(value);
  return problems.Take();
}

// Reports names that stand twice in a list: "two hooks have the name 'a'".
class DistinctNames {
 public:
  // `what`: the start of the sentence, up to the name.
  DistinctNames(std::string_view what, Problems* problems) : what_(what), problems_(*problems) {}

  // Of every item that has a name, whatever else is wrong with it.
  void Add(const YamlNode* name) {
    if (name == nullptr || name->kind != YamlNode::Kind::kScalar) return;
    const auto [first, fresh] = seen_.emplace(name->text, name);
    if (fresh) return;
    problems_.Error(
        *name, "duplicate-id", std::string(what_) + " '" + std::string(name->text) + "'",
        "the first one is on line " + std::to_string(problems_.MarkOf(*first->second).line) +
            "; give this one its own");
  }

 private:
  std::string_view what_;
  Problems& problems_;
  std::unordered_map<std::string_view, const YamlNode*> seen_;
};

}  // namespace kcc
