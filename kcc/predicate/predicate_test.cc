#include "kcc/predicate/predicate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <map>

#include "kcc/predicate/fields.h"
#include "kcc/predicate/predicate_gen.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kTags = {"safety", "de"};

MapSource Example() {
  MapSource source;
  source.request = {{"id", "r1"},         {"prompt_tokens", 8192.0},
                    {"latency_ms", 12.5}, {"tags", &kTags},
                    {"refused", true},    {"parsed", false},
                    {"lang", "de"},       {"quote", "it's"},
                    {"seed", 0.0},        {"reward", std::numeric_limits<double>::quiet_NaN()}};
  source.token = {{"position", 7.0}};
  return source;
}

Predicate MustParse(std::string_view text) {
  Result<Predicate> predicate = Predicate::Parse(text);
  EXPECT_TRUE(predicate.has_value()) << text << ": " << predicate.error().Format();
  return *predicate;
}

struct Meaning {
  std::string_view text;
  bool holds;
};

class PredicateMeaning : public testing::TestWithParam<Meaning> {};

TEST_P(PredicateMeaning, OnTheExampleRequest) {
  EXPECT_EQ(MustParse(GetParam().text).Evaluate(Example()), GetParam().holds) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, PredicateMeaning,
    testing::Values(Meaning{"prompt_tokens >= 8192", true}, Meaning{"prompt_tokens > 8192", false},
                    Meaning{"prompt_tokens < 8192.5", true}, Meaning{"8192 <= prompt_tokens", true},
                    Meaning{"prompt_tokens != 1", true}, Meaning{"latency_ms == 1.25e1", true},
                    Meaning{"latency_ms > -.5", true}, Meaning{"seed == -0", true},
                    Meaning{"'safety' in tags", true}, Meaning{"'code' in tags", false},
                    Meaning{"'code' not in tags", true}, Meaning{"lang in ['de', 'fr']", true},
                    Meaning{"lang in [\"en\"]", false}, Meaning{"lang not in ['en']", true},
                    Meaning{"lang in tags", true}, Meaning{"prompt_tokens in [1, 8192]", true},
                    Meaning{"prompt_tokens not in [1, 8192]", false}, Meaning{"refused", true},
                    Meaning{"parsed", false}, Meaning{"not parsed", true},
                    Meaning{"refused == true", true}, Meaning{"refused != parsed", true},
                    Meaning{"quote == 'it\\'s'", true}, Meaning{"quote == \"it's\"", true},
                    Meaning{"token.position >= 7", true}, Meaning{"true", true},
                    Meaning{"false", false},
                    // or binds weakest, not binds weaker than a comparison.
                    Meaning{"true or true and false", true},
                    Meaning{"(true or true) and false", false}, Meaning{"not lang == 'en'", true},
                    Meaning{"not parsed and false", false}, Meaning{"not (parsed and false)", true},
                    Meaning{"(lang == 'de') == refused", true}));

// An absent field, one that is NaN and one of another type make their comparison false: also !=
// and `not in`. `not` negates that false.
INSTANTIATE_TEST_SUITE_P(
    AbsentFields, PredicateMeaning,
    testing::Values(Meaning{"ttft_ms == 1", false}, Meaning{"ttft_ms != 1", false},
                    Meaning{"ttft_ms < 1", false}, Meaning{"ttft_ms >= 1", false},
                    Meaning{"region in ['eu']", false}, Meaning{"region not in ['eu']", false},
                    Meaning{"'x' in labels", false}, Meaning{"'x' not in labels", false},
                    Meaning{"failed", false}, Meaning{"not failed", true},
                    Meaning{"failed == false", false}, Meaning{"not (ttft_ms == 1)", true},
                    Meaning{"reward == 0", false}, Meaning{"reward != 0", false},
                    Meaning{"reward not in [0]", false}, Meaning{"token.gold != 3", false},
                    Meaning{"ttft_ms == output_tokens", false}, Meaning{"a == b", false},
                    Meaning{"lang != 7", false}, Meaning{"lang not in [7]", false},
                    Meaning{"'x' not in lang", false}, Meaning{"not lang", true}));

struct Mistake {
  std::string_view text;
  int column;
  std::string_view message;
};

class PredicateMistake : public testing::TestWithParam<Mistake> {};

