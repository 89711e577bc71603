#include "kcc/rl/dialect_options.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/format/json.h"

namespace kcc {
namespace {

constexpr int kDepthMax = 8;

Result<OptionValue> Convert(json::element element, int depth) {
  if (depth > kDepthMax) return InvalidError("options are nested too deeply");
  OptionValue value;
  switch (element.type()) {
    case json::element_type::NULL_VALUE:
      break;
    case json::element_type::BOOL:
      value.kind = OptionValue::Kind::kBool;
      if (element.get(value.truth) != simdjson::SUCCESS) value.truth = false;
      break;
    case json::element_type::STRING:
      value.kind = OptionValue::Kind::kText;
      value.text = JsonText(element);
      break;
    case json::element_type::ARRAY:
      value.kind = OptionValue::Kind::kList;
      for (const json::element item : JsonList(element).value_or(std::vector<json::element>())) {
        KCC_TRY(OptionValue converted, Convert(item, depth + 1));
        value.items.push_back(std::move(converted));
      }
      break;
    case json::element_type::OBJECT: {
      value.kind = OptionValue::Kind::kObject;
      json::object object;
      if (element.get(object) != simdjson::SUCCESS) break;
      for (const auto [key, item] : object) {
        KCC_TRY(OptionValue converted, Convert(item, depth + 1));
        value.fields.insert_or_assign(std::string(key), std::move(converted));
      }
      break;
    }
    default:
      value.kind = OptionValue::Kind::kNumber;
      value.number = JsonNumber(element).value_or(0);
  }
  return value;
}

std::string Quoted(std::string_view key) { return "\"" + std::string(key) + "\""; }

}  // namespace

Result<OptionValue> ParseOptions(std::string_view text) {
  OptionValue empty;
  empty.kind = OptionValue::Kind::kObject;
  if (text.empty()) return empty;
  json::parser parser;
  KCC_TRY(const json::element root, ParseJson(parser, text));
  KCC_TRY(OptionValue value, Convert(root, 0));
  if (value.kind != OptionValue::Kind::kObject) {
    return InvalidError("options must be a JSON object");
  }
  return value;
}

const OptionValue* OptionReader::Find(std::string_view key) {
  known_.emplace_back(key);
  const auto found = object_.fields.find(key);
  return found == object_.fields.end() ? nullptr : &found->second;
}

const OptionValue* OptionReader::Value(std::string_view key) {
  const OptionValue* value = Find(key);
  return value == nullptr || value->kind == OptionValue::Kind::kNull ? nullptr : value;
}

bool OptionReader::Has(std::string_view key) { return Value(key) != nullptr; }

double OptionReader::Number(std::string_view key, double otherwise) {
  return MaybeNumber(key, otherwise).value_or(otherwise);
}

std::optional<double> OptionReader::MaybeNumber(std::string_view key,
                                                std::optional<double> otherwise) {
  const OptionValue* value = Find(key);
  if (value == nullptr) return otherwise;
  if (value->kind == OptionValue::Kind::kNull) return std::nullopt;
  if (value->kind != OptionValue::Kind::kNumber) Fail(Quoted(key) + " must be a number");
  return value->number;
}

bool OptionReader::Bool(std::string_view key, bool otherwise) {
  const OptionValue* value = Value(key);
  if (value == nullptr) return otherwise;
  if (value->kind != OptionValue::Kind::kBool) Fail(Quoted(key) + " must be true or false");
  return value->truth;
}

std::string OptionReader::Text(std::string_view key, std::string_view otherwise) {
  const OptionValue* value = Value(key);
  if (value == nullptr) return std::string(otherwise);
  if (value->kind != OptionValue::Kind::kText) Fail(Quoted(key) + " must be a text");
  return value->text;
}

std::optional<std::string> OptionReader::MaybeText(std::string_view key) {
  if (!Has(key)) return std::nullopt;
  return Text(key, "");
}

std::string OptionReader::Word(std::string_view key, std::string_view otherwise,
                               std::initializer_list<std::string_view> allowed) {
  std::string word = Text(key, otherwise);
  if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) {
    const std::vector<std::string_view> words(allowed);
    Fail(Quoted(key) + " is \"" + word + "\"; it can be " + JoinWords(words, "or"));
  }
  return word;
}

std::optional<std::string> OptionReader::MaybeWord(
    std::string_view key, std::initializer_list<std::string_view> allowed) {
  if (!Has(key)) return std::nullopt;
  return Word(key, "", allowed);
}

void OptionReader::Fail(std::string message) {
  if (problem_.empty()) problem_ = std::move(message);
}

Result<> OptionReader::Finish() {
  if (!problem_.empty()) return InvalidError(problem_);
  for (const auto& [key, value] : object_.fields) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::vector<std::string_view> words(known_.begin(), known_.end());
    const auto nearest = NearestWord(key, words);
    return InvalidError("unknown option " + Quoted(key) +
                        (nearest ? "; did you mean " + Quoted(*nearest) + "?" : ""));
  }
  return {};
}

}  // namespace kcc
