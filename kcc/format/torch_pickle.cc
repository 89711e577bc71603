// ParseTorchPickle: the pickle opcodes that torch.save writes for containers and tensors.

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "kcc/format/torch_consolidated.h"
#include "kcc/format/torch_file.h"

namespace kcc {
namespace {

using Kind = TorchValue::Kind;
constexpr std::string_view kConsolidated =
    "tensordict._reductions _rebuild_tensordict_files_consolidated";
constexpr int kConsolidatedMax = 16;
constexpr size_t kMarkDepthMax = 1000;
constexpr size_t kTorchRankMax = 16;
constexpr size_t kKeyBytesMax = 256;

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<StorageType, 8> kStorages = {{{"torch FloatStorage", DType::kF32},
                                                   {"torch HalfStorage", DType::kF16},
                                                   {"torch BFloat16Storage", DType::kBF16},
                                                   {"torch DoubleStorage", DType::kF64},
                                                   {"torch LongStorage", DType::kI64},
                                                   {"torch IntStorage", DType::kI32},
                                                   {"torch ByteStorage", DType::kU8},
                                                   {"torch BoolStorage", DType::kBool}}};

Error BrokenPickle(const std::string& what) {
  return InvalidError("the pickle of this torch file cannot be read: " + what);
}

// A pickle is a program for a stack machine, and loading one in Python runs what it names. This
// machine runs the few opcodes that torch.save writes for data. It has a few functions, such as
// OrderedDict() and _rebuild_tensor_v2, which it knows by name and imitates; every other opcode or
// name is an error, or, if the caller asks, a kObject that names the call and its arguments. So a
// hostile file can be refused, or describe tensors, and nothing else.
//
// Values live in pickle_.values and are named by index; the stack, the marks and the memo hold
// indices. Nothing is copied when a value is used twice, so a file cannot grow in memory beyond a
// constant times its size. Example, {"a": 1}:
//
//     }          push dict 0                  stack 0
//     X "a"      push text 1                  stack 0 1
//     K 1        push integer 2               stack 0 1 2
//     s          append the two to the dict   stack 0
//     .          the root is 0
class Machine {
 public:
  Machine(std::string_view bytes, PickleCalls calls) : bytes_(bytes), calls_(calls) {}

  Result<TorchPickle> Run() {
    while (true) {
      if (at_ >= bytes_.size()) return BrokenPickle("it is truncated");
      const auto opcode = static_cast<uint8_t>(bytes_[at_++]);
      if (opcode == '.') break;
      KCC_TRY_VOID(Step(opcode));
    }
    if (stack_.size() != 1) return BrokenPickle("it leaves no single value");
    pickle_.root = stack_.back();
    return std::move(pickle_);
  }

 private:
  // An opcode that pushes one value or none, or one that works on those that are there.
  Result<> Step(uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        return Skip(1);
      case 0x95:  // FRAME
        return Skip(8);
      case 'N':
        return Push({});
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return PushInteger(Kind::kBool, opcode == 0x88);
      case 'K':
        return ReadInteger<uint8_t>();
      case 'M':
        return ReadInteger<uint16_t>();
      case 'J':
        return ReadInteger<int32_t>();
      case 0x8a:  // LONG1
        return ReadLong();
      case 'G':
        return ReadFloat();
      case 'X':  // BINUNICODE
        return ReadText(4);
      case 0x8c:  // SHORT_BINUNICODE
        return ReadText(1);
      case 0x8d:  // BINUNICODE8
        return ReadText(8);
      case 'C':  // SHORT_BINBYTES
        return ReadBytes(1);
      case 'B':  // BINBYTES
        return ReadBytes(4);
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return ReadBytes(8);
      case 0x8f:  // EMPTY_SET: a list without an order
        return PushKind(Kind::kList);
      case '}':
        return PushKind(Kind::kDict);
      case ']':
        return PushKind(Kind::kList);
      case ')':
        return PushKind(Kind::kTuple);
      default:
        return StepOnStack(opcode);
    }
  }

