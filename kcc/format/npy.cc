#include "kcc/format/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kNpyRankMax = 16;

struct TypeRow {
  std::string_view descr;
  DType type;
  size_t bytes;
};

// clang-format off
constexpr TypeRow kTypes[] = {
    {"<f8", DType::kF64, 8}, {"<f4", DType::kF32, 4}, {"<f2", DType::kF16, 2},
    {"<V2", DType::kBF16, 2}, {"|V2", DType::kBF16, 2}, {"bfloat16", DType::kBF16, 2},
    {"<i8", DType::kI64, 8}, {"<i4", DType::kI32, 4}, {"<i2", DType::kI16, 2},
    {"|i1", DType::kI8, 1}, {"|u1", DType::kU8, 1}, {"|b1", DType::kBool, 1}};
// clang-format on

// The value of 'key' in the header's Python dictionary, as text.
std::optional<std::string_view> DictValue(std::string_view dict, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t at = dict.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  at = dict.find(':', at + quoted.size());
  if (at == std::string_view::npos) return std::nullopt;
  at = dict.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos) return std::nullopt;
  const char opener = dict[at];
  size_t end = 0;
  if (opener == '\'' || opener == '(') {
    end = dict.find(opener == '(' ? ')' : '\'', at + 1);
    if (end == std::string_view::npos) return std::nullopt;
    return dict.substr(at + 1, end - at - 1);
  }
  end = dict.find_first_of(",}", at);
  if (end == std::string_view::npos) return std::nullopt;
  return dict.substr(at, end - at);
}

Result<std::vector<int64_t>> ParseShape(std::string_view text) {
  std::vector<int64_t> shape;
  while (true) {
    const size_t begin = text.find_first_not_of(" ,");
    if (begin == std::string_view::npos) return shape;
    text.remove_prefix(begin);
    int64_t extent = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (failure != std::errc() || extent < 0 || shape.size() == kNpyRankMax) {
      return InvalidError("the array's shape cannot be read");
    }
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
}

Result<DType> ParseType(std::string_view descr) {
  for (const TypeRow& row : kTypes) {
    if (row.descr == descr) return row.type;
  }
  if (descr.starts_with('>')) {
    return InvalidError("the array is big-endian (" + std::string(descr) +
                        "); save array.astype(array.dtype.newbyteorder('<'))");
  }
  if (descr.find('O') != std::string_view::npos) {
    return InvalidError("the array holds pickled Python objects; save plain numbers");
  }
  return InvalidError("the array's dtype '" + std::string(descr) +
                      "' is not read; save float16, float32, int32, int64 or bool");
}

// The header's bytes, and not much more: an archive may have a member every hundred bytes.
Result<std::string> ReadHead(const MappedFile& file, const ZipMember& member) {
  constexpr int64_t kUsualBytes = 256;
  const auto read = [&](int64_t size) {
    return file.Read(member.offset, static_cast<size_t>(std::min(member.size, size)));
  };
  KCC_TRY(std::string first, read(kUsualBytes));
  if (first.size() < 12) return first;
  const auto byte = [&](size_t i) { return int64_t{static_cast<uint8_t>(first[i])}; };
  int64_t length = 10 + byte(8) + (byte(9) << 8);
  if (byte(6) > 1) length += 2 + (byte(10) << 16) + (byte(11) << 24);
  if (length <= kUsualBytes) return first;
  return read(std::min(length, kNpyHeaderBytesMax + 12));
}

}  // namespace

size_t NpyHeader::element_bytes() const {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.bytes;
  }
  return 1;
}

int64_t NpyHeader::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

