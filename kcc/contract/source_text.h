// The text of a document and its positions: byte offsets to lines and columns and back.
//
// Columns count code points, from 1, as editors do. A byte order mark is no part of the text. Any
// offset is found in O(log lines), however long its line is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/contract/contract.h"

namespace kcc {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The text without its byte order mark.
std::string_view SkipByteOrderMark(std::string_view text);

// Number of code points; a byte that is not UTF-8 counts as one.
size_t CodePoints(std::string_view text);

class SourceText {
 public:
  // The text must outlive this.
  explicit SourceText(std::string_view text);

  std::string_view text() const { return text_; }
  Mark MarkAt(size_t offset) const;
  // The line without its end; empty for a line that does not exist.
  std::string_view Line(int line) const;

 private:
  size_t PointsBefore(size_t offset) const;

  std::string_view text_;
  std::vector<uint32_t> line_starts_;
  std::vector<uint32_t> block_points_;  // code points before every 256th byte
};

}  // namespace kcc
