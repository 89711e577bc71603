// Dumps as JSON lines, prime-rl's token exports among them.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "kcc/base/directory.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"
#include "kcc/rl/dump_formats.h"

namespace kcc {
namespace {

constexpr size_t kLineBytesMax = size_t{256} << 20;

// The columns of a file of JSON lines as they grow.
struct JsonColumns {
  std::map<std::string, std::vector<double>, std::less<>> by_token;  // canonical names
  std::vector<double> row_advantage, row_reward;
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

// What a row is sliced by, where a field was asked for: a text, a number or a truth value.
std::string FieldText(json::element value) {
  bool flag = false;
  if (value.is_string()) return std::string(JsonText(value));
  if (value.get(flag) == simdjson::SUCCESS) return flag ? "true" : "false";
  if (const auto number = JsonNumber(value)) return ShortestNumber(*number);
  return "none";
}

// Whether the member says which slice the row is in.
bool IsSlice(std::string_view key, std::string_view meaning, bool exported,
             const std::string& slice_by) {
  if (!slice_by.empty()) return key == slice_by;
  return meaning == "slice" || (exported && key == "env_name");
}

// What goes over the prompt too, and so has no element a token.
bool HasPrompt(std::string_view name) {
  return name == "attention_mask" || name == "prompt_mask" || name == "tokens";
}

Result<> AddRow(json::object row, JsonColumns* columns, DumpBuilder* to) {
  std::vector<int64_t>* offsets = &to->dump().offsets;
  std::optional<size_t> tokens;
  const std::string& slice_by = to->options().slice_by;
  const bool exported = JsonMember(row, "schema_version") && JsonMember(row, "trainer_logprobs");
  for (const auto& [key, value] : row) {
    if (!value.is_array()) to->NoteField(key);
    const std::string_view name = key == "advantage" ? "advantages" : to->MeaningOf(key);
    if (IsSlice(key, name, exported, slice_by)) {
      if (!value.is_string() && !exported && slice_by.empty()) {
        return InvalidError("\"slice\" must be a text");
      }
      columns->slice.push_back(FieldText(value));
    } else if (name == "slice") {
      continue;  // the caller slices by another field
    } else if (const auto number = JsonNumber(value); name == "advantages" && number) {
      columns->row_advantage.push_back(*number);
    } else if (number && (key == "reward" || name == "rewards")) {
      columns->row_reward.push_back(*number);
    } else if (!name.empty() && !value.is_null() && !HasPrompt(name)) {
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
  for (const size_t given :
       {columns->row_advantage.size(), columns->row_reward.size(), columns->slice.size()}) {
    if (given != 0 && given != rows) {
      return InvalidError("every row or none must have an advantage, a reward, and a slice");
    }
  }
  return {};
}

Result<> AddLines(const std::string& path, json::parser& parser, JsonColumns* columns,
                  DumpBuilder* to) {
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
      added = AddRow(row, columns, to);
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

Result<> ReadJsonDump(const std::vector<std::string>& paths, DumpBuilder* to) {
  json::parser parser;
  JsonColumns columns;
  RlDump& dump = to->dump();
  dump.offsets = {0};
  for (const std::string& path : paths) {
    KCC_TRY_VOID(AddLines(path, parser, &columns, to));
  }
  const int64_t tokens = dump.offsets.back();
  for (auto& [name, column] : columns.by_token) {
    KCC_TRY_VOID(to->AddAs(name, {tokens}, std::move(column)));
  }
  if (!columns.row_advantage.empty()) {
    KCC_TRY_VOID(to->AddAs("advantages", {columns.rows}, std::move(columns.row_advantage)));
  }
  if (!columns.row_reward.empty()) {
    KCC_TRY_VOID(to->AddAs("rewards", {columns.rows}, std::move(columns.row_reward)));
  }
  to->SliceRows(columns.slice);
  return {};
}

}  // namespace kcc
