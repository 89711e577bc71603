#include "kcc/kernel/exec_protocol.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/kernel/exec_audits.h"
#include "kcc/summary/population.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/requests.h"

namespace kcc {
namespace {

std::string TakeLine(JsonWriter& json) {
  std::string line = json.Take();
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

void WriteTokens(std::span<const int32_t> tokens, JsonWriter* json) {
  json->Key("tokens").BeginArray();
  for (const int32_t token : tokens) json->Value(token);
  json->EndArray();
}

Error Wrong(std::string message) { return BrokenEvidenceError(std::move(message)); }

// An answer: an object of the type wanted, with no key but those known.
class Answer {
 public:
  Result<> Parse(std::string_view line, std::string_view type,
                 std::span<const std::string_view> keys) {
    Result<json::element> root = ParseJson(parser_, line);
    if (!root.has_value()) {
      return Wrong("the answer is " + root.error().message() + ": '" +
                   std::string(line.substr(0, 80)) +
                   "' (only answers go to standard output; print to standard error instead)");
    }
    if (root->get(object_) != simdjson::SUCCESS) return Wrong("the answer is not an object");
    const std::string_view said = Text("type");
    if (said == "error") return Wrong("the program says: " + std::string(Text("message")));
    if (said != type) {
      return Wrong("the answer's type is '" + std::string(said) + "' instead of '" +
                   std::string(type) + "'");
    }
    return CheckKeys(object_, keys, "the answer");
  }

  static Result<> CheckKeys(json::object object, std::span<const std::string_view> keys,
                            const std::string& where) {
    for (const auto field : object) {
      if (field.key == "type" || std::find(keys.begin(), keys.end(), field.key) != keys.end()) {
        continue;
      }
      const auto nearest = NearestWord(field.key, keys);
      return Wrong(where + " has an unknown key '" + std::string(field.key) + "'" +
                   (nearest ? "; did it mean '" + std::string(*nearest) + "'?" : ""));
    }
    return {};
  }

  std::optional<json::element> Find(std::string_view key) const { return JsonMember(object_, key); }
  std::string_view Text(std::string_view key) const { return JsonText(Find(key)); }

  Result<int64_t> Integer(std::string_view key, int64_t low, int64_t high,
                          std::optional<int64_t> fallback = {}) const {
    const auto found = Find(key);
    if (!found && fallback) return *fallback;
    const std::optional<int64_t> value = found ? JsonInteger(*found) : std::nullopt;
    if (!value || *value < low || *value > high) {
      return Wrong("'" + std::string(key) + "' must be an integer from " + std::to_string(low) +
                   " to " + std::to_string(high));
    }
    return *value;
  }

  // One of an enum's words, by its parser; the fallback if the key is missing.
  template <class Enum>
  Result<Enum> Word(std::string_view key, std::optional<Enum> (*parse)(std::string_view),
                    std::string_view words, std::optional<Enum> fallback = {}) const {
    if (!Find(key) && fallback) return *fallback;
    const std::optional<Enum> value = parse(Text(key));
    if (!value) return Wrong("'" + std::string(key) + "' must be " + std::string(words));
    return *value;
  }

 private:
  json::parser parser_;
  json::object object_;
};

Result<std::vector<KernelOption>> ReadOptions(std::optional<json::element> value) {
  std::vector<KernelOption> options;
  if (!value) return options;
  const auto list = JsonList(value);
  if (!list) return Wrong("'options' must be a list of objects");
  constexpr std::array<std::string_view, 3> kKeys = {"name", "value", "source"};
  constexpr std::array<std::string_view, 5> kSources = {"", "operator", "precision", "batch",
                                                        "route"};
  for (const json::element item : *list) {
    json::object object;
    if (item.get(object) != simdjson::SUCCESS) return Wrong("'options' must be a list of objects");
    KCC_TRY_VOID(Answer::CheckKeys(object, kKeys, "an option"));
    KernelOption option;
    option.name = JsonText(JsonMember(object, "name"));
    option.value = JsonText(JsonMember(object, "value"));
    option.source = JsonText(JsonMember(object, "source"));
    if (option.name.empty()) return Wrong("an option has no 'name'");
    if (std::find(kSources.begin(), kSources.end(), option.source) == kSources.end()) {
      return Wrong("the option '" + option.name + "' has the source '" + option.source +
                   "'; use operator, precision, batch or route, or leave it out");
    }
    options.push_back(std::move(option));
  }
  return options;
}

// What every answer to a batch must repeat.
Result<> CheckBatch(const Answer& answer, int64_t batch, const std::string& fingerprint) {
  KCC_TRY(const int64_t said, answer.Integer("batch", 0, int64_t{1} << 53));
  if (said != batch) {
    return Wrong("it answered batch " + std::to_string(said) + " when asked for batch " +
                 std::to_string(batch) + ": answers come in order, one at a time");
  }
  if (answer.Text("fingerprint") != fingerprint) {
    return Wrong("its fingerprint became '" + std::string(answer.Text("fingerprint")) +
                 "', it was '" + fingerprint + "' at the start: another kernel answered");
  }
  return {};
}

Result<std::vector<json::element>> ListOf(const Answer& answer, size_t count) {
  const auto list = JsonList(answer.Find("requests"));
  if (!list) return Wrong("'requests' must be a list");
  if (list->size() != count) {
    return Wrong("it answered for " + std::to_string(list->size()) + " requests when asked for " +
                 std::to_string(count));
  }
  return *list;
}

Result<> CheckId(std::string_view said, const KernelRequest& asked, size_t i) {
  if (said == asked.request.id) return {};
  return Wrong("request " + std::to_string(i) + " of the answer is '" + std::string(said) +
               "', the one asked for is '" + asked.request.id + "'");
}

std::optional<double> Milliseconds(std::optional<json::element> value) {
  const std::optional<double> number = value ? JsonNumber(*value) : std::nullopt;
  return number && std::isfinite(*number) && *number >= 0 ? number : std::nullopt;
}

Result<> ReadContinuation(json::object object, const Sampling& sampling, int64_t vocab_size,
                          GeneratedRequest* out) {
  if (const auto failed = JsonMember(object, "failed")) {
    if (failed->get(out->failed) != simdjson::SUCCESS) {
      return Wrong("'failed' must be true or false");
    }
  }
  const auto tokens = JsonList(JsonMember(object, "tokens"));
  if (!tokens && out->failed) return {};  // nothing was written
  if (!tokens) return Wrong("'tokens' must be a list of token ids");
  if (tokens->size() > static_cast<size_t>(sampling.output_tokens_max)) {
    return Wrong("it wrote " + std::to_string(tokens->size()) + " tokens, more than the " +
                 std::to_string(sampling.output_tokens_max) + " allowed");
  }
  for (const json::element item : *tokens) {
    const std::optional<int64_t> id = JsonInteger(item);
    if (!id || *id < 0 || *id >= vocab_size) {
      return Wrong("it wrote the token " + simdjson::minify(item) + ", outside its vocabulary of " +
                   std::to_string(vocab_size));
    }
    out->tokens.push_back(static_cast<int32_t>(*id));
  }
  const auto logprobs = JsonList(JsonMember(object, "logprobs"));
  if (logprobs && logprobs->size() != tokens->size()) {
    return Wrong(std::to_string(logprobs->size()) + " log-probs for " +
                 std::to_string(tokens->size()) + " tokens");
  }
  for (const json::element item : logprobs.value_or(std::vector<json::element>())) {
    const std::optional<double> number = JsonNumber(item);
    if (!number) return Wrong("the log-prob " + simdjson::minify(item) + " is no number");
    KCC_TRY_VOID(CheckLogprob(*number));  // before it becomes a float, where -1e300 is -inf
    out->logprobs.push_back(static_cast<float>(*number));
  }
  out->latency_ms = Milliseconds(JsonMember(object, "latencyMs"));
  out->ttft_ms = Milliseconds(JsonMember(object, "ttftMs"));
  return {};
}

}  // namespace

std::string HelloMessage() {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("type", "hello").Field("protocol", kExecProtocol).EndObject();
  return TakeLine(json);
}

std::string ScoreMessage(int64_t batch, std::span<const KernelRequest> requests,
                         const std::string& file, bool audit) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("type", "score").Field("batch", batch).Field("file", file);
  if (audit) json.Field("audit", true);
  json.Key("requests").BeginArray();
  for (const KernelRequest& request : requests) {
    json.BeginObject().Field("id", request.request.id);
    json.Field("promptTokens", request.prompt_tokens);
    WriteTokens(request.tokens, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return TakeLine(json);
}

std::string GenerateMessage(int64_t batch, std::span<const KernelRequest> requests,
                            const Sampling& sampling, bool audit) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("type", "generate").Field("batch", batch);
  if (audit) json.Field("audit", true);
  json.Key("sampling").BeginObject();
  json.Field("temperature", sampling.temperature).Field("topK", sampling.top_k);
  json.Field("topP", sampling.top_p).Field("outputTokensMax", sampling.output_tokens_max);
  json.Key("stop").BeginArray();
  for (const int32_t token : sampling.stop) json.Value(token);
  json.EndArray().EndObject();
  json.Key("requests").BeginArray();
  for (const KernelRequest& request : requests) {
    json.BeginObject().Field("id", request.request.id);
    json.Field("seed", RequestSeed(sampling.seed, request.request.id));
    WriteTokens(std::span(request.tokens).first(static_cast<size_t>(request.prompt_tokens)), &json);
    json.Key("fields").Raw(RequestJson(request.request)).EndObject();
  }
  json.EndArray().EndObject();
  return TakeLine(json);
}

std::string ByeMessage() { return R"({"type":"bye"})"; }

uint64_t RequestSeed(uint64_t run_seed, std::string_view id) {
  return HashText(std::to_string(run_seed) + "\n" + std::string(id)) >> 11;
}

namespace {

Result<std::map<std::string, std::string>> ReadDeclared(
    const std::optional<json::element>& element) {
  std::map<std::string, std::string> declared;
  if (!element) return declared;
  json::object members;
  if (element->get(members) != simdjson::SUCCESS) return Wrong("'declares' must be an object");
  for (const auto [key, value] : members) {
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS) {
      return Wrong("'declares' may hold strings only; '" + std::string(key) + "' is none");
    }
    declared.insert_or_assign(std::string(key), std::string(text));
  }
  return declared;
}

}  // namespace

Result<KernelInfo> ParseHello(std::string_view line) {
  constexpr std::array<std::string_view, 13> kKeys = {
      "protocol",         "fingerprint", "modelDigest", "vocabSize", "evidence",
      "semantics",        "path",        "temperature", "generates", "audits",
      "batchRequestsMax", "options",     "declares"};
  Answer answer;
  KCC_TRY_VOID(answer.Parse(line, "hello", kKeys));
  KCC_TRY(const int64_t protocol, answer.Integer("protocol", 0, 1'000'000));
  if (protocol != kExecProtocol) {
    return Wrong("it speaks version " + std::to_string(protocol) +
                 " of the exec protocol, this kcc speaks version " + std::to_string(kExecProtocol));
  }
  KernelInfo info;
  info.fingerprint = answer.Text("fingerprint");
  if (info.fingerprint.empty()) return Wrong("'fingerprint' must name the kernel build");
  info.model_digest = answer.Text("modelDigest");
  KCC_TRY(info.vocab_size, answer.Integer("vocabSize", 1, kVocabSizeMax));
  KCC_TRY(info.evidence, answer.Word<EvidenceLevel>("evidence", ParseEvidenceLevel,
                                                    "logits, top-k, sampled-token or none"));
  KCC_TRY(info.semantics, answer.Word<LogprobSemantics>("semantics", ParseLogprobSemantics,
                                                        "raw, temperature-scaled or processed"));
  KCC_TRY(info.path,
          answer.Word<TracePath>("path", ParseTracePath, "prefill or decode", TracePath::kPrefill));
  if (const auto temperature = answer.Find("temperature")) {
    const std::optional<double> value = JsonNumber(*temperature);
    if (!value || !std::isfinite(*value) || *value <= 0) {
      return Wrong("'temperature' must be a number above 0");
    }
    info.temperature = *value;
  }
  const auto flag = [&](std::string_view key, bool* value) -> Result<> {
    const auto found = answer.Find(key);
    if (found && found->get(*value) != simdjson::SUCCESS) {
      return Wrong("'" + std::string(key) + "' must be true or false");
    }
    return {};
  };
  KCC_TRY_VOID(flag("generates", &info.generates));
  KCC_TRY_VOID(flag("audits", &info.audits));
  KCC_TRY(const int64_t batch_max, answer.Integer("batchRequestsMax", 0, 1 << 30, 0));
  info.batch_requests_max = static_cast<int32_t>(batch_max);
  KCC_TRY(info.options, ReadOptions(answer.Find("options")));
  KCC_TRY(info.declares, ReadDeclared(answer.Find("declares")));
  return info;
}

Result<std::vector<RequestAudit>> ParseScored(std::string_view line, int64_t batch,
                                              std::span<const KernelRequest> requests,
                                              const std::string& fingerprint) {
  constexpr std::array<std::string_view, 5> kKeys = {"batch", "fingerprint", "requests", "engineMs",
                                                     "audits"};
  Answer answer;
  KCC_TRY_VOID(answer.Parse(line, "scored", kKeys));
  KCC_TRY_VOID(CheckBatch(answer, batch, fingerprint));
  KCC_TRY(const std::vector<json::element> list, ListOf(answer, requests.size()));
  for (size_t i = 0; i < list.size(); ++i) {
    KCC_TRY_VOID(CheckId(JsonText(list[i]), requests[i], i));
  }
  std::vector<RequestAudit> audits;
  const auto said = answer.Find("audits");
  if (!said) return audits;
  const auto items = JsonList(said);
  if (!items || items->size() != requests.size()) {
    return Wrong("'audits' must be a list with one object for each request");
  }
  for (const json::element item : *items) {
    json::object object;
    if (item.get(object) != simdjson::SUCCESS) {
      return Wrong("'audits' must be a list with one object for each request");
    }
    KCC_TRY_VOID(Answer::CheckKeys(object, kAuditKeys, "an item of 'audits'"));
    KCC_TRY(RequestAudit audit, ReadAnsweredAudit(object));
    audits.push_back(std::move(audit));
  }
  return audits;
}

Result<std::vector<GeneratedRequest>> ParseGenerated(std::string_view line, int64_t batch,
                                                     std::span<const KernelRequest> requests,
                                                     const Sampling& sampling,
                                                     const KernelInfo& info) {
  constexpr std::array<std::string_view, 4> kKeys = {"batch", "fingerprint", "requests",
                                                     "engineMs"};
  constexpr std::array<std::string_view, 9> kRequestKeys = {
      "id",     "tokens", "logprobs",    "latencyMs",  "ttftMs",
      "failed", "fields", kAuditKeys[0], kAuditKeys[1]};
  Answer answer;
  KCC_TRY_VOID(answer.Parse(line, "generated", kKeys));
  KCC_TRY_VOID(CheckBatch(answer, batch, info.fingerprint));
  KCC_TRY(const std::vector<json::element> list, ListOf(answer, requests.size()));
  std::vector<GeneratedRequest> generated(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    json::object object;
    if (list[i].get(object) != simdjson::SUCCESS) return Wrong("a request is not an object");
    KCC_TRY_VOID(Answer::CheckKeys(object, kRequestKeys, "a request"));
    KCC_TRY_VOID(CheckId(JsonText(JsonMember(object, "id")), requests[i], i));
    const auto about = [&](const Error& error) {
      return Wrong("request '" + requests[i].request.id + "': " + error.message());
    };
    Result<> read = ReadContinuation(object, sampling, info.vocab_size, &generated[i]);
    if (!read.has_value()) return about(read.error());
    Result<RequestAudit> audit = ReadAnsweredAudit(object);
    if (!audit.has_value()) return about(audit.error());
    generated[i].audit = std::move(*audit);
    const auto fields = JsonMember(object, "fields");
    if (!fields) continue;
    // A request's line, so that the same rules hold for its values.
    const std::string text = simdjson::minify(*fields);
    const bool empty = text.size() <= 2;
    if (text.front() != '{') return Wrong("'fields' must be an object");
    Result<Request> parsed =
        ParseRequest(R"({"id":"x")" + (empty ? "" : "," + text.substr(1, text.size() - 2)) + "}");
    if (!parsed.has_value()) return about(parsed.error());
    generated[i].fields = std::move(*parsed);
  }
  return generated;
}

}  // namespace kcc
