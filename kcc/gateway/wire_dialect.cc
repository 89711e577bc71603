// From the servers' sources; docs/servers.md tells where. What is not written there is not asked
// for: a sampled request without ids is compared by its text.
#include "kcc/gateway/wire_dialect.h"

#include <array>

namespace kcc {
namespace {

using Fields = WireField[];
using Names = std::string_view[];

constexpr Fields kReturnIds = {{"return_token_ids", "true"}};

// vLLM, and the lab, which writes as it does. Members that were not asked for are null in whole
// answers and in chunks. With return_token_ids the lab begins a completion's stream with an event
// for the prompt's ids alone; vLLM puts them into its first event.
constexpr Fields kVllmChat = {
    {"logprobs", "true"}, {"top_logprobs", "K"}, {"return_tokens_as_token_ids", "true"}};
constexpr Fields kVllmCompletion = {{"logprobs", "K"}, {"return_tokens_as_token_ids", "true"}};
constexpr WireDialect kVllm = {
    .name = "vllm",
    .chat = {.ids = kReturnIds, .logprobs = kVllmChat},
    .completions = {.ids = kReturnIds, .logprobs = kVllmCompletion, .prompt_event = true},
    .token_id_texts = true,
};

// SGLang names alternatives by their texts alone, which may be the same for two of them, so that
// only the token's own log-prob is asked for. Its chat refuses all fields for ids in a stream. Its
// serialisers leave ids out where they are none, and write "logprobs": null.
constexpr Fields kSglangChatIds = {{"return_token_ids", "true"},
                                   {"return_prompt_token_ids", "true"}};
constexpr Fields kSglangChat = {{"logprobs", "true"}};
constexpr Fields kSglangCompletion = {{"logprobs", "1"}};
constexpr Names kTop = {"top_logprobs"};
constexpr WireDialect kSglang = {
    .name = "sglang",
    .chat = {.ids = kSglangChatIds,
             .logprobs = kSglangChat,
             .also_logprobs = kTop,
             .ids_in_stream = false,
             .logprobs_in_stream = false,  // without ids they are of no use
             .ids_unasked = Unasked::kAbsent},
    .completions = {.ids = kReturnIds,
                    .logprobs = kSglangCompletion,
                    .ids_unasked = Unasked::kAbsent},
};

// llama.cpp: both routes answer in the shape of chat, with the id in each entry. Chat leaves the
// member out where it is empty, completions write null.
constexpr Fields kLlamaChat = {{"logprobs", "true"}, {"top_logprobs", "K"}};
constexpr Fields kLlamaCompletion = {{"logprobs", "K"}};
constexpr Names kProbs = {"n_probs"};
constexpr WireDialect kLlamacpp = {
    .name = "llamacpp",
    .chat = {.logprobs = kLlamaChat,
             .also_logprobs = kProbs,
             .logprobs_with_tools_in_stream = false,
             .logprobs_unasked = Unasked::kAbsent},
    .completions = {.logprobs = kLlamaCompletion, .also_logprobs = kProbs},
};

// TensorRT-LLM forbids fields that it does not know and tells no ids: nothing is asked for.
constexpr WireDialect kTrtllm = {.name = "trtllm"};

constexpr std::array kDialects = {&kVllm, &kSglang, &kLlamacpp, &kTrtllm};

}  // namespace

const WireDialect* FindWireDialect(std::string_view server) {
  for (const WireDialect* dialect : kDialects) {
    if (dialect->name == server) return dialect;
  }
  return nullptr;
}

}  // namespace kcc
