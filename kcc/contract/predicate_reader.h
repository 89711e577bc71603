// Reads a predicate where it stands in a document. Internal to contract/.
#pragma once

#include <optional>
#include <string_view>

#include "kcc/contract/problems.h"
#include "kcc/contract/yaml_document.h"
#include "kcc/predicate/predicate.h"

namespace kcc {

// None and reported under "bad-KEY", at the character that is wrong, if it is no predicate.
std::optional<Predicate> ReadPredicate(const YamlDocument& document, std::string_view key,
                                       const YamlNode& node, Problems* problems);

}  // namespace kcc
