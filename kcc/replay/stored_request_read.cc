// A stored request from its bytes. Only what StoredRequestJson writes is taken: the digest of the
// bytes is the record's identity, so two spellings of one record must not exist.
#include <algorithm>
#include <array>

#include "kcc/base/sha256.h"
#include "kcc/format/json.h"
#include "kcc/replay/stored_request.h"

namespace kcc {
namespace {

Error Wrong(const std::string& message) {
  return BrokenEvidenceError("not a stored request: " + message);
}

// An object whose keys are all known; `where` names it in messages.
class Members {
 public:
  static Result<Members> Of(std::optional<json::element> element, std::string where) {
    Members members;
    members.where_ = std::move(where);
    if (!element || element->get(members.object_) != simdjson::SUCCESS) {
      return Wrong("'" + members.where_ + "' must be an object");
    }
    return members;
  }

  std::optional<json::element> Find(std::string_view key) const { return JsonMember(object_, key); }
  json::object object() const { return object_; }

  Result<std::string> Text(std::string_view key, bool required = true) const {
    const auto found = Find(key);
    if (!found && !required) return std::string();
    if (!found || !found->is_string()) return Must(key, "a text");
    return std::string(JsonText(found));
  }
  Result<std::string> Digest(std::string_view key) const {
    KCC_TRY(std::string text, Text(key));
    if (!IsSha256(text)) return Must(key, "a digest, sha256:…");
    return text;
  }
  Result<int32_t> Integer(std::string_view key, int64_t low) const {
    const auto found = Find(key);
    const auto value = found ? JsonInteger(*found) : std::nullopt;
    if (!value || *value < low || *value > INT32_MAX) return Must(key, "a whole number");
    return static_cast<int32_t>(*value);
  }
  Result<bool> Flag(std::string_view key, bool required) const {
    const auto found = Find(key);
    bool value = false;
    if (!found && !required) return false;
    if (!found || found->get(value) != simdjson::SUCCESS) return Must(key, "true or false");
    return value;
  }
  Result<std::vector<json::element>> List(std::string_view key) const {
    auto list = JsonList(Find(key));
    if (!list) return Must(key, "a list");
    return std::move(*list);
  }
  Result<std::vector<std::string>> Texts(std::string_view key) const {
    KCC_TRY(const auto list, List(key));
    std::vector<std::string> texts;
    for (const json::element item : list) {
      if (!item.is_string()) return Must(key, "a list of texts");
      texts.emplace_back(JsonText(item));
    }
    return texts;
  }

