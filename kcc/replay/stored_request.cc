#include "kcc/replay/stored_request.h"

#include "kcc/base/check.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"

namespace kcc {
namespace {

void WriteTexts(std::string_view key, const std::vector<std::string>& texts, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->Value(text);
  json->EndArray();
}

void WriteIds(std::string_view key, std::span<const int32_t> ids, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const int32_t id : ids) json->Value(id);
  json->EndArray();
}

void WriteSide(std::string_view key, const StoredSide& side, JsonWriter* json) {
  json->Key(key).BeginObject().Field("fingerprint", side.fingerprint);
  if (!side.model_digest.empty()) json->Field("modelDigest", side.model_digest);
  json->Key("declares").BeginObject();
  for (const auto& [name, value] : side.declares) json->Field(name, value);
  json->EndObject();
  if (!side.signature.empty()) json->Field("replaySignature", side.signature);
  json->EndObject();
}

void WriteFlags(const std::vector<RequestFlag>& flags, JsonWriter* json) {
  json->Key("flags").BeginArray();
  for (const RequestFlag& flag : flags) {
    json->BeginObject().Field("clause", flag.clause).Field("slice", flag.slice);
    json->Field("quantity", flag.quantity).Field("value", flag.value);
    json->Field("threshold", flag.threshold);
    if (flag.position >= 0) json->Field("position", flag.position);
    if (flag.token >= 0) json->Field("token", flag.token);
    json->EndObject();
  }
  json->EndArray();
}

void WriteSampling(const StoredRequest& stored, JsonWriter* json) {
  json->Key("sampling").BeginObject().Field("by", Name(stored.sampled_by));
  if (stored.sampling_temperature) json->Field("temperature", *stored.sampling_temperature);
  if (stored.sampling_altered) json->Field("altered", true);
  json->Key("parameters").BeginObject();
  for (const auto& [name, value] : stored.sampling) json->Field(name, value);
  json->EndObject();
  if (!stored.seed.empty()) json->Field("seed", stored.seed);
  json->EndObject();
}

void WriteShape(std::string_view key, const BatchShape& batch, JsonWriter* json) {
  json->Key(key).BeginObject().Field("place", batch.place).Key("shape").BeginArray();
  for (const auto& [prompt, output] : batch.requests) {
    json->BeginArray().Value(prompt).Value(output).EndArray();
  }
  json->EndArray().EndObject();
}

void WriteBatches(const StoredRequest& stored, JsonWriter* json) {
  if (!stored.batch.requests.empty()) WriteShape("batch", stored.batch, json);
  if (stored.train_batch) WriteShape("trainBatch", *stored.train_batch, json);
}

void WriteFieldValue(const RequestValue& value, JsonWriter* json) {
  if (const auto* number = std::get_if<double>(&value)) {
    json->Value(*number);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    json->Value(*flag);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    json->Value(*text);
  } else {
    json->BeginArray();
    for (const std::string& one : std::get<std::vector<std::string>>(value)) json->Value(one);
    json->EndArray();
  }
}

}  // namespace

std::string TokensDigest(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += std::to_string(token) + " ";
  return Sha256Of(text);
}

std::string StoredRequestJson(const StoredRequest& stored) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("kccStoredRequest", kStoredRequestVersion);
  json.Field("request", stored.id).Field("store", Name(stored.store));
  json.Field("sampled", stored.sampled);
  WriteFlags(stored.flags, &json);
  json.Field("model", stored.model).Field("contract", stored.contract);
  json.Field("triple", stored.triple);
  WriteSampling(stored, &json);
  WriteBatches(stored, &json);
  json.Field("promptTokens", stored.prompt_tokens).Field("outputTokens", stored.output_tokens);
  json.Field("promptDigest", stored.prompt_digest).Field("outputDigest", stored.output_digest);
  if (stored.store == StoreRequests::kFull) {
    const auto prompt = static_cast<size_t>(stored.prompt_tokens);
    WriteIds("prompt", std::span(stored.tokens).first(prompt), &json);
    WriteIds("output", std::span(stored.tokens).subspan(prompt), &json);
    WriteTexts("tags", stored.tags, &json);
    json.Key("fields").BeginObject();
    for (const auto& [name, value] : stored.fields) {
      json.Key(name);
      WriteFieldValue(value, &json);
    }
    json.EndObject();
    WriteTexts("leftOut", stored.left_out, &json);
  }
  WriteSide("train", stored.train, &json);
  WriteSide("infer", stored.infer, &json);
  return json.EndObject().Take();
}

const BatchShape& TrainBatch(const StoredRequest& stored) {
  return stored.train_batch ? *stored.train_batch : stored.batch;
}

std::string StoredRequestDigest(std::string_view json) { return Sha256Of(json); }

KernelRequest RequestToRun(const StoredRequest& stored) {
  KCC_CHECK(stored.store == StoreRequests::kFull);
  KernelRequest request;
  request.request.id = stored.id;
  request.request.fields = stored.fields;
  if (!stored.tags.empty()) request.request.fields["tags"] = stored.tags;
  request.request.fields["prompt_tokens"] = static_cast<double>(stored.prompt_tokens);
  request.tokens = stored.tokens;
  request.prompt_tokens = stored.prompt_tokens;
  return request;
}

Result<> CheckSuppliedRequest(const StoredRequest& stored, const KernelRequest& supplied) {
  const auto prompt = static_cast<size_t>(supplied.prompt_tokens);
  const std::span<const int32_t> tokens(supplied.tokens);
  const bool same = supplied.request.id == stored.id &&
                    supplied.prompt_tokens == stored.prompt_tokens &&
                    TokensDigest(tokens.first(prompt)) == stored.prompt_digest &&
                    TokensDigest(tokens.subspan(prompt)) == stored.output_digest;
  if (same) return {};
  return BrokenEvidenceError("request '" + supplied.request.id +
                             "' has other token ids than the stored one: its digests differ");
}

}  // namespace kcc
