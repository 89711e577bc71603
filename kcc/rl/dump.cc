#include "kcc/rl/dump.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kcc/base/dtype.h"
#include "kcc/base/strings.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/npy.h"
#include "kcc/format/safetensors.h"
#include "kcc/rl/dump_formats.h"

namespace kcc {
namespace {

// So many slices may go without names and without rows.
constexpr size_t kSlicesUnnamed = 1024;

Result<> ReadNumpy(const std::string& path, DumpBuilder* to) {
  KCC_TRY(const NpyArrays arrays, NpyArrays::Open({path}));
  for (const NpyArray& array : arrays.arrays) {
    if (to->MeaningOf(array.name).empty()) continue;
    KCC_TRY(std::vector<double> values, array.ReadAll());
    KCC_TRY_VOID(to->Add(array.name, array.header.shape, std::move(values)));
  }
  return {};
}

Result<> ReadSafetensors(const std::string& path, DumpBuilder* to) {
  KCC_TRY(const MappedFile file, MappedFile::Open(path));
  KCC_TRY(const std::string first,
          file.Read(0, static_cast<size_t>(std::min<int64_t>(8, file.size()))));
  KCC_TRY(const int64_t size, SafetensorsHeaderSize(first, file.size(), path));
  KCC_TRY(const std::string text, file.Read(8, static_cast<size_t>(size)));
  KCC_TRY(const SafetensorsHeader header, ParseSafetensorsHeader(text, file.size(), path));
  for (const TensorInfo& tensor : header.tensors) {
    if (to->MeaningOf(tensor.name).empty()) continue;
    std::vector<double> values;
    const auto bytes = static_cast<int64_t>(DTypeBits(tensor.dtype) / 8);
    if (bytes == 0) return InvalidError("\"" + tensor.name + "\" has packed numbers", Place{path});
    const int64_t step = static_cast<int64_t>(kWindowBytesMax) / bytes;
    for (int64_t at = 0; at < tensor.elements(); at += step) {
      const int64_t some = std::min(step, tensor.elements() - at);
      KCC_TRY(const FileWindow window,
              file.Map(tensor.begin + at * bytes, static_cast<size_t>(some * bytes)));
      for (int64_t i = 0; i < some; ++i) {
        KCC_TRY(const double value,
                DumpElement(tensor.dtype, window.data(), static_cast<size_t>(i)));
        values.push_back(value);
      }
    }
    KCC_TRY_VOID(to->Add(tensor.name, tensor.shape, std::move(values)));
  }
  const auto names = header.metadata.find("slice_names");
  if (names == header.metadata.end()) return {};
  std::string_view rest = names->second;
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    to->dump().slice_names.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return {};
}

// Row numbers' slices from an array of ids.
Result<> FillSlices(RlDump* dump) {
  const RlDump::Array* slice = dump->Find("slice");
  if (slice == nullptr) return {};
  int32_t largest = -1;
  const size_t slices_max =
      std::max({slice->values.size(), dump->slice_names.size(), kSlicesUnnamed});
  for (const double id : slice->values) {
    if (!(id >= 0) || id > 1e6 || id != std::floor(id)) {
      return InvalidError("slice ids must be integers from 0 on");
    }
    if (id >= static_cast<double>(slices_max)) {
      return InvalidError("slice " + ShortestNumber(id) + " of " +
                          std::to_string(slice->values.size()) + " rows: number the slices from 0");
    }
    dump->slice_of_row.push_back(static_cast<int32_t>(id));
    largest = std::max(largest, dump->slice_of_row.back());
  }
  while (dump->slice_names.size() <= static_cast<size_t>(std::max(0, largest))) {
    dump->slice_names.push_back("slice " + std::to_string(dump->slice_names.size()));
  }
  return {};
}

Result<std::vector<int64_t>> Offsets(const RlDump::Array& array) {
  std::vector<int64_t> offsets;
  for (const double at : array.values) {
    if (!(at >= 0) || at > 0x1p53 || at != std::floor(at)) {
      return InvalidError("offsets (cu_seqlens) must be integers from 0 on; entry " +
                          std::to_string(offsets.size()) + " is " + ShortestNumber(at));
    }
    offsets.push_back(static_cast<int64_t>(at));
  }
  if (offsets.empty()) return InvalidError("offsets (cu_seqlens) must start at 0; they are empty");
  return offsets;
}

Error WrongShape(const RlDump::Array& array, std::string_view wanted) {
  std::string shape;
  for (const int64_t n : array.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(n);
  return InvalidError("\"" + array.name + "\" has the shape [" + shape + "], not " +
                      std::string(wanted) + "; both sides and the mask are of the same tokens");
}

}  // namespace

Result<double> DumpElement(DType dtype, const std::byte* data, size_t i) {
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2 || dtype == DType::kI4) {
    return InvalidError("dtype " + std::string(DTypeName(dtype)) + " is not read here");
  }
  return LoadElement(data, dtype, i);
}

const RlDump::Array* RlDump::Find(std::string_view name) const {
  for (const Array& array : arrays) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

Result<RlBatch> RlDump::Batch() const {
  const Array* train = Find("train");
  const Array* rollout = Find("rollout");
  if (train == nullptr || rollout == nullptr) {
    const std::string side = train == nullptr ? "train" : "rollout";
    std::vector<std::string_view> names(found.begin(), found.end());
    constexpr size_t kShown = 40;
    if (names.size() > kShown) names.resize(kShown);
    return InvalidError(side + " log-probs are missing: " +
                        (names.empty() ? "no array was found" : "found " + JoinWords(names)) +
                        "; say which it is with --map NAME=" + side +
                        ", or name it one of the names in docs/rl.md");
  }
  RlBatch batch;
  const bool is_packed = !offsets.empty();
  if (is_packed) {
    batch.offsets = offsets;
    batch.rows = static_cast<int64_t>(offsets.size()) - 1;
  } else {
    if (train->shape.size() != 2) return WrongShape(*train, "[rows, columns]");
    batch.rows = train->shape[0];
    batch.columns = train->shape[1];
    if (batch.rows > 0 && batch.columns == 0) {  // so many rows need no byte
      return InvalidError("\"train\" has the shape [" + std::to_string(batch.rows) +
                          ", 0]: it holds no token");
    }
  }
  const auto view = [&](std::string_view name, RlArray* to) -> Result<> {
    const Array* array = Find(name);
    if (array == nullptr) return {};
    if (array->shape != train->shape) return WrongShape(*array, "that of the train log-probs");
    *to = {array->values.data(), RlType::kF64, batch.columns};
    return {};
  };
  KCC_TRY_VOID(view("train", &batch.train));
  KCC_TRY_VOID(view("rollout", &batch.rollout));
  KCC_TRY_VOID(view("old", &batch.old));
  KCC_TRY_VOID(view("mask", &batch.mask));
  if (const Array* advantages = Find("advantages")) {
    batch.advantage_per_row = advantages->shape != train->shape;
    if (batch.advantage_per_row && static_cast<int64_t>(advantages->values.size()) != batch.rows) {
      return WrongShape(*advantages, "one per row or one per token");
    }
    batch.advantages = {advantages->values.data(), RlType::kF64,
                        batch.advantage_per_row ? 1 : batch.columns};
  }
  if (is_packed && offsets.back() != static_cast<int64_t>(train->values.size())) {
    return InvalidError("offsets end at " + std::to_string(offsets.back()) + ", but there are " +
                        std::to_string(train->values.size()) + " tokens");
  }
  batch.slice_of_row = slice_of_row;
  batch.slice_names = slice_names;
  KCC_TRY_VOID(CheckRlBatch(batch));
  return batch;
}

bool IsTracePair(const std::vector<std::string>& paths) {
  std::error_code unknown;  // then opening it says why
  return !paths.empty() && std::filesystem::exists(paths[0] + "/trace.json", unknown);
}

Result<RlDump> ReadRlDump(const std::vector<std::string>& paths, const RlDumpOptions& options) {
  if (paths.empty()) return InvalidError("name a dump: files, or two traces");
  if (IsTracePair(paths)) {
    if (paths.size() != 2) {
      return InvalidError("traces come in pairs: the train one, then the infer one");
    }
    if (!options.names.empty()) {
      return InvalidError("--map names arrays of a dump; traces have names of their own");
    }
    RlDump dump;
    KCC_TRY_VOID(ReadTraceDump(paths[0], paths[1], options, &dump));
    return dump;
  }
  DumpBuilder builder(options);
  std::vector<std::string> lines;  // files of JSON lines are one table
  std::error_code unknown;
  for (const std::string& path : paths) {
    Result<> read;
    if (std::filesystem::is_directory(path, unknown)) {
      read = ListTokenExports(path, &lines);
    } else if (path.ends_with(".npz") || path.ends_with(".npy")) {
      read = ReadNumpy(path, &builder);
    } else if (path.ends_with(".safetensors")) {
      read = ReadSafetensors(path, &builder);
    } else if (path.ends_with(".pt") || path.ends_with(".pth") || IsPickle(path)) {
      read = ReadTorchDump(path, &builder);
    } else if (path.ends_with(".jsonl")) {
      lines.push_back(path);
    } else {
      read = InvalidError(
          "a dump is .npz, .npy, .safetensors, .pt, .jsonl, a pickled DataProto of verl, a "
          "directory "
          "of prime-rl token exports, or two traces");
    }
    if (!read.has_value()) return std::move(read.error()).At(Place{path});
  }
  if (!lines.empty()) KCC_TRY_VOID(ReadJsonDump(lines, &builder));
  RlDump& dump = builder.dump();
  if (const RlDump::Array* offsets = dump.Find("offsets")) {
    KCC_TRY(dump.offsets, Offsets(*offsets));
  }
  if (!builder.sliced()) KCC_TRY_VOID(FillSlices(&dump));
  return builder.Finish();
}

}  // namespace kcc
