// The paged KV cache: blocks of `page` tokens handed to sequences through block tables.
//
// A block holds, for every layer and KV head, the keys dimension by dimension (so that lanes hold
// keys) and the values token by token, in the cache's format. FP8 entries have one scale a head and
// token. Distinct positions may be written by different threads; reserving and releasing is the
// scheduler's, between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/lab/checkpoint.h"

namespace kcc {

struct BlockTable {
  std::vector<uint32_t> blocks;
};

class KvCache {
 public:
  // Precondition: format is F32, BF16, F8_E4M3 or F8_E5M2.
  KvCache(const ModelConfig& config, DType format, size_t page, size_t blocks);

  size_t page() const { return page_; }
  size_t free_blocks() const { return free_.size(); }
  size_t blocks() const { return block_count_; }
  size_t block_bytes() const;
  size_t BlocksFor(size_t tokens) const { return (tokens + page_ - 1) / page_; }

  // Grows the table to hold `tokens`; false, with the table unchanged, if blocks are lacking.
  bool Reserve(size_t tokens, BlockTable* table);
  void Release(BlockTable* table);

  // Stores one token's keys and values of all KV heads, rounded to the format.
  void Write(size_t layer, const BlockTable& table, size_t position, const float* keys,
             const float* values);

  // One head's keys or values of a block as float32: in place for F32, else in the scratch.
  // Keys: [head_dim][key_stride()]; values: [page][head_dim].
  size_t key_stride() const { return stride_; }
  const float* Keys(size_t layer, uint32_t block, size_t head, std::vector<float>* scratch) const;
  const float* Values(size_t layer, uint32_t block, size_t head, std::vector<float>* scratch) const;

 private:
  size_t Slab(size_t layer, uint32_t block, size_t head) const {
    return (block * layers_ + layer) * heads_ + head;
  }
  void Encode(float value, std::byte* to) const;

  size_t layers_, heads_, dim_, page_, stride_, block_count_;
  DType format_;
  size_t element_;  // bytes
  std::vector<std::byte> keys_;
  std::vector<std::byte> values_;
  std::vector<float> key_scales_;    // [slab][stride]
  std::vector<float> value_scales_;  // [slab][page]
  std::vector<uint32_t> free_;       // taken from the back
};

}  // namespace kcc
