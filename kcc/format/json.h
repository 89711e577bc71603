// What the trace readers share in reading JSON: simdjson's DOM, with its errors turned into ours.
// Included by .cc files and by headers that only those include, so that simdjson stays out of the
// public headers.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

namespace json = simdjson::dom;

// Lets simdjson look at the processor. It does so when it is first used, in functions that allocate
// and must not throw: where there is no memory at that moment the process ends. So more than it
// takes is asked for here, where its lack is an exception, and given back. ParseJson comes here by
// itself; a program that must not end calls it while there is memory.
void PrepareJson();

// Why a text is not JSON, in words.
std::string JsonProblem(simdjson::error_code code);

// Parses a text; the element lives until the parser's next use. Errors carry no place.
Result<json::element> ParseJson(json::parser& parser, std::string_view text);

// "a string", "an object" …
std::string_view JsonTypeName(json::element element);

// A member of an object; none if it is missing or null.
std::optional<json::element> JsonMember(json::object object, std::string_view key);

// The elements of a list (at() of simdjson walks the list each time); none if it is no list.
std::optional<std::vector<json::element>> JsonList(std::optional<json::element> element);

// A text; empty for other types and for none.
std::string_view JsonText(std::optional<json::element> element);

// Any JSON number as a double; none for other types.
std::optional<double> JsonNumber(json::element element);

// An integer of any spelling without a fraction; none otherwise.
std::optional<int64_t> JsonInteger(json::element element);

}  // namespace kcc
