// NumPy arrays: .npy files and the stored members of .npz archives (np.savez), mapped, not copied.
//
// Read: version 1 to 3 headers, little-endian or byte-sized elements, C order. Refused with the
// remedy: Fortran order, big-endian, pickled objects, compressed members (np.savez_compressed).
// 2-byte void ('V2') is what NumPy writes for bfloat16.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/base/result.h"
#include "kcc/format/mapped_file.h"

namespace kcc {

struct NpyHeader {
  DType type = DType::kF32;  // F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  // from the start of the .npy bytes

  size_t element_bytes() const;
  int64_t elements() const;
};

// Parses the header of .npy bytes of which `first_bytes` are given; the array must end exactly at
// `size`.
Result<NpyHeader> ParseNpyHeader(std::string_view first_bytes, int64_t size);
inline constexpr int64_t kNpyHeaderBytesMax = 65536;

// A member of an archive, stored without compression.
struct ZipMember {
  std::string name;
  int64_t offset = 0;  // of its bytes in the file
  int64_t size = 0;
};

// Lists a zip archive (with zip64). Compressed and encrypted members are errors. The second form
// reads one that lies within a file; its members' offsets are the file's.
Result<std::vector<ZipMember>> ListZip(const MappedFile& file);
Result<std::vector<ZipMember>> ListZip(const MappedFile& file, int64_t begin, int64_t size);

// One array: its name (file stem or member), its header and where its elements are.
struct NpyArray {
  std::string name;
  NpyHeader header;
  const MappedFile* file = nullptr;
  int64_t offset = 0;  // of element 0 in the file

  // Any number or boolean as a double; rows are read through a window the caller keeps.
  Result<std::vector<double>> ReadAll() const;
};

// Files kept open, and their arrays.
struct NpyArrays {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<NpyArray> arrays;

  static Result<NpyArrays> Open(const std::vector<std::string>& paths);
  const NpyArray* Find(std::string_view name) const;
};

}  // namespace kcc
