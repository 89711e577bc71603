#include "kcc/kernel/server_body.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kcc/base/check.h"
#include "kcc/base/strings.h"
#include "kcc/trace/json.h"

namespace kcc {
namespace {

// `own` are set by kcc; `user` may be added with body.NAME. Names inside sampling_params stand
// beside the others: no route has one name in both places.
struct RouteRow {
  std::string_view path;
  std::vector<std::string_view> own;
  std::vector<std::string_view> user;
};

const RouteRow& RowOf(Route route) {
  // clang-format off
  static const std::array<RouteRow, 5> kRoutes = {{
      {"/v1/completions",
       {"model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids", "logprobs",
        "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "cache_salt"},
       {"priority", "ignore_eos", "min_tokens", "vllm_xargs"}},
      {"/inference/v1/generate",
       {"model", "token_ids", "sampling_params", "cache_salt", "trace_decode_token_ids", "max_tokens", "logprobs",
        "temperature", "top_k"},
       {"priority"}},
      {"/generate",
       {"input_ids", "sampling_params", "max_new_tokens", "temperature", "top_k", "top_p", "sampling_seed",
        "stop_token_ids", "return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs",
        "cache_salt"},
       {"priority", "lora_path", "routed_dp_rank", "session_id"}},
      {"/completion",
       {"prompt", "n_predict", "n_probs", "post_sampling_probs", "return_tokens", "cache_prompt", "temperature",
        "top_k", "top_p", "min_p", "seed", "grammar", "logit_bias"},
       {"model", "id_slot", "lora", "ignore_eos"}},
      {"/v1/completions",
       {"model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids", "logprobs",
        "return_context_logits", "detokenize"},
       {"lora_request", "ignore_eos", "min_tokens"}},
  }};
  // clang-format on
  return kRoutes[static_cast<size_t>(route)];
}

bool Holds(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

RequestBody::RequestBody(Route route) : route_(route) { writer_.BeginObject(); }

void RequestBody::Key(std::string_view name) {
  KCC_CHECK(Holds(RowOf(route_).own, name));
  writer_.Key(name);
}

RequestBody& RequestBody::Ids(std::string_view name, std::span<const int32_t> ids) {
  Key(name);
  writer_.BeginArray();
  for (const int32_t id : ids) writer_.Value(id);
  writer_.EndArray();
  return *this;
}

RequestBody& RequestBody::Bias(int32_t id, double bias) {
  Key("logit_bias");
  writer_.BeginArray().BeginArray().Value(id).Value(bias).EndArray().EndArray();
  return *this;
}

RequestBody& RequestBody::Begin(std::string_view name) {
  Key(name);
  writer_.BeginObject();
  return *this;
}

RequestBody& RequestBody::End() {
  writer_.EndObject();
  return *this;
}

HttpCall RequestBody::Take(std::span<const ServerOptions::Field> extra) {
  for (const ServerOptions::Field& field : extra) {
    writer_.Key(field.name).Raw(field.json);
  }
  writer_.EndObject();
  return {std::string(RowOf(route_).path), writer_.Take()};
}

Result<> CheckUserFields(Route route, std::span<const ServerOptions::Field> fields) {
  const RouteRow& row = RowOf(route);
  json::parser parser;
  for (const ServerOptions::Field& field : fields) {
    const std::string name = "body." + field.name;
    if (Holds(row.own, field.name)) {
      return InvalidError(name + ": kcc sets this field itself");
    }
    if (!Holds(row.user, field.name)) {
      const auto nearest = NearestWord(field.name, row.user);
      return InvalidError(name + ": " + std::string(row.path) + " is not sent this field; " +
                          (nearest ? "did you mean '" + std::string(*nearest) + "'?"
                                   : "it may be given " + JoinWords(row.user)));
    }
    if (!ParseJson(parser, field.json).has_value()) {
      return InvalidError(name + "=" + field.json + ": the value must be JSON");
    }
  }
  return {};
}

}  // namespace kcc
