#include "kcc/format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kPrefixBytes = 8;
constexpr size_t kRankMax = 16;

// The bytes that `shape` of `dtype` takes, or none on overflow.
std::optional<int64_t> ByteSize(DType dtype, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  int64_t bits = 0;
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(DTypeBits(dtype)), &bits)) {
    return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Result<std::vector<int64_t>> ReadShape(json::object object) {
  const auto element = JsonMember(object, "shape");
  json::array list;
  if (!element || element->get(list) != simdjson::SUCCESS) {
    return InvalidError("'shape' must be a list");
  }
  std::vector<int64_t> shape;
  for (const json::element item : list) {
    int64_t extent = 0;
    if (item.get(extent) != simdjson::SUCCESS || extent < 0) {
      return InvalidError("'shape' must hold non-negative integers");
    }
    if (shape.size() == kRankMax) return InvalidError("has more than 16 dimensions");
    shape.push_back(extent);
  }
  return shape;
}

Result<TensorInfo> ReadTensor(std::string_view name, json::element element, int64_t data_begin,
                              int64_t file_size) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS) return InvalidError("must be an object");
  for (const auto [key, value] : object) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return InvalidError("has the unknown key '" + std::string(key) + "'");
    }
  }
  TensorInfo tensor;
  tensor.name = name;
  std::string_view dtype;
  const auto dtype_element = JsonMember(object, "dtype");
  if (!dtype_element || dtype_element->get(dtype) != simdjson::SUCCESS) {
    return InvalidError("'dtype' must be a string");
  }
  const auto known = ParseDType(dtype);
  if (!known) {
    return InvalidError("has dtype '" + std::string(dtype) +
                        "', which kcc does not read; it reads " + JoinWords(DTypeNames()));
  }
  tensor.dtype = *known;
  KCC_TRY(tensor.shape, ReadShape(object));

  const auto offsets = JsonMember(object, "data_offsets");
  json::array pair;
  int64_t begin = 0;
  int64_t end = 0;
  if (!offsets || offsets->get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get(begin) != simdjson::SUCCESS || pair.at(1).get(end) != simdjson::SUCCESS ||
      begin < 0 || end < begin) {
    return InvalidError("'data_offsets' must be two rising integers");
  }
  if (end > file_size - data_begin) {
    return InvalidError("ends at byte " + std::to_string(end) + " of the data, but the file has " +
                        std::to_string(file_size - data_begin) + ": it is truncated");
  }
  const auto bytes = ByteSize(tensor.dtype, tensor.shape);
  if (!bytes) return InvalidError("its shape " + tensor.ShapeText() + " overflows");
  if (*bytes != end - begin) {
    return InvalidError("its shape " + tensor.ShapeText() + " of " + std::string(dtype) +
                        " takes " + std::to_string(*bytes) + " bytes, but its offsets span " +
                        std::to_string(end - begin));
  }
  tensor.begin = data_begin + begin;
  tensor.end = data_begin + end;
  const auto element_bytes = static_cast<int64_t>(std::max<size_t>(DTypeBits(tensor.dtype) / 8, 1));
  if (tensor.begin % element_bytes != 0) {
    return InvalidError("starts at byte " + std::to_string(tensor.begin) +
                        " of the file, which is not a multiple of its element size; save it again "
                        "with a current safetensors library");
  }
  return tensor;
}

Result<> ReadMetadata(json::element element, std::map<std::string, std::string>* metadata) {
  json::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    return InvalidError("'__metadata__' must be an object");
  }
  for (const auto [key, value] : object) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) {
      return InvalidError("'__metadata__' may hold strings only");
    }
    if (!metadata->emplace(std::string(key), std::string(text)).second) {
      return InvalidError("'__metadata__' has the key '" + std::string(key) + "' twice");
    }
  }
  return {};
}

// Tensors must tile the data: no hole that could hide bytes, no overlap.
Result<> CheckTiling(const SafetensorsHeader& header, int64_t file_size) {
  int64_t expected = header.data_begin;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != expected) {
      return InvalidError(
          "tensor '" + tensor.name + "' starts at byte " + std::to_string(tensor.begin) +
          ", expected " + std::to_string(expected) +
          (tensor.begin < expected ? ": it overlaps another" : ": there is a hole"));
    }
    expected = tensor.end;
  }
  if (expected != file_size) {
    return InvalidError(std::to_string(file_size - expected) +
                        " bytes behind the last tensor belong to none");
  }
  return {};
}

