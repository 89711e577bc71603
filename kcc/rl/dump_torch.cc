// Dumps as torch.save writes them: a dictionary of tensors (what TRL's trainer passes on), a
// TensorDict, or verl's DataProto, which is a pickle around a TensorDict and a dictionary of NumPy
// arrays of objects, a value a row. Nothing in a pickle is called (kcc/format/torch_file.h).
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "kcc/base/strings.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/torch_file.h"
#include "kcc/rl/dump_formats.h"

namespace kcc {
namespace {

using Kind = TorchValue::Kind;
constexpr int kDepthMax = 5;

// Elements [first, first + count) from the tensor's first one on.
Result<> AppendElements(const TorchFile& file, const TorchValue& tensor, int64_t first,
                        int64_t count, std::vector<double>* values) {
  const auto bytes = static_cast<int64_t>(DTypeBits(tensor.dtype) / 8);
  const int64_t step = static_cast<int64_t>(kWindowBytesMax) / bytes;
  for (int64_t at = 0; at < count; at += step) {
    const int64_t some = std::min(step, count - at);
    KCC_TRY(const FileWindow window, file.Map(tensor, first + at, some));
    for (int64_t i = 0; i < some; ++i) {
      KCC_TRY(const double value, DumpElement(tensor.dtype, window.data(), static_cast<size_t>(i)));
      values->push_back(value);
    }
  }
  return {};
}

// Rows that are apart, as in batch[:, -1024:], whose elements are adjacent.
bool IsRows(const TorchValue& tensor) {
  return tensor.shape.size() == 2 && (tensor.strides[1] == 1 || tensor.shape[1] <= 1) &&
         tensor.strides[0] >= tensor.shape[1];
}

Result<> AddTensor(const TorchFile& file, const std::string& name, const TorchValue& tensor,
                   DumpBuilder* to) {
  const bool contiguous = TorchFile::IsContiguous(tensor);
  if (!contiguous && !IsRows(tensor)) {
    return InvalidError("the tensor \"" + name + "\" is a view; save its .contiguous()");
  }
  if (DTypeBits(tensor.dtype) < 8) {
    return InvalidError("the tensor \"" + name + "\" has packed numbers");
  }
  const int64_t count = TorchFile::Elements(tensor);
  if (count < 0) return InvalidError("the tensor \"" + name + "\" has a size that overflows");
  std::vector<double> values;
  if (contiguous) {
    KCC_TRY_VOID(AppendElements(file, tensor, 0, count, &values));
  } else if (count > 0) {  // so many rows need no byte
    for (int64_t row = 0; row < tensor.shape[0]; ++row) {
      int64_t first = 0;
      if (__builtin_mul_overflow(row, tensor.strides[0], &first)) {
        return InvalidError("the tensor \"" + name + "\" has a size that overflows");
      }
      KCC_TRY_VOID(AppendElements(file, tensor, first, tensor.shape[1], &values));
    }
  }
  return to->Add(name, tensor.shape, std::move(values));
}

// A text, number or truth value as the name of a slice; none for anything else.
std::optional<std::string> SliceText(const TorchValue& value) {
  switch (value.kind) {
    case Kind::kText:
      return value.text;
    case Kind::kInt:
      return std::to_string(value.integer);
    case Kind::kFloat:
      return ShortestNumber(value.number);
    case Kind::kBool:
      return value.integer != 0 ? "true" : "false";
    case Kind::kNone:
      return "none";
    default:
      return std::nullopt;
  }
}

// The values of a list, or of a NumPy array of objects: (version, shape, dtype, order, [values]).
const TorchValue* ListIn(const TorchPickle& pickle, const TorchValue& value) {
  const auto at = [&](int32_t index) -> const TorchValue& {
    return pickle.values[static_cast<size_t>(index)];
  };
  if (value.kind == Kind::kList) return &value;
  if (value.kind != Kind::kObject || value.items.size() != 2) return nullptr;
  const TorchValue& state = at(value.items[1]);
  if (state.kind != Kind::kTuple || state.items.size() != 5) return nullptr;
  const TorchValue& list = at(state.items[4]);
  return list.kind == Kind::kList ? &list : nullptr;
}

// Takes the rows' values of the field that slices them, from any dictionary of a pickle.
Result<> AddFields(const TorchPickle& pickle, DumpBuilder* to) {
  for (const TorchValue& dict : pickle.values) {
    if (dict.kind != Kind::kDict) continue;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const TorchValue& key = pickle.values[static_cast<size_t>(dict.items[i])];
      const TorchValue* list =
          ListIn(pickle, pickle.values[static_cast<size_t>(dict.items[i + 1])]);
      if (key.kind != Kind::kText || list == nullptr) continue;
      to->NoteField(key.text);
      if (key.text != to->options().slice_by || !to->dump().slice_of_row.empty()) continue;
      std::vector<std::string> slices;
      for (const int32_t item : list->items) {
        const auto text = SliceText(pickle.values[static_cast<size_t>(item)]);
        if (!text) {
          return InvalidError("row " + std::to_string(slices.size()) + " of '" + key.text +
                              "' is neither a text nor a number, so nothing is sliced by it");
        }
        slices.push_back(*text);
      }
      to->SliceRows(slices);
    }
  }
  return {};
}

// The tensors of one dictionary; what can hold dictionaries in turn is added to `inner`.
Result<> AddDict(const TorchFile& file, const TorchValue& dict, DumpBuilder* to,
                 std::vector<const TorchValue*>* inner) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const TorchValue& key = file.At(dict.items[i]);
    const TorchValue& value = file.At(dict.items[i + 1]);
    if (key.kind != Kind::kText) continue;
    if (value.kind == Kind::kDict || value.kind == Kind::kObject) {
      inner->push_back(&value);
    } else if (value.kind == Kind::kTensor && !to->MeaningOf(key.text).empty()) {
      KCC_TRY_VOID(AddTensor(file, key.text, value, to));
    }
  }
  return {};
}

