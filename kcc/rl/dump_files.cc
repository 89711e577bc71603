// Dumps as torch.save and JSON lines write them.
#include <algorithm>
#include <map>
#include <optional>

#include "kcc/rl/dump_formats.h"
#include "kcc/trace/json.h"
#include "kcc/trace/line_reader.h"
#include "kcc/trace/mapped_file.h"
#include "kcc/trace/torch_file.h"

namespace kcc {
namespace {

constexpr size_t kLineBytesMax = size_t{256} << 20;
constexpr int kDepthMax = 4;

Result<> AddTensor(const TorchFile& file, const std::string& name, const TorchValue& tensor,
                   RlDump* dump) {
  if (!TorchFile::IsContiguous(tensor)) {
    return InvalidError("the tensor \"" + name + "\" is a view; save its .contiguous()");
  }
  const auto bytes = static_cast<int64_t>(DTypeBits(tensor.dtype) / 8);
  if (bytes == 0) return InvalidError("the tensor \"" + name + "\" has packed numbers");
  const int64_t count = TorchFile::Elements(tensor);
  if (count < 0) return InvalidError("the tensor \"" + name + "\" has a size that overflows");
  const int64_t step = static_cast<int64_t>(kWindowBytesMax) / bytes;
  std::vector<double> values;
  for (int64_t at = 0; at < count; at += step) {
    const int64_t some = std::min(step, count - at);
    KCC_TRY(const FileWindow window, file.Map(tensor, at, some));
    for (int64_t i = 0; i < some; ++i) {
      KCC_TRY(const double value, DumpElement(tensor.dtype, window.data(), static_cast<size_t>(i)));
      values.push_back(value);
    }
  }
  return AddDumpArray(name, tensor.shape, std::move(values), dump);
}

Result<> AddDict(const TorchFile& file, const TorchValue& dict, int depth, RlDump* dump) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const TorchValue& key = file.At(dict.items[i]);
    const TorchValue& value = file.At(dict.items[i + 1]);
    if (key.kind != TorchValue::Kind::kText) continue;
    if (value.kind == TorchValue::Kind::kDict && depth < kDepthMax) {
      KCC_TRY_VOID(AddDict(file, value, depth + 1, dump));
    } else if (value.kind == TorchValue::Kind::kTensor && !CanonicalArrayName(key.text).empty()) {
      KCC_TRY_VOID(AddTensor(file, key.text, value, dump));
    }
  }
  return {};
}

// The columns of a file of JSON lines as they grow.
struct JsonColumns {
  std::map<std::string, std::vector<double>, std::less<>> by_token;  // canonical names
  std::vector<double> row_advantage;
  std::vector<std::string> slice;
  int64_t rows = 0;
};

Result<std::vector<double>> Numbers(json::element value, std::string_view key) {
  const auto list = JsonList(value);
  if (!list) return InvalidError("\"" + std::string(key) + "\" must be a list of numbers");
  std::vector<double> numbers;
  for (const json::element each : *list) {
    bool flag = false;
    const std::optional<double> number =
        each.get(flag) == simdjson::SUCCESS ? std::optional(flag ? 1.0 : 0.0) : JsonNumber(each);
    if (!number) {
      return BrokenEvidenceError("entry " + std::to_string(numbers.size()) + " of \"" +
                                 std::string(key) + "\" is " + std::string(JsonTypeName(each)) +
                                 ", not a number");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

Result<> AddRow(json::object row, JsonColumns* columns, std::vector<int64_t>* offsets) {
  std::optional<size_t> tokens;
  for (const auto& [key, value] : row) {
    const std::string_view name = key == "advantage" ? "advantages" : CanonicalArrayName(key);
    if (name == "slice") {
      if (!value.is_string()) return InvalidError("\"slice\" must be a text");
      columns->slice.emplace_back(JsonText(value));
    } else if (const auto number = JsonNumber(value); name == "advantages" && number) {
      columns->row_advantage.push_back(*number);
    } else if (!name.empty() && !value.is_null()) {
      KCC_TRY(const std::vector<double> numbers, Numbers(value, key));
      if (tokens && numbers.size() != *tokens) {
        return InvalidError("\"" + std::string(key) + "\" has " + std::to_string(numbers.size()) +
                            " entries where the row has " + std::to_string(*tokens) + " tokens");
      }
      tokens = numbers.size();
      auto& column = columns->by_token[std::string(name)];
      if (column.size() != static_cast<size_t>(offsets->back())) {
        return InvalidError("\"" + std::string(key) +
                            "\" stands twice in the row, or was missing "
                            "in a row before");
      }
      column.insert(column.end(), numbers.begin(), numbers.end());
    }
  }
  ++columns->rows;
  offsets->push_back(offsets->back() + static_cast<int64_t>(tokens.value_or(0)));
  for (const auto& [name, column] : columns->by_token) {
    if (column.size() != static_cast<size_t>(offsets->back())) {
      return InvalidError("\"" + name + "\" is missing in this row, but not in rows before");
    }
  }
  const auto rows = static_cast<size_t>(columns->rows);
  for (const size_t given : {columns->row_advantage.size(), columns->slice.size()}) {
    if (given != 0 && given != rows) {
      return InvalidError("every row or none must have an advantage, and a slice");
    }
  }
  return {};
}

}  // namespace

Result<> ReadTorchDump(const std::string& path, RlDump* dump) {
  KCC_TRY(const TorchFile file, TorchFile::Open(path));
  if (file.root().kind != TorchValue::Kind::kDict) {
    return InvalidError("a .pt dump must hold a dictionary of tensors");
  }
  return AddDict(file, file.root(), 0, dump);
}

Result<> ReadJsonDump(const std::string& path, RlDump* dump) {
  KCC_TRY(LineReader reader, LineReader::Open(path, kLineBytesMax));
  json::parser parser;
  JsonColumns columns;
  dump->offsets = {0};
  std::string_view line;
  while (true) {
    KCC_TRY(const bool more, reader.Next(&line));
    if (!more) break;
    const auto element = ParseJson(parser, line);
    Result<> added;
    json::object row;
    if (!element.has_value()) {
      added = InvalidError(element.error().message());
    } else if (element->get(row) != simdjson::SUCCESS) {
      added = InvalidError("a row must be an object");
    } else {
      added = AddRow(row, &columns, &dump->offsets);
    }
    if (!added.has_value()) {
      return InvalidError("line " + std::to_string(reader.number()) + ": " +
                          added.error().message());
    }
  }
  const int64_t tokens = dump->offsets.back();
  for (auto& [name, column] : columns.by_token) {
    KCC_TRY_VOID(AddDumpArray(name, {tokens}, std::move(column), dump));
  }
  if (!columns.row_advantage.empty()) {
    KCC_TRY_VOID(AddDumpArray("advantages", {columns.rows}, columns.row_advantage, dump));
  }
  std::map<std::string, int32_t> numbers;
  for (const std::string& name : columns.slice) numbers.emplace(name, 0);
  for (auto& [name, number] : numbers) {
    number = static_cast<int32_t>(dump->slice_names.size());
    dump->slice_names.push_back(name);
  }
  for (const std::string& name : columns.slice) dump->slice_of_row.push_back(numbers[name]);
  return {};
}

}  // namespace kcc
