// What a client asks the model for: the body of /v1/completions, /v1/chat/completions or
// /inference/v1/generate, checked. A GenerationRequest can be served as it stands.
//
// Fields are those of vLLM. What this server cannot do is refused where it would change the answer
// (penalties, tools, guided decoding); a field that nobody knows is ignored, as vLLM does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/format/json.h"
#include "kcc/kernel/kernel.h"
#include "kcc/serve/api_error.h"
#include "kcc/serve/served_model.h"

namespace kcc {

enum class ApiKind : uint8_t { kCompletion, kChat, kGenerate };
std::string_view Name(ApiKind kind);  // "completion", "chat", "generate"

inline constexpr size_t kChoicesMax = 1024;            // prompts × n of one request
inline constexpr size_t kLogprobEntriesMax = 1 << 22;  // of one request's lists

struct GenerationRequest {
  ApiKind kind = ApiKind::kCompletion;
  std::vector<std::vector<int32_t>> prompts;  // at least one, none of them empty
  std::vector<int32_t> forced;                // decoded in place of sampled tokens, if any
  int32_t n = 1;                              // choices for each prompt
  int32_t output_tokens_max = 16;             // 0 with echo only
  int32_t output_tokens_min = 0;
  Sampling sampling;  // temperature, top_k and top_p
  std::optional<uint64_t> seed;
  std::map<int32_t, float> bias;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  bool echo = false;
  bool stream = false;
  bool usage_in_stream = false;
  // How many alternatives of each token are given out; none: no log-probs.
  std::optional<int32_t> top;
  std::optional<int32_t> prompt_top;
  bool token_ids = false;            // return_token_ids
  bool tokens_as_token_ids = false;  // "token_id:123" in place of a token's text
  bool skip_special = true;
  bool keep_stop = false;  // include_stop_str_in_output

  // What a fault's predicate may read besides.
  std::string user;
  std::vector<std::string> tags;
  std::map<std::string, std::string, std::less<>> metadata;

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
  size_t longest_prompt() const;
};

// None and an error, or a request. The body is parsed JSON; `model` decides the vocabulary, the
// lengths and the template.
std::optional<ApiError> ReadGenerationRequest(ApiKind kind, json::object body,
                                              const ServedModel& model, GenerationRequest* request);

}  // namespace kcc
