// The small parts of base: errors, hashes, the JSON writer, files, clocks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/base/clock.h"
#include "kcc/base/file.h"
#include "kcc/base/json_writer.h"
#include "kcc/base/result.h"
#include "kcc/base/sha256.h"

namespace kcc {
namespace {

namespace fs = std::filesystem;

// A fresh directory that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "kcc-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string File(const std::string& name) const { return (path_ / name).string(); }
  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), {}));
  }

 private:
  fs::path path_;
};

TEST(Error, FormatsWhatIsKnownOfThePlace) {
  EXPECT_EQ(InvalidError("bad").Format(), "bad");
  EXPECT_EQ(InvalidError("bad", {"c.yaml", 3, 7}).Format(), "c.yaml:3:7: bad");
  EXPECT_EQ(InvalidError("bad", {"c.yaml", 3, 0}).Format(), "c.yaml:3: bad");
  EXPECT_EQ(InvalidError("bad", {"", 3, 7}).Format(), "3:7: bad");
  EXPECT_EQ(InvalidError("bad").At({"c.yaml"}).Format(), "c.yaml: bad");
  EXPECT_EQ(InvalidError("bad", {"a", 1, 1}).At({"b"}).Format(), "a:1:1: bad");
}

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidError("odd");
  return n / 2;
}
Result<int> Quarter(int n) {
  KCC_TRY(const int half, Half(n));
  return Half(half);
}
Result<> MustBeEven(int n) {
  KCC_TRY_VOID(Half(n));
  return {};
}

TEST(Result, CarriesValuesAndErrorsThroughKccTry) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Quarter(6).error().message(), "odd");
  EXPECT_TRUE(MustBeEven(2).has_value());
  EXPECT_EQ(MustBeEven(3).error().code(), ErrorCode::kInvalid);
}

TEST(CheckDeathTest, NamesTheExpression) { EXPECT_DEATH(KCC_CHECK(1 == 2), "1 == 2"); }

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Sha256Of(""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of("abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 parts;
  parts.Update("a");
  parts.Update("bc");
  EXPECT_EQ(parts.Finish(), Sha256Of("abc"));
}

TEST(Sha256, RecognisesDigests) {
  const std::string good = Sha256Of("x");
  EXPECT_TRUE(IsSha256(good));
  EXPECT_FALSE(IsSha256(good.substr(7)));
  EXPECT_FALSE(IsSha256(good.substr(0, 70)));
  EXPECT_FALSE(IsSha256("sha256:" + std::string(64, 'G')));
  EXPECT_FALSE(IsSha256("sha256:" + std::string(64, 'A')));
}

TEST(JsonWriter, WritesNestedDocuments) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginObject().Field("a", 1).Field("b", 0.5).Key("c").BeginArray();
  json.Value("x\n\"\\\x01").Value(true).Null().BeginObject().EndObject().EndArray();
  json.EndObject();
  EXPECT_EQ(json.Take(), "{\"a\":1,\"b\":0.5,\"c\":[\"x\\n\\\"\\\\\\u0001\",true,null,{}]}\n");
}

TEST(JsonWriter, PrettyPrintsWithTwoBlanks) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Value(1).Value(2).EndArray().Key("b").BeginArray();
  json.EndArray().EndObject();
  EXPECT_EQ(json.Take(), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}\n");
}

TEST(JsonWriter, KeepsNonFiniteNumbersAndReplacesBadBytes) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.BeginArray()
      .Value(std::numeric_limits<double>::infinity())
      .Value(
          "a\xFF"
          "b")
      .EndArray();
  EXPECT_EQ(json.Take(),
            "[\"inf\",\"a\xEF\xBF\xBD"
            "b\"]\n");
}

TEST(ReadFile, ReadsUpToTheLimitAndNamesTheFile) {
  const Folder folder;
  std::ofstream(folder.File("f")) << "12345";
  EXPECT_EQ(ReadFile(folder.File("f"), 5).value(), "12345");
  const auto too_large = ReadFile(folder.File("f"), 4);
  EXPECT_EQ(too_large.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(too_large.error().Format(), testing::HasSubstr("limit of 4 bytes"));
  EXPECT_EQ(ReadFile(folder.File("none"), 9).error().code(), ErrorCode::kIo);
  EXPECT_EQ(ReadFile(folder.File("."), 9).error().code(), ErrorCode::kInvalid);
}

TEST(WriteFileAtomically, ReplacesAndKeepsTheMode) {
  const Folder folder;
  const std::string path = folder.File("f");
  ASSERT_TRUE(WriteFileAtomically(path, "one").has_value());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(WriteFileAtomically(path, "two").has_value());
  EXPECT_EQ(ReadFile(path, 100).value(), "two");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
  EXPECT_EQ(folder.Entries(), 1u);
}

TEST(WriteFileAtomically, LeavesNothingBehindOnFailure) {
  const Folder folder;
  fs::create_directory(folder.File("d"));
  std::ofstream(folder.File("d") + "/inside") << "x";
  EXPECT_FALSE(WriteFileAtomically(folder.File("d"), "text").has_value());
  EXPECT_FALSE(WriteFileAtomically(folder.File("no/such/place"), "text").has_value());
  EXPECT_EQ(folder.Entries(), 1u);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(1000);
  EXPECT_EQ(clock.NowMs(), 1000);
  clock.AdvanceMs(500);
  EXPECT_EQ(clock.NowMs(), 1500);
  EXPECT_DOUBLE_EQ(clock.MonotonicSeconds(), 1.5);
}

}  // namespace
}  // namespace kcc