  Result<> StepOnStack(uint8_t opcode) {
    switch (opcode) {
      case '(':
        if (marks_.size() >= kMarkDepthMax) return BrokenPickle("it is nested too deeply");
        marks_.push_back(stack_.size());
        return {};
      case 'q':
        return Memoize(1);
      case 'r':
        return Memoize(4);
      case 0x94:  // MEMOIZE
        return MemoizeNext();
      case 'h':
        return Recall(1);
      case 'j':
        return Recall(4);
      case 'c':
        return ReadGlobal();
      case 0x93:  // STACK_GLOBAL
        return StackGlobal();
      case 't':
        return MarkedTuple();
      case 0x85:  // TUPLE1 …
      case 0x86:
      case 0x87:
        return SmallTuple(static_cast<size_t>(opcode - 0x84));
      case 'a':
        return Append(1, Kind::kList);
      case 'e':
      case 0x90:  // ADDITEMS
        return AppendMarked(Kind::kList);
      case 's':
        return Append(2, Kind::kDict);
      case 'u':
        return AppendMarked(Kind::kDict);
      case 'Q':
        return PersistentId();
      case 'R':
        return Reduce();
      case 0x81:  // NEWOBJ
        return NewObject(2);
      case 0x92:  // NEWOBJ_EX
        return NewObject(3);
      case 'b':
        return Build();
      default:
        return BrokenPickle(
            "it holds more than dictionaries, lists, numbers, texts and tensors (opcode " +
            std::to_string(opcode) + ")");
    }
  }

