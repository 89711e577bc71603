#include "kcc/kernel/server_identity.h"

#include <algorithm>
#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"
#include "kcc/kernel/server_build.h"
#include "kcc/kernel/server_score.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

Result<> Read(const std::string& path, std::string body, ServerDocument* document) {
  document->body = std::move(body);
  const auto root = ParseJson(document->parser, document->body);
  if (!root.has_value() || root->get(document->object) != simdjson::SUCCESS) {
    return BrokenEvidenceError(path + " does not give a JSON object; is it the right server=?");
  }
  return {};
}

std::string ScalarText(std::optional<json::element> element) {
  if (!element) return "";
  std::string_view text;
  if (element->get(text) == simdjson::SUCCESS) return std::string(text);
  return simdjson::minify(*element);
}

Result<> ChooseModel(const ServerDocument& document, const std::string& wanted,
                     ServerFacts* facts) {
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

// The "owned_by" of the first model.
std::string OwnerOf(const ServerDocument& models) {
  const auto list = JsonList(JsonMember(models.object, "data"));
  json::object model;
  if (!list || list->empty() || (*list)[0].get(model) != simdjson::SUCCESS) return "";
  return std::string(JsonText(JsonMember(model, "owned_by")));
}

// What is said where a server does not answer as the one it was said to be.
std::string RightServer(HttpPool& pool) {
  const auto guessed = GuessServer(pool);
  if (!guessed.has_value() || guessed->empty()) return "";
  std::vector<std::string_view> names;
  for (const ServerDialect* server : *guessed) names.push_back(server->name);
  return " It answers as server=" + JoinWords(names, "or");
}

// Which server's path gives log-probs of other than raw semantics: "vllm with path=decode".
std::string PathsOfAnySemantics() {
  std::vector<std::string> words;
  for (const ServerDialect* server : kServers) {
    for (const ServerPath& path : server->paths) {
      if (!path.any_semantics) continue;
      words.push_back(std::string(server->name) + " with path=" + std::string(Name(path.kind)));
    }
  }
  const std::vector<std::string_view> views(words.begin(), words.end());
  return JoinWords(views);
}

}  // namespace

Result<> GetDocument(HttpPool& pool, const std::string& path, ServerDocument* document) {
  KCC_TRY(HttpReply reply, pool.Ask({path, ""}));
  if (reply.status != 200) {
    const bool key = reply.status == 401 || reply.status == 403;
    return IoError(
        path + " gives status " + std::to_string(reply.status) +
        (key ? "; give the server's key with api_key_file=PATH" : "; is it the right server=?"));
  }
  return Read(path, std::move(reply.body), document);
}

void KeepIdentity(const ServerDocument& document, std::span<const std::string_view> names,
                  ServerFacts* facts) {
  for (const std::string_view name : names) {
    std::string text = ScalarText(JsonMember(document.object, name));
    if (!text.empty()) facts->identity.push_back({std::string(name), std::move(text)});
  }
}

Result<> IdentifyByVersion(HttpPool& pool, ServerFacts* facts) {
  ServerDocument document;
  KCC_TRY_VOID(GetDocument(pool, "/version", &document));
  facts->version = JsonText(JsonMember(document.object, "version"));
  return {};
}

Result<> ReadModelList(const std::string& body, const std::string& wanted, ServerFacts* facts) {
  ServerDocument document;
  KCC_TRY_VOID(Read("/v1/models", body, &document));
  return ChooseModel(document, wanted, facts);
}

Result<> FindModel(HttpPool& pool, const ServerOptions& options, ServerFacts* facts) {
  ServerDocument models;
  auto reached = GetDocument(pool, "/v1/models", &models);
  if (reached.has_value()) return ChooseModel(models, options.model, facts);
  const Error& error = reached.error();
  if (error.message().find(kNobodyListens) == std::string::npos) return error;
  return Error(error.code(),
               error.message() + "; " + std::string(options.server->title) + " listens on " +
                   std::to_string(options.server->port) + " unless it is told otherwise",
               error.place());
}

Result<std::vector<const ServerDialect*>> GuessServer(HttpPool& pool) {
  ServerDocument models;
  KCC_TRY_VOID(GetDocument(pool, "/v1/models", &models));
  const std::string owner = OwnerOf(models);
  std::vector<const ServerDialect*> guessed;
  for (const ServerDialect* server : kServers) {
    if (owner == server->owner) return std::vector{server};
    ServerFacts facts;
    facts.server = server;
    if (server->identify(pool, &facts).has_value() && !facts.version.empty()) {
      guessed.push_back(server);
    }
  }
  return guessed;
}

