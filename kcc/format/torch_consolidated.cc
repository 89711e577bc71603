#include "kcc/format/torch_consolidated.h"

#include <array>
#include <optional>
#include <utility>

namespace kcc {
namespace {

using Kind = TorchValue::Kind;
constexpr size_t kLeafRankMax = 16;

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NamedType, 8> kLeafTypes = {{{"torch.float32", DType::kF32},
                                                  {"torch.float16", DType::kF16},
                                                  {"torch.bfloat16", DType::kBF16},
                                                  {"torch.float64", DType::kF64},
                                                  {"torch.int64", DType::kI64},
                                                  {"torch.int32", DType::kI32},
                                                  {"torch.uint8", DType::kU8},
                                                  {"torch.bool", DType::kBool}}};

std::optional<DType> TypeOf(std::string_view name) {
  for (const NamedType& known : kLeafTypes) {
    if (known.name == name) return known.dtype;
  }
  return std::nullopt;
}

Error Broken(const std::string& what) {
  return InvalidError("the pickle of this torch file cannot be read: a consolidated TensorDict " +
                      what);
}

const TorchValue& At(const TorchPickle& pickle, int32_t index) {
  return pickle.values[static_cast<size_t>(index)];
}

// The leaf's tensor; none where its type is not read.
Result<std::optional<TorchValue>> Leaf(const TorchPickle& pickle, const TorchValue& described,
                                       const TorchValue& bytes) {
  if (described.kind != Kind::kTuple || described.items.size() != 5) {
    return Broken("describes a tensor by something other than (dtype, shape, start, stop, pad)");
  }
  const TorchValue& type = At(pickle, described.items[0]);
  const TorchValue& shape = At(pickle, described.items[1]);
  const TorchValue& start = At(pickle, described.items[2]);
  const TorchValue& stop = At(pickle, described.items[3]);
  if (type.kind != Kind::kText || start.kind != Kind::kInt || stop.kind != Kind::kInt ||
      (shape.kind != Kind::kList && shape.kind != Kind::kTuple) ||
      shape.items.size() > kLeafRankMax) {
    return Broken("describes a tensor by something other than (dtype, shape, start, stop, pad)");
  }
  const std::optional<DType> dtype = TypeOf(type.text);
  if (!dtype) return std::optional<TorchValue>();
  TorchValue tensor;
  tensor.kind = Kind::kTensor;
  tensor.dtype = *dtype;
  for (const int32_t item : shape.items) {
    const TorchValue& extent = At(pickle, item);
    if (extent.kind != Kind::kInt || extent.integer < 0) return Broken("has a tensor of no shape");
    tensor.shape.push_back(extent.integer);
  }
  int64_t elements = 1;
  tensor.strides.resize(tensor.shape.size());
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    tensor.strides[i] = elements;
    if (__builtin_mul_overflow(elements, tensor.shape[i], &elements)) {
      return Broken("has a tensor whose size overflows");
    }
  }
  const auto element = static_cast<int64_t>(DTypeBits(*dtype) / 8);
  int64_t begin = 0;
  int64_t size = 0;
  int64_t end = 0;
  if (__builtin_add_overflow(bytes.integer, start.integer, &begin) || begin < 0 ||
      start.integer < 0 || begin % element != 0 ||
      __builtin_mul_overflow(elements, element, &size) ||
      __builtin_add_overflow(start.integer, size, &end) || end > stop.integer) {
    return Broken("has a tensor that does not lie where it should");
  }
  tensor.integer = begin / element;  // in elements of its own type, from the storage's beginning
  tensor.items = bytes.items;
  return std::optional(std::move(tensor));
}

}  // namespace

Result<TorchValue> ConsolidatedTensors(int32_t metadata, int32_t storage, TorchPickle* pickle) {
  const TorchValue bytes = At(*pickle, storage);  // a copy: the values move as they grow
  if (bytes.kind != Kind::kTensor || bytes.dtype != DType::kU8 || bytes.shape.size() != 1 ||
      At(*pickle, metadata).kind != Kind::kDict) {
    return Broken("has no tensor of bytes");
  }
  TorchValue dict;
  dict.kind = Kind::kDict;
  const std::vector<int32_t> parts = At(*pickle, metadata).items;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (At(*pickle, parts[i]).text != "leaves") continue;
    const std::vector<int32_t> leaves = At(*pickle, parts[i + 1]).items;
    if (At(*pickle, parts[i + 1]).kind != Kind::kDict) return Broken("has no leaves");
    for (size_t j = 0; j + 1 < leaves.size(); j += 2) {
      KCC_TRY(std::optional<TorchValue> tensor, Leaf(*pickle, At(*pickle, leaves[j + 1]), bytes));
      if (!tensor) continue;
      dict.items.push_back(leaves[j]);
      dict.items.push_back(static_cast<int32_t>(pickle->values.size()));
      pickle->values.push_back(std::move(*tensor));
    }
  }
  return dict;
}

}  // namespace kcc
