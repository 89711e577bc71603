// The ten most likely tokens of a row, ties broken by the lower id: what the overlap quantities,
// the margin and the argmax are read from.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace kcc {

inline constexpr size_t kTopTokens = 10;

struct TopTokens {
  struct Entry {
    float logit;
    int32_t id;
  };
  std::array<Entry, kTopTokens> entries{};  // most likely first
  size_t count = 0;

  // Precondition: ids arrive in increasing order, so an equal logit never displaces an earlier one.
  void Offer(float logit, int32_t id) {
    if (count == kTopTokens && !(logit > entries[count - 1].logit)) return;
    size_t at = count < kTopTokens ? count++ : kTopTokens - 1;
    for (; at > 0 && logit > entries[at - 1].logit; --at) entries[at] = entries[at - 1];
    entries[at] = {logit, id};
  }

  // +inf for a row of one token: nothing competes with it.
  double Margin() const {
    if (count < 2) return std::numeric_limits<double>::infinity();
    return static_cast<double>(entries[0].logit) - static_cast<double>(entries[1].logit);
  }
};

// |first k of a, and of b| / k; where the rows hold fewer than k tokens, their number stands for k.
inline double Overlap(const TopTokens& a, const TopTokens& b, size_t k) {
  const size_t of_a = std::min(k, a.count);
  const size_t of_b = std::min(k, b.count);
  size_t shared = 0;
  for (size_t i = 0; i < of_a; ++i) {
    for (size_t j = 0; j < of_b; ++j) shared += a.entries[i].id == b.entries[j].id ? 1 : 0;
  }
  return static_cast<double>(shared) / static_cast<double>(std::max(of_a, of_b));
}

}  // namespace kcc
