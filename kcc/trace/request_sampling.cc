// Whether the body of a request asked for tokens from less, or other, than the whole distribution.
//
// Servers have more ways to do so than a list can name, and new ones with each version. So the list
// is of what is known to leave the distribution as it is; everything else counts as altering it.
// What a server does by its own settings (generation_config.json) does not show in a body.

#include <algorithm>
#include <array>

#include "kcc/trace/import_responses.h"

namespace kcc {
namespace {

// What is asked, how it is answered and how long it may get.
// clang-format off
constexpr std::string_view kHarmless[] = {
    "add_generation_prompt", "add_special_tokens", "cache_prompt", "cache_salt", "chat_template",
    "chat_template_kwargs", "continue_final_message", "decoder_input_details", "details",
    "detokenize", "dry_allowed_length", "dry_base", "dry_penalty_last_n",
    "dry_sequence_breakers", "dynatemp_exponent", "echo", "id_slot", "ignore_eos",
    "include_stop_str_in_output", "input_ids", "inputs", "kv_transfer_params",
    "logprob_start_len", "logprobs", "max_completion_tokens", "max_new_tokens", "max_tokens",
    "messages", "metadata", "mirostat_eta", "mirostat_tau", "model", "n", "n_cache_reuse",
    "n_keep", "n_predict", "n_probs", "no_stop_trim", "post_sampling_probs", "priority", "prompt",
    "prompt_logprobs", "random_seed", "repeat_last_n", "request_id", "response_fields",
    "return_context_logits", "return_full_text", "return_generation_logits",
    "return_hidden_states", "return_logprob", "return_meta_info", "return_text_in_logprobs",
    "return_token_ids", "return_tokens", "return_tokens_as_token_ids", "rid", "sampling_seed",
    "seed", "service_tier", "skip_special_tokens", "spaces_between_special_tokens", "stop",
    "stop_str", "stop_token_ids", "store", "stream", "stream_options", "t_max_predict_ms",
    "temperature", "text", "timings_per_token", "token_ids", "token_ids_logprob", "tools",
    "top_logprobs", "top_logprobs_num", "top_n_tokens", "truncate", "truncate_prompt_tokens",
    "user", "xtc_threshold"};

// Of numbers, the value that changes nothing. Of kAtMost any below it does so, too: no limit is 0
// or, of some servers, -1.
enum class Neutral : uint8_t { kEqual, kAtMost };
struct NeutralNumber {
  std::string_view key;
  double value;
  Neutral rule = Neutral::kEqual;
};
constexpr NeutralNumber kNumbers[] = {
    {"best_of", 1}, {"num_beams", 1}, {"beam_width", 1}, {"repeat_penalty", 1},
    {"repetition_penalty", 1}, {"top_p", 1}, {"typical", 1}, {"typical_p", 1},
    {"frequency_penalty", 0}, {"presence_penalty", 0}, {"length_penalty", 1},
    {"dry_multiplier", 0}, {"dynatemp_range", 0}, {"epsilon_cutoff", 0}, {"eta_cutoff", 0},
    {"min_p", 0, Neutral::kAtMost}, {"min_tokens", 0, Neutral::kAtMost},
    {"min_new_tokens", 0, Neutral::kAtMost}, {"mirostat", 0, Neutral::kAtMost},
    {"no_repeat_ngram_size", 0, Neutral::kAtMost}, {"top_k", 0, Neutral::kAtMost},
    {"top_n_sigma", 0, Neutral::kAtMost}, {"xtc_probability", 0, Neutral::kAtMost}};
// clang-format on

// Nothing was asked for: null, false, or something empty.
bool SaysNothing(json::element value) {
  bool flag = false;
  std::string_view text;
  json::array list;
  json::object object;
  if (value.is_null()) return true;
  if (value.get(flag) == simdjson::SUCCESS) return !flag;
  if (value.get(text) == simdjson::SUCCESS) return text.empty();
  if (value.get(list) == simdjson::SUCCESS) return list.size() == 0;
  return value.get(object) == simdjson::SUCCESS && object.size() == 0;
}

bool Alters(std::string_view key, json::element value) {
  if (std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless)) {
    return false;
  }
  for (const NeutralNumber& number : kNumbers) {
    if (number.key != key) continue;
    if (value.is_null()) return false;
    const auto given = JsonNumber(value);
    if (!given) return true;
    return AltersSamplingAs(key, *given);
  }
  std::string_view text;
  if (key == "tool_choice" && value.get(text) == simdjson::SUCCESS) {
    return text != "none" && text != "auto";  // anything else forces a call's grammar
  }
  // The likeliest token each time; the importers that know the word read it as temperature 0.
  if (key == "do_sample") {
    bool sampled = true;
    return value.get(sampled) == simdjson::SUCCESS && !sampled;
  }
  return !SaysNothing(value);
}

}  // namespace

bool AltersSamplingAs(std::string_view key, double value) {
  for (const NeutralNumber& number : kNumbers) {
    if (number.key != key) continue;
    return number.rule == Neutral::kAtMost ? !(value <= number.value) : value != number.value;
  }
  return true;
}

bool ResponseContext::AltersSampling() const {
  if (!request) return false;
  const auto any = [](json::object body) {
    for (const auto [key, value] : body) {
      json::object nested;
      const bool settings = key == "sampling_params" || key == "parameters";
      if (settings && value.get(nested) == simdjson::SUCCESS) continue;  // looked at below
      if (Alters(key, value)) return true;
    }
    return false;
  };
  if (any(*request)) return true;
  for (const std::string_view inner : {"sampling_params", "parameters"}) {
    const auto member = JsonMember(*request, inner);
    json::object nested;
    if (member && member->get(nested) == simdjson::SUCCESS && any(nested)) return true;
  }
  return false;
}

}  // namespace kcc
