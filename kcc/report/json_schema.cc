#include "kcc/report/json_schema.h"

namespace kcc::json_schema {
namespace {

// The input has no blanks outside strings.
std::string Pretty(std::string_view json) {
  std::string out;
  size_t depth = 0;
  bool in_string = false;
  const auto line = [&] { out.append("\n").append(2 * depth, ' '); };
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      out += c;
      if (c == '\\') out += json[++i];
      in_string = c != '"';
    } else if (c == '{' || c == '[') {
      out += c;
      ++depth;
      line();
    } else if (c == '}' || c == ']') {
      --depth;
      line();
      out += c;
    } else {
      out += c;
      if (c == ',') line();
      if (c == ':') out += ' ';
      in_string = c == '"';
    }
  }
  return out + "\n";
}

}  // namespace

Schema Described(std::string_view fields, std::string_view description) {
  std::string text = "{" + std::string(fields);
  if (!description.empty()) text += ",\"description\":" + JsonQuote(description);
  return text + "}";
}

Schema Text(std::string_view description) { return Described("\"type\":\"string\"", description); }
Schema Bool(std::string_view description) { return Described("\"type\":\"boolean\"", description); }
Schema Count(std::string_view description) {
  return Described("\"type\":\"integer\",\"minimum\":0", description);
}
Schema CountOrNull(std::string_view description) {
  return Described("\"type\":[\"integer\",\"null\"],\"minimum\":0", description);
}
Schema Ref(std::string_view name) { return "{\"$ref\":\"#/$defs/" + std::string(name) + "\"}"; }
Schema RefDescribed(std::string_view name, std::string_view description) {
  return Described("\"$ref\":\"#/$defs/" + std::string(name) + "\"", description);
}
Schema ListOf(const Schema& items, std::string_view description) {
  return Described("\"type\":\"array\",\"items\":" + items, description);
}
Schema MapOf(const Schema& values, std::string_view description) {
  return Described("\"type\":\"object\",\"additionalProperties\":" + values, description);
}

Schema OrNull(const Schema& schema) { return "{\"anyOf\":[{\"type\":\"null\"}," + schema + "]}"; }

Schema Object(const std::vector<Property>& properties, std::string_view description) {
  std::string required;
  std::string members;
  for (const Property& property : properties) {
    if (property.required) required += (required.empty() ? "" : ",") + JsonQuote(property.name);
    members += (members.empty() ? "" : ",") + JsonQuote(property.name) + ":" + property.schema;
  }
  return Described(
      "\"type\":\"object\",\"required\":[" + required + "],\"properties\":{" + members + "}",
      description);
}

Definitions NumberDefinitions() {
  const std::string number = R"({"type":"number"},{"enum":["inf","-inf","nan"]})";
  return {{"number", "{\"anyOf\":[" + number + "]}"},
          {"numberOrNull", "{\"anyOf\":[" + number + ",{\"type\":\"null\"}]}"}};
}

std::string Document(std::string_view title, const Definitions& definitions, const Schema& root) {
  std::string text;
  for (const auto& [name, schema] : definitions) {
    text += (text.empty() ? "" : ",") + JsonQuote(name) + ":" + schema;
  }
  return Pretty(R"({"$schema":"https://json-schema.org/draft/2020-12/schema","title":)" +
                JsonQuote(title) + ",\"$defs\":{" + text + "}," + root.substr(1));
}

}  // namespace kcc::json_schema
