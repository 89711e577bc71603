#include "kcc/monitor/session_filter.h"

#include <algorithm>

#include "kcc/base/check.h"

namespace kcc {
namespace {

// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t Absorb(uint64_t state, std::string_view text) {
  uint64_t word = 0;
  int held = 0;
  for (const char c : text) {
    word = (word << 8) | static_cast<unsigned char>(c);
    if (++held < 8) continue;
    state = Mix(state ^ word) + 0x9e3779b97f4a7c15ULL;
    word = 0;
    held = 0;
  }
  // The length tells "a" before "b" from "ab" before "".
  return Mix(state ^ word ^ (static_cast<uint64_t>(text.size()) << 32)) + 0x9e3779b97f4a7c15ULL;
}

// Place i of a key: double hashing, the step odd so that places differ.
uint64_t PlaceOf(uint64_t key, int i, uint64_t bits) {
  return (key + static_cast<uint64_t>(i) * (Mix(key) | 1)) % bits;
}

}  // namespace

uint64_t HashKey(uint64_t seed, std::string_view first, std::string_view second) {
  return Mix(Absorb(Absorb(seed, first), second));
}

SessionFilter::SessionFilter(int64_t bits)
    : bits_(static_cast<uint64_t>(bits)), words_((bits_ + 63) / 64) {
  KCC_CHECK(bits >= 64);
}

bool SessionFilter::MayContain(uint64_t key) const {
  for (int i = 0; i < kProbes; ++i) {
    const uint64_t place = PlaceOf(key, i, bits_);
    if (((words_[place / 64] >> (place % 64)) & 1) == 0) return false;
  }
  return true;
}

void SessionFilter::Insert(uint64_t key) {
  for (int i = 0; i < kProbes; ++i) {
    const uint64_t place = PlaceOf(key, i, bits_);
    words_[place / 64] |= uint64_t{1} << (place % 64);
  }
  ++inserted_;
}

void SessionFilter::Clear() {
  std::fill(words_.begin(), words_.end(), 0);
  inserted_ = 0;
}

// Words that are not 0, each with the distance from the one before: a young filter is short.
void SessionFilter::Visit(Archive& archive) {
  archive.I64(inserted_);
  if (archive.reading() && inserted_ < 0) archive.Fail("a negative number of keys");
  if (!archive.reading()) {
    size_t used = static_cast<size_t>(
        std::count_if(words_.begin(), words_.end(), [](uint64_t word) { return word != 0; }));
    archive.Length(used, 2);
    uint64_t last = 0;
    for (uint64_t i = 0; i < words_.size(); ++i) {
      if (words_[i] == 0) continue;
      uint64_t step = i - last;
      archive.U64(step);
      archive.U64(words_[i]);
      last = i;
    }
    return;
  }
  std::fill(words_.begin(), words_.end(), 0);
  size_t used = 0;
  archive.Length(used, 2);
  uint64_t at = 0;
  for (size_t i = 0; i < used && archive.ok(); ++i) {
    uint64_t step = 0;
    archive.U64(step);
    if (step >= words_.size() - at || (i > 0 && step == 0))
      return archive.Fail("a word of no filter");
    at += step;
    archive.U64(words_[at]);
    if (words_[at] == 0) archive.Fail("an empty word of a filter");
  }
}

}  // namespace kcc
