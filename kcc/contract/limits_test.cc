// Hostile documents: each is refused, in less than a second and in bounded memory. Time is
// asserted in optimised builds without sanitizers only; there it has a margin of several times.
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "kcc/contract/reader.h"
#include "kcc/contract/yaml_document.h"

namespace kcc {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr double kSecondsMax = 20;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr double kSecondsMax = 20;
#else
constexpr double kSecondsMax = 1;
#endif
#else
constexpr double kSecondsMax = 1;
#endif

constexpr size_t kFull = kContractBytesMax - 64;

std::string Repeat(std::string_view piece, size_t bytes) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (text.size() + piece.size() <= bytes) text += piece;
  return text;
}

std::string Bomb() {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int k = 1; k < 9; ++k) text += ", " + alias;
    text += "]\n";
  }
  return text;
}

std::string ManyAnchors() {
  std::string text;
  for (int i = 0; text.size() < kFull; ++i) text += "- &a" + std::to_string(i) + " x\n";
  return text;
}

struct Hostile {
  std::string name;
  std::string text;
  std::string code;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::vector<Hostile> HostileDocuments() {
  const std::string head =
      "apiVersion: kcc/v1\nkind: KernelContract\nmetadata: {name: a, version: 1.0.0}\nspec:\n";
  return {
      {"YamlBomb", Bomb(), "alias-limit"},
      {"ManyAliases", "- &a x\n" + Repeat("- *a\n", kFull), "alias-limit"},
      {"AliasesOfALongText",
       "a: &a " + std::string(1000000, 'x') + "\nb:\n" + Repeat("- *a\n", kFull / 2),
       "alias-limit"},
      {"ManyAnchors", ManyAnchors(), "too-large"},
      {"OpenBrackets", Repeat("[", kFull), "too-large"},
      {"OpenBraces", Repeat("{", kFull), "too-large"},
      {"DeepFlow", Repeat("[", 100) + Repeat("]", 100), "too-deep"},
      {"DeepDashes", Repeat("- ", kFull), "too-deep"},
      {"DeepQuestions", Repeat("? ", kFull), "too-deep"},
      {"Commas", "[" + Repeat(",a", kFull), "too-large"},
      {"FlowPairs", "{" + Repeat("a: b,", kFull), "too-large"},
      {"ManyItems", Repeat("- a\n", kFull), "too-large"},
      {"ManyKeys", Repeat("k: 1\n", kFull), "too-large"},
      {"ManyDocuments", Repeat("---\n", kFull), "several-documents"},
      {"OneLongLine", std::string(kFull, 'a'), "wrong-type"},
      {"OneLongQuote", "\"" + std::string(kFull, 'a'), "yaml-syntax"},
      {"Newlines", std::string(kFull, '\n'), "too-large"},
      {"Blanks", std::string(kFull, ' ') + "a", "wrong-type"},
      {"TooManyBytes", std::string(kContractBytesMax + 1, 'a'), "too-large"},
      {"InvalidUtf8", "a: " + std::string(kFull, '\xFF'), "not-utf8"},
      {"TruncatedUtf8", "a: \xE2\x82", "not-utf8"},
      {"WrongClauses",
       head + "  numerical:\n" +
           Repeat("  - {id: A, metric: mean_kll, atMost: 1, level: L1}\n", kFull / 4),
       "unknown-metric"},
      {"DeepPredicate", head + "  slices:\n  - {name: a, where: \"" + Repeat("(", 100000) + "\"}\n",
       "bad-where"},
      {"LongPredicate",
       head + "  slices:\n  - {name: a, where: \"" + Repeat("not ", 1000000) + "a\"}\n",
       "bad-where"},
  };
}

class Limits : public testing::TestWithParam<Hostile> {};

TEST_P(Limits, AreReportedWithinASecond) {
  // Processor time: other programs on the machine must not fail this test.
  const std::clock_t start = std::clock();
  const ReadOutcome outcome = ReadContract(GetParam().text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_FALSE(outcome.contract.has_value());
  bool found = false;
  for (const Diagnostic& diagnostic : outcome.diagnostics) {
    found |= diagnostic.code == GetParam().code;
    EXPECT_FALSE(FormatDiagnostic(diagnostic, "f", GetParam().text).empty());
  }
  EXPECT_TRUE(found) << outcome.diagnostics[0].code << ": " << outcome.diagnostics[0].message;
  EXPECT_LT(seconds, kSecondsMax);
}

INSTANTIATE_TEST_SUITE_P(Hostile, Limits, testing::ValuesIn(HostileDocuments()),
                         [](const auto& info) { return info.param.name; });

TEST(ReadContractFile, RefusesAHundredMegabytesOfOneLineUnread) {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("kcc_limits_test." + std::to_string(::getpid()) + ".yaml");
  { std::ofstream file(path); }
  std::filesystem::resize_file(path, uintmax_t{100} << 20);
  const Result<ContractFile> file = ReadContractFile(path.string());
  std::filesystem::remove(path);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code(), ErrorCode::kInvalid);
  EXPECT_NE(file.error().Format().find("larger than the limit"), std::string::npos);
}

TEST(YamlDocument, NestingWithinTheLimitIsRead) {
  const std::string text = Repeat("[", kYamlDepthMax) + Repeat("]", kYamlDepthMax);
  EXPECT_TRUE(YamlDocument::Parse(text).has_value());
  EXPECT_FALSE(YamlDocument::Parse("[" + text + "]").has_value());
}

TEST(YamlDocument, AliasesAddToTheDepthOfTheirPlace) {
  const std::string deep = Repeat("[", 40) + Repeat("]", 40);
  EXPECT_TRUE(YamlDocument::Parse("a: &a " + deep + "\nb: *a\n").has_value());
  const auto twice = YamlDocument::Parse("a: &a " + deep + "\nb: " + Repeat("[", 40) + "*a" +
                                         Repeat("]", 40) + "\n");
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().code, "alias-limit");
}

}  // namespace
}  // namespace kcc
