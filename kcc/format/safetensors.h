// safetensors: u64 header size, a JSON header, then the tensors' bytes, without gaps or overlaps.
//
// Read defensively, since files come from anywhere: the header is at most 100 MB (the format's own
// limit), every shape product is checked for overflow, every offset against the file, and names
// may not repeat. Dtypes are those of base/dtype.h; another is an error that names it. Tensors must
// start at a multiple of their element (every writer in use does), so that rows are read in place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"

namespace kcc {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the start of the file
  int64_t end = 0;

  int64_t elements() const;
  std::string ShapeText() const;  // "[3, 128256]"
};

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // by offset, then by name
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;

  const TensorInfo* Find(std::string_view name) const;
};

inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

// The size of the JSON header from the first 8 bytes of a file of `file_size` bytes.
Result<int64_t> SafetensorsHeaderSize(std::string_view first_bytes, int64_t file_size,
                                      const std::string& file);

// Parses the JSON header (without the 8 bytes before it) of a file of `file_size` bytes.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t file_size,
                                                 const std::string& file);

// The bytes before the tensors: size and JSON header, padded with blanks to `padded_size` bytes
// (at least; 0: to a multiple of 8). Tensors are laid out in the order given; their begin and end
// are filled in. The same tensors give the same bytes.
std::string SafetensorsPrefix(std::span<TensorInfo> tensors,
                              const std::map<std::string, std::string>& metadata,
                              size_t padded_size = 0);

}  // namespace kcc
