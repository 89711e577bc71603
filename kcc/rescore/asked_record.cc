#include "kcc/rescore/asked_record.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/predicate/fields.h"
#include "kcc/trace/import_responses.h"
#include "kcc/trace/request_schema.h"
#include "kcc/trace/request_value.h"

namespace kcc {
namespace {

// Members of a body that fields of the record are taken from, by the names that both have.
constexpr std::array<std::string_view, 9> kSamplingFields = {"frequency_penalty",
                                                             "min_p",
                                                             "presence_penalty",
                                                             "repetition_penalty",
                                                             "seed",
                                                             "temperature",
                                                             "top_k",
                                                             "top_p",
                                                             "typical_p"};

// Members that have no part in which prompt a request is. With any other, beyond those that a
// tokenizer's route is told (kTokenizeMembers), the prompt is not known: servers have more ways to
// change it than a list can name, and an honest kernel must not be called a liar.
// clang-format off
constexpr std::string_view kNeutralMembers[] = {
    "allowed_token_ids", "bad_words", "best_of", "cache_salt", "detokenize", "frequency_penalty",
    "guided_choice", "guided_grammar", "guided_json", "guided_regex", "ignore_eos",
    "include_stop_str_in_output", "length_penalty", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "metadata", "min_p", "min_tokens", "model", "n",
    "n_predict", "parallel_tool_calls", "presence_penalty", "priority", "prompt", "prompt_logprobs",
    "repetition_penalty", "request_id", "response_format", "return_token_ids",
    "return_tokens_as_token_ids", "seed", "service_tier", "skip_special_tokens",
    "spaces_between_special_tokens", "stop", "stop_token_ids", "store", "stream", "stream_options",
    "structured_outputs", "tags", "temperature", "tool_choice", "top_k", "top_logprobs", "top_p",
    "typical_p", "user"};
// clang-format on

// Members that the chat route and a tokenizer's route read alike.
constexpr std::array<std::string_view, 7> kTokenizeMembers = {"messages",
                                                              "add_generation_prompt",
                                                              "continue_final_message",
                                                              "add_special_tokens",
                                                              "chat_template",
                                                              "chat_template_kwargs",
                                                              "tools"};

// A body's members under the ones that the kernel's configuration puts in their place.
class Members {
 public:
  static Result<Members> Of(const ServedRecord& record) {
    Members members;
    json::parser& first = *members.parsers_.emplace_back(std::make_unique<json::parser>());
    KCC_TRY(const json::element root, ParseJson(first, record.request_body));
    if (root.get(members.body_) != simdjson::SUCCESS) {
      return InvalidError("the request's body is no JSON object");
    }
    if (record.pool == nullptr || record.kernel >= record.pool->kernels.size()) return members;
    for (const auto& [name, text] : record.pool->kernels[record.kernel].set) {
      json::parser& parser = *members.parsers_.emplace_back(std::make_unique<json::parser>());
      KCC_TRY(const json::element value, ParseJson(parser, text));
      members.set_.emplace(name, value);
    }
    return members;
  }

  std::optional<json::element> Find(std::string_view name) const {
    const auto found = set_.find(name);
    if (found == set_.end()) return JsonMember(body_, name);
    if (found->second.is_null()) return std::nullopt;
    return found->second;
  }
  bool Has(std::string_view name) const { return SaysSomething(Find(name)); }
  // Every name there is, once; none where one stands twice: servers differ in which they take.
  std::optional<std::set<std::string_view>> Names() const {
    std::set<std::string_view> names;
    for (const auto [name, value] : body_) {
      if (!names.insert(name).second) return std::nullopt;
    }
    for (const auto& [name, value] : set_) names.insert(name);
    return names;
  }
  const json::object& body() const { return body_; }
  const std::map<std::string, json::element, std::less<>>& set() const { return set_; }

 private:
  static bool SaysSomething(std::optional<json::element> value) {
    if (!value) return false;
    bool flag = true;
    if (value->get(flag) == simdjson::SUCCESS) return flag;
    json::array list;
    if (value->get(list) == simdjson::SUCCESS) return list.size() != 0;
    return true;
  }

