// What the files of key tables write their rows with, and the rows that they share. Internal to
// contract/.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "kcc/contract/keys.h"
#include "kcc/contract/words.h"

namespace kcc {

inline constexpr bool kRequired = true;
inline constexpr bool kOptional = false;
inline constexpr bool kOpen = true;
inline constexpr bool kClosed = false;

inline constexpr std::array<std::string_view, 1> kApiVersions = {"kcc/v1"};

// The one word that `kind` takes, by the position of the kind.
constexpr std::span<const std::string_view> KindWordAt(size_t kind) {
  return std::span<const std::string_view>(kKindWords).subspan(kind, 1);
}

// The metadata of every kind of policy.
inline constexpr KeyRow kPolicyMetadataRows[] = {
    {"name", ValueType::kName, kRequired, "", "name of the policy, e.g. serving"},
    {"version", ValueType::kVersion, kRequired, "", "version of the policy, MAJOR.MINOR.PATCH"},
    {"owner", ValueType::kText, kOptional, "", "team or person that answers for the policy"},
    {"description", ValueType::kText, kOptional, "", "what the policy is for"},
    {"labels", ValueType::kTextMap, kOptional, "", "free texts for your own tools"},
};

}  // namespace kcc
