#include "kcc/trace/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "kcc/base/file.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<Request>> ReadText(const std::string& text) {
  const testing::ScratchDir scratch;
  const std::string path = scratch / "requests.jsonl";
  KCC_TRY_VOID(WriteFileAtomically(path, text));
  return ReadRequests(path);
}

TEST(RequestsTest, KeepsEveryFieldByType) {
  const auto requests =
      ReadText(R"({"id":"a","prompt_tokens":12,"reward":-0.5,"refused":false,"lang":"de",)"
               R"("tags":["x","y"],"none":null,"nested":{"k":[1, 2]},"mixed":["t",1,true],)"
               R"("seed":12345678901234567890})"
               "\r\n\n  \n{\"id\":7}");
  ASSERT_TRUE(requests.has_value()) << requests.error().Format();
  ASSERT_EQ(requests->size(), 2u);
  const Request& a = requests->front();
  EXPECT_EQ(a.Number("prompt_tokens"), 12);
  EXPECT_EQ(a.Number("reward"), -0.5);
  EXPECT_EQ(a.Flag("refused"), false);
  EXPECT_EQ(*a.Text("lang"), "de");
  EXPECT_THAT(*std::get<const std::vector<std::string>*>(a.Field("tags")), ElementsAre("x", "y"));
  EXPECT_FALSE(a.fields.contains("none"));
  EXPECT_EQ(*a.Text("nested"), R"({"k":[1,2]})");
  EXPECT_THAT(std::get<std::vector<std::string>>(a.fields.at("mixed")),
              ElementsAre("t", "1", "true"));
  EXPECT_EQ(*a.Text("seed"), "12345678901234567890");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(a.Field("absent")));
  EXPECT_EQ(requests->back().id, "7");
}

struct Mistake {
  const char* text;
  int line;
  const char* says;
};

class RequestMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(RequestMistake, IsNamedWithItsLine) {
  const auto requests = ReadText(GetParam().text);
  ASSERT_FALSE(requests.has_value());
  EXPECT_EQ(requests.error().place().line, GetParam().line);
  EXPECT_THAT(requests.error().message(), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, RequestMistake,
    ::testing::Values(Mistake{"{\"id\":\"a\"}\n{\"id\":\"a\"}\n", 2, "stood already in line 1"},
                      Mistake{"{\"id\":\"a\"}\n[]\n", 2, "a request must be an object"},
                      Mistake{"{\"x\":1}\n", 1, "no 'id'"},
                      Mistake{"{\"id\":\"\"}\n", 1, "no 'id'"},
                      Mistake{"{\"id\":[]}\n", 1, "'id' must be a string"},
                      Mistake{"{\"id\":\"a\",\"x\":1,\"x\":2}\n", 1, "'x' stands twice"},
                      Mistake{"{\"id\":\"a\",\"id\":\"b\"}\n", 1, "'id' stands twice"},
                      Mistake{"{\"id\":\"a\",\"prompt_tokens\":1.5}\n", 1, "non-negative integer"},
                      Mistake{"{\"id\":\"a\"}\n\n{\"id\":\"b\"\n", 3, "not JSON"},
                      Mistake{"{\"id\":\"\xff\"}\n", 1, "not UTF-8"}));

TEST(RequestsTest, ALargeNumberStaysANumber) {
  const auto request = ParseRequest(R"({"id":"a","x":1234567890123456789.5,"y":1e300})");
  ASSERT_TRUE(request.has_value());
  const auto again = ParseRequest(RequestJson(*request));
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->fields, request->fields);
  EXPECT_TRUE(again->Number("x").has_value());
}

TEST(RequestsTest, EveryTruncationWithinALineIsAnError) {
  const std::string line = R"({"id":"a","tags":["x"],"reward":1.5,"k":{"z":null}})";
  for (size_t size = 1; size < line.size(); ++size) {
    EXPECT_FALSE(ParseRequest(line.substr(0, size)).has_value()) << size;
  }
}

TEST(RequestsTest, ALineBeyondTheLimitIsRefused) {
  const testing::ScratchDir scratch;
  const std::string path = scratch / "long";
  ASSERT_TRUE(WriteFileAtomically(path, "short\n" + std::string(100, 'x') + "\n").has_value());
  int lines = 0;
  const auto read = ForEachLine(path, 50, [&](std::string_view, int) -> Result<> {
    ++lines;
    return {};
  });
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(lines, 1);
  EXPECT_EQ(read.error().place().line, 2);
  EXPECT_THAT(read.error().message(), HasSubstr("limit of 50 bytes"));
}

TEST(RequestsTest, LinesLongerThanABlockAreWhole) {
  const testing::ScratchDir scratch;
  const std::string path = scratch / "blocks";
  std::string text;
  for (const size_t size : std::initializer_list<size_t>{1, 262143, 262144, 262145, 600000, 3}) {
    text += std::string(size, static_cast<char>('a' + size % 26)) + "\n";
  }
  ASSERT_TRUE(WriteFileAtomically(path, text).has_value());
  std::string joined;
  ASSERT_TRUE(ForEachLine(path, size_t{1} << 20, [&](std::string_view line, int) -> Result<> {
                joined.append(line).append("\n");
                return {};
              }).has_value());
  EXPECT_EQ(joined, text);
}

TEST(RequestsTest, WritingAndReadingARequestKeepsIt) {
  ASSERT_TRUE(rc::check([](const std::string& id, const std::map<std::string, std::string>& texts,
                           const std::map<std::string, int32_t>& numbers, bool flag) {
    // JSON holds UTF-8 only; other bytes are replaced by the writer.
    Request request;
    request.id = "r" + std::to_string(std::hash<std::string>()(id));
    for (const auto& [key, value] : texts) {
      request.fields["t" + std::to_string(key.size())] = std::to_string(value.size()) + "\n\"\\";
    }
    for (const auto& [key, value] : numbers) {
      request.fields["n" + std::to_string(key.size())] = value / 7.0;
    }
    request.fields["flag"] = flag;
    const auto back = ParseRequest(RequestJson(request));
    RC_ASSERT(back.has_value());
    RC_ASSERT(back->id == request.id);
    RC_ASSERT(back->fields == request.fields);
  }));
}

}  // namespace
}  // namespace kcc
