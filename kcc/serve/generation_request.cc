#include "kcc/serve/generation_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "kcc/serve/body_reader.h"

namespace kcc {
namespace {

constexpr size_t kStopsMax = 64;
constexpr size_t kStopBytesMax = 1024;
constexpr size_t kTagsMax = 64;

// A text, or a list of texts.
std::vector<std::string> Texts(BodyReader& body, std::string_view name, size_t most) {
  const auto member = body.Any(name);
  std::vector<std::string> texts;
  if (!member) return texts;
  for (const json::element item : JsonList(member).value_or(std::vector{*member})) {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS || text.empty() || text.size() > kStopBytesMax) {
      body.Fail(name, "'" + std::string(name) +
                          "' must be a text or a list of texts, each of 1 to " +
                          std::to_string(kStopBytesMax) + " bytes");
      return {};
    }
    texts.emplace_back(text);
  }
  if (texts.size() > most) {
    body.Fail(name, "'" + std::string(name) + "' has more than " + std::to_string(most) + " texts");
  }
  return texts;
}

// "logit_bias": {"123": -1.5}.
void ReadBias(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  const auto object = body.Object("logit_bias");
  if (!object) return;
  for (const auto [key, value] : *object) {
    int64_t id = 0;
    const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), id);
    const std::optional<double> bias = JsonNumber(value);
    if (failed != std::errc() || end != key.data() + key.size() || !bias) {
      return body.Fail("logit_bias", "'logit_bias' must map token ids to numbers");
    }
    if (!model.HasToken(id)) {
      // vLLM's words: clients read the size of the vocabulary from them.
      return body.Fail("logit_bias", "token_id(s) [" + std::to_string(id) +
                                         "] in logit_bias contain out-of-vocab token ids. "
                                         "Vocabulary size: " +
                                         std::to_string(model.vocab));
    }
    request->bias[static_cast<int32_t>(id)] = static_cast<float>(std::clamp(*bias, -100.0, 100.0));
  }
}

// Fields with the same meaning in every kind of request.
void ReadSampling(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  request->sampling.temperature = body.Number("temperature", 0, 100).value_or(1);
  request->sampling.top_p = body.Number("top_p", 0, 1).value_or(1);
  if (request->sampling.top_p == 0) body.Fail("top_p", "'top_p' must be above 0");
  // Both -1 and 0 mean that there is no limit.
  const int64_t top_k = body.Integer("top_k", -1, std::numeric_limits<int32_t>::max()).value_or(0);
  request->sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  if (const auto seed = body.Integer("seed", std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max())) {
    request->seed = static_cast<uint64_t>(*seed);
  }
  request->stop = Texts(body, "stop", kStopsMax);
  request->stop_ids = body.Tokens("stop_token_ids", model.vocab).value_or(std::vector<int32_t>());
  request->ignore_eos = body.Bool("ignore_eos").value_or(false);
  request->output_tokens_min = static_cast<int32_t>(
      body.Integer("min_tokens", 0, static_cast<int64_t>(model.positions)).value_or(0));
  request->skip_special = body.Bool("skip_special_tokens").value_or(true);
  request->keep_stop = body.Bool("include_stop_str_in_output").value_or(false);
  ReadBias(body, model, request);
  for (const std::string_view name : {"frequency_penalty", "presence_penalty", "min_p"}) {
    body.Unsupported(name, 0);
  }
  body.Unsupported("repetition_penalty", 1);
  for (const std::string_view name :
       {"bad_words", "allowed_token_ids", "logprob_token_ids", "structured_outputs", "guided_json",
        "guided_regex", "guided_choice", "guided_grammar", "use_beam_search"}) {
    const auto member = body.Any(name);
    const bool off = member && member->is_bool() && !bool(*member);
    if (!off) body.Unsupported(name);
  }
}

void ReadStream(BodyReader& body, GenerationRequest* request) {
  request->stream = body.Bool("stream").value_or(false);
  if (const auto options = body.Object("stream_options")) {
    BodyReader part(*options, "stream_options.");
    request->usage_in_stream = part.Bool("include_usage").value_or(false);
    body.Take(part);
    if (!request->stream) {
      body.Fail("stream_options", "'stream_options' is for stream=true");
    }
  }
}

