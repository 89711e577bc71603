// Bytes in and out of a summary: one Visit function per type says its fields once, for writing and
// for reading. Integers are variable-length (7 bits a byte), doubles are their 8 bytes, so that the
// same state gives the same bytes on every machine.
//
// Reading is defensive: after the first fault every further call does nothing, the value read is
// zero or empty, and ok() is false. A length is believed only as far as bytes remain for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/numeric/exact_sum.h"

namespace kcc {

class Archive {
 public:
  // Both take the format of the file: what a type has had only since a later one is left out.
  static Archive Writer(int format = std::numeric_limits<int>::max()) {
    Archive archive;
    archive.format_ = format;
    return archive;
  }
  static Archive Reader(std::string_view bytes, int format = std::numeric_limits<int>::max()) {
    return Archive(bytes, format);
  }

  bool reading() const { return reading_; }
  // Whether the file has what came with a format.
  bool Since(int format) const { return format_ >= format; }
  bool ok() const { return fault_.empty(); }
  const std::string& fault() const { return fault_; }
  // Marks what was read as impossible; the first fault is kept.
  void Fail(std::string_view why);
  bool AtEnd() const { return offset_ == input_.size(); }
  size_t Remaining() const { return input_.size() - offset_; }
  std::string Take() { return std::move(output_); }

  void U64(uint64_t& value);
  void U32(uint32_t& value);
  void I32(int32_t& value);
  void I64(int64_t& value);  // zig-zag: small magnitudes are short
  void I128(__int128& value);
  void Bool(bool& value);
  void Double(double& value);
  void Text(std::string& text);
  // A count of things of at least `bytes_each` bytes to follow.
  void Length(size_t& length, size_t bytes_each = 1);

  template <int kLow, int kChunks>
  void Sum(Superaccumulator<kLow, kChunks>& sum) {
    CanonicalSum form;
    if (!reading_) form = sum.Canonical();
    Canonical(form);
    if (reading_ && ok() && !sum.Restore(form)) Fail("a sum that is not in canonical form");
  }

  // Visits each element, sized to the count on file.
  template <class T, class VisitOne>
  void Each(std::vector<T>& items, VisitOne visit, size_t bytes_each = 1) {
    size_t length = items.size();
    Length(length, bytes_each);
    if (reading_) items.resize(ok() ? length : 0);
    for (T& item : items) {
      if (!ok()) break;
      visit(*this, item);
    }
  }

 private:
  Archive() = default;
  Archive(std::string_view bytes, int format) : reading_(true), format_(format), input_(bytes) {}

  void Canonical(CanonicalSum& form);
  uint64_t ReadVariable();
  void WriteVariable(uint64_t value);

  bool reading_ = false;
  int format_ = std::numeric_limits<int>::max();
  std::string_view input_;
  size_t offset_ = 0;
  std::string output_;
  std::string fault_;
};

}  // namespace kcc