TEST_P(PredicateMistake, NamesItsColumnAndTheRemedy) {
  const Result<Predicate> predicate = Predicate::Parse(GetParam().text);
  ASSERT_FALSE(predicate.has_value()) << GetParam().text;
  EXPECT_EQ(predicate.error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(predicate.error().place(), (Place{"", 1, GetParam().column})) << GetParam().text;
  EXPECT_THAT(predicate.error().message(), HasSubstr(GetParam().message)) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Words, PredicateMistake,
    testing::Values(Mistake{"", 1, "leave `where` out"}, Mistake{" \n", 1, "empty"},
                    Mistake{"seed = 1", 6, "'=' is written '=='"},
                    Mistake{"failed && parsed", 8, "'&&' is written 'and'"},
                    Mistake{"failed || parsed", 8, "'||' is written 'or'"},
                    Mistake{"!failed", 1, "'!' is written 'not'"},
                    Mistake{"seed <> 1", 6, "'<>' is written '!='"},
                    Mistake{"failed AND parsed", 8, "'AND' is written 'and'"},
                    Mistake{"failed == True", 11, "'True' is written 'true'"},
                    Mistake{"lang == 'de", 9, "without its closing '"},
                    Mistake{"lang == 'd\\e'", 11, "unknown escape"},
                    Mistake{"lang == 'd\te'", 11, "control character"},
                    Mistake{"prompt_tokens >= 8k", 18, "'8k' is not a number"},
                    Mistake{"seed == 0x10", 9, "'0x10' is not a number"},
                    Mistake{"seed == 1e999", 9, "'1e999' is not a number"},
                    Mistake{"seed == 1.2.3", 9, "not a number"},
                    Mistake{"seed == ?", 9, "unexpected '?'"},
                    Mistake{"lang == \xE2\x80\x98"
                            "de",
                            9, "unexpected '\xE2\x80\x98'"},
                    Mistake{"lang == '\xFF'", 10, "not UTF-8"},
                    Mistake{std::string_view("seed == \0", 9), 9, "control character"}));

INSTANTIATE_TEST_SUITE_P(
    Syntax, PredicateMistake,
    testing::Values(Mistake{"1 < seed < 3", 10, "do not chain"},
                    Mistake{"(failed", 1, "'(' without its ')'"},
                    Mistake{"failed)", 7, "')' without its '('"},
                    Mistake{"(failed parsed)", 9, "expected ')', found 'parsed'"},
                    Mistake{"failed parsed", 8, "join conditions with 'and' or 'or'"},
                    Mistake{"failed and", 11, "found the end"},
                    Mistake{"seed ==", 8, "found the end"}, Mistake{"and failed", 1, "found 'and'"},
                    Mistake{"lang in []", 10, "a list holds texts in quotes or numbers"},
                    Mistake{"lang in [de]", 10, "found 'de'"},
                    Mistake{"lang in ['de' 'fr']", 15, "expected ',' or ']'"},
                    Mistake{"lang in ['de', 1]", 16, "not both"},
                    Mistake{"lang in ['de'", 14, "found the end"},
                    Mistake{"token.positon > 1", 1, "did you mean 'token.position'?"},
                    Mistake{"token.zzz > 1", 1, "a token has token.position"},
                    Mistake{"request.lang == 'de'", 1, "write 'lang'"}));

INSTANTIATE_TEST_SUITE_P(
    Types, PredicateMistake,
    testing::Values(
        Mistake{"prompt_tokens >= '8192'", 18, "'>=' orders numbers, and '8192' is a text"},
        Mistake{"prompt_tokens == 'x'", 18, "'prompt_tokens', a number, and 'x' is a text"},
        Mistake{"id < 'x'", 1, "'<' orders numbers, and 'id' is a text"},
        Mistake{"refused > false", 1, "'refused' is a bool"},
        Mistake{"tags == 'safety'", 1, "'x' in tags"}, Mistake{"'a' == ['a']", 8, "is a list"},
        Mistake{"tags in ['safety']", 1, "'x' in tags once for each text"},
        Mistake{"'a' in id", 8, "asks for a list on its right, and 'id' is a text"},
        Mistake{"3 in tags", 1, "looks in a list of text, and 3 is a number"},
        Mistake{"id in [1, 2]", 1, "a list of numbers, and 'id' is a text"},
        Mistake{"prompt_tokens", 1, "as in prompt_tokens > 0"},
        Mistake{"failed and tags", 12, "as in 'x' in tags"}, Mistake{"1", 1, "no condition"},
        Mistake{"failed and 'x'", 12, "no condition"}, Mistake{"not ['x']", 5, "no condition"},
        Mistake{"lang == 'de' and lang > 3", 18, "elsewhere in this predicate 'lang' is a text"},
        Mistake{"lang and lang == 'de'", 18, "'lang', a bool, and 'de' is a text"},
        Mistake{"a == b and a == 'x' and b < 2", 6, "elsewhere in this predicate 'b' is a number"},
        Mistake{"a == b and 'x' in a", 1, "lists are not compared"},
        Mistake{"(a == 1) < 2", 2, "the condition is a bool"}));

TEST(Predicate, NestsUpToSixtyFourLevelsAndNoDeeper) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '(') + "failed" + std::string(depth, ')');
  };
  EXPECT_TRUE(Predicate::Parse(nested(64)).has_value());
  const Result<Predicate> deep = Predicate::Parse(nested(65));
  ASSERT_FALSE(deep.has_value());
  EXPECT_EQ(deep.error().place().column, 65);
  EXPECT_THAT(deep.error().message(), HasSubstr("deeper than 64"));

  std::string negations;
  for (int i = 0; i < 65; ++i) negations += "not ";
  EXPECT_FALSE(Predicate::Parse(negations + "failed").has_value());
}