// What faults may select by: user, tags and the texts of metadata.
void ReadLabels(BodyReader& body, GenerationRequest* request) {
  request->user = body.Text("user").value_or("");
  request->tags = Texts(body, "tags", kTagsMax);
  const auto metadata = body.Object("metadata");
  if (!metadata) return;
  for (const auto [key, value] : *metadata) {
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS) request->metadata.emplace(key, text);
  }
}

// How many alternatives: 0 to the vocabulary, -1 for all of it.
std::optional<int32_t> ReadTop(BodyReader& body, std::string_view name, const ServedModel& model) {
  const auto vocab = static_cast<int64_t>(model.vocab);
  const std::optional<int64_t> top = body.Integer(name, -1, vocab);
  if (!top) return std::nullopt;
  return static_cast<int32_t>(*top < 0 ? vocab : *top);
}

void AddText(BodyReader& body, std::string_view text, const ServedModel& model,
             GenerationRequest* request) {
  if (!model.tokenizer) {
    return body.Fail("prompt", "this model is served by token ids only: " + model.no_text);
  }
  request->prompts.push_back(model.tokenizer->Encode(text));
}

// A text, a list of texts, a list of ids, or a list of lists of ids.
void ReadPrompts(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  const auto member = body.Any("prompt");
  if (!member) return body.Fail("prompt", "'prompt' is missing");
  std::string_view text;
  if (member->get(text) == simdjson::SUCCESS) return AddText(body, text, model, request);
  const auto list = JsonList(member);
  if (!list || list->empty()) {
    return body.Fail("prompt",
                     "'prompt' must be a text, a list of texts, a list of token ids or a list of "
                     "such lists");
  }
  std::string wrong;
  if (!list->front().is_string() && !list->front().is_array()) {
    auto ids = TokenList(*list, model.vocab, &wrong);
    if (!ids) return body.Fail("prompt", "'prompt' " + wrong);
    request->prompts.push_back(std::move(*ids));
    return;
  }
  if (list->size() > kChoicesMax) return body.Fail("prompt", "too many prompts");
  for (const json::element item : *list) {
    if (item.get(text) == simdjson::SUCCESS) {
      AddText(body, text, model, request);
      continue;
    }
    const auto inner = JsonList(item);
    auto ids = inner ? TokenList(*inner, model.vocab, &wrong) : std::nullopt;
    if (!ids) {
      return body.Fail("prompt", inner ? "'prompt' " + wrong
                                       : std::string("'prompt' mixes texts with something else"));
    }
    request->prompts.push_back(std::move(*ids));
  }
}

void ReadCompletion(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  ReadPrompts(body, model, request);
  request->echo = body.Bool("echo").value_or(false);
  request->output_tokens_max = static_cast<int32_t>(
      body.Integer("max_tokens", 0, std::numeric_limits<int32_t>::max()).value_or(16));
  request->top = ReadTop(body, "logprobs", model);
  request->prompt_top = ReadTop(body, "prompt_logprobs", model);
  const std::optional<int64_t> best_of = body.Integer("best_of", 1, kChoicesMax);
  if (best_of && *best_of != body.Integer("n", 1, kChoicesMax).value_or(1)) {
    body.Fail("best_of", "this server does not support a 'best_of' other than 'n'", "unsupported");
  }
  const std::optional<std::string> suffix = body.Text("suffix");
  if (suffix && !suffix->empty()) body.Unsupported("suffix");
  if (request->output_tokens_max == 0 && !request->echo) {
    body.Fail("max_tokens", "'max_tokens' is 0, which is for echo=true");
  }
}

// The text of a message: a text, or parts of type "text".
std::optional<std::string> MessageText(json::object message) {
  const auto content = JsonMember(message, "content");
  if (!content) return std::string();
  std::string_view text;
  if (content->get(text) == simdjson::SUCCESS) return std::string(text);
  std::string joined;
  const auto parts = JsonList(content);
  if (!parts) return std::nullopt;
  for (const json::element part : *parts) {
    json::object object;
    if (part.get(object) != simdjson::SUCCESS || JsonText(JsonMember(object, "type")) != "text" ||
        !JsonMember(object, "text") || !JsonMember(object, "text")->is_string()) {
      return std::nullopt;
    }
    joined += JsonText(JsonMember(object, "text"));
  }
  return joined;
}