  std::vector<std::unique_ptr<json::parser>> parsers_;
  json::object body_;
  std::map<std::string, json::element, std::less<>> set_;
};

bool Holds(std::span<const std::string_view> list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool IsText(json::element value) {
  std::string_view text;
  return value.get(text) == simdjson::SUCCESS;
}

// Only texts: what images and sounds become is for their own processors to say.
bool HoldsTextAlone(json::element messages) {
  const auto list = JsonList(messages);
  if (!list || list->empty()) return false;
  for (const json::element item : *list) {
    json::object message;
    if (item.get(message) != simdjson::SUCCESS) return false;
    const auto content = JsonMember(message, "content");
    if (!content || IsText(*content)) continue;
    const auto parts = JsonList(content);
    if (!parts) return false;
    for (const json::element piece : *parts) {
      json::object part;
      if (piece.get(part) != simdjson::SUCCESS) return false;
      if (JsonText(JsonMember(part, "type")) != "text") return false;
    }
  }
  return true;
}

bool ReadIds(json::element value, std::vector<int32_t>* ids) {
  const auto list = JsonList(value);
  if (!list || list->empty()) return false;
  for (const json::element item : *list) {
    const auto id = JsonInteger(item);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) return false;
    ids->push_back(static_cast<int32_t>(*id));
  }
  return true;
}

AskedPrompt PromptOf(const Members& members) {
  AskedPrompt prompt;
  const auto names = members.Names();
  if (!names) return prompt;
  for (const std::string_view name : *names) {
    if (members.Has(name) && !Holds(kNeutralMembers, name) && !Holds(kTokenizeMembers, name)) {
      return prompt;
    }
  }
  if (const auto messages = members.Find("messages")) {
    if (!HoldsTextAlone(*messages)) return prompt;
    // A choice of tools may leave them out of the prompt, or put another text there.
    const auto choice = members.Find("tool_choice");
    if (choice && JsonText(choice) != "auto") return prompt;
    for (const std::string_view name : kTokenizeMembers) {
      const auto value = members.Find(name);
      if (value) prompt.members.emplace_back(std::string(name), simdjson::minify(*value));
    }
    prompt.kind = AskedPrompt::Kind::kChat;
    return prompt;
  }
  auto asked = members.Find("prompt");
  if (!asked) return prompt;
  // A list of one prompt is that prompt.
  const auto list = JsonList(asked);
  if (list && list->size() == 1 && (IsText((*list)[0]) || JsonList((*list)[0]))) asked = (*list)[0];
  if (IsText(*asked)) {
    prompt.kind = AskedPrompt::Kind::kText;
    prompt.text = JsonText(asked);
    bool begins = true;
    const auto special = members.Find("add_special_tokens");
    if (special && special->get(begins) != simdjson::SUCCESS) begins = true;
    prompt.begins = begins;
  } else if (ReadIds(*asked, &prompt.ids)) {
    prompt.kind = AskedPrompt::Kind::kIds;
  } else {
    prompt.ids.clear();
  }
  return prompt;
}

// What the kernel was told about sampling changes the distribution, whoever said it.
bool Alters(const Members& members) {
  ResponseContext context;
  context.request = members.body();
  if (context.AltersSampling()) return true;
  for (const auto& [name, value] : members.set()) {
    if (name == "temperature" || name == "seed" || name.starts_with("max_")) continue;
    const auto number = JsonNumber(value);
    if (number && AltersSamplingAs(name, *number)) return true;
  }
  return false;
}

}  // namespace

RequestValue FieldValueOf(std::string_view name, std::string_view text) {
  json::parser parser;
  RequestValue value;
  const auto element = ParseJson(parser, text);
  if (!element.has_value() || element->is_null() ||
      !ReadRequestValue(*element, &value).has_value()) {
    return RequestValue(std::string(text));
  }
  const PredicateField* const field = FindPredicateField(name);
  const auto* words = std::get_if<std::string>(&value);
  if (field == nullptr || words == nullptr) return value;
  if (field->type == FieldType::kNumber) {
    if (const auto number = ParseNumber(*words)) return RequestValue(*number);
  }
  if (field->type != FieldType::kTextList) return value;
  // A header holds a JSON list or words between commas.
  json::parser inner;
  const auto list = ParseJson(inner, *words);
  RequestValue listed;
  if (list.has_value() && list->is_array() && ReadRequestValue(*list, &listed).has_value()) {
    return listed;
  }
  std::vector<std::string> items;
  for (size_t at = 0; at <= words->size();) {
    const size_t end = std::min(words->find(',', at), words->size());
    std::string item = words->substr(at, end - at);
    const size_t first = item.find_first_not_of(" \t");
    if (first != std::string::npos) {
      items.push_back(item.substr(first, item.find_last_not_of(" \t") - first + 1));
    }
    at = end + 1;
  }
  return RequestValue(std::move(items));
}

Result<AskedRecord> ReadAskedRecord(const ServedRecord& record) {
  KCC_TRY(const Members members, Members::Of(record));
  AskedRecord asked;
  asked.record.id = record.id;
  for (const auto& [name, text] : record.fields) {
    // What a kernel's run decides is not the client's to say, nor what is counted here.
    if (OriginOf(name) != FieldOrigin::kRequest || name == "id" || name == "prompt_tokens")
      continue;
    if (text.empty() || text == "null") continue;
    asked.record.fields.insert_or_assign(name, FieldValueOf(name, text));
  }
  for (const std::string_view name : kSamplingFields) {
    const auto value = members.Find(name);
    RequestValue kept;
    if (!value || !JsonNumber(*value) || !ReadRequestValue(*value, &kept).has_value()) continue;
    asked.record.fields.insert_or_assign(std::string(name), std::move(kept));
  }
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"}) {
    const auto most = members.Find(name);
    const auto count = most ? JsonInteger(*most) : std::nullopt;
    if (count && *count >= 0 && *count <= std::numeric_limits<int32_t>::max()) {
      asked.record.fields.insert_or_assign("output_tokens_max", static_cast<double>(*count));
    }
  }
  // What depends on it, such as the time to a first token, can be asked of streams alone.
  asked.record.fields.try_emplace("stream", record.stream);
  if (const auto value = members.Find("temperature")) asked.temperature = JsonNumber(*value);
  asked.has_seed = members.Find("seed").has_value();
  if (const auto value = members.Find("n")) asked.choices = JsonInteger(*value).value_or(1);
  asked.altered = Alters(members);
  asked.prompt = PromptOf(members);
  return asked;
}

}  // namespace kcc
