#include "kcc/author/kernel_words.h"

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct FormatWord {
  std::string_view word;
  double unit_roundoff;
};
// Hopper's FP8 tensor cores keep about 13 bits of an accumulator (docs/math.md D.1).
constexpr FormatWord kFormats[] = {{"exact", 0},           {"f64", 0x1p-53}, {"f32", 0x1p-24},
                                   {"tf32", 0x1p-11},      {"f16", 0x1p-11}, {"bf16", 0x1p-8},
                                   {"hopper-fp8", 0x1p-13}};
constexpr std::string_view kQuantizers[] = {"exact", "int8", "int4", "fp8-e4m3", "fp8-e5m2"};
constexpr std::string_view kKeys[] = {
    "weights", "granularity", "lm-head",   "activations",   "kv",     "accumulate", "schedule",
    "store",   "logits",      "attention", "probabilities", "angles", "tile"};

Error Unknown(std::string_view what, std::string_view word,
              std::span<const std::string_view> choices) {
  std::string message = "unknown " + std::string(what) + " '" + std::string(word) + "'";
  if (const auto nearest = NearestWord(word, choices)) {
    message += "; did you mean '" + std::string(*nearest) + "'?";
  } else {
    message += "; it is one of " + JoinWords(choices, "or");
  }
  return InvalidError(message);
}

Result<double> Roundoff(std::string_view word) {
  std::vector<std::string_view> words;
  for (const FormatWord& row : kFormats) {
    if (row.word == word) return row.unit_roundoff;
    words.push_back(row.word);
  }
  return Unknown("number format", word, words);
}

Result<> Quantise(std::string_view word, QuantizerDescription* quantizer) {
  if (word == "exact") {
    quantizer->quantizer = Quantizer::kExact;
  } else if (word == "int8" || word == "int4") {
    quantizer->quantizer = Quantizer::kInt;
    quantizer->bits = word == "int8" ? 8 : 4;
  } else if (word == "fp8-e4m3" || word == "fp8-e5m2") {
    quantizer->quantizer = Quantizer::kScaledFloat;
    quantizer->format = word == "fp8-e4m3" ? DType::kF8E4M3 : DType::kF8E5M2;
  } else {
    return Unknown("quantiser", word, kQuantizers);
  }
  return {};
}

Result<int64_t> Count(std::string_view word) {
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (failure != std::errc() || end != word.data() + word.size() || value < 1) {
    return InvalidError("'" + std::string(word) + "' is no count; write a number from 1");
  }
  return value;
}

Result<> SetSchedule(std::string_view word, KernelDescription* kernel) {
  const size_t colon = word.find(':');
  const std::string_view name = word.substr(0, colon);
  constexpr std::string_view kSchedules[] = {"any", "sequential", "pairwise", "tiled:N", "split:N"};
  if (name == "any" || name == "sequential" || name == "pairwise") {
    kernel->schedule = name == "any"          ? Schedule::kAnyOrder
                       : name == "sequential" ? Schedule::kSequential
                                              : Schedule::kPairwise;
    return {};
  }
  if ((name != "tiled" && name != "split") || colon == std::string_view::npos) {
    return Unknown("schedule", word, kSchedules);
  }
  kernel->schedule = name == "tiled" ? Schedule::kTiled : Schedule::kSplitK;
  KCC_TRY(kernel->block, Count(word.substr(colon + 1)));
  return {};
}

Result<> SetGranularity(std::string_view word, KernelDescription* kernel) {
  constexpr std::string_view kWords[] = {"tensor", "channel", "group"};
  for (size_t i = 0; i < 3; ++i) {
    if (kWords[i] != word) continue;
    kernel->weights.granularity = static_cast<Granularity>(i);
    return {};
  }
  return Unknown("granularity", word, kWords);
}

Result<> Set(std::string_view key, std::string_view word, KernelDescription* kernel,
             std::optional<double>* attention) {
  if (key == "weights") return Quantise(word, &kernel->weights);
  if (key == "activations") return Quantise(word, &kernel->activations);
  if (key == "kv") return Quantise(word, &kernel->kv_cache);
  if (key == "granularity") return SetGranularity(word, kernel);
  if (key == "schedule") return SetSchedule(word, kernel);
  if (key == "lm-head") {
    constexpr std::string_view kWords[] = {"quantized", "exact"};
    if (word != kWords[0] && word != kWords[1]) return Unknown("lm-head", word, kWords);
    kernel->quantizes_lm_head = word == kWords[0];
    return {};
  }
  if (key == "tile") {
    KCC_TRY(kernel->attention_tile, Count(word));
    return {};
  }
  double* const target = key == "accumulate"      ? &kernel->u_accumulate
                         : key == "store"         ? &kernel->u_store
                         : key == "logits"        ? &kernel->u_logits
                         : key == "probabilities" ? &kernel->u_probability
                         : key == "angles"        ? &kernel->u_angle
                                                  : nullptr;
  if (target == nullptr && key != "attention") return Unknown("word", key, kKeys);
  KCC_TRY(const double u, Roundoff(word));
  if (target != nullptr) {
    *target = u;
  } else {
    *attention = u;
  }
  return {};
}

}  // namespace

Result<KernelDescription> ParseKernelWords(std::string_view text) {
  KernelDescription kernel;
  std::optional<double> attention;
  constexpr std::string_view kSeparators = " ,";
  for (size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const size_t end = std::min(text.size(), text.find_first_of(kSeparators, at));
    const std::string_view word = text.substr(at, end - at);
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      return InvalidError("'" + std::string(word) +
                          "' is not key=value, such as weights=fp8-e4m3 or store=bf16");
    }
    KCC_TRY_VOID(Set(word.substr(0, equals), word.substr(equals + 1), &kernel, &attention));
    at = text.find_first_not_of(kSeparators, end);
  }
  // Attention runs in the accumulator's arithmetic unless told otherwise; exp is good to 2 ulp.
  kernel.u_attention = attention.value_or(kernel.u_accumulate);
  kernel.exp_error = 4 * kernel.u_attention;
  // Products of bf16, fp16 and fp8 operands are exact in fp32.
  kernel.products_round = kernel.u_store < 0x1p-16 && kernel.u_accumulate > 0;
  return kernel;
}

}  // namespace kcc
