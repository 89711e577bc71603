// The members of an object of JSON by their names, for what one gateway wrote and another reads:
// what is missing or of another type is empty, zero or false, since members may be added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/format/json.h"

namespace kcc {

class JsonMembers {
 public:
  explicit JsonMembers(json::object object) : object_(object) {}

  std::string Text(std::string_view key) const {
    return std::string(JsonText(JsonMember(object_, key)));
  }
  double Number(std::string_view key) const {
    const auto member = JsonMember(object_, key);
    return member ? JsonNumber(*member).value_or(0) : 0;
  }
  int64_t Integer(std::string_view key) const {
    const auto member = JsonMember(object_, key);
    return member ? JsonInteger(*member).value_or(0) : 0;
  }
  bool Truth(std::string_view key) const {
    const auto member = JsonMember(object_, key);
    bool truth = false;
    return member && member->get(truth) == simdjson::SUCCESS && truth;
  }
  std::vector<std::string> Texts(std::string_view key) const {
    std::vector<std::string> texts;
    const auto list = JsonList(JsonMember(object_, key));
    if (!list) return texts;
    for (const json::element element : *list) texts.emplace_back(JsonText(element));
    return texts;
  }
  std::optional<JsonMembers> Object(std::string_view key) const {
    const auto member = JsonMember(object_, key);
    json::object inner;
    if (!member || member->get(inner) != simdjson::SUCCESS) return std::nullopt;
    return JsonMembers(inner);
  }
  std::vector<JsonMembers> Objects(std::string_view key) const {
    std::vector<JsonMembers> objects;
    const auto list = JsonList(JsonMember(object_, key));
    if (!list) return objects;
    for (const json::element element : *list) {
      json::object inner;
      if (element.get(inner) == simdjson::SUCCESS) objects.emplace_back(inner);
    }
    return objects;
  }

 private:
  json::object object_;
};

}  // namespace kcc