std::vector<ChatMessage> ReadMessages(BodyReader& body) {
  std::vector<ChatMessage> messages;
  const auto list = JsonList(body.Any("messages"));
  if (!list || list->empty()) {
    body.Fail("messages", "'messages' must be a list with at least one message");
    return messages;
  }
  for (const json::element item : *list) {
    json::object message;
    std::optional<std::string> text;
    if (item.get(message) == simdjson::SUCCESS) text = MessageText(message);
    if (!text) {
      body.Fail("messages", "a message must be an object with a 'role' and a text as 'content'");
      return messages;
    }
    const std::string role(JsonText(JsonMember(message, "role")));
    constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                        "tool"};
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      body.Fail("messages", "'role' must be system, developer, user, assistant or tool");
      return messages;
    }
    messages.push_back({role, std::move(*text)});
  }
  return messages;
}

void ReadChat(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  const std::vector<ChatMessage> messages = ReadMessages(body);
  if (const auto format = body.Object("response_format")) {
    if (JsonText(JsonMember(*format, "type")) != "text") body.Unsupported("response_format");
  }
  for (const std::string_view name : {"tools", "functions"}) {
    const auto list = JsonList(body.Any(name));
    if (!list || !list->empty()) body.Unsupported(name);
  }
  ChatContext context{model.bos_token, model.eos_token,
                      body.Bool("add_generation_prompt").value_or(true)};
  if (body.failed()) return;
  const Result<std::string> text = model.chat.Render(messages, context);
  if (!text.has_value()) return body.Fail("messages", text.error().message());
  AddText(body, *text, model, request);
  if (body.failed()) return;
  const auto room =
      static_cast<int64_t>(model.positions) - static_cast<int64_t>(request->prompts[0].size());
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  std::optional<int64_t> most = body.Integer("max_completion_tokens", 1, kMost);
  if (!most) most = body.Integer("max_tokens", 1, kMost);
  request->output_tokens_max = static_cast<int32_t>(most.value_or(
      std::max<int64_t>(1, std::min<int64_t>(model.output_tokens_default.value_or(kMost), room))));
  const bool wanted = body.Bool("logprobs").value_or(false);
  const std::optional<int32_t> top = ReadTop(body, "top_logprobs", model);
  if (top && *top > 0 && !wanted) {
    body.Fail("top_logprobs", "'top_logprobs' is for logprobs=true");
  }
  if (wanted) request->top = top.value_or(0);
  request->prompt_top = ReadTop(body, "prompt_logprobs", model);
}

// vLLM's token-in, token-out route, with its trace replay.
void ReadGenerate(BodyReader& body, const ServedModel& model, GenerationRequest* request) {
  auto ids = body.Tokens("token_ids", model.vocab);
  if (!ids) return body.Fail("token_ids", "'token_ids' is missing");
  request->prompts.push_back(std::move(*ids));
  request->token_ids = request->tokens_as_token_ids = true;
  if (request->stream) body.Unsupported("stream");
  const auto how = body.Object("sampling_params");
  if (!how) return body.Fail("sampling_params", "'sampling_params' is missing");
  BodyReader part(*how, "sampling_params.");
  ReadSampling(part, model, request);
  request->n = static_cast<int32_t>(part.Integer("n", 1, kChoicesMax).value_or(1));
  request->top = ReadTop(part, "logprobs", model);
  request->prompt_top = ReadTop(part, "prompt_logprobs", model);
  request->output_tokens_max = static_cast<int32_t>(
      part.Integer("max_tokens", 1, std::numeric_limits<int32_t>::max()).value_or(16));
  if (auto forced = part.Tokens("trace_decode_token_ids", model.vocab)) {
    if (forced->empty()) part.Fail("trace_decode_token_ids", "there is no token to decode");
    if (request->n > 1 || request->prompt_top) {
      part.Fail("trace_decode_token_ids",
                "'trace_decode_token_ids' goes with neither n > 1 nor prompt_logprobs");
    }
    forced->resize(std::min(forced->size(), static_cast<size_t>(request->output_tokens_max)));
    request->output_tokens_max = static_cast<int32_t>(forced->size());
    request->forced = std::move(*forced);
    // Given tokens are decoded to their end.
    request->ignore_eos = true;
    request->stop.clear();
    request->stop_ids.clear();
  }
  body.Take(part);
}

