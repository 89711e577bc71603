#include "kcc/format/json.h"

#include <cmath>
#include <memory>
#include <new>

namespace kcc {

std::string JsonProblem(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY:
      return "there is nothing here where a JSON value should be";
    case simdjson::UTF8_ERROR:
      return "not JSON: the bytes are not UTF-8";
    case simdjson::DEPTH_ERROR:
      return "not read: nested too deeply";
    case simdjson::UNCLOSED_STRING:
      return "not JSON: a string does not end (is the file truncated?)";
    default:
      return std::string("not JSON: ") + simdjson::error_message(code);
  }
}

void PrepareJson() {
  static const bool prepared = [] {
    constexpr size_t kMoreThanItTakes = size_t{1} << 16;
    (void)std::make_unique<char[]>(kMoreThanItTakes);
    return !simdjson::get_active_implementation()->name().empty();
  }();
  (void)prepared;
}

Result<json::element> ParseJson(json::parser& parser, std::string_view text) {
  PrepareJson();
  json::element element;
  const simdjson::error_code code = parser.parse(text.data(), text.size()).get(element);
  if (code == simdjson::MEMALLOC) throw std::bad_alloc();
  if (code != simdjson::SUCCESS) return InvalidError(JsonProblem(code));
  return element;
}

std::string_view JsonTypeName(json::element element) {
  switch (element.type()) {
    case json::element_type::ARRAY:
      return "a list";
    case json::element_type::OBJECT:
      return "an object";
    case json::element_type::INT64:
    case json::element_type::UINT64:
    case json::element_type::DOUBLE:
      return "a number";
    case json::element_type::STRING:
      return "a string";
    case json::element_type::BOOL:
      return "a boolean";
    case json::element_type::NULL_VALUE:
      return "null";
  }
  return "unknown";
}

std::optional<json::element> JsonMember(json::object object, std::string_view key) {
  json::element element;
  if (object.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) return {};
  return element;
}

std::optional<std::vector<json::element>> JsonList(std::optional<json::element> element) {
  json::array list;
  if (!element || element->get(list) != simdjson::SUCCESS) return std::nullopt;
  std::vector<json::element> elements;
  for (const json::element item : list) elements.push_back(item);
  return elements;
}

std::string_view JsonText(std::optional<json::element> element) {
  std::string_view text;
  if (!element || element->get(text) != simdjson::SUCCESS) return {};
  return text;
}

std::optional<double> JsonNumber(json::element element) {
  double value = 0;
  if (element.get(value) != simdjson::SUCCESS) return {};  // converts integers too
  return value;
}

std::optional<int64_t> JsonInteger(json::element element) {
  int64_t integer = 0;
  if (element.get(integer) == simdjson::SUCCESS) return integer;
  double value = 0;
  if (element.get(value) != simdjson::SUCCESS) return {};
  if (value != std::floor(value) || std::fabs(value) > 9007199254740992.0) return {};
  return static_cast<int64_t>(value);
}

}  // namespace kcc
