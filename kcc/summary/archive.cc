#include "kcc/summary/archive.h"

#include <bit>
#include <limits>

namespace kcc {

// Invariant when reading: offset_ never passes the end, and after the first fault it does not move
// and every value is 0 or empty. So a Visit function needs no check after each field; it looks at
// ok() before it believes a length. When writing there are no faults.
//
// One state has one sequence of bytes: numbers in their shortest form, sums in canonical form, and
// a reader that refuses any other. So a summary can be compared and digested by its bytes.
void Archive::Fail(std::string_view why) {
  if (fault_.empty()) fault_ = std::string(why) + " at byte " + std::to_string(offset_);
}

// 7 bits a byte, lowest first, the top bit set on all but the last: 300 is AC 02. A last byte of 0
// would be a longer spelling of the same number, and the tenth byte has one bit to give.
uint64_t Archive::ReadVariable() {
  if (!ok()) return 0;
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (offset_ == input_.size()) {
      Fail("the file ends within a number");
      return 0;
    }
    const auto byte = static_cast<uint8_t>(input_[offset_++]);
    const uint64_t bits = byte & 0x7f;
    if ((shift == 63 && bits > 1) || (shift > 0 && byte == 0)) break;  // too large, or not shortest
    value |= bits << shift;
    if ((byte & 0x80) == 0) return value;
  }
  Fail("a number that is not in its shortest form");
  return 0;
}

void Archive::WriteVariable(uint64_t value) {
  while (value >= 0x80) {
    output_.push_back(static_cast<char>(static_cast<uint8_t>(value) | 0x80));
    value >>= 7;
  }
  output_.push_back(static_cast<char>(value));
}

void Archive::U64(uint64_t& value) {
  if (reading_) {
    value = ReadVariable();
  } else {
    WriteVariable(value);
  }
}

// Writing leaves the value alone, even as it is: threads may each save what they share.
void Archive::U32(uint32_t& value) {
  uint64_t wide = value;
  U64(wide);
  if (!reading_) return;
  if (wide > std::numeric_limits<uint32_t>::max()) {
    Fail("a number beyond 32 bits");
    wide = 0;
  }
  value = static_cast<uint32_t>(wide);
}

// 0, -1, 1, -2, … become 0, 1, 2, 3, …: small magnitudes of either sign stay short.
void Archive::I64(int64_t& value) {
  uint64_t folded = (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
  U64(folded);
  if (reading_) value = static_cast<int64_t>((folded >> 1) ^ (~(folded & 1) + 1));
}

void Archive::I32(int32_t& value) {
  int64_t wide = value;
  I64(wide);
  if (!reading_) return;
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    Fail("a number beyond 32 bits");
    wide = 0;
  }
  value = static_cast<int32_t>(wide);
}

void Archive::I128(__int128& value) {
  auto high = static_cast<int64_t>(value >> 64);
  auto low = static_cast<uint64_t>(value);
  I64(high);
  U64(low);
  if (!reading_) return;
  value = static_cast<__int128>(
      (static_cast<unsigned __int128>(static_cast<uint64_t>(high)) << 64) | low);
}

void Archive::Bool(bool& value) {
  uint64_t wide = value ? 1 : 0;
  U64(wide);
  if (!reading_) return;
  if (wide > 1) Fail("a truth value other than 0 and 1");
  value = wide == 1;
}

void Archive::Double(double& value) {
  if (!reading_) {
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) output_.push_back(static_cast<char>(bits >> shift));
    return;
  }
  value = 0;
  if (!ok()) return;
  if (Remaining() < 8) return Fail("the file ends within a number");
  uint64_t bits = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    bits |= uint64_t{static_cast<uint8_t>(input_[offset_++])} << shift;
  }
  value = std::bit_cast<double>(bits);
}

void Archive::Text(std::string& text) {
  size_t length = text.size();
  Length(length);
  if (!reading_) {
    output_ += text;
    return;
  }
  text.assign(input_.substr(offset_, length));
  offset_ += length;
}

// A file of 20 bytes cannot ask for a vector of 2^60: each item takes bytes_each at least.
void Archive::Length(size_t& length, size_t bytes_each) {
  uint64_t wide = length;
  U64(wide);
  if (!reading_) return;
  if (!ok() || wide > Remaining() / bytes_each) {
    Fail("more items than the file has bytes for");
    wide = 0;
  }
  length = wide;
}

void Archive::Canonical(CanonicalSum& form) {
  int32_t sign = form.sign;
  I32(sign);
  form.sign = sign;
  if (sign == 0) return;
  U32(form.first);
  Each(form.words, [](Archive& archive, uint32_t& word) { archive.U32(word); });
}

}  // namespace kcc
