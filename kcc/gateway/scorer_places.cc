#include "kcc/gateway/scorer_places.h"

#include <algorithm>

namespace kcc {
namespace {

uint32_t Read(const std::atomic<uint32_t>& number) {
  return number.load(std::memory_order_relaxed);
}

bool TakeBelow(uint32_t most, std::atomic<uint32_t>* taken) {
  uint32_t now = Read(*taken);
  while (now < most) {
    if (taken->compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return true;
  }
  return false;
}

uint32_t AsLimit(size_t count) {
  return static_cast<uint32_t>(std::min<size_t>(count, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

void ScorerPlaces::SetLimits(size_t served, size_t shown, size_t kernels) {
  const size_t own = kernels == 0 ? 0 : served / (2 * kernels);
  own_max_.store(AsLimit(own), std::memory_order_relaxed);
  common_max_.store(AsLimit(served - own * kernels), std::memory_order_relaxed);
  shown_max_.store(AsLimit(shown), std::memory_order_relaxed);
}

bool ScorerPlaces::HasServed(size_t kernel) const {
  if (kernel >= own_.size()) return false;
  return Read(own_[kernel]) < Read(own_max_) || Read(common_) < Read(common_max_);
}

ScorerPlace ScorerPlaces::TakeServed(size_t kernel) {
  if (kernel >= own_.size()) return {};
  if (TakeBelow(Read(own_max_), &own_[kernel])) return ScorerPlace(&own_[kernel]);
  if (TakeBelow(Read(common_max_), &common_)) return ScorerPlace(&common_);
  return {};
}

ScorerPlace ScorerPlaces::TakeShown(size_t kernel) {
  if (kernel >= shown_.size()) return {};
  if (TakeBelow(Read(shown_max_), &shown_[kernel])) return ScorerPlace(&shown_[kernel]);
  return {};
}

size_t ScorerPlaces::served() const {
  size_t held = Read(common_);
  for (const Taken& own : own_) held += Read(own);
  return held;
}

size_t ScorerPlaces::shown(size_t kernel) const {
  return kernel < shown_.size() ? Read(shown_[kernel]) : 0;
}

}  // namespace kcc
