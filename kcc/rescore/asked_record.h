// What a client asked, read from its request alone: fields for slices, how tokens were to be drawn,
// and which prompt it is. Nothing here is the word of a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/gateway/served_record.h"
#include "kcc/trace/trace.h"

namespace kcc {

// A prompt as the request has it. What a tokenizer's route cannot be told of is not known, and then
// nobody checks which prompt a kernel read.
struct AskedPrompt {
  enum class Kind : uint8_t { kUnknown, kIds, kText, kChat };
  Kind kind = Kind::kUnknown;
  std::vector<int32_t> ids;  // kIds
  std::string text;          // kText
  bool begins = true;        // kText: what a sequence begins with stands before it
  std::vector<std::pair<std::string, std::string>> members;  // kChat: names, values as JSON
};

struct AskedRecord {
  Request record;  // `asked` of the observation
  AskedPrompt prompt;
  std::optional<double> temperature;  // none: not said, so the server's own default
  bool altered = false;  // tokens are drawn from less, or other, than the whole distribution
  bool has_seed = false;
  int64_t choices = 1;  // n

  // The same answer is to be expected when it is asked again.
  bool repeatable() const { return (has_seed || temperature == 0.0) && choices == 1; }
};

// The members of PoolKernel::set count as the client's: they are how the request was asked. Fails
// where the body is no JSON object: then no kernel should have answered it.
Result<AskedRecord> ReadAskedRecord(const ServedRecord& record);

// "a, b" or ["a", "b"], as JSON, to a list: how `tags` come in a header. A text field of a list
// type alone is read so.
RequestValue FieldValueOf(std::string_view name, std::string_view json);

}  // namespace kcc
