#include "kcc/plane/chunk_reader.h"

#include <algorithm>

namespace kcc {
namespace {

constexpr int kSizeDigitsMax = 15;
constexpr size_t kOverheadMax = 4096;  // of a whole body

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

}  // namespace

size_t ChunkReader::Read(std::string_view bytes, std::string* body) {
  size_t at = 0;
  while (at < bytes.size() && state_ == State::kMore) {
    if (part_ == Part::kData) {
      const size_t take = static_cast<size_t>(std::min<uint64_t>(size_, bytes.size() - at));
      body->append(bytes.substr(at, take));
      at += take;
      size_ -= take;
      if (size_ == 0) part_ = Part::kDataCr;
    } else {
      Take(bytes[at++]);
    }
  }
  return at;
}

void ChunkReader::Overhead() {
  if (++overhead_ > kOverheadMax) state_ = State::kBad;
}

void ChunkReader::EndSize(uint64_t size) {
  digits_ = 0;
  if (size == 0) {
    line_empty_ = true;
    part_ = Part::kTrailer;
    return;
  }
  body_bytes_ += size;
  if (body_bytes_ > body_bytes_max_) state_ = State::kTooLarge;
  part_ = Part::kData;
}

void ChunkReader::Take(char c) {
  const auto expect = [&](char wanted, Part next) {
    if (c != wanted) state_ = State::kBad;
    part_ = next;
  };
  switch (part_) {
    case Part::kSize: {
      const int digit = HexDigit(c);
      if (digit >= 0 && digits_ < kSizeDigitsMax) {
        ++digits_;
        size_ = size_ * 16 + static_cast<uint64_t>(digit);
      } else if (digits_ > 0 && (c == ';' || c == '\r')) {
        part_ = c == ';' ? Part::kExtension : Part::kSizeEnd;
      } else {
        state_ = State::kBad;
      }
      return;
    }
    case Part::kExtension:
      Overhead();
      if (c == '\r') {
        part_ = Part::kSizeEnd;
      } else if (IsControl(c)) {
        state_ = State::kBad;
      }
      return;
    case Part::kSizeEnd:
      if (c != '\n') {
        state_ = State::kBad;
        return;
      }
      return EndSize(size_);
    case Part::kData:
      return;  // taken as a whole by Read
    case Part::kDataCr:
      return expect('\r', Part::kDataLf);
    case Part::kDataLf:
      return expect('\n', Part::kSize);
    case Part::kTrailer:
      Overhead();
      if (c == '\r') {
        part_ = Part::kTrailerLf;
      } else if (IsControl(c)) {
        state_ = State::kBad;
      } else {
        line_empty_ = false;
      }
      return;
    case Part::kTrailerLf:
      if (c != '\n') {
        state_ = State::kBad;
      } else if (line_empty_) {
        state_ = State::kDone;
      }
      line_empty_ = true;
      part_ = Part::kTrailer;
      return;
  }
}

}  // namespace kcc
