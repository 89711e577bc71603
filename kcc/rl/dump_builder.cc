// The names of a dump's arrays, and its mask.
//
// A mask decides what counts, so one that is missing is made up from nothing but what shows that a
// token is none: the attention mask that verl's response mask is the end of, or log-probs that are
// exactly 0 on both sides up to the end of a row. A token that both sides gave all probability
// looks the same; leaving it out can only make a mean gap larger.
#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/rl/dump_formats.h"

namespace kcc {
namespace {

struct Alias {
  std::string_view canonical;
  std::string_view names;  // separated by blanks
};

constexpr Alias kAliases[] = {
    {"train",
     "train train_logprobs train_log_probs old_log_probs old_per_token_logps trainer_logprobs "
     "training_logprobs prev_logprobs"},
    {"rollout",
     "rollout rollout_logprobs rollout_log_probs sampling_per_token_logps inference_logprobs "
     "infer_logprobs vllm_logprobs generation_logprobs"},
    {"old", "old old_logprobs proximal_logprobs"},
    {"mask", "mask response_mask completion_mask loss_mask action_mask token_mask"},
    {"advantages", "advantages"},
    {"tokens", "tokens responses completion_ids response_ids"},
    {"slice", "slice slice_id slices"},
    {"offsets", "offsets cu_seqlens"},
    {"sample_mask", "sample_mask"},
    {"rewards", "rewards"},
    {"token_rewards", "token_rewards token_level_rewards"},
    {"token_scores", "token_scores token_level_scores"},
    {"tool_mask", "tool_mask"},
    {"attention_mask", "attention_mask"},
    {"prompt_mask", "prompt_mask"},
    {"current_logprobs", "current_logprobs"},
};

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = words.find(' ');
    if (words.substr(0, end) == word) return true;
    words = end == std::string_view::npos ? "" : words.substr(end + 1);
  }
  return false;
}

std::string_view Stem(std::string_view name) {
  if (name.ends_with(".npy")) name.remove_suffix(4);
  return name;
}

// "'a', 'b' and 'c'", cut where there are many.
template <class Names>
std::string Listed(const Names& names) {
  constexpr size_t kShown = 24;
  std::vector<std::string> quoted;
  for (const std::string& name : names) {
    if (quoted.size() == kShown) {
      quoted.push_back(std::to_string(names.size() - kShown) + " more");
      break;
    }
    quoted.push_back("'" + name + "'");
  }
  return JoinWords(std::vector<std::string_view>(quoted.begin(), quoted.end()));
}

}  // namespace

std::string_view CanonicalArrayName(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (HasWord(alias.names, name)) return alias.canonical;
  }
  return "";
}

Result<RlNameMap> ParseNameMap(const std::vector<std::string>& texts) {
  std::vector<std::string_view> ours;
  for (const Alias& alias : kAliases) ours.push_back(alias.canonical);
  RlNameMap map;
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      return InvalidError("--map '" + text + "' is not THEIRS=OURS, such as logp_new=train");
    }
    const std::string_view meaning = CanonicalArrayName(std::string_view(text).substr(at + 1));
    if (meaning.empty()) {
      return InvalidError("--map '" + text + "': kcc has no '" + text.substr(at + 1) +
                          "'; its names are " + JoinWords(ours));
    }
    map.emplace_back(text.substr(0, at), meaning);
  }
  return map;
}

std::string_view DumpBuilder::MeaningOf(std::string_view given) {
  const std::string_view name = Stem(given);
  if (found_.size() < kNamesMax) found_.emplace(name);
  for (const auto& [theirs, ours] : options_.names) {
    if (theirs == name) return ours;
  }
  const std::string_view meaning = CanonicalArrayName(name);
  // What the caller named takes the place of what the table would take.
  for (const auto& [theirs, ours] : options_.names) {
    if (ours == meaning) return "";
  }
  return meaning;
}

Result<> DumpBuilder::Add(std::string_view name, std::vector<int64_t> shape,
                          std::vector<double> values) {
  const std::string_view meaning = MeaningOf(name);
  if (meaning.empty()) return {};
  if (dump_.Find(meaning) != nullptr) {
    return InvalidError("two arrays mean \"" + std::string(meaning) + "\"; the second is \"" +
                        std::string(name) +
                        "\"; say which with --map NAME=" + std::string(meaning));
  }
  return AddAs(meaning, std::move(shape), std::move(values));
}

