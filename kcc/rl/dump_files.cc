// Dumps as torch.save and JSON lines write them, prime-rl's token exports among the latter.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "kcc/base/directory.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"
#include "kcc/format/mapped_file.h"
#include "kcc/format/torch_file.h"
#include "kcc/rl/dump_formats.h"

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

// The tensors of one dictionary; the dictionaries in it are added to `inner`.
Result<> AddDict(const TorchFile& file, const TorchValue& dict, RlDump* dump,
                 std::vector<const TorchValue*>* inner) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const TorchValue& key = file.At(dict.items[i]);
    const TorchValue& value = file.At(dict.items[i + 1]);
    if (key.kind != TorchValue::Kind::kText) continue;
    if (value.kind == TorchValue::Kind::kDict) {
      inner->push_back(&value);
    } else if (value.kind == TorchValue::Kind::kTensor && !CanonicalArrayName(key.text).empty()) {
      KCC_TRY_VOID(AddTensor(file, key.text, value, dump));
    }
  }
  return {};
}

// Level by level, and each dictionary once: one may stand in many places, and in itself.
Result<> AddDicts(const TorchFile& file, const TorchValue& root, RlDump* dump) {
  std::unordered_set<const TorchValue*> seen;
  std::vector<const TorchValue*> level = {&root};
  for (int depth = 0; depth <= kDepthMax; ++depth) {
    std::vector<const TorchValue*> inner;
    for (const TorchValue* dict : level) {
      if (!seen.insert(dict).second) continue;
      KCC_TRY_VOID(AddDict(file, *dict, dump, &inner));
    }
    level = std::move(inner);
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

Result<std::vector<double>> Numbers(json::element value, std::string_view key, bool nulls) {
  const auto list = JsonList(value);
  if (!list) return InvalidError("\"" + std::string(key) + "\" must be a list of numbers");
  std::vector<double> numbers;
  for (const json::element each : *list) {
    bool flag = false;
    std::optional<double> number =
        each.get(flag) == simdjson::SUCCESS ? std::optional(flag ? 1.0 : 0.0) : JsonNumber(each);
    if (nulls && each.is_null()) number = std::numeric_limits<double>::quiet_NaN();
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
  const bool exported = JsonMember(row, "schema_version") && JsonMember(row, "trainer_logprobs");
  for (const auto& [key, value] : row) {
    std::string_view name = key == "advantage" ? "advantages" : CanonicalArrayName(key);
    if (exported && key == "env_name") name = "slice";
    if (name == "slice") {
      if (!value.is_string() && !exported) return InvalidError("\"slice\" must be a text");
      columns->slice.emplace_back(value.is_string() ? JsonText(value) : "none");
    } else if (const auto number = JsonNumber(value); name == "advantages" && number) {
      columns->row_advantage.push_back(*number);
    } else if (!name.empty() && !value.is_null()) {
      KCC_TRY(const std::vector<double> numbers, Numbers(value, key, exported));
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

Result<> AddLines(const std::string& path, json::parser& parser, JsonColumns* columns,
                  std::vector<int64_t>* offsets) {
  KCC_TRY(LineReader reader, LineReader::Open(path, kLineBytesMax, LineSource::kRegular));
  std::string_view line;
  while (true) {
    KCC_TRY(const bool more, reader.Next(&line));
    if (!more) return {};
    const auto element = ParseJson(parser, line);
    Result<> added;
    json::object row;
    if (!element.has_value()) {
      added = InvalidError(element.error().message());
    } else if (element->get(row) != simdjson::SUCCESS) {
      added = InvalidError("a row must be an object");
    } else {
      added = AddRow(row, columns, offsets);
    }
    if (!added.has_value()) return std::move(added.error()).At({path, reader.number(), 0});
  }
}

// Adds the rank files in a directory to `files`, and the steps in it, where they are asked for, to
// `steps`; one of the two there must be.
Result<> ListStep(const std::string& directory, std::vector<std::string>* steps,
                  std::vector<std::string>* files) {
  std::error_code unknown;
  std::vector<std::string> ranks;
  KCC_TRY(const std::vector<std::string> names, ListDirectory(directory));
  for (const std::string& name : names) {
    const std::filesystem::path path = std::filesystem::path(directory) / name;
    if (name.starts_with("rank_") && name.ends_with(".jsonl")) ranks.push_back(path.string());
    if (steps == nullptr || !name.starts_with("step_")) continue;
    if (std::filesystem::is_directory(path, unknown)) steps->push_back(path.string());
  }
  if (ranks.empty() && (steps == nullptr || steps->empty())) {
    return InvalidError("is neither a trace (trace.json) nor a step of prime-rl's token exports");
  }
  if (!ranks.empty() && !std::filesystem::exists(directory + "/STABLE", unknown)) {
    return BrokenEvidenceError("has no STABLE marker: the step is still being written");
  }
  files->insert(files->end(), ranks.begin(), ranks.end());
  return {};
}

}  // namespace

Result<> ReadTorchDump(const std::string& path, RlDump* dump) {
  KCC_TRY(const TorchFile file, TorchFile::Open(path));
  if (file.root().kind != TorchValue::Kind::kDict) {
    return InvalidError("a .pt dump must hold a dictionary of tensors");
  }
  return AddDicts(file, file.root(), dump);
}

Result<> ListTokenExports(const std::string& directory, std::vector<std::string>* files) {
  std::vector<std::string> steps;
  KCC_TRY_VOID(ListStep(directory, &steps, files));
  // A step holds no steps: links in it may lead anywhere, and back.
  for (const std::string& step : steps) {
    if (auto listed = ListStep(step, nullptr, files); !listed.has_value()) {
      return std::move(listed.error()).At(Place{step});
    }
  }
  return {};
}

Result<> ReadJsonDump(const std::vector<std::string>& paths, RlDump* dump) {
  json::parser parser;
  JsonColumns columns;
  dump->offsets = {0};
  for (const std::string& path : paths) {
    KCC_TRY_VOID(AddLines(path, parser, &columns, &dump->offsets));
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