  bool Has(size_t count) const { return bytes_.size() - at_ >= count; }
  Result<> Skip(size_t count) {
    if (!Has(count)) return BrokenPickle("it is truncated");
    at_ += count;
    return {};
  }
  template <class T>
  Result<T> Load() {
    if (!Has(sizeof(T))) return BrokenPickle("it is truncated");
    T value{};
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  Result<size_t> LoadSize(size_t width) {
    if (width == 1) {
      KCC_TRY(const uint8_t size, Load<uint8_t>());
      return size_t{size};
    }
    if (width == 4) {
      KCC_TRY(const uint32_t size, Load<uint32_t>());
      return size_t{size};
    }
    KCC_TRY(const uint64_t size, Load<uint64_t>());
    return size_t{size};
  }

  Result<> Push(TorchValue value) {
    stack_.push_back(static_cast<int32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
    return {};
  }
  Result<> PushKind(Kind kind) {
    TorchValue value;
    value.kind = kind;
    return Push(std::move(value));
  }
  Result<> PushInteger(Kind kind, int64_t integer) {
    TorchValue value;
    value.kind = kind;
    value.integer = integer;
    return Push(std::move(value));
  }
  template <class T>
  Result<> ReadInteger() {
    KCC_TRY(const T value, Load<T>());
    return PushInteger(Kind::kInt, value);
  }
  Result<> ReadLong() {
    KCC_TRY(const uint8_t size, Load<uint8_t>());
    if (size > 8 || !Has(size)) return BrokenPickle("an integer is too long");
    uint64_t bits = 0;
    for (size_t i = 0; i < size; ++i) {
      bits |= uint64_t{static_cast<uint8_t>(bytes_[at_ + i])} << (8 * i);
    }
    // Two's complement of `size` bytes.
    if (size > 0 && size < 8 && (bits >> (8 * size - 1) & 1) != 0)
      bits |= ~uint64_t{0} << (8 * size);
    at_ += size;
    return PushInteger(Kind::kInt, static_cast<int64_t>(bits));
  }
  Result<> ReadFloat() {
    KCC_TRY(const uint64_t swapped, Load<uint64_t>());
    const uint64_t bits = __builtin_bswap64(swapped);
    TorchValue value;
    value.kind = Kind::kFloat;
    std::memcpy(&value.number, &bits, sizeof(bits));
    return Push(std::move(value));
  }
  Result<> ReadText(size_t width) {
    KCC_TRY(const size_t size, LoadSize(width));
    if (!Has(size)) return BrokenPickle("it is truncated");
    TorchValue value;
    value.kind = Kind::kText;
    value.text = bytes_.substr(at_, size);
    at_ += size;
    return Push(std::move(value));
  }
  // Bytes stay where they are: a file of torch.save can lie in them.
  Result<> ReadBytes(size_t width) {
    KCC_TRY(const size_t size, LoadSize(width));
    if (!Has(size)) return BrokenPickle("it is truncated");
    TorchValue value;
    value.kind = Kind::kBytes;
    value.integer = static_cast<int64_t>(at_);
    value.size = static_cast<int64_t>(size);
    at_ += size;
    return Push(std::move(value));
  }
  Result<> StackGlobal() {
    KCC_TRY(const std::vector<int32_t> names, Pop(2));
    if (At(names[0]).kind != Kind::kText || At(names[1]).kind != Kind::kText ||
        At(names[0]).text.size() + At(names[1]).text.size() > kKeyBytesMax) {  // it is copied
      return BrokenPickle("it is damaged");
    }
    TorchValue value;
    value.kind = Kind::kGlobal;
    value.text = At(names[0]).text + " " + At(names[1]).text;
    return Push(std::move(value));
  }
  Result<> ReadGlobal() {
    const size_t module_end = bytes_.find('\n', at_);
    if (module_end == std::string_view::npos) return BrokenPickle("it is truncated");
    const size_t name_end = bytes_.find('\n', module_end + 1);
    if (name_end == std::string_view::npos) return BrokenPickle("it is truncated");
    TorchValue value;
    value.kind = Kind::kGlobal;
    value.text = std::string(bytes_.substr(at_, module_end - at_)) + " " +
                 std::string(bytes_.substr(module_end + 1, name_end - module_end - 1));
    at_ = name_end + 1;
    return Push(std::move(value));
  }

  Result<> Memoize(size_t width) {
    KCC_TRY(const size_t key, LoadSize(width));
    if (stack_.empty()) return BrokenPickle("it is damaged");
    memo_[key] = stack_.back();
    return {};
  }
  Result<> MemoizeNext() {
    if (stack_.empty()) return BrokenPickle("it is damaged");
    const size_t key = memo_.size();
    memo_[key] = stack_.back();
    return {};
  }
  Result<> Recall(size_t width) {
    KCC_TRY(const size_t key, LoadSize(width));
    const auto it = memo_.find(key);
    if (it == memo_.end()) return BrokenPickle("it is damaged");
    stack_.push_back(it->second);
    return {};
  }

  TorchValue& At(int32_t index) { return pickle_.values[static_cast<size_t>(index)]; }

  Result<std::vector<int32_t>> PopMarked() {
    if (marks_.empty() || marks_.back() > stack_.size()) return BrokenPickle("it is damaged");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<int32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  Result<std::vector<int32_t>> Pop(size_t count) {
    // What lies under a mark belongs to an outer container: taking it would be a damaged file.
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < floor + count) return BrokenPickle("it is damaged");
    std::vector<int32_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  Result<> PushTuple(std::vector<int32_t> items) {
    TorchValue value;
    value.kind = Kind::kTuple;
    value.items = std::move(items);
    return Push(std::move(value));
  }
  Result<> MarkedTuple() {
    KCC_TRY(std::vector<int32_t> items, PopMarked());
    return PushTuple(std::move(items));
  }
  Result<> SmallTuple(size_t count) {
    KCC_TRY(std::vector<int32_t> items, Pop(count));
    return PushTuple(std::move(items));
  }
  Result<> AppendTo(Kind kind, const std::vector<int32_t>& items) {
    // What a described object collects is not looked at.
    if (!stack_.empty() && At(stack_.back()).kind == Kind::kObject) return {};
    if (stack_.empty() || At(stack_.back()).kind != kind ||
        (kind == Kind::kDict && items.size() % 2 != 0)) {
      return BrokenPickle("it is damaged");
    }
    TorchValue& container = At(stack_.back());
    container.items.insert(container.items.end(), items.begin(), items.end());
    return {};
  }
  Result<> Append(size_t count, Kind kind) {
    KCC_TRY(const std::vector<int32_t> items, Pop(count));
    return AppendTo(kind, items);
  }
  Result<> AppendMarked(Kind kind) {
    KCC_TRY(const std::vector<int32_t> items, PopMarked());
    return AppendTo(kind, items);
  }

  // ('storage', type, key, device, elements)
  Result<> PersistentId() {
    KCC_TRY(const std::vector<int32_t> top, Pop(1));
    const TorchValue& id = At(top[0]);
    if (id.kind != Kind::kTuple || id.items.size() != 5 || At(id.items[1]).kind != Kind::kGlobal ||
        At(id.items[2]).kind != Kind::kText || At(id.items[4]).kind != Kind::kInt) {
      return BrokenPickle("it refers to something that is not a storage");
    }
    if (At(id.items[2]).text.size() > kKeyBytesMax) {  // it is copied each time it is named
      return BrokenPickle("a storage's key has " + std::to_string(At(id.items[2]).text.size()) +
                          " characters");
    }
    TorchValue storage;
    storage.kind = Kind::kStorage;
    storage.text = At(id.items[2]).text;
    storage.integer = At(id.items[4]).integer;
    const std::string& type = At(id.items[1]).text;
    for (const StorageType& known : kStorages) {
      if (known.name != type) continue;
      storage.dtype = known.dtype;
      return Push(std::move(storage));
    }
    return BrokenPickle("a tensor has the storage type '" + type + "', which is not read");
  }

  Result<std::vector<int64_t>> Integers(int32_t index) {
    const TorchValue& tuple = At(index);
    if (tuple.kind != Kind::kTuple || tuple.items.size() > kTorchRankMax) {
      return BrokenPickle("a tensor's shape is none");
    }
    std::vector<int64_t> integers;
    for (const int32_t item : tuple.items) {
      if (At(item).kind != Kind::kInt || At(item).integer < 0) {
        return BrokenPickle("a tensor's shape is none");
      }
      integers.push_back(At(item).integer);
    }
    return integers;
  }

  Result<> Reduce() {
    KCC_TRY(const std::vector<int32_t> call, Pop(2));
    const TorchValue& callable = At(call[0]);
    const TorchValue& arguments = At(call[1]);
    if (callable.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) {
      return BrokenPickle("it is damaged");
    }
    if (callable.text == "collections OrderedDict" && arguments.items.empty()) {
      return PushKind(Kind::kDict);
    }
    if (callable.text == kConsolidated && arguments.items.size() == 2) {
      // Each call adds a tensor for every name in the metadata, which may be one and the same.
      if (++consolidated_ > kConsolidatedMax) return BrokenPickle("it holds too many TensorDicts");
      KCC_TRY(TorchValue dict,
              ConsolidatedTensors(arguments.items[0], arguments.items[1], &pickle_));
      return Push(std::move(dict));
    }
    if (callable.text != "torch._utils _rebuild_tensor_v2" || arguments.items.size() < 4) {
      return Describe(call[0], call[1]);
    }
    const TorchValue& storage = At(arguments.items[0]);
    if (storage.kind != Kind::kStorage || At(arguments.items[1]).kind != Kind::kInt) {
      return BrokenPickle("a tensor has no storage");
    }
    TorchValue tensor;
    tensor.kind = Kind::kTensor;
    tensor.dtype = storage.dtype;
    tensor.integer = At(arguments.items[1]).integer;
    tensor.items = {arguments.items[0]};
    KCC_TRY(tensor.shape, Integers(arguments.items[2]));
    KCC_TRY(tensor.strides, Integers(arguments.items[3]));
    if (tensor.shape.size() != tensor.strides.size())
      return BrokenPickle("a tensor's strides are wrong");
    return Push(std::move(tensor));
  }

  // An object instead of the call, where the caller asked for that.
  Result<> Describe(int32_t callable, int32_t arguments) {
    if (calls_ == PickleCalls::kRefuse) {
      return BrokenPickle("it wants to call '" + At(callable).text + "', which kcc does not do");
    }
    TorchValue object;
    object.kind = Kind::kObject;
    object.text = At(callable).text.substr(0, kKeyBytesMax);
    object.items = {arguments};
    return Push(std::move(object));
  }
  // A class and its arguments, with a dictionary of named ones as the third.
  Result<> NewObject(size_t count) {
    KCC_TRY(const std::vector<int32_t> call, Pop(count));
    if (At(call[0]).kind != Kind::kGlobal) return BrokenPickle("it is damaged");
    return Describe(call[0], call[1]);
  }
  // BUILD: the state of an object. That of an OrderedDict or a tensor holds nothing of ours.
  Result<> Build() {
    if (stack_.size() < 2) return BrokenPickle("it is damaged");
    const int32_t state = stack_.back();
    stack_.pop_back();
    TorchValue& object = At(stack_.back());
    if (object.kind == Kind::kObject && object.items.size() == 1) object.items.push_back(state);
    return {};
  }

  std::string_view bytes_;
  PickleCalls calls_;
  size_t at_ = 0;
  int consolidated_ = 0;
  TorchPickle pickle_;
  std::vector<int32_t> stack_;
  std::vector<size_t> marks_;
  std::map<size_t, int32_t> memo_;
};

}  // namespace

Result<TorchPickle> ParseTorchPickle(std::string_view bytes, PickleCalls calls) {
  return Machine(bytes, calls).Run();
}

}  // namespace kcc
