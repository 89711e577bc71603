#include "kcc/kernel/server_identity.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/trace/json.h"

namespace kcc {
namespace {

// One GET that must give an object.
struct Document {
  std::string body;
  json::parser parser;
  json::object object;
};

Result<> Read(const std::string& path, std::string body, Document* document) {
  document->body = std::move(body);
  const auto root = ParseJson(document->parser, document->body);
  if (!root.has_value() || root->get(document->object) != simdjson::SUCCESS) {
    return BrokenEvidenceError(path + " does not give a JSON object; is it the right server=?");
  }
  return {};
}

Result<> Get(HttpPool& pool, const std::string& path, Document* document) {
  KCC_TRY(HttpReply reply, pool.Ask({path, ""}));
  if (reply.status != 200) {
    const bool key = reply.status == 401 || reply.status == 403;
    return IoError(
        path + " gives status " + std::to_string(reply.status) +
        (key ? "; give the server's key with api_key_file=PATH" : "; is it the right server=?"));
  }
  return Read(path, std::move(reply.body), document);
}

std::string ScalarText(std::optional<json::element> element) {
  if (!element) return "";
  std::string_view text;
  if (element->get(text) == simdjson::SUCCESS) return std::string(text);
  return simdjson::minify(*element);
}

// The listed members, where they are there, as identity.
void Keep(const Document& document, std::span<const std::string_view> names, ServerFacts* facts) {
  for (const std::string_view name : names) {
    std::string text = ScalarText(JsonMember(document.object, name));
    if (!text.empty()) facts->identity.push_back({std::string(name), std::move(text)});
  }
}

Result<> ChooseModel(const Document& document, const std::string& wanted, ServerFacts* facts) {
  const auto list = JsonList(JsonMember(document.object, "data"));
  std::vector<std::string> names;
  for (const json::element element : list.value_or(std::vector<json::element>())) {
    json::object model;
    if (element.get(model) != simdjson::SUCCESS) continue;
    names.emplace_back(JsonText(JsonMember(model, "id")));
    const bool chosen = wanted.empty() || wanted == names.back();
    const auto meta = JsonMember(model, "meta");
    json::object about;
    if (!chosen || !meta || meta->get(about) != simdjson::SUCCESS) continue;
    if (const auto count = JsonMember(about, "n_vocab")) {  // llama.cpp
      facts->vocab_size = JsonInteger(*count).value_or(0);
      if (facts->vocab_size < 0 || facts->vocab_size > kVocabSizeMax) {
        return BrokenEvidenceError("/v1/models says n_vocab " + std::to_string(facts->vocab_size) +
                                   "; a vocabulary has 1 to " + std::to_string(kVocabSizeMax) +
                                   " entries");
      }
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (names.empty()) return BrokenEvidenceError("/v1/models names no model");
  if (wanted.empty() && names.size() > 1) {
    return InvalidError("the server has the models " + JoinWords(views) +
                        "; say which with model=NAME");
  }
  facts->model = wanted.empty() ? names[0] : wanted;
  if (std::find(names.begin(), names.end(), facts->model) == names.end()) {
    return InvalidError("the server has no model '" + facts->model + "'; it has " +
                        JoinWords(views));
  }
  return {};
}

// llama.cpp names its end token as text; its own tokenizer says which id that is.
Result<> FindEnd(HttpPool& pool, const Document& props, ServerFacts* facts) {
  const std::string_view eos = JsonText(JsonMember(props.object, "eos_token"));
  if (eos.empty()) return {};
  JsonWriter body(JsonWriter::Style::kCompact);
  body.BeginObject().Field("content", eos).Field("add_special", false);
  body.Field("parse_special", true).EndObject();
  KCC_TRY(const HttpReply reply, pool.Ask({"/tokenize", body.Take()}));
  if (reply.status != 200) return {};
  json::parser parser;
  const auto root = ParseJson(parser, reply.body);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) return {};
  KCC_TRY(const std::vector<int64_t> ids, JsonTokenIds(JsonMember(object, "tokens"), "tokens"));
  if (ids.size() == 1 && ids[0] >= 0 && ids[0] < kVocabSizeMax) {
    facts->end.push_back(static_cast<int32_t>(ids[0]));
  }
  return {};
}

Result<> AskVersion(HttpPool& pool, ServerFacts* facts) {
  Document document;
  switch (facts->kind) {
    case ServerKind::kVllm:
    case ServerKind::kTrtllm:
      KCC_TRY_VOID(Get(pool, "/version", &document));
      facts->version = JsonText(JsonMember(document.object, "version"));
      break;
    case ServerKind::kSglang: {
      constexpr std::array<std::string_view, 10> kArguments = {"model_path",
                                                               "dtype",
                                                               "quantization",
                                                               "kv_cache_dtype",
                                                               "tp_size",
                                                               "attention_backend",
                                                               "sampling_backend",
                                                               "enable_deterministic_inference",
                                                               "chunked_prefill_size",
                                                               "disable_radix_cache"};
      KCC_TRY_VOID(Get(pool, "/server_info", &document));
      facts->version = JsonText(JsonMember(document.object, "version"));
      Keep(document, kArguments, facts);
      Document model;
      KCC_TRY_VOID(Get(pool, "/model_info", &model));
      Keep(model, std::array<std::string_view, 1>{"weight_version"}, facts);
      break;
    }
    case ServerKind::kLlamacpp:
      KCC_TRY_VOID(Get(pool, "/props", &document));
      facts->version = JsonText(JsonMember(document.object, "build_info"));
      Keep(document, std::array<std::string_view, 2>{"model_ftype", "total_slots"}, facts);
      KCC_TRY_VOID(FindEnd(pool, document, facts));
      break;
  }
  if (facts->version.empty()) {
    return BrokenEvidenceError("the server does not say its version; is it really " +
                               std::string(Name(facts->kind)) + "?");
  }
  return {};
}

}  // namespace

Result<> ReadModelList(const std::string& body, const std::string& wanted, ServerFacts* facts) {
  Document document;
  KCC_TRY_VOID(Read("/v1/models", body, &document));
  return ChooseModel(document, wanted, facts);
}

Result<ServerFacts> DiscoverServer(HttpPool& pool, const ServerOptions& options) {
  ServerFacts facts;
  facts.kind = options.server;
  KCC_TRY(facts.path, ChoosePath(options.server, options.path));
  if (options.semantics != LogprobSemantics::kRaw &&
      !(facts.kind == ServerKind::kVllm && facts.path == TracePath::kDecode)) {
    return InvalidError("the log-probs of given tokens are raw on " +
                        std::string(Name(facts.kind)) + " (" + std::string(Name(facts.path)) +
                        " path); semantics=" + std::string(Name(options.semantics)) +
                        " is for vllm with path=decode");
  }
  facts.extra = options.fields;
  KCC_TRY_VOID(CheckExtraFields(facts));
  Document models;
  KCC_TRY_VOID(Get(pool, "/v1/models", &models));
  KCC_TRY_VOID(ChooseModel(models, options.model, &facts));
  KCC_TRY_VOID(AskVersion(pool, &facts));
  facts.end.insert(facts.end.end(), options.end.begin(), options.end.end());
  if (options.vocab_size > 0 && facts.vocab_size > 0 && facts.vocab_size != options.vocab_size) {
    return InvalidError("the server's vocabulary has " + std::to_string(facts.vocab_size) +
                        " entries, vocab_size says " + std::to_string(options.vocab_size));
  }
  if (options.vocab_size > 0) facts.vocab_size = options.vocab_size;
  if (facts.vocab_size < 1 && facts.kind != ServerKind::kTrtllm) {
    return InvalidError(std::string(Name(facts.kind)) +
                        " does not tell how large the vocabulary is; give vocab_size=N (it is in "
                        "the model's config.json)");
  }
  return facts;
}

std::string ServerFingerprint(const ServerFacts& facts, const ServerOptions& options) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("server", Name(facts.kind)).Field("version", facts.version);
  writer.Field("model", facts.model).Field("path", Name(facts.path));
  writer.Field("semantics", Name(options.semantics)).Field("temperature", options.temperature);
  writer.Field("in_flight", options.http.in_flight_max);  // it decides what is batched together
  writer.Key("identity").BeginObject();
  for (const ServerOptions::Field& field : facts.identity) writer.Field(field.name, field.json);
  writer.EndObject().Key("body").BeginObject();
  for (const ServerOptions::Field& field : facts.extra) writer.Key(field.name).Raw(field.json);
  writer.EndObject().EndObject();
  constexpr size_t kShortDigest = 7 + 16;  // "sha256:" and 64 bits
  return std::string(Name(facts.kind)) + " " + facts.version + ", " + facts.model + ", " +
         std::string(Name(facts.path)) + ", " + Sha256Of(writer.Take()).substr(0, kShortDigest);
}

}  // namespace kcc