Result<ServerFacts> DiscoverServer(HttpPool& pool, const ServerOptions& options) {
  ServerFacts facts;
  facts.server = options.server;
  const std::string name(facts.server->name);
  KCC_TRY(facts.path, ChoosePath(*facts.server, options.path));
  if (options.semantics != LogprobSemantics::kRaw && !facts.path->any_semantics) {
    return InvalidError("the log-probs of given tokens are raw on " + name + " (" +
                        std::string(Name(facts.path->kind)) + " path); semantics=" +
                        std::string(Name(options.semantics)) + " is for " + PathsOfAnySemantics());
  }
  facts.extra = options.fields;
  KCC_TRY_VOID(CheckUserFields(*facts.path->route, facts.extra));
  KCC_TRY_VOID(FindModel(pool, options, &facts));
  auto identified = facts.server->identify(pool, &facts);
  if (!identified.has_value()) {
    const Error& error = identified.error();
    return Error(error.code(), error.message() + RightServer(pool), error.place());
  }
  if (facts.version.empty()) {
    return BrokenEvidenceError("the server does not say its version; is it really " + name + "?");
  }
  facts.end.insert(facts.end.end(), options.end.begin(), options.end.end());
  if (options.vocab_size > 0 && facts.vocab_size > 0 && facts.vocab_size != options.vocab_size) {
    return InvalidError("the server's vocabulary has " + std::to_string(facts.vocab_size) +
                        " entries, vocab_size says " + std::to_string(options.vocab_size));
  }
  if (options.vocab_size > 0) facts.vocab_size = options.vocab_size;
  if (facts.vocab_size < 1 && facts.server->ask_vocabulary != nullptr) {
    KCC_TRY(facts.vocab_size, facts.server->ask_vocabulary(pool, facts));
  }
  if (facts.vocab_size < 1 && !facts.path->logits) {
    return InvalidError(name +
                        " does not tell how large the vocabulary is; give vocab_size=N (it is in "
                        "the model's config.json). If you did, quote the URI: a shell ends a "
                        "command at '&'");
  }
  if (facts.server->kv_cache_mb != nullptr) {
    // Not every server shows its metrics, and nothing else depends on them.
    const auto reply = pool.Ask({"/metrics", ""});
    if (reply.has_value() && reply->status == 200) {
      facts.kv_cache_mb = facts.server->kv_cache_mb(reply->body);
    } else if (!reply.has_value() && reply.error().message() == InterruptedError().message()) {
      return reply.error();
    }
  }
  return facts;
}

std::string ServerFingerprint(const ServerFacts& facts, const ServerOptions& options) {
  JsonWriter writer(JsonWriter::Style::kCompact);
  writer.BeginObject().Field("server", facts.server->name).Field("version", facts.version);
  writer.Field("model", facts.model).Field("path", Name(facts.path->kind));
  writer.Field("semantics", Name(options.semantics)).Field("temperature", options.temperature);
  writer.Field("in_flight", options.http.in_flight_max);  // it decides what is batched together
  writer.Key("identity").BeginObject();
  for (const ServerOptions::Field& field : facts.identity) writer.Field(field.name, field.json);
  writer.EndObject().Key("body").BeginObject();
  for (const ServerOptions::Field& field : facts.extra) writer.Key(field.name).Raw(field.json);
  writer.EndObject().EndObject();
  constexpr size_t kShortDigest = 7 + 16;  // "sha256:" and 64 bits
  return std::string(facts.server->name) + " " + facts.version + ", " + facts.model + ", " +
         std::string(Name(facts.path->kind)) + ", " +
         Sha256Of(writer.Take()).substr(0, kShortDigest);
}

Result<std::string> AskServerBuild(const ServerBuildAsk& ask) {
  ServerFacts facts;
  facts.server = FindServer(ask.server);
  if (facts.server == nullptr)
    return InvalidError("'" + ask.server + "' is no server that kcc knows");
  KCC_TRY(const auto pool, HttpPool::Open(ask.http));
  KCC_TRY(const HttpReply models, pool->Ask({"/v1/models", ""}));
  if (models.status != 200) {
    return IoError("/v1/models gives status " + std::to_string(models.status));
  }
  KCC_TRY_VOID(ReadModelList(models.body, ask.model, &facts));
  KCC_TRY_VOID(facts.server->identify(*pool, &facts));
  std::string text = "version " + facts.version + ", model " + facts.model;
  for (const auto& [name, value] : facts.identity) text += ", " + name + " " + value;
  return text;
}

}  // namespace kcc
