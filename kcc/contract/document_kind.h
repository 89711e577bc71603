// The kinds of documents of the contract language, and telling them apart.
#pragma once

#include <cstdint>
#include <string_view>

namespace kcc {

enum class DocumentKind : uint8_t { kContract, kPromotion, kMonitor, kGateway };

// As `kind` says it: "KernelContract", "PromotionPolicy", "MonitorPolicy", "Gateway".
std::string_view Name(DocumentKind kind);
// In a sentence: "contract", "promotion policy", "monitor policy", "gateway".
std::string_view Noun(DocumentKind kind);

// What the text says it is, by its key `kind`. A misspelt kind is the one it is nearest to; text
// that is not YAML, or has no kind, is taken for a contract, whose reader says what is wrong.
DocumentKind KindOfDocument(std::string_view yaml);

}  // namespace kcc
