// Packing: panels of 32 outputs, input by input, so that a product streams through memory once.
#include "kcc/numeric/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kcc/base/check.h"
#include "kcc/numeric/quantize.h"

namespace kcc {
namespace {

bool IsScaled(DType format) {
  return format == DType::kF8E4M3 || format == DType::kF8E5M2 || format == DType::kI8 ||
         format == DType::kI4;
}

}  // namespace

// A panel holds kPanelOutputs outputs, input by input: [input][output in the panel]. A vector of
// outputs takes one input at a time, so every output is summed in the order of its inputs, on every
// vector width. Example: with panels of 32, the weight of output 33 and input 2 is in panel 1, at 2
// * 32 + 1. The last panel is filled up with zeros.
PackedMatrix::PackedMatrix(std::span<const float> weights, size_t outputs, size_t inputs,
                           DType format, ScaleGrain grain, size_t group, int largest_code)
    : outputs_(outputs), inputs_(inputs), group_(inputs), format_(format) {
  KCC_CHECK(inputs % 32 == 0 && weights.size() == outputs * inputs);
  if (grain == ScaleGrain::kGroup) {
    KCC_CHECK(group > 0 && group % 32 == 0);
    group_ = std::min(group, inputs);
  }
  groups_ = (inputs + group_ - 1) / group_;
  lines_.resize((panels() * panel_bytes() + sizeof(Line) - 1) / sizeof(Line));
  if (format == DType::kF32) {
    StoreFloats(weights);
    return;
  }
  float largest = 0;
  if (IsScaled(format)) {
    largest = format == DType::kI4 ? static_cast<float>(largest_code) : LargestCode(format);
    KCC_CHECK(largest >= 1 && largest <= LargestCode(format));
    Quantize(weights, grain, largest);
  }
  for (size_t n = 0; n < outputs; ++n) {
    for (size_t k = 0; k < inputs; ++k) Store(n, k, weights[n * inputs + k], largest);
  }
}

// A few inputs of a whole panel at a time, which stay in the cache while outputs take turns.
void PackedMatrix::StoreFloats(std::span<const float> weights) {
  constexpr size_t kInputs = 32;
  for (size_t p = 0; p < panels(); ++p) {
    auto* to = reinterpret_cast<float*>(lines_.data()) + p * inputs_ * kPanelOutputs;
    const size_t outputs = std::min(kPanelOutputs, outputs_ - p * kPanelOutputs);
    for (size_t begin = 0; begin < inputs_; begin += kInputs) {
      for (size_t n = 0; n < outputs; ++n) {
        const float* from = &weights[(p * kPanelOutputs + n) * inputs_];
        for (size_t k = begin; k < begin + kInputs; ++k) to[k * kPanelOutputs + n] = from[k];
      }
    }
  }
}

void PackedMatrix::SetShape(size_t outputs, size_t inputs) {
  outputs_ = outputs;
  inputs_ = (inputs + 31) / 32 * 32;
  group_ = inputs_;
  groups_ = 1;
  format_ = DType::kF32;
  scales_.clear();
  lines_.resize((panels() * panel_bytes() + sizeof(Line) - 1) / sizeof(Line));
}

void PackedMatrix::FillTransposed(const float* matrix, size_t rows, size_t stride,
                                  size_t panel_begin, size_t panel_end) {
  KCC_CHECK(format_ == DType::kF32 && rows <= inputs_ && panel_end <= panels());
  for (size_t p = panel_begin; p < panel_end; ++p) {
    auto* to = reinterpret_cast<float*>(lines_.data()) + p * inputs_ * kPanelOutputs;
    const size_t outputs = std::min(kPanelOutputs, outputs_ - p * kPanelOutputs);
    for (size_t k = 0; k < rows; ++k) {
      const float* from = matrix + k * stride + p * kPanelOutputs;
      std::copy_n(from, outputs, to + k * kPanelOutputs);
      std::fill(to + k * kPanelOutputs + outputs, to + (k + 1) * kPanelOutputs, 0.0f);
    }
    std::fill(to + rows * kPanelOutputs, to + inputs_ * kPanelOutputs, 0.0f);
  }
}

void PackedMatrix::Unpack(float* weights) const {
  if (format_ == DType::kF32) {
    for (size_t p = 0; p < panels(); ++p) {
      const auto* from = reinterpret_cast<const float*>(panel(p));
      const size_t outputs = std::min(kPanelOutputs, outputs_ - p * kPanelOutputs);
      for (size_t begin = 0; begin < inputs_; begin += 32) {
        for (size_t n = 0; n < outputs; ++n) {
          float* to = weights + (p * kPanelOutputs + n) * inputs_;
          for (size_t k = begin; k < begin + 32; ++k) to[k] = from[k * kPanelOutputs + n];
        }
      }
    }
    return;
  }
  for (size_t n = 0; n < outputs_; ++n) {
    for (size_t k = 0; k < inputs_; ++k) weights[n * inputs_ + k] = At(n, k);
  }
}

void PackedMatrix::Quantize(std::span<const float> weights, ScaleGrain grain, float largest_code) {
  scales_.assign(panels() * groups_ * kPanelOutputs, 0.0f);
  // A scale covers the largest weight it is shared by, so that no code saturates.
  const float whole = CoveringScale(weights, largest_code);
  for (size_t n = 0; n < outputs_; ++n) {
    for (size_t g = 0; g < groups_; ++g) {
      const size_t begin = g * group_;
      const auto part = weights.subspan(n * inputs_ + begin, std::min(group_, inputs_ - begin));
      const size_t panel = n / kPanelOutputs;
      scales_[(panel * groups_ + g) * kPanelOutputs + n % kPanelOutputs] =
          grain == ScaleGrain::kTensor ? whole : CoveringScale(part, largest_code);
    }
  }
}

float PackedMatrix::Scale(size_t output, size_t input) const {
  if (scales_.empty()) return 1.0f;
  return scales(output / kPanelOutputs)[input / group_ * kPanelOutputs + output % kPanelOutputs];
}

uint8_t* PackedMatrix::Slot(size_t output, size_t input) {
  const size_t bits = DTypeBits(format_);
  auto* base = reinterpret_cast<uint8_t*>(lines_.data()) + output / kPanelOutputs * panel_bytes();
  // Two inputs of one output share a byte, so that a vector of bytes is still a vector of outputs.
  if (bits == 4) return base + input / 2 * kPanelOutputs + output % kPanelOutputs;
  return base + (input * kPanelOutputs + output % kPanelOutputs) * (bits / 8);
}

void PackedMatrix::Store(size_t output, size_t input, float weight, float largest_code) {
  const float scale = Scale(output, input);
  // A group of zeros has scale 0.
  const float code = scale == 0 ? 0.0f : weight / scale;
  uint8_t* slot = Slot(output, input);
  switch (format_) {
    case DType::kF32:
      std::memcpy(slot, &weight, 4);
      return;
    case DType::kBF16:
    case DType::kF16: {
      const uint16_t half =
          format_ == DType::kBF16 ? FloatToBF16(weight) : FloatToF16(weight, Overflow::kSaturate);
      std::memcpy(slot, &half, 2);
      return;
    }
    case DType::kF8E4M3:
      *slot = FloatToF8E4M3(code);
      return;
    case DType::kF8E5M2:
      *slot = FloatToF8E5M2(code);
      return;
    case DType::kI8:
      *slot = static_cast<uint8_t>(FloatToI8(code));
      return;
    case DType::kI4: {
      // A scale among the least floats is rounded itself, and then codes can lie beyond the
      // largest.
      const int8_t nibble = FloatToI4(std::clamp(code, -largest_code, largest_code));
      // The other half of the byte is kept: its input is stored before or after this one.
      const bool high = input % 2 == 1;
      *slot = high ? PackI4(UnpackI4(*slot, false), nibble) : PackI4(nibble, UnpackI4(*slot, true));
      return;
    }
    default:
      KCC_CHECK(false);
  }
}

float PackedMatrix::At(size_t output, size_t input) const {
  const uint8_t* slot = const_cast<PackedMatrix*>(this)->Slot(output, input);
  const float scale = Scale(output, input);
  switch (format_) {
    case DType::kF32: {
      float value;
      std::memcpy(&value, slot, 4);
      return value;
    }
    case DType::kBF16:
    case DType::kF16: {
      uint16_t half;
      std::memcpy(&half, slot, 2);
      return format_ == DType::kBF16 ? BF16ToFloat(half) : F16ToFloat(half);
    }
    case DType::kF8E4M3:
      return F8E4M3ToFloat(*slot) * scale;
    case DType::kF8E5M2:
      return F8E5M2ToFloat(*slot) * scale;
    case DType::kI8:
      return static_cast<float>(static_cast<int8_t>(*slot)) * scale;
    case DType::kI4:
      return static_cast<float>(UnpackI4(*slot, input % 2 == 1)) * scale;
    default:
      KCC_CHECK(false);
  }
  return 0;
}

}  // namespace kcc
