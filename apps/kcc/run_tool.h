// Another program, run to its end for what it prints: Python, where that knows what kcc does not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc::cli {

struct ToolRun {
  int exit_code = 0;  // 128 and the signal's number, if one ended it
  std::string out;
  std::string err;
};

// Looks the program up on PATH. Its input is empty, and it gets kcc's environment. Fails if it
// cannot be started, prints more than a mebibyte, or does not end in time; then it is killed.
Result<ToolRun> RunTool(const std::vector<std::string>& command, double timeout_s);

// Of what a program printed: in Python's last line are the words of the error.
std::string LastLine(std::string_view text);

}  // namespace kcc::cli
