#include "kcc/trace/import_responses.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/requests.h"
#include "kcc/trace/token_id.h"

namespace kcc {
namespace {

// The response inside a wrapper, or the line itself.
struct Unwrapped {
  std::string id;
  json::element response;
  ResponseContext context;
  std::map<std::string, RequestValue, std::less<>> fields;
};

std::string TextOf(std::optional<json::element> element) {
  std::string_view text;
  int64_t number = 0;
  if (element && element->get(text) == simdjson::SUCCESS) return std::string(text);
  if (element && element->get(number) == simdjson::SUCCESS) return std::to_string(number);
  return "";
}

// Everything about the wrapper that a request may hold.
Result<std::map<std::string, RequestValue, std::less<>>> WrapperFields(json::object object) {
  std::string text = "{\"id\":\"x\"";
  for (const auto [key, value] : object) {
    if (key == "id" || key == "request" || key == "response") continue;
    text += "," + JsonQuote(key) + ":" + std::string(simdjson::minify(json::element(value)));
  }
  KCC_TRY(Request request, ParseRequest(text + "}"));
  return std::move(request.fields);
}

Result<Unwrapped> Unwrap(json::element root, const ImportOptions& options) {
  Unwrapped unwrapped;
  unwrapped.response = root;
  unwrapped.context.options = &options;
  unwrapped.context.scored_prompt_tokens = options.prompt_tokens;
  json::object object;
  if (root.get(object) != simdjson::SUCCESS) return unwrapped;
  const auto error = JsonMember(object, "error");
  if (error)
    return BrokenEvidenceError("the line is a server's error: " + simdjson::minify(*error));
  const auto response = JsonMember(object, "response");
  if (!response) {
    unwrapped.id = TextOf(JsonMember(object, "request_id"));
    if (unwrapped.id.empty()) unwrapped.id = TextOf(JsonMember(object, "id"));
    return unwrapped;
  }
  unwrapped.response = *response;
  unwrapped.id = TextOf(JsonMember(object, "id"));
  if (unwrapped.id.empty()) return InvalidError("the wrapper around the response has no 'id'");
  const auto request = JsonMember(object, "request");
  json::object body;
  if (request && request->get(body) == simdjson::SUCCESS) unwrapped.context.request = body;
  KCC_TRY(unwrapped.fields, WrapperFields(object));
  if (const auto it = unwrapped.fields.find("prompt_tokens"); it != unwrapped.fields.end()) {
    if (const double* count = std::get_if<double>(&it->second)) {
      unwrapped.context.scored_prompt_tokens = static_cast<int64_t>(*count);
    }
  }
  return unwrapped;
}

Result<> ImportLine(std::string_view line, int number, const ImportOptions& options,
                    const ResponseParser& parse, json::parser& parser, SequenceWriter* writer) {
  if (line.starts_with("data:")) {
    return InvalidError(
        "this is a streamed answer (server-sent events); record answers without streaming, or "
        "join the chunks into one response a line");
  }
  KCC_TRY(const json::element root, ParseJson(parser, line));
  KCC_TRY(Unwrapped unwrapped, Unwrap(root, options));
  unwrapped.context.warnings = writer->warnings();
  if (unwrapped.id.empty()) unwrapped.id = "line-" + std::to_string(number);
  std::vector<json::object> responses;
  json::array batch;
  json::object single;
  if (unwrapped.response.get(single) == simdjson::SUCCESS) {
    responses.push_back(single);
  } else if (unwrapped.response.get(batch) == simdjson::SUCCESS) {
    for (const json::element item : batch) {
      if (item.get(single) != simdjson::SUCCESS)
        return InvalidError("a response must be an object");
      responses.push_back(single);
    }
  } else {
    return InvalidError("a response must be an object");
  }
  for (size_t i = 0; i < responses.size(); ++i) {
    KCC_TRY(std::vector<ImportedSequence> sequences, parse(responses[i], unwrapped.context));
    if (sequences.empty()) return BrokenEvidenceError("the response holds no log-probs");
    for (ImportedSequence& sequence : sequences) {
      if (responses.size() > 1) sequence.suffix = "#" + std::to_string(i) + sequence.suffix;
      for (const auto& [name, value] : unwrapped.fields) sequence.fields.insert({name, value});
      sequence.altered = sequence.altered || unwrapped.context.AltersSampling();
      const std::string id = (sequence.id.empty() ? unwrapped.id : sequence.id) + sequence.suffix;
      KCC_TRY_VOID(writer->Add(id, std::move(sequence)));
    }
  }
  return {};
}

}  // namespace

std::optional<json::element> ResponseContext::RequestMember(std::string_view key) const {
  if (!request) return std::nullopt;
  if (const auto direct = JsonMember(*request, key)) return direct;
  for (const std::string_view inner : {"sampling_params", "parameters"}) {
    const auto nested = JsonMember(*request, inner);
    json::object object;
    if (nested && nested->get(object) == simdjson::SUCCESS) {
      if (const auto found = JsonMember(object, key)) return found;
    }
  }
  return std::nullopt;
}

Result<std::vector<int64_t>> ResponseContext::PromptIds() const {
  for (const std::string_view key : {"prompt", "input_ids", "token_ids"}) {
    KCC_TRY(std::vector<int64_t> ids, JsonTokenIds(RequestMember(key), key));
    if (!ids.empty()) return ids;
  }
  return std::vector<int64_t>();
}

void ResponseContext::WarnOnce(const std::string& sentence) const {
  if (std::find(warnings->begin(), warnings->end(), sentence) == warnings->end()) {
    warnings->push_back(sentence);
  }
}

ResponseSequences ReadChoices(json::object response, const ResponseContext& context,
                              std::string_view not_a_response, const ChoiceReader& read) {
  const auto member = JsonMember(response, "choices");
  json::array choices;
  if (!member || member->get(choices) != simdjson::SUCCESS || choices.size() == 0) {
    return InvalidError(std::string(not_a_response));
  }
  const auto temperature = context.RequestMember("temperature");
  std::vector<ImportedSequence> sequences;
  for (const json::element element : choices) {
    json::object choice;
    if (element.get(choice) != simdjson::SUCCESS) return InvalidError("a choice is not an object");
    ImportedSequence sequence;
    if (choices.size() > 1) sequence.suffix = "#" + std::to_string(sequences.size());
    if (temperature) sequence.temperature = JsonNumber(*temperature);
    KCC_TRY_VOID(read(choice, &sequence));
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

int64_t PromptLength(json::object response, size_t prompt_ids, const ResponseContext& context) {
  if (prompt_ids > 0) return static_cast<int64_t>(prompt_ids);
  const auto usage = JsonMember(response, "usage");
  json::object counts;
  if (usage && usage->get(counts) == simdjson::SUCCESS) {
    const auto count = JsonMember(counts, "prompt_tokens");
    if (const int64_t length = count ? JsonInteger(*count).value_or(0) : 0; length > 0) {
      return length;
    }
  }
  return context.options->prompt_tokens.value_or(0);
}

Result<ImportReport> ImportResponses(std::span<const std::string> inputs, const std::string& output,
                                     const ImportOptions& options, const ResponseParser& parse) {
  if (inputs.empty()) return InvalidError("give at least one file of responses");
  SequenceWriter writer(output, options);
  json::parser parser;
  for (const std::string& input : inputs) {
    KCC_TRY_VOID(ForEachLine(input, kResponseLineBytesMax,
                             [&](std::string_view line, int number) -> Result<> {
                               return ImportLine(line, number, options, parse, parser, &writer);
                             }));
  }
  return writer.Finish();
}

std::vector<int64_t> JsonIntegers(std::optional<json::element> element) {
  json::array list;
  if (!element || element->get(list) != simdjson::SUCCESS) return {};
  std::vector<int64_t> integers;
  for (const json::element item : list) {
    int64_t integer = 0;
    if (item.get(integer) != simdjson::SUCCESS) return {};
    integers.push_back(integer);
  }
  return integers;
}

double LogprobOf(std::optional<json::element> element) {
  const auto number = element ? JsonNumber(*element) : std::nullopt;
  if (!number || IsLogprobSentinel(*number)) return std::numeric_limits<double>::quiet_NaN();
  return *number;
}

Result<int32_t> JsonTokenId(json::element element, std::string_view where) {
  const auto place = [&] { return std::string(where); };
  int64_t integer = 0;
  if (element.get(integer) == simdjson::SUCCESS) return TokenIdFrom(integer, place);
  const auto number = JsonNumber(element);
  if (!number) return NotATokenId(place(), std::string(JsonTypeName(element)));
  if (element.is_uint64()) return NotATokenId(place(), simdjson::minify(element));
  return TokenIdFrom(*number, place);
}

Result<std::vector<int64_t>> JsonTokenIds(std::optional<json::element> element,
                                          std::string_view name) {
  std::vector<int64_t> ids;
  json::array list;
  if (!element || element->get(list) != simdjson::SUCCESS) return ids;
  for (const json::element item : list) {
    if (ids.empty() && !item.is_number()) return ids;
    auto id = JsonTokenId(item, "");
    if (!id.has_value()) {
      return JsonTokenId(item,
                         "entry " + std::to_string(ids.size()) + " of '" + std::string(name) + "'")
          .error();
    }
    ids.push_back(*id);
  }
  return ids;
}

Result<std::optional<int32_t>> TokenIdOf(std::string_view text) {
  constexpr std::string_view kPrefix = "token_id:";
  if (!text.starts_with(kPrefix)) return std::optional<int32_t>();
  text.remove_prefix(kPrefix.size());
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto where = [] { return std::string("the number behind 'token_id:'"); };
  if (failure != std::errc() || end != text.data() + text.size()) {
    return NotATokenId(where(), std::string(text));
  }
  KCC_TRY(const int32_t id, TokenIdFrom(number, where));
  return std::optional<int32_t>(id);
}

void SortTop(std::vector<TopEntry>* top) {
  std::erase_if(*top, [](const TopEntry& entry) {
    return std::isnan(entry.logprob) || IsLogprobSentinel(entry.logprob);
  });
  // Equal log-probs stay as the server ranked them: its logits may differ where they do not.
  std::stable_sort(top->begin(), top->end(),
                   [](const TopEntry& a, const TopEntry& b) { return a.logprob > b.logprob; });
  std::set<int32_t> seen;
  std::erase_if(*top, [&](const TopEntry& entry) { return !seen.insert(entry.id).second; });
}

Error AlignmentError(std::string_view what, std::span<const int64_t> expected,
                     std::span<const int64_t> found, size_t at) {
  const auto matches = [&](int64_t by) {
    size_t compared = 0;
    size_t equal = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const int64_t j = static_cast<int64_t>(i) + by;
      if (j < 0 || j >= static_cast<int64_t>(expected.size()) || found[i] < 0) continue;
      ++compared;
      equal += expected[static_cast<size_t>(j)] == found[i];
    }
    return compared >= 2 && equal * 10 >= compared * 9;
  };
  std::string cause = "the ids belong to another prompt or another tokeniser";
  if (matches(1) || matches(-1)) {
    cause =
        "the list is shifted by one against the tokens (an element 0 that was dropped or added)";
  } else if (expected.size() != found.size()) {
    cause = "the list has " + std::to_string(found.size()) + " entries for " +
            std::to_string(expected.size()) + " tokens";
  }
  const auto text = [&](std::span<const int64_t> ids) {
    return at < ids.size() ? std::to_string(ids[at]) : std::string("nothing");
  };
  return BrokenEvidenceError(std::string(what) + " do not stand at their tokens: entry " +
                             std::to_string(at) + " is about token " + text(found) +
                             ", the sequence has " + text(expected) + " there; " + cause);
}

Result<> CheckAlignment(std::string_view what, std::span<const int64_t> expected, int64_t offset,
                        std::span<const int64_t> found) {
  if (offset > static_cast<int64_t>(expected.size()))
    offset = static_cast<int64_t>(expected.size());
  const auto rest = expected.subspan(static_cast<size_t>(offset));
  const size_t common = std::min(rest.size(), found.size());
  for (size_t i = 0; i < common; ++i) {
    if (rest[i] != found[i]) return AlignmentError(what, rest, found, i);
  }
  if (rest.size() != found.size()) return AlignmentError(what, rest, found, common);
  return {};
}

}  // namespace kcc
