#include "kcc/serve/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// "<0x41>" -> 0x41.
std::optional<int> ByteOf(std::string_view word) {
  if (word.size() != 6 || !word.starts_with("<0x") || word.back() != '>') return std::nullopt;
  int value = 0;
  const auto [end, failed] = std::from_chars(&word[3], &word[5], value, 16);
  if (failed != std::errc() || end != &word[5]) return std::nullopt;
  return value;
}

Error Unknown(std::string message, const std::string& file) {
  return InvalidError(std::move(message) + "; text needs a tokenizer of bytes and added tokens",
                      Place{file});
}

Result<int32_t> IdOf(json::element element, size_t vocab, const std::string& file) {
  const std::optional<int64_t> id = JsonInteger(element);
  if (!id || *id < 0 || static_cast<size_t>(*id) >= vocab) {
    return Unknown("holds the id " + simdjson::minify(element) + ", but the model has " +
                       std::to_string(vocab) + " tokens",
                   file);
  }
  return static_cast<int32_t>(*id);
}

// Parts that change a text or its ids before or after the bytes are looked up.
Result<> CheckNothingElse(json::object root, json::object model, const std::string& file) {
  for (const std::string_view part : {"normalizer", "pre_tokenizer", "post_processor"}) {
    if (JsonMember(root, part)) return Unknown("has a " + std::string(part), file);
  }
  const auto merges = JsonList(JsonMember(model, "merges"));
  if (merges && !merges->empty()) return Unknown("has merges", file);
  return {};
}

// The length of the character that starts with this byte; 0: none does.
size_t CharacterLength(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// Whether the byte may stand at `at` of a character that starts with `first`: no overlong form, no
// surrogate, nothing beyond U+10FFFF.
bool Continues(unsigned char first, size_t at, unsigned char byte) {
  if ((byte & 0xC0) != 0x80) return false;
  if (at != 1) return true;
  if (first == 0xE0) return byte >= 0xA0;
  if (first == 0xED) return byte < 0xA0;
  if (first == 0xF0) return byte >= 0x90;
  if (first == 0xF4) return byte < 0x90;
  return true;
}

}  // namespace

Result<ByteTokenizer> ByteTokenizer::Parse(std::string_view text, size_t vocab,
                                           const std::string& file) {
  json::parser parser;
  const Result<json::element> root = ParseJson(parser, text);
  json::object object;
  json::object model;
  json::object words;
  if (!root.has_value() || root->get(object) != simdjson::SUCCESS) {
    return Unknown("is not a JSON object", file);
  }
  const auto member = JsonMember(object, "model");
  if (!member || member->get(model) != simdjson::SUCCESS) return Unknown("has no model", file);
  const auto list = JsonMember(model, "vocab");
  if (!list || list->get(words) != simdjson::SUCCESS) return Unknown("has no vocab", file);
  KCC_TRY_VOID(CheckNothingElse(object, model, file));
  ByteTokenizer made;
  made.tokens_.resize(vocab);
  made.bytes_.fill(-1);
  for (const auto [word, value] : words) {
    KCC_TRY(const int32_t id, IdOf(value, vocab, file));
    const std::optional<int> byte = ByteOf(word);
    if (!byte) continue;  // an added token, which is listed by itself
    made.bytes_[static_cast<size_t>(*byte)] = id;
    made.tokens_[static_cast<size_t>(id)].bytes = static_cast<char>(*byte);
  }
  if (std::count(made.bytes_.begin(), made.bytes_.end(), -1) > 0) {
    return Unknown("has no token for some bytes", file);
  }
  for (const json::element entry :
       JsonList(JsonMember(object, "added_tokens")).value_or(std::vector<json::element>())) {
    json::object added;
    if (entry.get(added) != simdjson::SUCCESS || !JsonMember(added, "id")) {
      return Unknown("has an added token without an id", file);
    }
    KCC_TRY(const int32_t id, IdOf(*JsonMember(added, "id"), vocab, file));
    const std::string content(JsonText(JsonMember(added, "content")));
    if (content.empty()) return Unknown("has an added token without a text", file);
    const auto special = JsonMember(added, "special");
    made.tokens_[static_cast<size_t>(id)] = {content,
                                             special && special->is_bool() && bool(*special)};
    made.added_[content] = id;
    made.added_longest_ = std::max(made.added_longest_, content.size());
  }
  return made;
}

std::vector<int32_t> ByteTokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min(added_longest_, text.size() - at);
    auto found = added_.end();
    while (length > 0 && found == added_.end()) found = added_.find(text.substr(at, length--));
    if (found != added_.end()) {
      ids.push_back(found->second);
      at += found->first.size();
    } else {
      ids.push_back(bytes_[static_cast<unsigned char>(text[at++])]);
    }
  }
  return ids;
}

std::string_view ByteTokenizer::Bytes(int32_t token, bool skip_special) const {
  if (token < 0 || static_cast<size_t>(token) >= tokens_.size()) return {};
  const Token& found = tokens_[static_cast<size_t>(token)];
  return skip_special && found.special ? std::string_view() : found.bytes;
}

std::string ByteTokenizer::Decode(std::span<const int32_t> tokens, bool skip_special) const {
  Utf8Stream stream;
  std::string text;
  for (const int32_t token : tokens) text += stream.Push(Bytes(token, skip_special));
  return text + stream.Finish();
}

int32_t ByteTokenizer::AddedToken(std::string_view text) const {
  const auto found = added_.find(text);
  return found == added_.end() ? -1 : found->second;
}

// Invariant: held_ is empty or the beginning of a character that may still become whole.
std::string Utf8Stream::Push(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    if (!held_.empty()) {
      const auto first = static_cast<unsigned char>(held_[0]);
      if (Continues(first, held_.size(), static_cast<unsigned char>(byte))) {
        held_ += byte;
        if (held_.size() == CharacterLength(first)) text += std::exchange(held_, "");
        continue;
      }
      held_.clear();
      text += kReplacement;
    }
    switch (CharacterLength(static_cast<unsigned char>(byte))) {
      case 0:
        text += kReplacement;
        break;
      case 1:
        text += byte;
        break;
      default:
        held_ = byte;
    }
  }
  return text;
}

std::string Utf8Stream::Finish() {
  return std::exchange(held_, "").empty() ? std::string() : std::string(kReplacement);
}

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

}  // namespace kcc
