#include "kcc/statement/json_fields.h"

#include <limits>
#include <set>

#include "kcc/base/sha256.h"
#include "kcc/statement/timestamp.h"

namespace kcc {

void JsonFields::Fail(std::string_view what) const {
  if (!problem_->empty()) return;
  *problem_ = (path_.empty() ? "the document" : path_) + " " + std::string(what);
}

bool JsonFields::Has(std::string_view key) const {
  json::object object;
  return element_.get(object) == simdjson::SUCCESS && JsonMember(object, key).has_value();
}

JsonFields JsonFields::At(std::string_view key) const {
  json::object object;
  json::element child;
  if (element_.get(object) != simdjson::SUCCESS) {
    Fail("is " + std::string(JsonTypeName(element_)) + ", not an object");
    return *this;
  }
  if (object.at_key(key).get(child) != simdjson::SUCCESS) {
    Fail("lacks the key '" + std::string(key) + "'");
    return *this;
  }
  size_t found = 0;
  for (const auto& field : object) found += field.key == key;
  if (found > 1) Fail("has the key '" + std::string(key) + "' twice");
  return {child, path_.empty() ? std::string(key) : path_ + "." + std::string(key), problem_};
}

std::string JsonFields::Text() const {
  std::string_view text;
  if (element_.get(text) != simdjson::SUCCESS) {
    Fail("is " + std::string(JsonTypeName(element_)) + ", not a string");
  }
  return std::string(text);
}

std::string JsonFields::TextOr(std::string_view key) const {
  return Has(key) ? At(key).Text() : "";
}

bool JsonFields::Bool() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) Fail("is not true or false");
  return value;
}

int64_t JsonFields::Count() const {
  const auto value = JsonInteger(element_);
  if (!value || *value < 0) Fail("is not a count");
  return value && *value >= 0 ? *value : 0;
}

double JsonFields::Number() const {
  if (element_.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (const auto value = JsonNumber(element_)) return *value;
  std::string_view text;
  if (element_.get(text) == simdjson::SUCCESS) {
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  Fail("is not a number");
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<JsonFields> JsonFields::Items() const {
  std::vector<JsonFields> items;
  const auto list = JsonList(element_);
  if (!list) {
    Fail("is " + std::string(JsonTypeName(element_)) + ", not a list");
    return items;
  }
  items.reserve(list->size());
  for (const json::element item : *list) {
    items.emplace_back(item, path_ + "[" + std::to_string(items.size()) + "]", problem_);
  }
  return items;
}

std::vector<std::pair<std::string, JsonFields>> JsonFields::Members() const {
  std::vector<std::pair<std::string, JsonFields>> members;
  json::object object;
  if (element_.get(object) != simdjson::SUCCESS) {
    Fail("is " + std::string(JsonTypeName(element_)) + ", not an object");
    return members;
  }
  std::set<std::string_view> names;
  for (const auto [key, value] : object) {
    if (!names.insert(key).second) Fail("has the key '" + std::string(key) + "' twice");
    members.emplace_back(std::string(key),
                         JsonFields(value, path_ + "." + std::string(key), problem_));
  }
  return members;
}

std::string JsonFields::Sha256() const {
  std::string digest = "sha256:" + At("sha256").Text();
  if (!IsSha256(digest)) Fail("is not a SHA-256 of 64 lower-case hexadecimal digits");
  return digest;
}

int64_t JsonFields::Time() const {
  const auto time = ParseTimestamp(Text());
  if (!time) Fail("is not a time such as 2026-11-18T09:30:00Z");
  return time.value_or(0);
}

}  // namespace kcc
