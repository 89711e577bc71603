#include "kcc/contract/source_text.h"

#include <algorithm>

namespace kcc {
namespace {

constexpr size_t kBlockBytes = 256;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::string_view SkipByteOrderMark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

size_t CodePoints(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), IsContinuation));
}

SourceText::SourceText(std::string_view text) : text_(SkipByteOrderMark(text)) {
  line_starts_.push_back(0);
  for (size_t at = text_.find('\n'); at != std::string_view::npos; at = text_.find('\n', at + 1)) {
    line_starts_.push_back(static_cast<uint32_t>(at + 1));
  }
  block_points_.reserve(text_.size() / kBlockBytes + 1);
  uint32_t points = 0;
  for (size_t at = 0; at <= text_.size(); at += kBlockBytes) {
    block_points_.push_back(points);
    points += static_cast<uint32_t>(CodePoints(text_.substr(at, kBlockBytes)));
  }
}

size_t SourceText::PointsBefore(size_t offset) const {
  const size_t block = offset / kBlockBytes;
  return block_points_[block] + CodePoints(text_.substr(block * kBlockBytes, offset % kBlockBytes));
}

Mark SourceText::MarkAt(size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const uint32_t start = *(after - 1);
  return {static_cast<int>(after - line_starts_.begin()),
          static_cast<int>(PointsBefore(offset) - PointsBefore(start) + 1)};
}

std::string_view SourceText::Line(int line) const {
  if (line < 1 || static_cast<size_t>(line) > line_starts_.size()) return {};
  const size_t start = line_starts_[static_cast<size_t>(line - 1)];
  std::string_view found = text_.substr(start);
  found = found.substr(0, found.find('\n'));
  if (found.ends_with('\r')) found.remove_suffix(1);
  return found;
}

}  // namespace kcc
