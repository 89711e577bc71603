// What the fields of a request are, where kcc knows them: one row per field. It is the published
// schema of the lines of requests.jsonl (kcc schema --trace) and of the records of an observation.
//
// Reading is lenient: a known field of another kind is kept, and its value is missing wherever it
// is asked for (Request::Number, Flag, Text). The schema says what a record must be so that nothing
// is lost in this way, and event_conformance counts the records that are not. A field without a row
// is the request's own and may be anything.
//
// A record is checked as it was kept and not as it was written (requests.h): an object is a text,
// and so is an integer that a double cannot hold. The published schema says the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kcc/trace/trace.h"

namespace kcc {

enum class RecordedAs : uint8_t { kCount, kNumber, kNumberOrText, kFlag, kText, kTexts };

struct RecordField {
  std::string_view name;
  RecordedAs as;
  std::string_view doc;
  double min = -0x1p53;  // of kNumber
};

// The largest number of a kNumber: integers beyond it are kept as texts.
inline constexpr double kRecordedNumberMax = 0x1p53;
inline constexpr double kRecordedCountMax = 2147483647;

// By name.
std::span<const RecordField> RecordFields();

// What the first field that does not keep to the schema must be: "'latency_ms' must be a number
// from 0 to 2^53". Nothing where all of them do.
std::optional<std::string> SchemaFault(const Request& request);

}  // namespace kcc
