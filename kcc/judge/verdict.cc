#include "kcc/judge/verdict.h"

#include <array>

namespace kcc {

std::string_view Name(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"satisfied", "inconclusive", "error",
                                                      "violated"};
  return kNames[static_cast<size_t>(verdict)];
}

}  // namespace kcc
