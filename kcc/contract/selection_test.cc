#include "kcc/contract/selection.h"

#include <gtest/gtest.h>

#include <string>

namespace kcc {
namespace {

TEST(Selection, IsTheMostThatItsPredicateReads) {
  const struct {
    const char* where;
    Selection selection;
  } rows[] = {
      {"", Selection::kAnswers},
      {"'safety' in tags", Selection::kAnswers},
      {"prompt_tokens >= 8192 and seed == 1", Selection::kAnswers},
      {"team == 'red'", Selection::kAnswers},
      {"token.position >= 10", Selection::kPrefixes},
      {"'safety' in tags and token.position >= 10", Selection::kPrefixes},
      {"token.token == 0", Selection::kOutcomes},
      {"token.logprob > -1", Selection::kOutcomes},
      {"token.advantage > 0", Selection::kOutcomes},
      {"token.gold <= 2", Selection::kOutcomes},
      {"reward >= 1", Selection::kOutcomes},
      {"output_tokens >= 100", Selection::kOutcomes},
      {"latency_ms >= 100 or 'safety' in tags", Selection::kOutcomes},
      {"token.position >= 10 and not refused", Selection::kOutcomes},
  };
  for (const auto& row : rows) {
    Slice slice;
    if (*row.where != '\0') slice.where = *Predicate::Parse(row.where);
    EXPECT_EQ(SelectionOf(slice), row.selection) << row.where;
  }
}

}  // namespace
}  // namespace kcc
