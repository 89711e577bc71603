// A histogram over the leading bits of the double: sign, exponent and the first 7 bits of the
// mantissa, so every bucket is at most 2^-7 of its value wide (docs/math.md C.7). No logarithm, no
// parameter, no order: counts add.
//
// Buckets are numbered as they appear (BucketIndex) and counted by number. Histograms of one
// accumulator share an index per series, so that adding one to another is a few plain additions.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kcc/summary/archive.h"

namespace kcc {

// Numbers buckets in the order of their first appearance. Not thread-safe.
class BucketIndex {
 public:
  using Bucket = uint32_t;

  uint32_t NumberOf(Bucket bucket) {
    if (!table_.empty()) {
      const Slot& slot = table_[Place(bucket)];
      if (slot.bucket == bucket) return slot.number;
    }
    return Insert(bucket);
  }
  Bucket bucket(uint32_t number) const { return buckets_[number]; }
  size_t size() const { return buckets_.size(); }

 private:
  static constexpr Bucket kFree = ~Bucket{0};

  // Fibonacci hashing: neighbouring buckets, which are what occurs, land far apart.
  size_t Place(Bucket bucket) const {
    auto i =
        static_cast<size_t>((bucket * uint64_t{0x9e3779b97f4a7c15}) >> 40) & (table_.size() - 1);
    while (table_[i].bucket != bucket && table_[i].bucket != kFree) {
      i = (i + 1) & (table_.size() - 1);
    }
    return i;
  }
  void Grow();
  uint32_t Insert(Bucket bucket);

  struct Slot {
    Bucket bucket = kFree;
    uint32_t number = 0;
  };

  std::vector<Slot> table_;  // by hash of the bucket; a power of two of them, or none
  std::vector<Bucket> buckets_;
};

class Histogram {
 public:
  // The relative width of a bucket.
  static constexpr double kResolution = 1.0 / 128;

  using Bucket = BucketIndex::Bucket;  // 19 bits, in the order of the values
  using Entry = std::pair<Bucket, uint64_t>;

  // Uses an index that others use too, all in one thread. Precondition: empty.
  void Share(std::shared_ptr<BucketIndex> index);
  // From now on the index is copied before a bucket is added to it.
  void Unshare() { shared_ = false; }

  // Precondition: not NaN. -0 counts as 0.
  static Bucket BucketOf(double value) {
    const auto bits = std::bit_cast<uint64_t>(value + 0.0);
    const uint64_t flip = (bits >> 63) != 0 ? ~uint64_t{0} : uint64_t{1} << 63;
    return static_cast<Bucket>((bits ^ flip) >> 45);
  }
  // The smallest and largest double of a bucket.
  static double LowerEdge(Bucket bucket);
  static double UpperEdge(Bucket bucket);

  void Add(double value, uint64_t count = 1) { AddBucket(BucketOf(value), count); }
  void AddBucket(Bucket bucket, uint64_t count);
  // Values by the numbers of their buckets. Precondition: the index is shared.
  void AddNumbers(std::span<const uint32_t> numbers);
  void Merge(const Histogram& other);
  void Clear();  // keeps the room, shares no index any more

  uint64_t total() const { return total_; }
  bool empty() const { return total_ == 0; }
  // In rising order of value.
  std::vector<Entry> Entries() const;

  bool operator==(const Histogram& other) const { return Entries() == other.Entries(); }
  void Visit(Archive& archive);

 private:
  // Few values are kept as a list, in which a number may stand more than once: most cells of an
  // accumulator are small, and room for every bucket of the series would cost more than their
  // tokens. Many are kept by number, where adding is a plain addition.
  static constexpr size_t kListMax = 192;

  void AddNumber(uint32_t number, uint64_t count) {
    if (dense_.empty()) {
      if (listed_.size() < kListMax) {
        listed_.emplace_back(number, count);
        return;
      }
      MakeDense();
    }
    if (number >= dense_.size()) GrowDense();
    dense_[number] += count;
  }
  void MakeDense();
  void GrowDense();
  void MergeNumbers(const Histogram& other);  // of one index

  // Null until needed. Shared by an accumulator's histograms (shared_), which add to it; otherwise
  // by copies, which copy it before they do.
  std::shared_ptr<BucketIndex> index_;
  bool shared_ = false;
  std::vector<std::pair<uint32_t, uint64_t>> listed_;  // numbers and counts, while they are few
  std::vector<uint64_t> dense_;                        // counts by number, from then on
  uint64_t total_ = 0;
};

}  // namespace kcc
