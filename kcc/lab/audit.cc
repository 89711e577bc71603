#include "kcc/lab/audit.h"

#include <array>
#include <bit>
#include <string_view>

namespace kcc {
namespace {

struct PointName {
  std::string_view point;
  std::string_view op;
};
constexpr std::array<PointName, kLayerPoints> kNames = {{
    {"attention norm", "RMSNorm"},
    {"query", "query projection and RoPE"},
    {"key", "key projection and RoPE"},
    {"value", "value projection"},
    {"attention", "attention"},
    {"attention output", "output projection"},
    {"attention residual", "residual addition"},
    {"MLP norm", "RMSNorm"},
    {"gated", "gate and up projections, SwiGLU"},
    {"MLP output", "down projection"},
    {"residual", "residual addition"},
}};

constexpr uint64_t kPrime = 0x9e3779b97f4a7c15u;

uint64_t Mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  return value ^ (value >> 32);
}

std::string HexDigits(uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(value >> shift) & 15];
  return text;
}

}  // namespace

size_t AuditIndex(size_t layer, AuditPoint point) {
  return 1 + layer * kLayerPoints + static_cast<size_t>(point);
}
size_t AuditPoints(size_t layers) { return layers * kLayerPoints + 3; }
size_t FinalNormPoint(size_t layers) { return layers * kLayerPoints + 1; }
size_t LogitsPoint(size_t layers) { return layers * kLayerPoints + 2; }

std::string AuditPointName(size_t index, size_t layers) {
  if (index == kEmbeddingPoint) return "embedding";
  if (index == FinalNormPoint(layers)) return "final norm";
  if (index == LogitsPoint(layers)) return "logits";
  return "layer " + std::to_string((index - 1) / kLayerPoints) + ", " +
         std::string(kNames[(index - 1) % kLayerPoints].point);
}

std::string AuditOperatorName(size_t index, size_t layers) {
  if (index == kEmbeddingPoint) return "embedding";
  if (index == FinalNormPoint(layers)) return "RMSNorm";
  if (index == LogitsPoint(layers)) return "output matrix";
  return std::string(kNames[(index - 1) % kLayerPoints].op);
}

// Of bits, not of values: -0 and 0 differ. Never 0, which stands for "not
// recorded". It guards against accidents, not against somebody who looks for collisions.
uint64_t HashRow(std::span<const float> row) {
  // Four chains, so that the multiplications overlap.
  std::array<uint64_t, 4> chains = {1, 2, 3, 4};
  size_t i = 0;
  for (; i + 4 <= row.size(); i += 4) {
    for (size_t c = 0; c < 4; ++c) {
      chains[c] = (chains[c] ^ std::bit_cast<uint32_t>(row[i + c])) * kPrime;
      chains[c] ^= chains[c] >> 29;
    }
  }
  for (; i < row.size(); ++i) chains[0] = (chains[0] ^ std::bit_cast<uint32_t>(row[i])) * kPrime;
  uint64_t hash = row.size();
  for (const uint64_t chain : chains) hash = Mix(hash ^ chain) + kPrime;
  return hash == 0 ? 1 : hash;
}

AuditTrail::AuditTrail(size_t layers, size_t positions, AuditLevel level)
    : level_(level), layers_(layers), points_(level == AuditLevel::kOff ? 0 : AuditPoints(layers)) {
  hashes_.resize(points_ * positions);
}

bool AuditTrail::WantedBy(AuditLevel level, size_t index) const {
  if (level == AuditLevel::kEverything) return true;
  if (level == AuditLevel::kOff) return false;
  return index == LogitsPoint(layers_) ||
         (index > 0 && index < FinalNormPoint(layers_) &&
          (index - 1) % kLayerPoints == static_cast<size_t>(AuditPoint::kResidual));
}

// Each (position, point) has a place of its own, so threads may record different rows at once. A
// token that is computed again after a preemption overwrites its place: with the same bits if the
// kernel is what it says it is.
void AuditTrail::Record(size_t position, size_t index, std::span<const float> row) {
  if (Wants(index)) hashes_[position * points_ + index] = HashRow(row);
}

void AuditTrail::Grow(size_t positions) {
  if (positions * points_ > hashes_.size()) hashes_.resize(positions * points_);
}

std::string AuditTrail::Signature(AuditLevel level) const {
  // A sum, so that no order counts; each hash is mixed with its place first, since otherwise two
  // rows that changed places would not be seen.
  uint64_t sum = 0;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    if (hashes_[i] != 0 && WantedBy(level, i % points_)) sum += Mix(hashes_[i] ^ Mix(i + 1));
  }
  return HexDigits(sum);
}

AuditPointList AuditTrail::Points() const {
  AuditPointList points;
  for (size_t index = 0; index < points_; ++index) {
    if (!Wants(index)) continue;
    AuditDigests& point = points.emplace_back();
    point.point = AuditPointName(index, layers_);
    for (size_t position = 0; position < positions(); ++position) {
      const uint64_t hash = At(position, index);
      point.digests.push_back(hash == 0 ? std::string(kNoDigest) : HexDigits(hash));
    }
  }
  return points;
}

}  // namespace kcc
