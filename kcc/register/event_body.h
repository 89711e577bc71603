// What readers want to know of an event's body, without JSON in their hands. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

// The text of a member; empty where there is none, or one of another type.
std::string BodyText(const std::string& body, std::string_view key);

// A whole number; none where there is none.
std::optional<int64_t> BodyInteger(const std::string& body, std::string_view key);

// A member as JSON; empty where there is none.
std::string BodyJson(const std::string& body, std::string_view key);

// The texts of an object member, in its order: {"engine", "vllm"}, …
std::vector<std::pair<std::string, std::string>> BodyTexts(const std::string& body,
                                                           std::string_view key);

// The whole body for people: indented, with a line feed at its end.
std::string PrettyBody(const std::string& body);

struct RecordedClause {
  std::string id;
  std::string metric;
  std::string level;
  std::string verdict;
};

// evaluation.recorded.
struct RecordedEvaluation {
  std::string triple;
  std::string stage;
  std::string verdict;
  std::optional<double> health;
  std::vector<RecordedClause> clauses;
  std::string summary, report;        // blobs; may be empty
  std::vector<std::string> evidence;  // identities of traces
};
RecordedEvaluation ReadRecordedEvaluation(const std::string& body);

}  // namespace kcc
