// Room for records on their way from an answer to evidence. What has no place is not kept, and
// before that not even asked for: a request whose evidence would be lost costs no more than one
// that is not sampled.
//
// Of requests that were served every kernel has some places of its own, and shares the others. A
// kernel that is shown copies (probes of a guarded kernel, mirrors to a candidate) has places for
// these beside all others. So a kernel that stalls loses its own evidence and nobody else's.
//
// Any thread takes and gives back; nobody waits.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kcc/gateway/route_word.h"

namespace kcc {

// A place that is given back when it ends. The places outlive it. A copy holds none, so that a copy
// of a record does not give back what it did not take.
class ScorerPlace {
 public:
  ScorerPlace() = default;
  ScorerPlace(ScorerPlace&& other) noexcept : taken_(other.taken_) { other.taken_ = nullptr; }
  ScorerPlace(const ScorerPlace&) noexcept {}
  ScorerPlace& operator=(ScorerPlace other) noexcept {
    GiveBack();
    taken_ = other.taken_;
    other.taken_ = nullptr;
    return *this;
  }
  ~ScorerPlace() { GiveBack(); }

  explicit operator bool() const { return taken_ != nullptr; }
  void GiveBack() {
    if (taken_ != nullptr) taken_->fetch_sub(1, std::memory_order_relaxed);
    taken_ = nullptr;
  }

 private:
  friend class ScorerPlaces;
  explicit ScorerPlace(std::atomic<uint32_t>* taken) : taken_(taken) {}
  std::atomic<uint32_t>* taken_ = nullptr;
};

class ScorerPlaces {
 public:
  // `served`: for records of served requests, of all kernels together; half of them are divided
  // among `kernels` as their own. `shown`: of each kernel that is shown copies. Without limits,
  // until they are set, there is always a place. What is held stays held.
  void SetLimits(size_t served, size_t shown, size_t kernels);

  // Whether a record that `kernel` served would find a place now. No promise.
  bool HasServed(size_t kernel) const;
  // Empty: there is none.
  ScorerPlace TakeServed(size_t kernel);
  ScorerPlace TakeShown(size_t kernel);

  size_t served() const;  // places that are held
  size_t shown(size_t kernel) const;

 private:
  static constexpr uint32_t kNoLimit = std::numeric_limits<uint32_t>::max();
  using Taken = std::atomic<uint32_t>;

  Taken own_max_{0}, common_max_{kNoLimit}, shown_max_{kNoLimit};
  alignas(64) Taken common_{0};
  std::array<Taken, kGatewayKernelsMax> own_{}, shown_{};
};

}  // namespace kcc
