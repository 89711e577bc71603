#include "kcc/lab/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "kcc/base/check.h"
#include "kcc/numeric/quantize.h"
#include "kcc/numeric/widen.h"

namespace kcc {
namespace {

bool IsScaled(DType format) { return format == DType::kF8E4M3 || format == DType::kF8E5M2; }

}  // namespace

// Invariant: a block is in free_ or in exactly one table. So threads that write different positions
// of different sequences never write to the same bytes.
//
// Keys lie dimension by dimension with a stride of whole vectors, so that a vector holds one
// dimension of 16 keys. Slots that nobody has written hold zeros, or what an earlier sequence left:
// whoever reads a block knows how many of its slots are its own.
KvCache::KvCache(const ModelConfig& config, DType format, size_t page, size_t blocks)
    : layers_(config.layers),
      heads_(config.kv_heads),
      dim_(config.head_dim),
      page_(page),
      stride_((page + 15) / 16 * 16),
      block_count_(blocks),
      format_(format),
      element_(DTypeBits(format) / 8) {
  const size_t slabs = blocks * layers_ * heads_;
  keys_.resize(slabs * dim_ * stride_ * element_);
  values_.resize(slabs * dim_ * page_ * element_);
  if (IsScaled(format)) {
    key_scales_.resize(slabs * stride_);
    value_scales_.resize(slabs * page_);
  }
  for (size_t i = blocks; i-- > 0;) free_.push_back(static_cast<uint32_t>(i));
}

size_t KvCache::block_bytes() const {
  const size_t scales = IsScaled(format_) ? (stride_ + page_) * sizeof(float) : 0;
  return layers_ * heads_ * ((stride_ + page_) * dim_ * element_ + scales);
}

bool KvCache::Reserve(size_t tokens, BlockTable* table) {
  const size_t wanted = BlocksFor(tokens);
  if (wanted <= table->blocks.size()) return true;
  // All or nothing: the scheduler tries again after a preemption, with the table as it was.
  if (wanted - table->blocks.size() > free_.size()) return false;
  while (table->blocks.size() < wanted) {
    table->blocks.push_back(free_.back());
    free_.pop_back();
  }
  return true;
}

// Last first, so that they are handed out again in the order in which they were before.
void KvCache::Release(BlockTable* table) {
  free_.insert(free_.end(), table->blocks.rbegin(), table->blocks.rend());
  table->blocks.clear();
}

void KvCache::Encode(float value, std::byte* to) const {
  switch (format_) {
    case DType::kF32:
      std::memcpy(to, &value, sizeof value);
      return;
    case DType::kBF16: {
      const uint16_t bits = FloatToBF16(value);
      std::memcpy(to, &bits, sizeof bits);
      return;
    }
    case DType::kF8E4M3:
      *to = static_cast<std::byte>(FloatToF8E4M3(value));
      return;
    case DType::kF8E5M2:
      *to = static_cast<std::byte>(FloatToF8E5M2(value));
      return;
    default:
      KCC_CHECK(false);
  }
}

void KvCache::Write(size_t layer, const BlockTable& table, size_t position, const float* keys,
                    const float* values) {
  const uint32_t block = table.blocks[position / page_];
  const size_t slot = position % page_;
  for (size_t head = 0; head < heads_; ++head) {
    const size_t slab = Slab(layer, block, head);
    const std::span<const float> key(keys + head * dim_, dim_);
    const std::span<const float> value(values + head * dim_, dim_);
    float key_scale = 1;
    float value_scale = 1;
    if (IsScaled(format_)) {
      key_scales_[slab * stride_ + slot] = CoveringScale(key, format_);
      value_scales_[slab * page_ + slot] = CoveringScale(value, format_);
      // A head of zeros has scale 0 and zeros for codes; the divisor is not 0, so that they are not
      // NaN.
      key_scale = std::max(key_scales_[slab * stride_ + slot], 1e-38f);
      value_scale = std::max(value_scales_[slab * page_ + slot], 1e-38f);
    }
    for (size_t d = 0; d < dim_; ++d) {
      Encode(key[d] / key_scale, &keys_[((slab * dim_ + d) * stride_ + slot) * element_]);
      Encode(value[d] / value_scale, &values_[((slab * page_ + slot) * dim_ + d) * element_]);
    }
  }
}

const float* KvCache::Keys(size_t layer, uint32_t block, size_t head,
                           std::vector<float>* scratch) const {
  const size_t slab = Slab(layer, block, head);
  const size_t count = dim_ * stride_;
  const std::byte* from = &keys_[slab * count * element_];
  if (format_ == DType::kF32) return reinterpret_cast<const float*>(from);
  scratch->resize(count);
  WidenToFloat(from, format_, count, BestTarget(), scratch->data());
  if (IsScaled(format_)) {
    const float* scales = &key_scales_[slab * stride_];
    for (size_t d = 0; d < dim_; ++d) {
      for (size_t i = 0; i < stride_; ++i) (*scratch)[d * stride_ + i] *= scales[i];
    }
  }
  return scratch->data();
}

const float* KvCache::Values(size_t layer, uint32_t block, size_t head,
                             std::vector<float>* scratch) const {
  const size_t slab = Slab(layer, block, head);
  const size_t count = dim_ * page_;
  const std::byte* from = &values_[slab * count * element_];
  if (format_ == DType::kF32) return reinterpret_cast<const float*>(from);
  scratch->resize(count);
  WidenToFloat(from, format_, count, BestTarget(), scratch->data());
  if (IsScaled(format_)) {
    const float* scales = &value_scales_[slab * page_];
    for (size_t i = 0; i < page_; ++i) {
      for (size_t d = 0; d < dim_; ++d) (*scratch)[i * dim_ + d] *= scales[i];
    }
  }
  return scratch->data();
}

}  // namespace kcc
