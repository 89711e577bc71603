#include "kcc/predicate/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>

#include "kcc/predicate/predicate_gen.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MapSource Example() {
  MapSource source;
  source.request = {{"latency_ms", 120.0},
                    {"ttft_ms", 30.0},
                    {"zero", 0.0},
                    {"huge", 1e308},
                    {"refused", true},
                    {"parsed", false},
                    {"lang", std::string_view("de")},
                    {"reward", std::numeric_limits<double>::quiet_NaN()},
                    {"endless", std::numeric_limits<double>::infinity()}};
  source.token = {{"logprob", -2.5}, {"position", 7.0}};
  return source;
}

Expression MustParse(std::string_view text) {
  Result<Expression> expression = Expression::Parse(text);
  EXPECT_TRUE(expression.has_value()) << text << ": " << expression.error().Format();
  return *expression;
}

struct Meaning {
  std::string_view text;
  std::optional<double> value;
};

class ExpressionMeaning : public testing::TestWithParam<Meaning> {};

TEST_P(ExpressionMeaning, OnTheExampleRequest) {
  EXPECT_EQ(MustParse(GetParam().text).Evaluate(Example()), GetParam().value) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExpressionMeaning,
    testing::Values(Meaning{"latency_ms", 120}, Meaning{"latency_ms - ttft_ms", 90},
                    Meaning{"latency_ms-30", 90}, Meaning{"latency_ms -30", 90},
                    Meaning{"-ttft_ms", -30}, Meaning{"--ttft_ms", 30},
                    Meaning{"latency_ms - -ttft_ms", 150}, Meaning{"2 + latency_ms * 3", 362},
                    Meaning{"(2 + latency_ms) * 3", 366}, Meaning{"latency_ms / ttft_ms / 2", 2},
                    Meaning{"latency_ms / (ttft_ms / 2)", 8}, Meaning{"latency_ms - 20 - 10", 90},
                    Meaning{"-latency_ms * -1", 120}, Meaning{"abs(ttft_ms - latency_ms)", 90},
                    Meaning{"min(latency_ms, 100)", 100},
                    Meaning{"max(0, ttft_ms - latency_ms, 7)", 7},
                    Meaning{"1.5e2 - latency_ms", 30}, Meaning{"refused + parsed", 1},
                    Meaning{"-token.logprob", 2.5}, Meaning{"token.position + ttft_ms", 37},
                    Meaning{"-zero", 0}, Meaning{"zero * -1", 0}));

// What is not known is missing, and never a number that could pass.
INSTANTIATE_TEST_SUITE_P(Missing, ExpressionMeaning,
                         testing::Values(Meaning{"absent", {}}, Meaning{"latency_ms + absent", {}},
                                         Meaning{"0 * absent", {}}, Meaning{"min(0, absent)", {}},
                                         Meaning{"max(absent, 1)", {}}, Meaning{"abs(absent)", {}},
                                         Meaning{"reward", {}}, Meaning{"endless", {}},
                                         Meaning{"1 / endless", {}}, Meaning{"lang", {}},
                                         Meaning{"latency_ms / zero", {}},
                                         Meaning{"zero / zero", {}}, Meaning{"1 / (1 / zero)", {}},
                                         Meaning{"min(0, 1 / zero)", {}}, Meaning{"huge * 10", {}},
                                         Meaning{"1 / (huge * 10)", {}},
                                         Meaning{"huge + huge - huge", {}},
                                         Meaning{"token.advantage", {}}));

TEST(Expression, IsEvaluatedInTheOrderWritten) {
  MapSource source;
  source.request = {{"a", 1e16}, {"b", 1.0}, {"c", -1e16}};
  EXPECT_EQ(MustParse("a + b + c").Evaluate(source), 0);
  EXPECT_EQ(MustParse("a + c + b").Evaluate(source), 1);
}

TEST(Expression, NamesTheFieldsItReads) {
  const Expression expression = MustParse("max(b, token.logprob) - a + b");
  EXPECT_THAT(expression.Fields(), ElementsAre("a", "b", "token.logprob"));
  EXPECT_TRUE(expression.reads_token());
  EXPECT_FALSE(MustParse("a - b").reads_token());
}

struct Spelling {
  std::string_view text;
  std::string_view canonical;
};

class ExpressionSpelling : public testing::TestWithParam<Spelling> {};

