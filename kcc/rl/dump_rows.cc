#include "kcc/rl/dump_rows.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

namespace kcc {
namespace {

double SumOf(const RlDump::Array& array, int64_t first, int64_t count) {
  const auto begin = array.values.begin() + first;
  return std::accumulate(begin, begin + count, 0.0);
}

// The reward of a row: its own, or the sum of its tokens'. verl's scores come before the penalty
// that its rewards may hold.
std::optional<double> RewardOf(const RlDump& dump, const RlBatch& batch, int64_t row) {
  if (const RlDump::Array* rewards = dump.Find("rewards");
      rewards != nullptr && static_cast<int64_t>(rewards->values.size()) == batch.rows) {
    return rewards->values[static_cast<size_t>(row)];
  }
  const RlDump::Array* train = dump.Find("train");
  for (const std::string_view name : {"token_scores", "token_rewards"}) {
    const RlDump::Array* tokens = dump.Find(name);
    if (tokens == nullptr || tokens->shape != train->shape) continue;
    return SumOf(*tokens, batch.RowBegin(batch.train, row), batch.RowLength(row));
  }
  return std::nullopt;
}

// From TRL's mask of the prompt, or the part of verl's attention mask before the response.
std::optional<double> PromptTokensOf(const RlDump& dump, const RlBatch& batch, int64_t row) {
  const auto rows_of = [&](std::string_view name) -> const RlDump::Array* {
    const RlDump::Array* array = dump.Find(name);
    const bool fits = array != nullptr && array->shape.size() == 2 && array->shape[0] == batch.rows;
    return fits ? array : nullptr;
  };
  if (const RlDump::Array* prompt = rows_of("prompt_mask")) {
    return SumOf(*prompt, row * prompt->shape[1], prompt->shape[1]);
  }
  const RlDump::Array* attention = rows_of("attention_mask");
  if (attention == nullptr || batch.packed() || attention->shape[1] <= batch.columns) {
    return std::nullopt;
  }
  return SumOf(*attention, row * attention->shape[1], attention->shape[1] - batch.columns);
}

}  // namespace

std::string RowId(int64_t row) {
  std::string digits = std::to_string(row);
  return std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0') + digits;
}

int32_t ArrayTokenId(double number) {
  const bool is_id =
      number >= 0 && number <= std::numeric_limits<int32_t>::max() && number == std::floor(number);
  return is_id ? static_cast<int32_t>(number) : -1;
}

int64_t OutputLength(const RlDump& dump, const RlBatch& batch, int64_t row) {
  int64_t length = batch.RowLength(row);
  const RlDump::Array* mask = dump.Find("mask");
  if (mask == nullptr) return length;
  const int64_t first = batch.RowBegin(batch.train, row);
  while (length > 0 && mask->values[static_cast<size_t>(first + length - 1)] == 0) --length;
  return length;
}

Request RowRequest(const RlDump& dump, const RlBatch& batch, int64_t row, int64_t length) {
  Request request;
  request.id = RowId(row);
  request.fields["output_tokens"] = static_cast<double>(length);
  if (!batch.slice_of_row.empty()) {
    const auto slice = static_cast<size_t>(batch.slice_of_row[static_cast<size_t>(row)]);
    request.fields["tags"] = std::vector<std::string>{batch.slice_names[slice]};
  }
  const auto reward = RewardOf(dump, batch, row);
  if (reward && std::isfinite(*reward)) request.fields["reward"] = *reward;
  const auto prompt = PromptTokensOf(dump, batch, row);
  if (prompt && std::isfinite(*prompt)) request.fields["prompt_tokens"] = *prompt;
  return request;
}

}  // namespace kcc
