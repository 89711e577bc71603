// The words of a JSON Schema (draft 2020-12), for the schemas that kcc publishes of its own output:
// report.json and the figures of experiments.
//
// A schema is JSON text without blanks, composed by these functions and laid out once at the end.
// Objects stay open: later versions add keys.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/json_writer.h"

namespace kcc::json_schema {

using Schema = std::string;

struct Property {
  std::string name;
  Schema schema;
  bool required = true;
};
using Definitions = std::vector<std::pair<std::string, Schema>>;

// An object of these members, with a description where there is one.
Schema Described(std::string_view fields, std::string_view description);

Schema Text(std::string_view description);
Schema Bool(std::string_view description);
Schema Count(std::string_view description);
Schema CountOrNull(std::string_view description);
// Of what Definitions hold.
Schema Ref(std::string_view name);
Schema RefDescribed(std::string_view name, std::string_view description);
Schema ListOf(const Schema& items, std::string_view description);
Schema MapOf(const Schema& values, std::string_view description);
Schema OrNull(const Schema& schema);
Schema Object(const std::vector<Property>& properties, std::string_view description = "");

// One of the words that Name gives the choices, or `further`.
template <class Enum, size_t N>
Schema OneOf(const std::array<Enum, N>& choices, std::string_view description,
             std::string_view further = "") {
  std::string words;
  for (const Enum choice : choices) {
    words += (words.empty() ? "" : ",") + JsonQuote(Name(choice));
  }
  if (!further.empty()) words += "," + JsonQuote(further);
  return Described("\"enum\":[" + words + "]", description);
}

// As JsonWriter writes numbers: "number", which may be the word "inf", "-inf" or "nan", and
// "numberOrNull".
Definitions NumberDefinitions();

// The whole document: `root` is the schema of an object. Two blanks a level, as JsonWriter does.
std::string Document(std::string_view title, const Definitions& definitions, const Schema& root);

}  // namespace kcc::json_schema