TEST_P(ExpressionSpelling, IsOne) {
  EXPECT_EQ(MustParse(GetParam().text).Canonical(), GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExpressionSpelling,
    testing::Values(Spelling{"((a))", "a"}, Spelling{"a+b*c", "a + b * c"},
                    Spelling{"(a+b)+c", "a + b + c"}, Spelling{"a+(b+c)", "a + (b + c)"},
                    Spelling{"a-(b-c)", "a - (b - c)"}, Spelling{"(a*b)/c", "a * b / c"},
                    Spelling{"a/(b*c)", "a / (b * c)"}, Spelling{"-(a*b)", "-(a * b)"},
                    Spelling{"(-a)*b", "-a * b"}, Spelling{"- - a", "--a"},
                    Spelling{"a - ( - 5.0 )", "a - -5"}, Spelling{"a*1e3", "a * 1000"},
                    Spelling{"min(a,(b),max( 1 , c ))", "min(a, b, max(1, c))"},
                    Spelling{"abs((a-b))", "abs(a - b)"}, Spelling{"min + a", "min + a"}));

struct Fault {
  std::string_view text;
  int column;
  std::string_view message;
};

class ExpressionFault : public testing::TestWithParam<Fault> {};

TEST_P(ExpressionFault, IsSaidWithItsPlace) {
  const Result<Expression> expression = Expression::Parse(GetParam().text);
  ASSERT_FALSE(expression.has_value()) << GetParam().text;
  EXPECT_THAT(expression.error().message(), HasSubstr(GetParam().message));
  EXPECT_EQ(expression.error().place().column, GetParam().column) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ExpressionFault,
    testing::Values(
        Fault{"", 1, "empty"}, Fault{"a +", 4, "expected a field or a number, found the end"},
        Fault{"a b", 3, "unexpected 'b'; join values with + - * /"},
        Fault{"(a", 1, "'(' without its ')'"}, Fault{"a)", 2, "')' without its '('"},
        Fault{"a, b", 2, "a comma separates"}, Fault{"1 + 2", 1, "reads no field"},
        Fault{"a ^ 2", 3, "unexpected '^'"}, Fault{"a ** 2", 3, "unexpected '*'"},
        Fault{"a > 1", 3, "unexpected '>'"}, Fault{"'x' + a", 1, "unexpected '''"},
        Fault{"log(a)", 1, "unknown function 'log'; there are abs(), min() and max()"},
        Fault{"abs(a, b)", 1, "abs() takes one value, not 2"},
        Fault{"1 + min(a)", 5, "min() takes two values or more, not 1"},
        Fault{"a and b", 3, "unexpected 'and'"}, Fault{"not a", 1, "belongs to conditions"},
        Fault{"2 * tags", 5, "'tags' is a list of text; arithmetic needs numbers"},
        Fault{"kernel_fingerprint", 1, "is a text"},
        Fault{"token.logprb", 1, "did you mean 'token.logprob'?"},
        Fault{"request.latency_ms", 1, "only token fields have a prefix; write 'latency_ms'"},
        Fault{"12ms - a", 1, "'12ms' is not a number"}, Fault{"a\x01", 2, "control character"},
        Fault{"a\xFF", 2, "not UTF-8"}));

TEST(Expression, HasLimits) {
  const std::string deep(kExpressionDepthMax, '(');
  const std::string closed(kExpressionDepthMax, ')');
  EXPECT_TRUE(Expression::Parse(deep + "a" + closed).has_value());
  EXPECT_FALSE(Expression::Parse("(" + deep + "a" + closed + ")").has_value());
  EXPECT_FALSE(Expression::Parse(std::string(kExpressionDepthMax + 1, '-') + "a").has_value());
  EXPECT_TRUE(Expression::Parse(std::string(kExpressionBytesMax, 'a')).has_value());
  EXPECT_FALSE(Expression::Parse(std::string(kExpressionBytesMax + 1, 'a')).has_value());
  // Short as written, too long with its blanks.
  std::string sum = "a";
  while (sum.size() + 2 <= kExpressionBytesMax) sum += "+a";
  EXPECT_FALSE(Expression::Parse(sum).has_value());
}

rc::Gen<std::string> GenExpressionText(int depth = 4) {
  return rc::gen::exec([depth]() -> std::string {
    const auto part = [&] { return *GenExpressionText(depth - 1); };
    switch (depth == 0 ? 0 : *rc::gen::inRange(0, 6)) {
      case 1:
        return part() + *rc::gen::element<std::string>("+", " - ", "*", " / ") + part();
      case 2:
        return "-" + part();
      case 3:
        return "( " + part() + ")";
      case 4:
        return "abs(" + part() + ")";
      case 5:
        return *rc::gen::element<std::string>("min(", "max(") + part() + "," + part() + ")";
      default:
        return *rc::gen::element<std::string>("prompt_tokens", "latency_ms", "reward", "failed",
                                              "vip", "token.position", "2", "0.50", "1e-3");
    }
  });
}

TEST(Expression, CanonicalFormMeansTheSame) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *GenExpressionText();
    const Result<Expression> expression = Expression::Parse(text);
    RC_PRE(expression.has_value());
    const std::string canonical = expression->Canonical();
    const Result<Expression> again = Expression::Parse(canonical);
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->Canonical() == canonical);
    RC_ASSERT(again->Fields() == expression->Fields());
    const MapSource source = *GenFieldSource();
    RC_ASSERT(again->Evaluate(source) == expression->Evaluate(source));
  }));
}

}  // namespace
}  // namespace kcc