// What follows from several fields together.
void CheckWhole(BodyReader& body, const ServedModel& model, const GenerationRequest& request) {
  const bool chat = request.kind == ApiKind::kChat;
  const std::string_view where = chat                                 ? "messages"
                                 : request.kind == ApiKind::kGenerate ? "token_ids"
                                                                      : "prompt";
  size_t entries = 0;
  for (const std::vector<int32_t>& prompt : request.prompts) {
    if (prompt.empty()) return body.Fail(where, "the prompt has no token");
    const auto most = static_cast<size_t>(request.output_tokens_max);
    if (prompt.size() + most > model.positions) {
      return body.Fail(where,
                       "This model's maximum context length is " + std::to_string(model.positions) +
                           " tokens. However, you requested " +
                           std::to_string(prompt.size() + most) + " tokens (" +
                           std::to_string(prompt.size()) + " in the prompt, " +
                           std::to_string(most) + " in the output)",
                       "context_length_exceeded");
    }
    const auto each = [](std::optional<int32_t> top) {
      return top ? size_t{1} + static_cast<size_t>(*top) : 0;
    };
    entries += (prompt.size() * each(request.prompt_top) + most * each(request.top)) *
               static_cast<size_t>(request.n);
  }
  if (request.choices() > kChoicesMax) {
    return body.Fail("n", "more than " + std::to_string(kChoicesMax) + " choices in one request");
  }
  if (entries > kLogprobEntriesMax) {
    return body.Fail("logprobs", "more than " + std::to_string(kLogprobEntriesMax) +
                                     " log-probs in one answer; ask for fewer alternatives");
  }
  if (request.stream && request.prompt_top && *request.prompt_top > 0) {
    return body.Fail("prompt_logprobs", "'prompt_logprobs' is not given in a stream");
  }
  if (!request.stop.empty() && !model.tokenizer) {
    body.Fail("stop", "'stop' needs text: " + model.no_text + "; use 'stop_token_ids'");
  }
}

}  // namespace

std::string_view Name(ApiKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"completion", "chat", "generate"};
  return kNames[static_cast<size_t>(kind)];
}

size_t GenerationRequest::longest_prompt() const {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  return longest;
}

std::optional<ApiError> ReadGenerationRequest(ApiKind kind, json::object object,
                                              const ServedModel& model,
                                              GenerationRequest* request) {
  BodyReader body(object);
  request->kind = kind;
  const std::optional<std::string> name = body.Text("model");
  if (name && !name->empty() && *name != model.name) {
    return ApiError{
        404, "The model `" + *name + "` does not exist; this server has `" + model.name + "`",
        "model", "model_not_found"};
  }
  request->n = static_cast<int32_t>(body.Integer("n", 1, kChoicesMax).value_or(1));
  request->token_ids = body.Bool("return_token_ids").value_or(false);
  request->tokens_as_token_ids = body.Bool("return_tokens_as_token_ids").value_or(false);
  ReadStream(body, request);
  ReadLabels(body, request);
  if (kind == ApiKind::kGenerate) {
    ReadGenerate(body, model, request);
  } else {
    ReadSampling(body, model, request);
    if (!body.failed()) {
      kind == ApiKind::kChat ? ReadChat(body, model, request)
                             : ReadCompletion(body, model, request);
    }
  }
  if (!body.failed()) CheckWhole(body, model, *request);
  // echo asks for the prompt's log-probs, too, where any are asked for.
  if (request->echo && request->top && !request->prompt_top) request->prompt_top = request->top;
  return body.error();
}

}  // namespace kcc
