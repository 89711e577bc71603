#include "kcc/kernel/text_requests.h"

#include <utility>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/format/json.h"
#include "kcc/format/line_reader.h"
#include "kcc/kernel/request_source.h"
#include "kcc/kernel/secret.h"
#include "kcc/kernel/server_identity.h"
#include "kcc/kernel/server_table.h"

namespace kcc {
namespace {

// All texts are in memory at once, and so are their ids.
constexpr size_t kTextBytesMax = size_t{256} << 20;

Result<std::string> TextMember(json::object object, std::string_view name) {
  const std::optional<json::element> value = JsonMember(object, name);
  std::string_view text;
  if (!value) return std::string();
  if (value->get(text) == simdjson::SUCCESS) return std::string(text);
  std::string message =
      "'" + std::string(name) + "' must be a text, it is " + std::string(JsonTypeName(*value));
  if (value->is_array()) message += "; a file of token ids is a requests file already";
  return InvalidError(std::move(message));
}

Result<TokenIds> IdsOf(std::optional<json::element> element) {
  const auto list = JsonList(element);
  if (!list) return BrokenEvidenceError("the tokenizer gives no list of ids");
  TokenIds ids;
  for (const json::element item : *list) {
    const std::optional<int64_t> id = JsonInteger(item);
    if (!id || *id < 0 || *id >= kVocabSizeMax) {
      return BrokenEvidenceError("the tokenizer gives " + simdjson::minify(item) +
                                 ", which is no token id");
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void AppendIds(const TokenIds& ids, JsonWriter* json) {
  json->BeginArray();
  for (const int32_t id : ids) json->Value(id);
  json->EndArray();
}

}  // namespace

Result<TextRequests> TextRequests::Read(const std::string& path) {
  TextRequests all;
  all.path_ = path;
  KCC_TRY(LineReader reader, LineReader::Open(path, kRequestFileLineBytesMax));
  json::parser parser;
  size_t bytes = 0;
  const auto add = [&](std::string_view line) -> Result<> {
    const Result<json::element> root = ParseJson(parser, line);
    if (!root.has_value()) {
      return InvalidError(root.error().message() +
                          "; a line is an object: {\"prompt\": \"text\", \"output\": \"text\"}");
    }
    json::object object;
    if (root->get(object) != simdjson::SUCCESS) {
      return InvalidError("a line must be an object: {\"prompt\": \"text\", \"output\": \"text\"}");
    }
    if (JsonMember(object, "messages")) {
      return InvalidError(
          "'messages' needs the model's chat template; apply it first, and give the "
          "text as 'prompt'");
    }
    One one{reader.number(), "line-" + std::to_string(reader.number()), ""};
    KCC_TRY(std::string prompt, TextMember(object, "prompt"));
    KCC_TRY(std::string output, TextMember(object, "output"));
    if (prompt.empty()) return InvalidError("'prompt' is missing or empty");
    if (all.requests_.empty()) all.have_outputs_ = !output.empty();
    if (all.have_outputs_ != !output.empty()) {
      return InvalidError(std::string("'output' is ") + (output.empty() ? "missing" : "here") +
                          ", and the first line has " + (output.empty() ? "one" : "none") +
                          ": all lines have one, to be scored, or none, to be generated");
    }
    for (const auto field : object) {
      if (field.key == "prompt" || field.key == "output") continue;
      if (field.key == "id") {
        KCC_TRY(one.id, TextMember(object, "id"));
        continue;
      }
      one.rest += "," + JsonQuote(field.key) + ":" + simdjson::minify(field.value);
    }
    bytes += line.size();
    if (bytes > kTextBytesMax) {
      return InvalidError("more than " + std::to_string(kTextBytesMax >> 20) +
                          " MiB of text; split the file");
    }
    all.texts_.push_back({std::move(prompt), true});
    if (all.have_outputs_) all.texts_.push_back({std::move(output), false});
    all.requests_.push_back(std::move(one));
    return {};
  };
  std::string_view line;
  while (true) {
    KCC_TRY(const bool more, reader.Next(&line));
    if (!more) break;
    Result<> added = add(line);
    if (!added.has_value()) return std::move(added.error()).At(Place{path, reader.number()});
  }
  if (all.requests_.empty()) return InvalidError("holds no prompt", Place{path});
  return all;
}

Result<std::string> TextRequests::Lines(std::span<const TokenIds> ids) const {
  std::string lines;
  const size_t each = have_outputs_ ? 2 : 1;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const One& one = requests_[i];
    for (size_t k = 0; k < each; ++k) {
      if (!ids[each * i + k].empty()) continue;
      return InvalidError(std::string(k == 0 ? "'prompt'" : "'output'") + " has no token",
                          Place{path_, one.line});
    }
    JsonWriter json(JsonWriter::Style::kCompact);
    json.BeginObject().Field("id", one.id).Key("prompt");
    AppendIds(ids[each * i], &json);
    if (have_outputs_) {
      json.Key("output");
      AppendIds(ids[each * i + 1], &json);
    }
    std::string line = json.EndObject().Take();
    line.insert(line.rfind('}'), one.rest);
    lines += line;
  }
  return lines;
}

Result<std::vector<TokenIds>> TokenizeAtServer(const KernelUri& uri, const KernelOpenOptions& open,
                                               std::span<const TokenText> texts) {
  KCC_TRY(const ServerOptions options, ReadServerOptions(uri, open));
  if (options.server->tokenize == nullptr) {
    return InvalidError(
        std::string(options.server->title) + " has no route that tokenises; use --tokenizer FILE",
        Place{uri.text});
  }
  KCC_TRY(const std::unique_ptr<HttpPool> pool, HttpPool::Open(options.http));
  std::vector<TokenIds> ids(texts.size());
  const auto work = [&]() -> Result<> {
    ServerFacts facts;
    KCC_TRY_VOID(FindModel(*pool, options, &facts));
    const auto make = [&](size_t i) {
      return options.server->tokenize(facts.model, texts[i].text, texts[i].begins);
    };
    const auto take = [&](size_t i, const HttpReply& reply) -> Result<> {
      json::parser parser;
      KCC_TRY(const json::element root, ParseJson(parser, reply.body));
      json::object object;
      if (root.get(object) != simdjson::SUCCESS) {
        return BrokenEvidenceError("/tokenize does not give a JSON object");
      }
      KCC_TRY(ids[i], IdsOf(JsonMember(object, "tokens")));
      return {};
    };
    return pool->Run(texts.size(), make, take);
  };
  Result<> done = work();
  if (!done.has_value()) {
    return WithoutSecret(done.error(), options.http.api_key).At(Place{uri.text});
  }
  return ids;
}

std::string TokenTextLines(std::span<const TokenText> texts) {
  std::string lines;
  for (const TokenText& one : texts) {
    JsonWriter json(JsonWriter::Style::kCompact);
    lines +=
        json.BeginObject().Field("text", one.text).Field("begins", one.begins).EndObject().Take();
  }
  return lines;
}

Result<std::vector<TokenIds>> ReadTokenIds(const std::string& path, size_t count) {
  KCC_TRY(LineReader reader,
          LineReader::Open(path, kRequestFileLineBytesMax, LineSource::kRegular));
  std::vector<TokenIds> all;
  json::parser parser;
  std::string_view line;
  while (true) {
    KCC_TRY(const bool more, reader.Next(&line));
    if (!more) break;
    KCC_TRY(const json::element root, ParseJson(parser, line));
    KCC_TRY(TokenIds ids, IdsOf(root));
    all.push_back(std::move(ids));
  }
  if (all.size() == count) return all;
  return BrokenEvidenceError("the tokenizer answered " + std::to_string(all.size()) + " of " +
                             std::to_string(count) + " texts");
}

}  // namespace kcc