TEST(Predicate, TakesUpToFourKibibytes) {
  const std::string longest = "id == '" + std::string(4096 - 8, 'x') + "'";
  ASSERT_EQ(longest.size(), 4096u);
  EXPECT_TRUE(Predicate::Parse(longest).has_value());
  EXPECT_FALSE(Predicate::Parse(longest + " ").has_value());

  std::string dense = "seed==1";  // fits as written, its canonical form would not
  while (dense.size() + 11 <= 4096) dense += " or seed==1";
  const Result<Predicate> predicate = Predicate::Parse(dense);
  ASSERT_FALSE(predicate.has_value());
  EXPECT_THAT(predicate.error().message(), HasSubstr("in canonical form"));
}

TEST(Predicate, ListsItsFieldsAndWhetherItReadsTokens) {
  const Predicate mixed = MustParse("token.position > 3 and ('a' in tags or lang == 'de')");
  EXPECT_TRUE(mixed.reads_token());
  EXPECT_THAT(mixed.Fields(), ElementsAre("lang", "tags", "token.position"));
  EXPECT_FALSE(MustParse("lang == 'token.position'").reads_token());
  EXPECT_TRUE(MustParse("true").Fields().empty());
}

TEST(Predicate, HasOneCanonicalSpelling) {
  const std::map<std::string, std::string> spellings = {
      {"prompt_tokens>=8192.0", "prompt_tokens >= 8192"},
      {"seed == +1e3", "seed == 1000"},
      {"seed == -0.0", "seed == 0"},
      {"((failed))", "failed"},
      {"failed and (parsed and refused)", "failed and parsed and refused"},
      {"(failed and parsed) or refused", "failed and parsed or refused"},
      {"failed and (parsed or refused)", "failed and (parsed or refused)"},
      {"not (seed == 1)", "not seed == 1"},
      {"not (failed or parsed)", "not (failed or parsed)"},
      {"not(not(failed))", "not not failed"},
      {"(not failed) == (parsed)", "(not failed) == parsed"},
      {"lang  not\tin\n[\"fr\",'de','fr']", "lang not in ['de', 'fr']"},
      {"seed in [3,1,2,1.0]", "seed in [1, 2, 3]"},
      {"quote == \"it's \\\"so\\\"\\n\\\\\"", "quote == 'it\\'s \"so\"\\n\\\\'"},
  };
  for (const auto& [written, canonical] : spellings) {
    EXPECT_EQ(MustParse(written).Canonical(), canonical) << written;
    EXPECT_EQ(MustParse(canonical).Canonical(), canonical);
  }
}

TEST(Predicate, CanonicalFormReadsBackAsTheSamePredicate) {
  EXPECT_TRUE(rc::check([] {
    const std::string written = *GenPredicateText();
    const Result<Predicate> first = Predicate::Parse(written);
    RC_ASSERT(first.has_value());
    const std::string canonical = first->Canonical();
    const Result<Predicate> again = Predicate::Parse(canonical);
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->Canonical() == canonical);
    RC_ASSERT(again->Fields() == first->Fields());
    const MapSource source = *GenFieldSource();
    RC_ASSERT(again->Evaluate(source) == first->Evaluate(source));
  }));
}

TEST(Predicate, AnyBytesGiveAPredicateOrAnErrorWithinTheText) {
  EXPECT_TRUE(rc::check([](const std::string& noise) {
    // Words of the language among the noise, so that some of it gets past the lexer.
    std::string text = noise;
    for (const std::string& part : *rc::gen::container<std::vector<std::string>>(
             rc::gen::element<std::string>("(", ")", "not ", " in ", "[", "'a'", ",", "]", " seed ",
                                           " == ", "1", " and ", "tags", "failed", " or "))) {
      text += part;
    }
    const Result<Predicate> predicate = Predicate::Parse(text);
    if (predicate.has_value()) return;
    const int column = predicate.error().place().column;
    RC_ASSERT(column >= 1 && column <= static_cast<int>(text.size()) + 1);
    RC_ASSERT(!predicate.error().message().empty());
  }));
}

TEST(PredicateFields, AreFoundByName) {
  for (const PredicateField& row : PredicateFields()) {
    EXPECT_EQ(FindPredicateField(row.name), &row) << row.name;
    EXPECT_FALSE(row.doc.empty());
  }
}

}  // namespace
}  // namespace kcc
