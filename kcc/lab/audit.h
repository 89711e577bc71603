// Replay signatures: hashes of intermediate tensors at fixed points of the computation.
//
// A signature per (position, point) finds the first place at which two kernels part; folded over a
// request it says whether two runs were bit for bit the same. Folding is a sum over positions, so
// that it does not depend on the order in which a scheduler computed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kcc/kernel/audit_points.h"

namespace kcc {

// Inside a layer, in the order of the computation.
enum class AuditPoint : uint8_t {
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kAttention,
  kAttentionOutput,
  kAttentionResidual,  // after adding it
  kMlpNorm,
  kGated,
  kMlpOutput,
  kResidual,  // after the layer
};
inline constexpr size_t kLayerPoints = 11;

enum class AuditLevel : uint8_t { kOff, kResiduals, kEverything };

// Index of a point over the whole model: embedding, layers, final norm, logits.
size_t AuditIndex(size_t layer, AuditPoint point);
size_t AuditPoints(size_t layers);
inline constexpr size_t kEmbeddingPoint = 0;
size_t FinalNormPoint(size_t layers);
size_t LogitsPoint(size_t layers);
// "layer 3, gated" for messages; the operator that computed it for OperatorName.
std::string AuditPointName(size_t index, size_t layers);
std::string AuditOperatorName(size_t index, size_t layers);

// Of the bits of a row of floats.
uint64_t HashRow(std::span<const float> row);

// What one request left at every point; 0: not recorded.
class AuditTrail {
 public:
  AuditTrail() = default;
  AuditTrail(size_t layers, size_t positions, AuditLevel level);

  AuditLevel level() const { return level_; }
  bool Wants(size_t index) const { return WantedBy(level_, index); }
  void Record(size_t position, size_t index, std::span<const float> row);
  uint64_t At(size_t position, size_t index) const { return hashes_[position * points_ + index]; }
  size_t positions() const { return points_ == 0 ? 0 : hashes_.size() / points_; }
  size_t points() const { return points_; }
  void Grow(size_t positions);
  // Folded over positions and the points of the level: 16 hexadecimal digits. A trail that recorded
  // more than the level asks for has the same signature as one that did not.
  std::string Signature(AuditLevel level) const;
  std::string Signature() const { return Signature(level_); }
  // What was recorded, by point and position. The last position is there where a token followed.
  AuditPointList Points() const;

 private:
  bool WantedBy(AuditLevel level, size_t index) const;

  AuditLevel level_ = AuditLevel::kOff;
  size_t layers_ = 0;
  size_t points_ = 0;
  std::vector<uint64_t> hashes_;
};

}  // namespace kcc
