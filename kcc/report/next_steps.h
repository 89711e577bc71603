// What to do after a verdict: the questions it raises, each with the command that answers it.
//
// A command is only given where every name in it is known, so that it can be pasted as it stands:
// words are quoted for a POSIX shell, and a name that no quoting makes safe to paste (a control
// character) leaves its command out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/report/report.h"

namespace kcc {

struct NextStep {
  std::string name;      // "attribute"
  std::string question;  // "Which source of error brings it?"
  std::string command;
};

std::vector<NextStep> NextSteps(const ReportData& report);

// One word of a POSIX shell; nothing for a text with a control character, or broken UTF-8.
std::optional<std::string> ShellWord(std::string_view text);

// What of a kernel's name on the command line a report may keep (ReportInputs): a trace's directory
// without its scheme, or a kernel of the lab; empty for everything else.
std::string KeptInput(std::string_view kernel);

}  // namespace kcc
