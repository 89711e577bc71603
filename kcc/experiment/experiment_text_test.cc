#include "kcc/experiment/experiment_text.h"

#include <gtest/gtest.h>

namespace kcc {
namespace {

TEST(TextTable, AlignsColumnsOfAnyWidth) {
  const std::vector<std::string> head = {"engine", "load", "all"};
  const std::vector<std::vector<std::string>> rows = {{"lab:fp8", "1 at once", "99% ✓"},
                                                      {"lab:ü", "16", "3% ✕"}};
  EXPECT_EQ(TextTable(head, rows),
            "  engine   load       all\n"
            "  lab:fp8  1 at once  99% ✓\n"
            "  lab:ü    16         3% ✕\n");
}

TEST(FindingsText, SaysWhatWasPredictedThenWhatWasSeen) {
  const std::vector<Finding> findings = {{"it drifts", "by 2", true}, {"it stops", "never", false}};
  EXPECT_EQ(FindingsText(findings),
            "  yes: it drifts\n"
            "    by 2\n"
            "  no: it stops\n"
            "    never\n");
}

}  // namespace
}  // namespace kcc
