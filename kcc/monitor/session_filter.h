// A set of keys of fixed size for one epoch: a Bloom filter, emptied when a later epoch begins.
//
// It may say that a key is there which is not; it never misses one that is. So where it stands for
// the sessions that were audited, a false match skips an audit and never admits a second one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/summary/archive.h"

namespace kcc {

// A 64-bit hash of a few texts, the same on every machine. Not cryptographic.
uint64_t HashKey(uint64_t seed, std::string_view first, std::string_view second);

class SessionFilter {
 public:
  // Precondition: bits >= 64.
  explicit SessionFilter(int64_t bits);

  bool MayContain(uint64_t key) const;
  void Insert(uint64_t key);
  void Clear();
  int64_t inserted() const { return inserted_; }

  void Visit(Archive& archive);

 private:
  static constexpr int kProbes = 4;

  uint64_t bits_;
  int64_t inserted_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace kcc
