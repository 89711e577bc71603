#include "kcc/serve/served_model.h"

#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr size_t kFileBytesMax = size_t{64} << 20;

// A JSON file of the model's directory that may be missing.
struct OptionalFile {
  std::string path;
  std::string text;
  json::parser parser;
  std::optional<json::object> object;
};

Result<> ReadOptional(const std::string& path, OptionalFile* file) {
  file->path = path;
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return {};
  KCC_TRY(file->text, ReadRegularFile(path, kFileBytesMax));
  const Result<json::element> root = ParseJson(file->parser, file->text);
  json::object object;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) {
    return InvalidError("is not a JSON object", Place{path});
  }
  file->object = object;
  return {};
}

std::optional<json::element> Member(const OptionalFile& file, std::string_view key) {
  return file.object ? JsonMember(*file.object, key) : std::nullopt;
}

// A special token's text: "</s>", or {"content": "</s>", …}.
std::string TokenText(std::optional<json::element> element) {
  json::object object;
  if (element && element->get(object) == simdjson::SUCCESS) element = JsonMember(object, "content");
  return std::string(JsonText(element));
}

// eos_token_id: a number or a list of them.
Result<std::vector<int32_t>> EndTokens(const OptionalFile& file, const ServedModel& model) {
  std::vector<int32_t> ids;
  const auto member = Member(file, "eos_token_id");
  if (!member) return ids;
  for (const json::element item : JsonList(member).value_or(std::vector{*member})) {
    const std::optional<int64_t> id = JsonInteger(item);
    if (!id || !model.HasToken(*id)) {
      return InvalidError("eos_token_id names no token of the model", Place{file.path});
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace

Result<ServedModel> ServedModel::Read(const std::string& directory, size_t vocab,
                                      size_t positions) {
  ServedModel model;
  std::filesystem::path folder = std::filesystem::path(directory).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  model.name = folder.filename().string();
  if (model.name.empty() || model.name == ".") model.name = "model";
  model.vocab = vocab;
  model.positions = positions;
  OptionalFile config;
  OptionalFile generation;
  OptionalFile settings;
  KCC_TRY_VOID(ReadOptional(directory + "/config.json", &config));
  KCC_TRY_VOID(ReadOptional(directory + "/generation_config.json", &generation));
  KCC_TRY_VOID(ReadOptional(directory + "/tokenizer_config.json", &settings));
  KCC_TRY(model.eos, EndTokens(generation, model));
  if (model.eos.empty()) {
    KCC_TRY(model.eos, EndTokens(config, model));
  }
  if (const auto most = Member(generation, "max_new_tokens")) {
    const std::optional<int64_t> tokens = JsonInteger(*most);
    if (tokens && *tokens > 0 && *tokens <= INT32_MAX) {
      model.output_tokens_default = static_cast<int32_t>(*tokens);
    }
  }
  const std::string tokenizer_file = directory + "/tokenizer.json";
  const Result<std::string> text = ReadRegularFile(tokenizer_file, kFileBytesMax);
  if (!text.has_value()) {
    model.no_text = "the model has no tokenizer.json";
  } else {
    Result<ByteTokenizer> tokenizer = ByteTokenizer::Parse(*text, vocab, tokenizer_file);
    if (tokenizer.has_value()) {
      model.tokenizer = std::move(*tokenizer);
    } else {
      model.no_text = "tokenizer.json " + tokenizer.error().message();
    }
  }
  model.bos_token = TokenText(Member(settings, "bos_token"));
  model.eos_token = TokenText(Member(settings, "eos_token"));
  if (const auto chat = Member(settings, "chat_template")) {
    KCC_TRY(model.chat, ChatTemplate::Parse(JsonText(chat), settings.path));
  }
  return model;
}

}  // namespace kcc