// Level by level, and each container once: one may stand in many places, and in itself. An object
// holds its arguments and its state, a TensorDict a dictionary in either.
Result<> AddDicts(const TorchFile& file, const TorchValue& root, DumpBuilder* to) {
  std::unordered_set<const TorchValue*> seen;
  std::vector<const TorchValue*> level = {&root};
  for (int depth = 0; depth <= kDepthMax; ++depth) {
    std::vector<const TorchValue*> inner;
    for (const TorchValue* container : level) {
      if (!seen.insert(container).second) continue;
      if (container->kind == Kind::kDict) {
        KCC_TRY_VOID(AddDict(file, *container, to, &inner));
        continue;
      }
      for (const int32_t item : container->items) {  // of an object, or of its arguments
        const TorchValue& part = file.At(item);
        const bool holds = part.kind == Kind::kDict || part.kind == Kind::kObject ||
                           (part.kind == Kind::kTuple && container->kind == Kind::kObject);
        if (holds) inner.push_back(&part);
      }
    }
    level = std::move(inner);
  }
  return {};
}

}  // namespace

bool IsPickle(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.has_value() || file->size() < 2) return false;
  const auto first = file->Read(0, 2);
  return first.has_value() && (*first)[0] == '\x80' && (*first)[1] >= 2 && (*first)[1] <= 5;
}

Result<> ReadTorchDump(const std::string& path, DumpBuilder* to) {
  KCC_TRY(const TorchFile file, TorchFile::Open(path, PickleCalls::kDescribe));
  const Kind root = file.root().kind;
  if (root != Kind::kDict && root != Kind::kObject) {
    return InvalidError("a .pt dump must hold a dictionary of tensors");
  }
  // The TensorDict in a DataProto has lists of its own, which are no fields of rows.
  const auto* outer = file.outer();
  KCC_TRY_VOID(AddFields(outer != nullptr ? *outer : file.pickle(), to));
  return AddDicts(file, file.root(), to);
}

}  // namespace kcc
