// The fuzzer's bytes, read as choices, numbers and text; 0 once they are used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kcc {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return at_ < size_ ? data_[at_++] : uint8_t{0}; }
  int64_t Small(int64_t below) { return Byte() % below; }
  bool Odds(int64_t of) { return Small(of) == 0; }
  float Number() {
    constexpr float kOdd[] = {0.0f, -0.0f, -1.0f, 1.0f, -1e30f, 1e30f, -9999.0f, -1e-30f};
    const uint8_t kind = Byte();
    if (kind < 8) return kOdd[kind];
    if (kind == 8) return __builtin_nanf("");
    if (kind == 9) return -__builtin_inff();
    return -static_cast<float>(kind) / 32.0f;
  }
  size_t Below(size_t end) { return (Byte() + size_t{256} * Byte()) % (end == 0 ? 1 : end); }
  bool Left() const { return at_ < size_; }
  std::string Rest() {
    std::string text(reinterpret_cast<const char*>(data_) + at_, size_ - at_);
    at_ = size_;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace kcc
