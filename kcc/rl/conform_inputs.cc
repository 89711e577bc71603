#include "kcc/rl/conform_inputs.h"

#include <array>
#include <limits>
#include <utility>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

enum class Shape : uint8_t { kTokens, kRows, kEither, kOffsets };

struct Input {
  std::string_view name;
  Shape shape;
  bool required = false;
};

constexpr std::string_view kBase = "train_logprobs";  // whose rows are those of the case
constexpr std::array<Input, 9> kInputs = {{{kBase, Shape::kTokens, true},
                                           {"rollout_logprobs", Shape::kTokens, true},
                                           {"mask", Shape::kTokens, true},
                                           {"advantages", Shape::kEither},
                                           {"cu_seqlens", Shape::kOffsets},
                                           {"sample_mask", Shape::kRows},
                                           {"rewards", Shape::kRows},
                                           {"tool_mask", Shape::kTokens},
                                           {"current_logprobs", Shape::kTokens}}};

Result<> CheckKnown(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Input& input : kInputs) {
    if (input.name == name) return {};
    names.push_back(input.name);
  }
  const auto nearest = NearestWord(name, names);
  return InvalidError("inputs hold \"" + std::string(name) + "\", which no dialect reads" +
                      (nearest ? "; did you mean \"" + std::string(*nearest) + "\"?" : ""));
}

Result<> CheckShape(const Input& input, const GoldenRows& array, const GoldenRows& base) {
  const std::string name(input.name);
  const size_t rows = base.offsets.size() - 1;
  if (input.shape == Shape::kOffsets) {
    bool same = !array.nested && array.values.size() == rows + 1;
    for (size_t r = 0; same && r <= rows; ++r) {
      same = array.values[r] == static_cast<double>(base.offsets[r]);
    }
    return same ? Result<>() : InvalidError(name + " has other rows than train_logprobs");
  }
  if (input.shape == Shape::kRows && array.nested) {
    return InvalidError(name + " must be a list of one number per row");
  }
  if (input.shape == Shape::kTokens || (input.shape == Shape::kEither && array.nested)) {
    if (array.offsets == base.offsets) return {};
    return InvalidError(name + " has another shape than train_logprobs");
  }
  if (array.values.size() == rows) return {};
  return InvalidError(name + " has " + std::to_string(array.values.size()) + " numbers for " +
                      std::to_string(rows) + " rows");
}

}  // namespace

std::optional<double> ReadGoldenNumber(json::element element) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (element.is_string()) {
    const std::string_view word = JsonText(element);
    if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (word == "Infinity") return kInf;
    if (word == "-Infinity") return -kInf;
    return std::nullopt;
  }
  bool truth = false;
  if (element.get(truth) == simdjson::SUCCESS) return truth ? 1.0 : 0.0;
  return JsonNumber(element);
}

Result<GoldenRows> ReadGoldenRows(json::element element, std::string_view name) {
  const auto list = JsonList(element);
  const Error wrong =
      InvalidError(std::string(name) + " must be a list of rows of numbers, or a list of numbers");
  if (!list.has_value()) return wrong;
  GoldenRows rows;
  for (const json::element item : *list) {
    const auto inner = JsonList(item);
    if (rows.offsets.size() == 1) rows.nested = inner.has_value();
    if (inner.has_value() != rows.nested) return wrong;
    for (const json::element number : inner.value_or(std::vector<json::element>{item})) {
      const auto value = ReadGoldenNumber(number);
      if (!value.has_value()) return wrong;
      rows.values.push_back(*value);
    }
    rows.offsets.push_back(static_cast<int64_t>(rows.values.size()));
  }
  return rows;
}

const GoldenRows* GoldenInputs::Find(std::string_view name) const {
  const auto found = arrays_.find(name);
  return found == arrays_.end() ? nullptr : &found->second;
}

RlArray GoldenInputs::Array(std::string_view name) const {
  const GoldenRows* array = Find(name);
  if (array == nullptr || array->values.empty()) return {};
  return {array->values.data(), RlType::kF64, 0};
}

Result<> GoldenInputs::CheckShapes() const {
  for (const Input& input : kInputs) {
    if (!input.required || Find(input.name) != nullptr) continue;
    return InvalidError("inputs need train_logprobs, rollout_logprobs and mask");
  }
  for (const Input& input : kInputs) {
    const GoldenRows* array = Find(input.name);
    if (array != nullptr) KCC_TRY_VOID(CheckShape(input, *array, *Find(kBase)));
  }
  return {};
}

RlBatch GoldenInputs::Batch() const {
  RlBatch batch;
  batch.offsets = Find(kBase)->offsets;
  batch.rows = static_cast<int64_t>(batch.offsets.size()) - 1;
  batch.train = Array(kBase);
  batch.rollout = Array("rollout_logprobs");
  batch.mask = Array("mask");
  batch.advantages = Array("advantages");
  if (batch.advantages) batch.advantage_per_row = !Find("advantages")->nested;
  return batch;
}

DialectExtras GoldenInputs::Extras() const {
  return {Array("sample_mask"), Array("rewards"), Array("tool_mask"), Array("current_logprobs")};
}

Result<GoldenInputs> ReadGoldenInputs(json::object inputs) {
  GoldenInputs out;
  for (const auto [key, value] : inputs) {
    KCC_TRY_VOID(CheckKnown(key));
    KCC_TRY(GoldenRows rows, ReadGoldenRows(value, key));
    out.arrays_.insert_or_assign(std::string(key), std::move(rows));
  }
  KCC_TRY_VOID(out.CheckShapes());
  return out;
}

}  // namespace kcc
