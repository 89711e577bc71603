// The report for a terminal: the verdict and what is wrong first, plain words, no more columns
// than the terminal has. Foreign text cannot move the cursor (text.h, OneLine).
#pragma once

#include <string>

#include "kcc/report/report.h"

namespace kcc {

struct TerminalStyle {
  int width = 80;      // columns; at least 40 are used
  bool color = false;  // the caller knows whether it is a terminal, and of NO_COLOR
  bool all = false;    // every clause-slice pair, not only those that are not satisfied
};

std::string ReportTerminal(const ReportData& report, const TerminalStyle& style);

}  // namespace kcc
