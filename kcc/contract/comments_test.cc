#include "kcc/contract/comments.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kcc/contract/canonical.h"
#include "kcc/contract/contract_gen.h"
#include "kcc/contract/reader.h"

namespace kcc {
namespace {

constexpr std::string_view kHead =
    "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: c, version: 1.0.0}\nspec:\n";

// The standard layout with the comments of `source`.
std::string Reformat(const std::string& source) {
  const ReadOutcome before = ReadContract(source);
  if (!before.contract) return "invalid source";
  const std::string plain = ToYaml(*before.contract);
  const ReadOutcome after = ReadContract(plain);
  if (!after.contract) return "invalid layout";
  return CarryComments(source, *before.contract, plain, *after.contract).value_or("refused");
}

// The line after the first that holds `text`.
std::string LineAfter(const std::string& document, std::string_view text) {
  const size_t at = document.find('\n', document.find(text));
  return document.substr(at + 1, document.find('\n', at + 1) - at - 1);
}

TEST(CommentsTest, AreFoundOutsideQuotesAndBlockScalarsOnly) {
  struct Case {
    const char* yaml;
    bool expected;
  };
  const Case kCases[] = {
      {"a: 1\n", false},
      {"a: 1 # x\n", true},
      {"# x\n", true},
      {"a: x#y\n", false},
      {"a: 'x # y'\n", false},
      {"a: \"x # y\"\n", false},
      {"a: \"x \\\" # y\"\n", false},
      {"a: 'it''s # y'\n", false},
      {"a: it's # y\n", true},
      {"a: ['x # y', z] # t\n", true},
      {"a: ['x # y', z]\n", false},
      {"a: |\n  text # no comment\n", false},
      {"a: >-\n  text # no comment\nb: 1\n", false},
      {"a: |\n  text\nb: 1 # yes\n", true},
      {"a: \"one\n  two # no\"\n", false},
      {"a: \"one\n  two\" # yes\n", true},
  };
  for (const Case& row : kCases) EXPECT_EQ(HasComments(row.yaml), row.expected) << row.yaml;
}

TEST(CommentsTest, FollowWhatTheyStandAboveEvenIfTheOrderChanges) {
  const std::string text = Reformat(std::string(kHead) +
                                    "  escalation:\n"
                                    "    # why freeze\n"
                                    "    L3: freeze\n"
                                    "  numerical:\n"
                                    "  # about N-1\n"
                                    "  - {level: L1, id: N-1, metric: p99_kl, atMost: 0.1}\n");
  EXPECT_NE(LineAfter(text, "# about N-1").find("id: N-1"), std::string::npos) << text;
  EXPECT_NE(LineAfter(text, "# why freeze").find("L3: freeze"), std::string::npos) << text;
  EXPECT_LT(text.find("# about N-1"), text.find("# why freeze")) << text;
}

TEST(CommentsTest, StayBesideALineThatStaysOneLine) {
  const std::string text =
      Reformat(std::string(kHead) +
               "  numerical:  # family N\n"
               "    - {id: N-1, metric: p99_kl, atMost: 0.1, level: L1}  # beside\n");
  EXPECT_NE(text.find("level: L1}  # beside\n"), std::string::npos) << text;
  EXPECT_NE(text.find("numerical:  # family N\n"), std::string::npos) << text;
}

TEST(CommentsTest, OfAKeyThatIsLeftOutGoToWhatEnclosesIt) {
  // L3: fallback is the default, so the layout has no such line.
  const std::string text = Reformat(std::string(kHead) +
                                    "  numerical:\n"
                                    "    - id: N-1\n"
                                    "      metric: p99_kl  # the tail\n"
                                    "      atMost: 0.1\n"
                                    "      level: L1\n"
                                    "  escalation:\n"
                                    "    L3: fallback  # as usual\n");
  EXPECT_NE(text.find("# as usual\n"), std::string::npos) << text;
  EXPECT_NE(LineAfter(text, "# the tail").find("id: N-1"), std::string::npos) << text;
}

TEST(CommentsTest, HeadAndTailStayAndASecondRunChangesNothing) {
  const std::string source = "# head\n\n# second head\n" + std::string(kHead) +
                             "\n  # a group\n\n  numerical:\n"
                             "    - {id: N-1, metric: p99_kl, atMost: 0.1, level: L1}\n"
                             "# tail\n";
  const std::string once = Reformat(source);
  EXPECT_TRUE(once.starts_with("# head\n\n# second head\napiVersion")) << once;
  EXPECT_TRUE(once.ends_with("# tail\n")) << once;
  EXPECT_EQ(Reformat(once), once);
}

TEST(CommentsTest, AboveADocumentOnOneLineStayAtItsHead) {
  const std::string text = Reformat(
      "# head\n{apiVersion: kcc/v1, kind: KernelContract, metadata: {name: c, version: 1.0.0}, "
      "spec: {numerical: [{id: N-1, metric: p99_kl, atMost: 0.1, level: L1}]}}\n");
  EXPECT_TRUE(text.starts_with("# head\napiVersion")) << text;
}

TEST(CommentsTest, SurviveWindowsLineEnds) {
  std::string source =
      "# head\n" + std::string(kHead) +
      "  numerical:\n    - {id: N-1, metric: p99_kl, atMost: 0.1, level: L1} # x\n";
  std::string windows;
  for (const char c : source) windows.append(c == '\n' ? "\r\n" : std::string(1, c));
  EXPECT_EQ(Reformat(windows), Reformat(source));
}

// Comments above and beside random lines of the text.
std::string Sprinkle(const std::string& text, std::vector<std::string>* comments) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string number = std::to_string(comments->size());
    const int choice = *rc::gen::inRange(0, 8);
    if (choice == 0) out += "\n";
    if (choice <= 1) {
      comments->push_back("# above " + number + ".");
      out += std::string(static_cast<size_t>(choice), ' ') + comments->back() + "\n";
    }
    out += text.substr(begin, end - begin);
    if (choice == 2) {
      comments->push_back("# beside " + number + ".");
      out += " " + comments->back();
    }
    out += '\n';
    begin = end + 1;
  }
  return out;
}

TEST(CommentsTest, OfAnyContractAreAllCarriedAndSettleAtOnce) {
  ASSERT_TRUE(rc::check([] {
    const Contract contract = *GenContract();
    const std::string plain = ToYaml(contract);
    RC_ASSERT(!HasComments(plain));
    std::vector<std::string> comments;
    const std::string source = Sprinkle(plain, &comments);
    // Inside a block scalar it is text, and below its indent an error: no comment either way.
    const ReadOutcome read = ReadContract(source);
    // In its own brackets: the macro takes an expression apart, and both sides of && run.
    RC_PRE((read.contract && ContractDigest(*read.contract) == ContractDigest(contract)));
    const std::string once = Reformat(source);
    RC_LOG() << source << "became\n" << once;
    for (const std::string& comment : comments) {
      RC_ASSERT(once.find(comment) != std::string::npos);
    }
    RC_ASSERT(Reformat(once) == once);
  }));
}

}  // namespace
}  // namespace kcc