Result<SafetensorsHeader> ReadHeader(std::string_view text, int64_t file_size) {
  SafetensorsHeader header;
  header.data_begin = static_cast<int64_t>(kPrefixBytes + text.size());
  if (header.data_begin > file_size) return InvalidError("the header is longer than the file");
  if (text.empty() || text.front() != '{') {
    return InvalidError("not a safetensors file: the header does not start with '{'");
  }
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return InvalidError("the header must be an object");
  std::set<std::string_view> names;
  for (const auto [name, element] : object) {
    if (!names.insert(name).second) {
      return InvalidError("tensor '" + std::string(name) + "' stands twice in the header");
    }
    if (name == "__metadata__") {
      KCC_TRY_VOID(ReadMetadata(element, &header.metadata));
      continue;
    }
    auto tensor = ReadTensor(name, element, header.data_begin, file_size);
    if (!tensor.has_value()) {
      return InvalidError("tensor '" + std::string(name) + "': " + tensor.error().message());
    }
    header.tensors.push_back(std::move(*tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  KCC_TRY_VOID(CheckTiling(header, file_size));
  return header;
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

std::string TensorInfo::ShapeText() const {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

const TensorInfo* SafetensorsHeader::Find(std::string_view name) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Result<int64_t> SafetensorsHeaderSize(std::string_view first_bytes, int64_t file_size,
                                      const std::string& file) {
  if (first_bytes.size() < kPrefixBytes) {
    return InvalidError("not a safetensors file: shorter than 8 bytes", Place{file});
  }
  uint64_t size = 0;
  std::memcpy(&size, first_bytes.data(), sizeof(size));
  if (size > static_cast<uint64_t>(kSafetensorsHeaderBytesMax)) {
    return InvalidError("not a safetensors file: its header claims " + std::to_string(size) +
                            " bytes, the format allows " +
                            std::to_string(kSafetensorsHeaderBytesMax),
                        Place{file});
  }
  if (static_cast<int64_t>(size) > file_size - static_cast<int64_t>(kPrefixBytes)) {
    return InvalidError("truncated: the header needs " + std::to_string(size) +
                            " bytes, the file has " + std::to_string(file_size),
                        Place{file});
  }
  return static_cast<int64_t>(size);
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, int64_t file_size,
                                                 const std::string& file) {
  auto header = ReadHeader(text, file_size);
  if (!header.has_value()) return std::move(header.error()).At(Place{file});
  return header;
}

std::string SafetensorsPrefix(std::span<TensorInfo> tensors,
                              const std::map<std::string, std::string>& metadata,
                              size_t padded_size) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject();
  if (!metadata.empty()) {
    writer.Key("__metadata__").BeginObject();
    for (const auto& [key, value] : metadata) writer.Field(key, value);
    writer.EndObject();
  }
  int64_t offset = 0;
  for (TensorInfo& tensor : tensors) {
    const auto bytes = ByteSize(tensor.dtype, tensor.shape);
    KCC_CHECK(bytes.has_value());
    tensor.begin = offset;
    tensor.end = offset + *bytes;
    offset = tensor.end;
    writer.Key(tensor.name).BeginObject();
    writer.Field("dtype", DTypeName(tensor.dtype));
    writer.Key("shape").BeginArray();
    for (const int64_t extent : tensor.shape) writer.Value(extent);
    writer.EndArray();
    writer.Key("data_offsets").BeginArray().Value(tensor.begin).Value(tensor.end).EndArray();
    writer.EndObject();
  }
  writer.EndObject();
  std::string text = writer.Take();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t total = std::max((kPrefixBytes + text.size() + 7) / 8 * 8, padded_size);
  text.resize(total - kPrefixBytes, ' ');
  const auto size = static_cast<uint64_t>(text.size());
  std::string prefix(kPrefixBytes, '\0');
  std::memcpy(prefix.data(), &size, sizeof(size));
  for (TensorInfo& tensor : tensors) {
    tensor.begin += static_cast<int64_t>(total);
    tensor.end += static_cast<int64_t>(total);
  }
  return prefix + text;
}

}  // namespace kcc
