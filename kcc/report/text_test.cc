#include "kcc/report/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

TEST(ShortNumber, KeepsFourDigitsAndEveryDigitBeforeThePoint) {
  const struct {
    double value;
    const char* text;
  } cases[] = {{0, "0"},           {-0.0, "0"},       {0.071234, "0.07123"}, {1, "1"},
               {0.99996, "1"},     {431.48, "431.5"}, {24117.2, "24117"},    {-1234.6, "-1235"},
               {1.5e-9, "1.5e-9"}, {INFINITY, "inf"}, {-INFINITY, "-inf"},   {NAN, "nan"}};
  for (const auto& c : cases) {
    const auto read = ParseNumber(ShortNumber(c.value));
    const auto wanted = ParseNumber(c.text);
    if (wanted) {
      ASSERT_TRUE(read) << c.text;
      EXPECT_EQ(*read, *wanted) << ShortNumber(c.value);
    } else {
      EXPECT_EQ(ShortNumber(c.value), c.text);
    }
  }
}

TEST(PassingNumber, NeverRoundsAThresholdOntoTheSideThatFails) {
  ASSERT_TRUE(rc::check([](double value, bool at_most) {
    RC_PRE(std::isfinite(value));
    const BoundKind bound = at_most ? BoundKind::kAtMost : BoundKind::kAtLeast;
    const auto shown = ParseNumber(PassingNumber(bound, value));
    RC_ASSERT(shown.has_value());
    RC_ASSERT((at_most ? *shown >= value : *shown <= value));
  }));
  EXPECT_EQ(PassingNumber(BoundKind::kAtMost, 0.061412274), "0.06142");
  EXPECT_EQ(PassingNumber(BoundKind::kAtLeast, 0.97996), "0.9799");
}

TEST(Grouped, SeparatesThousands) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1000), "1,000");
  EXPECT_EQ(Grouped(-1234567), "-1,234,567");
  EXPECT_EQ(Grouped(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(OneLine, RemovesWhatMovesTheCursorOrReordersText) {
  EXPECT_EQ(OneLine("a\x1b[31mb\r\nc\td"), "a [31mb  c d");
  EXPECT_EQ(OneLine("a\xE2\x80\xAE"
                    "b\xC2\x85"
                    "c"),
            "a b c");
  EXPECT_EQ(OneLine("bad \xFF end"), "bad \xEF\xBF\xBD end");
  EXPECT_EQ(OneLine("ünï 模型"), "ünï 模型");
}

TEST(OneLine, GivesOneLineOfUtf8ForAnyBytes) {
  ASSERT_TRUE(rc::check([](const std::string& bytes) {
    const std::string line = OneLine(bytes);
    size_t bad = 0;
    RC_ASSERT(IsUtf8(line, &bad));
    for (const char c : line) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
  }));
}

TEST(Truncated, FitsAndMarksTheCut) {
  EXPECT_EQ(Truncated("abcdef", 6), "abcdef");
  EXPECT_EQ(Truncated("abcdef", 4), "abc…");
  EXPECT_EQ(Truncated("模型模型", 5), "模型…");
  EXPECT_EQ(Truncated("abc", 0), "");
  ASSERT_TRUE(rc::check([](const std::string& bytes) {
    const std::string line = OneLine(bytes);
    const auto width = *rc::gen::inRange<size_t>(0, 20);
    RC_ASSERT(DisplayWidth(Truncated(line, width)) <= width);
  }));
}

TEST(MarkupEscaped, LeavesNoMarkupAndNoForbiddenCharacter) {
  EXPECT_EQ(MarkupEscaped("<a href=\"x\">'&'</a>\x01\x0B"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(MarkupEscaped("x\xFFy\xEF\xBF\xBE"), "x\xEF\xBF\xBDy");
}

TEST(IntervalText, TellsExactPartialAndMissing) {
  EXPECT_EQ(IntervalText({0.5, 0.5}), "0.5");
  EXPECT_EQ(IntervalText({0.01, 0.03}), "[0.01, 0.03]");
  EXPECT_EQ(IntervalText({}), "not measured");
}

TEST(ExceedanceText, SaysRateWindowsAndBudget) {
  EXPECT_EQ(ExceedanceText({4000, 128, 0.01}), "3.2% of 4,000 windows beyond (budget 1%)");
  EXPECT_EQ(ExceedanceText({0, 0, 0.01}), "no window (budget 1%)");
}

}  // namespace
}  // namespace kcc
