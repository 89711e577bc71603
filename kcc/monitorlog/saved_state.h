// The state of a monitor as a file: a line that says of which observation and of which log it is,
// then the bytes of Monitor::Save. Written as a whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kcc/base/result.h"

namespace kcc {

struct SavedState {
  int64_t observations = 0;
  std::string head;     // of the log after them; empty: none was written
  std::string monitor;  // Monitor::Save
};

Result<> WriteState(const std::string& path, const SavedState& state);
// Nothing where there is no file.
Result<std::optional<SavedState>> ReadState(const std::string& path);
// The bytes of such a file. Fails on anything that WriteState did not write.
Result<SavedState> ParseState(std::string_view bytes);

}  // namespace kcc