 private:
  Error Must(std::string_view key, std::string_view what) const {
    return Wrong("'" + std::string(key) + "' of " + where_ + " must be " + std::string(what));
  }
  json::object object_;
  std::string where_;
};

// A number, or one of the words that JsonWriter writes in place of what JSON has no number for.
Result<double> ReadNumber(std::optional<json::element> element, std::string_view key) {
  if (element) {
    if (const auto number = JsonNumber(*element)) return *number;
    if (JsonText(element) == "inf") return std::numeric_limits<double>::infinity();
    if (JsonText(element) == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return Wrong("'" + std::string(key) + "' must be a number");
}

Result<std::vector<RequestFlag>> ReadFlags(const Members& root) {
  KCC_TRY(const auto list, root.List("flags"));
  std::vector<RequestFlag> flags;
  for (const json::element item : list) {
    KCC_TRY(const Members row, Members::Of(item, "a flag"));
    RequestFlag flag;
    KCC_TRY(flag.clause, row.Text("clause"));
    KCC_TRY(flag.slice, row.Text("slice"));
    KCC_TRY(flag.quantity, row.Text("quantity"));
    KCC_TRY(flag.value, ReadNumber(row.Find("value"), "value"));
    KCC_TRY(flag.threshold, ReadNumber(row.Find("threshold"), "threshold"));
    if (row.Find("position")) {
      KCC_TRY(flag.position, row.Integer("position", 0));
    }
    if (row.Find("token")) {
      KCC_TRY(flag.token, row.Integer("token", 0));
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

Result<> ReadSampling(const Members& root, StoredRequest* stored) {
  KCC_TRY(const Members sampling, Members::Of(root.Find("sampling"), "sampling"));
  KCC_TRY(const std::string by, sampling.Text("by"));
  const auto side = ParseSampledBy(by);
  if (!side) return Wrong("'by' of sampling must be infer, train or dataset");
  stored->sampled_by = *side;
  if (const auto temperature = sampling.Find("temperature")) {
    KCC_TRY(stored->sampling_temperature, ReadNumber(temperature, "temperature"));
  }
  KCC_TRY(stored->sampling_altered, sampling.Flag("altered", false));
  KCC_TRY(stored->seed, sampling.Text("seed", false));
  KCC_TRY(const Members parameters, Members::Of(sampling.Find("parameters"), "parameters"));
  for (const auto [key, value] : parameters.object()) {
    KCC_TRY(stored->sampling[std::string(key)], ReadNumber(value, key));
  }
  return {};
}

Result<BatchShape> ReadShape(json::element found, const std::string& key) {
  // A replay asks a batch of this shape: a record of a few bytes must not ask for more memory than
  // a machine has.
  constexpr int64_t kTokensMax = int64_t{1} << 24;
  constexpr size_t kRequestsMax = size_t{1} << 16;
  BatchShape batch;
  int64_t tokens = 0;
  KCC_TRY(const Members members, Members::Of(found, key));
  KCC_TRY(const int32_t place, members.Integer("place", 0));
  KCC_TRY(const auto shape, members.List("shape"));
  for (const json::element item : shape) {
    const auto pair = JsonList(item);
    const auto length = [&](size_t i) -> std::optional<int64_t> {
      const auto value = JsonInteger((*pair)[i]);
      return value && *value >= 0 && *value <= INT32_MAX ? value : std::nullopt;
    };
    if (!pair || pair->size() != 2 || !length(0) || !length(1) || *length(0) < 1) {
      return Wrong("'shape' must be a list of [prompt tokens, output tokens]");
    }
    batch.requests.emplace_back(static_cast<int32_t>(*length(0)), static_cast<int32_t>(*length(1)));
    tokens += *length(0) + *length(1);
    if (tokens > kTokensMax || batch.requests.size() > kRequestsMax) {
      return Wrong("'shape' is of more tokens or requests than a batch can have");
    }
  }
  batch.place = static_cast<size_t>(place);
  if (batch.place >= batch.requests.size()) return Wrong("'place' lies outside its batch");
  return batch;
}

Result<> ReadBatches(const Members& root, StoredRequest* stored) {
  if (const auto batch = root.Find("batch")) {
    KCC_TRY(stored->batch, ReadShape(*batch, "batch"));
  }
  if (const auto batch = root.Find("trainBatch")) {
    KCC_TRY(const Members members, Members::Of(batch, "trainBatch"));
    KCC_TRY(const auto shape, members.List("shape"));
    stored->train_batch.emplace();
    if (shape.empty()) return {};  // not known
    KCC_TRY(*stored->train_batch, ReadShape(*batch, "trainBatch"));
  }
  return {};
}

Result<> ReadIds(const Members& root, std::string_view key, std::vector<int32_t>* ids) {
  KCC_TRY(const auto list, root.List(key));
  for (const json::element item : list) {
    const auto id = JsonInteger(item);
    if (!id || *id < 0 || *id > INT32_MAX) {
      return Wrong("'" + std::string(key) + "' must be a list of token ids");
    }
    ids->push_back(static_cast<int32_t>(*id));
  }
  return {};
}

Result<RequestValue> ReadFieldValue(json::element value) {
  RequestValue out;
  bool flag = false;
  if (const auto number = JsonNumber(value)) {
    out = *number;
  } else if (value.get(flag) == simdjson::SUCCESS) {
    out = flag;
  } else if (value.is_string()) {
    out = std::string(JsonText(value));
  } else if (const auto list = JsonList(value)) {
    std::vector<std::string> texts;
    for (const json::element item : *list) {
      if (!item.is_string()) return Wrong("a list in 'fields' holds something that is no text");
      texts.emplace_back(JsonText(item));
    }
    out = std::move(texts);
  } else {
    return Wrong("'fields' may hold numbers, flags, texts and lists of texts");
  }
  return out;
}

// What `full` adds. The digests must be those of the ids that stand beside them.
Result<> ReadContent(const Members& root, StoredRequest* stored) {
  KCC_TRY_VOID(ReadIds(root, "prompt", &stored->tokens));
  if (stored->tokens.size() != static_cast<size_t>(stored->prompt_tokens)) {
    return Wrong("'prompt' does not have promptTokens ids");
  }
  KCC_TRY_VOID(ReadIds(root, "output", &stored->tokens));
  const auto prompt = static_cast<size_t>(stored->prompt_tokens);
  const std::span<const int32_t> tokens(stored->tokens);
  if (tokens.size() != prompt + static_cast<size_t>(stored->output_tokens)) {
    return Wrong("'output' does not have outputTokens ids");
  }
  if (TokensDigest(tokens.first(prompt)) != stored->prompt_digest ||
      TokensDigest(tokens.subspan(prompt)) != stored->output_digest) {
    return Wrong("the digests are not those of its token ids");
  }
  KCC_TRY(stored->tags, root.Texts("tags"));
  KCC_TRY(stored->left_out, root.Texts("leftOut"));
  KCC_TRY(const Members fields, Members::Of(root.Find("fields"), "fields"));
  for (const auto [key, value] : fields.object()) {
    KCC_TRY(stored->fields[std::string(key)], ReadFieldValue(value));
  }
  return {};
}

Result<StoredSide> ReadSide(const Members& root, const std::string& key) {
  KCC_TRY(const Members members, Members::Of(root.Find(key), key));
  StoredSide side;
  KCC_TRY(side.fingerprint, members.Text("fingerprint"));
  KCC_TRY(side.model_digest, members.Text("modelDigest", false));
  KCC_TRY(side.signature, members.Text("replaySignature", false));
  KCC_TRY(const Members declares, Members::Of(members.Find("declares"), "declares"));
  for (const auto [name, value] : declares.object()) {
    if (!value.is_string()) return Wrong("'declares' may hold texts only");
    side.declares[std::string(name)] = std::string(JsonText(value));
  }
  return side;
}

Result<StoredRequest> ReadMembers(const Members& root) {
  StoredRequest stored;
  KCC_TRY(stored.id, root.Text("request"));
  KCC_TRY(const std::string store, root.Text("store"));
  const auto word = ParseStoreRequests(store);
  if (!word || *word == StoreRequests::kNone) return Wrong("'store' must be hashes or full");
  stored.store = *word;
  KCC_TRY(stored.sampled, root.Flag("sampled", true));
  KCC_TRY(stored.flags, ReadFlags(root));
  KCC_TRY(stored.model, root.Text("model"));
  KCC_TRY(stored.contract, root.Digest("contract"));
  KCC_TRY(stored.triple, root.Digest("triple"));
  KCC_TRY_VOID(ReadSampling(root, &stored));
  KCC_TRY_VOID(ReadBatches(root, &stored));
  KCC_TRY(stored.prompt_tokens, root.Integer("promptTokens", 1));
  KCC_TRY(stored.output_tokens, root.Integer("outputTokens", 0));
  KCC_TRY(stored.prompt_digest, root.Digest("promptDigest"));
  KCC_TRY(stored.output_digest, root.Digest("outputDigest"));
  if (stored.store == StoreRequests::kFull) KCC_TRY_VOID(ReadContent(root, &stored));
  KCC_TRY(stored.train, ReadSide(root, "train"));
  KCC_TRY(stored.infer, ReadSide(root, "infer"));
  return stored;
}

}  // namespace

Result<StoredRequest> ParseStoredRequest(std::string_view text) {
  json::parser parser;
  Result<json::element> root = ParseJson(parser, text);
  if (!root.has_value()) return Wrong(root.error().message());
  KCC_TRY(const Members members, Members::Of(*root, "the file"));
  if (!members.Find("kccStoredRequest")) return Wrong("it has no kccStoredRequest");
  KCC_TRY(const int32_t version, members.Integer("kccStoredRequest", 0));
  if (version != kStoredRequestVersion) {
    return Wrong("it has version " + std::to_string(version) + ", this kcc reads version " +
                 std::to_string(kStoredRequestVersion));
  }
  KCC_TRY(StoredRequest stored, ReadMembers(members));
  if (StoredRequestJson(stored) != text) {
    return Wrong(
        "its bytes are not the canonical ones; take the file as kcc register blob wrote it");
  }
  return stored;
}

}  // namespace kcc