Result<NpyHeader> ParseNpyHeader(std::string_view first_bytes, int64_t size) {
  if (first_bytes.size() < 10 || !first_bytes.starts_with(kMagic)) {
    return InvalidError("not a NumPy array: the file does not start as one, or is truncated");
  }
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(first_bytes[i]));
  };
  const uint32_t version = byte(6);
  size_t prefix = 10;
  uint32_t length = byte(8) | byte(9) << 8;
  if (version == 2 || version == 3) {
    if (first_bytes.size() < 12) return InvalidError("truncated in the array's header");
    prefix = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  } else if (version != 1) {
    return InvalidError("NumPy format version " + std::to_string(version) + " is not known");
  }
  if (length > kNpyHeaderBytesMax || prefix + length > first_bytes.size()) {
    return InvalidError("truncated in the array's header");
  }
  const std::string_view dict = first_bytes.substr(prefix, length);
  const auto descr = DictValue(dict, "descr");
  const auto fortran = DictValue(dict, "fortran_order");
  const auto shape = DictValue(dict, "shape");
  if (!descr || !fortran || !shape) return InvalidError("the array's header cannot be read");
  NpyHeader header;
  KCC_TRY(header.type, ParseType(*descr));
  KCC_TRY(header.shape, ParseShape(*shape));
  if (fortran->starts_with("True") && header.shape.size() > 1) {
    return InvalidError("the array is in Fortran order; save np.ascontiguousarray(array)");
  }
  header.data_offset = static_cast<int64_t>(prefix + length);
  int64_t bytes = static_cast<int64_t>(header.element_bytes());
  for (const int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return InvalidError("the array's shape overflows");
    }
  }
  if (bytes != size - header.data_offset) {
    return InvalidError("the array's shape needs " + std::to_string(bytes) + " bytes, there are " +
                        std::to_string(size - header.data_offset) +
                        (bytes > size - header.data_offset ? ": truncated" : " behind the header"));
  }
  return header;
}

Result<std::vector<double>> NpyArray::ReadAll() const {
  std::vector<double> values;
  const int64_t count = header.elements();
  const auto element = static_cast<int64_t>(header.element_bytes());
  const int64_t step = static_cast<int64_t>(kWindowBytesMax) / element;
  for (int64_t at = 0; at < count; at += step) {
    const int64_t some = std::min(step, count - at);
    KCC_TRY(const FileWindow window,
            file->Map(offset + at * element, static_cast<size_t>(some * element)));
    for (int64_t i = 0; i < some; ++i) {
      values.push_back(LoadElement(window.data(), header.type, static_cast<size_t>(i)));
    }
  }
  return values;
}

Result<NpyArrays> NpyArrays::Open(const std::vector<std::string>& paths) {
  NpyArrays result;
  std::unordered_set<std::string> names;
  for (const std::string& path : paths) {
    KCC_TRY(MappedFile opened, MappedFile::Open(path));
    result.files.push_back(std::make_unique<MappedFile>(std::move(opened)));
    const MappedFile* file = result.files.back().get();
    std::vector<ZipMember> members;
    if (path.ends_with(".npz")) {
      auto listed = ListZip(*file);
      if (!listed.has_value()) return std::move(listed.error()).At(Place{path});
      members = std::move(*listed);
    } else {
      members.push_back({std::filesystem::path(path).filename().string(), 0, file->size()});
    }
    for (const ZipMember& member : members) {
      NpyArray array;
      array.name = std::filesystem::path(member.name).stem().string();
      array.file = file;
      KCC_TRY(const std::string first, ReadHead(*file, member));
      auto header = ParseNpyHeader(first, member.size);
      if (!header.has_value()) {
        return Error(header.error().code(), member.name + ": " + header.error().message(),
                     Place{path});
      }
      array.header = std::move(*header);
      array.offset = member.offset + array.header.data_offset;
      if (!names.insert(array.name).second) {
        return InvalidError("the array '" + array.name + "' is given twice", Place{path});
      }
      result.arrays.push_back(std::move(array));
    }
  }
  return result;
}

const NpyArray* NpyArrays::Find(std::string_view name) const {
  for (const NpyArray& array : arrays) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

}  // namespace kcc