Result<> DumpBuilder::AddAs(std::string_view meaning, std::vector<int64_t> shape,
                            std::vector<double> values) {
  if (dump_.Find(meaning) != nullptr) {
    return InvalidError("two files hold an array that means \"" + std::string(meaning) + "\"");
  }
  dump_.arrays.push_back({std::string(meaning), std::move(shape), std::move(values)});
  return {};
}

void DumpBuilder::SliceRows(const std::vector<std::string>& slice_of_row) {
  sliced_ = !slice_of_row.empty();
  std::map<std::string, int32_t> numbers;
  for (const std::string& name : slice_of_row) numbers.emplace(name, 0);
  for (auto& [name, number] : numbers) {
    number = static_cast<int32_t>(dump_.slice_names.size());
    dump_.slice_names.push_back(name);
  }
  for (const std::string& name : slice_of_row) dump_.slice_of_row.push_back(numbers[name]);
}

Result<> DumpBuilder::FillMask() {
  const RlDump::Array* train = dump_.Find("train");
  const RlDump::Array* mask = dump_.Find("mask");
  if (train == nullptr) return {};
  if (mask != nullptr) {
    // Tokens that a tool wrote were not sampled (TRL keeps them in a mask of their own).
    const RlDump::Array* tools = dump_.Find("tool_mask");
    if (tools == nullptr || tools->shape != mask->shape) return {};
    for (RlDump::Array& array : dump_.arrays) {
      if (array.name != "mask") continue;
      for (size_t i = 0; i < array.values.size(); ++i) array.values[i] *= tools->values[i];
    }
    return {};
  }
  const bool padded = train->shape.size() == 2 && dump_.offsets.empty();
  if (!padded || train->values.empty()) return {};  // packed rows have no padding
  const RlDump::Array* attention = dump_.Find("attention_mask");
  const int64_t rows = train->shape[0];
  const int64_t columns = train->shape[1];
  if (attention == nullptr || attention->shape.size() != 2 || attention->shape[0] != rows ||
      attention->shape[1] < columns) {
    FindPadding();
    return {};
  }
  RlDump::Array ends{"mask", train->shape, {}};
  for (int64_t row = 0; row < rows; ++row) {
    const auto end = attention->values.begin() + (row + 1) * attention->shape[1];
    ends.values.insert(ends.values.end(), end - columns, end);
  }
  dump_.arrays.push_back(std::move(ends));
  dump_.warnings.emplace_back(
      "there is no mask of the response; the end of the attention mask is taken for it, which "
      "counts tokens that a tool wrote");
  return {};
}

void DumpBuilder::FindPadding() {
  const RlDump::Array* train = dump_.Find("train");
  const RlDump::Array* rollout = dump_.Find("rollout");
  if (rollout == nullptr || rollout->shape != train->shape) return;  // Batch() says what is wrong
  const auto columns = static_cast<size_t>(train->shape[1]);
  RlDump::Array mask{"mask", train->shape, std::vector<double>(train->values.size(), 1.0)};
  size_t padding = 0;
  for (size_t end = columns; columns > 0 && end <= train->values.size(); end += columns) {
    for (size_t i = end; i > end - columns; --i) {
      if (train->values[i - 1] != 0 || rollout->values[i - 1] != 0) break;
      mask.values[i - 1] = 0;
      ++padding;
    }
  }
  const std::string remedy =
      "; add a mask to the dump, or name the one it has with --map NAME=mask";
  if (padding == 0) {
    dump_.warnings.push_back("there is no mask: every token counts, padding too" + remedy);
    return;
  }
  dump_.warnings.push_back("there is no mask: " + std::to_string(padding) + " of " +
                           std::to_string(mask.values.size()) +
                           " tokens are 0 on both sides at the ends of rows and are taken for "
                           "padding" +
                           remedy);
  dump_.arrays.push_back(std::move(mask));
}

Result<RlDump> DumpBuilder::Finish() {
  for (const auto& [theirs, ours] : options_.names) {
    if (found_.contains(theirs)) continue;
    return InvalidError("--map " + theirs + "=" + ours + ": the dump has no '" + theirs +
                        "'; it has " + (found_.empty() ? "no array" : Listed(found_)));
  }
  if (!options_.slice_by.empty() && !sliced_) {
    return InvalidError("--slice-by " + options_.slice_by + ": " +
                        (fields_.empty() ? "rows of this dump have no fields; number their slices "
                                           "in an array and name it with --map NAME=slice"
                                         : "rows of this dump have " + Listed(fields_)));
  }
  dump_.found.assign(found_.begin(), found_.end());
  KCC_TRY_VOID(FillMask());
  return std::move(dump_);
}

}  // namespace kcc
