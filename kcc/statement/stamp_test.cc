#include "kcc/statement/stamp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/base/sha256.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;

const std::string kContract = "sha256:" + std::string(64, 'a');
const std::string kTriple = "sha256:" + std::string(64, 'b');

class Stamp : public ::testing::Test {
 protected:
  Stamp() {
    folder_ = ::testing::TempDir() + "/stamp_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  ~Stamp() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, std::string header, std::string_view data) const {
    const auto size = static_cast<uint64_t>(header.size());
    std::string bytes(sizeof(size), '\0');
    std::memcpy(bytes.data(), &size, sizeof(size));
    bytes += header;
    bytes += data;
    EXPECT_TRUE(WriteFileAtomically(File(name), bytes));
    return File(name);
  }
  static std::string Bytes(const std::string& path) { return *ReadFile(path, size_t{1} << 30); }

  std::string folder_;
};

// A dtype that kcc does not know, an empty tensor, other metadata, an order of its own.
constexpr const char* kHeader =
    R"({"z":{"dtype":"F77","shape":[3],"data_offsets":[0,3]},"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},"none":{"dtype":"U8","shape":[0],)"
    R"("data_offsets":[5,5]}})";

TEST_F(Stamp, ChangesTheMetadataAlone) {
  const std::string from = Write("m.safetensors", kHeader, "12345");
  EXPECT_EQ(*ReadCheckpointStamp(from), CheckpointStamp{});
  const auto made = StampCheckpoint(from, File("out"), {kContract, kTriple});
  ASSERT_TRUE(made) << made.error().Format();
  EXPECT_EQ(made->payload_bytes, 5);
  EXPECT_EQ(made->payload_digest, Sha256Of("12345"));
  const std::string bytes = Bytes(File("out"));
  EXPECT_EQ(made->file_digest, Sha256Of(bytes));
  EXPECT_TRUE(bytes.ends_with("12345"));
  EXPECT_EQ((bytes.size() - 5) % 8, 0u);
  EXPECT_THAT(bytes, HasSubstr(R"("__metadata__":{"format":"pt","kcc.contract":"sha256:aaaa)"));
  EXPECT_THAT(bytes, HasSubstr(R"("z":{"dtype":"F77","shape":[3],"data_offsets":[0,3]},"a":{)"));
  EXPECT_EQ(*ReadCheckpointStamp(File("out")), (CheckpointStamp{kContract, kTriple}));
  EXPECT_EQ(Bytes(from).substr(8, std::strlen(kHeader)), kHeader);  // untouched
}

TEST_F(Stamp, InPlaceAndAgain) {
  const std::string file = Write("m", kHeader, "12345");
  ::chmod(file.c_str(), 0640);
  ASSERT_TRUE(StampCheckpoint(file, file, {kTriple, kTriple}));
  const auto again = StampCheckpoint(file, file, {kContract, kTriple});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->before, (CheckpointStamp{kTriple, kTriple}));
  EXPECT_EQ(*ReadCheckpointStamp(file), (CheckpointStamp{kContract, kTriple}));
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  // The same stamp gives the same bytes.
  const std::string bytes = Bytes(file);
  ASSERT_TRUE(StampCheckpoint(file, file, {kContract, kTriple}));
  EXPECT_EQ(Bytes(file), bytes);
}

TEST_F(Stamp, KeepsTheAlignmentOfTheTensors) {
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(4096 - 8, ' ');
  const std::string file = Write("m", header, "x");
  ASSERT_TRUE(StampCheckpoint(file, file, {kContract, kTriple}));
  EXPECT_EQ(Bytes(file).size(), 4097u);
}

TEST_F(Stamp, AFileOfManyPiecesKeepsEveryByte) {
  std::string data((size_t{3} << 20) + 17, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  const std::string size = std::to_string(data.size());
  const std::string file = Write(
      "m", R"({"a":{"dtype":"U8","shape":[)" + size + R"(],"data_offsets":[0,)" + size + "]}}",
      data);
  const auto made = StampCheckpoint(file, File("out"), {kContract, kTriple});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->payload_digest, Sha256Of(data));
  EXPECT_TRUE(Bytes(File("out")).ends_with(data));
}

TEST_F(Stamp, WhatIsNotACheckpointIsRefusedAndNothingIsWritten) {
  struct Case {
    std::string header;
    std::string data;
    const char* words;
  };
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const Case cases[] = {
      {"", "", "nothing here"},
      {"[]", "", "not an object"},
      {"{" + a + "}", "1", "it is truncated, or more follows"},
      {"{" + a + "}", "123", "it is truncated, or more follows"},
      {"{" + a + "," + a + "}", "12", "stands twice"},
      {"{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12", "overlap"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12", "hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", "12", "two rising"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[-1,1]}})", "12", "two rising"},
      {R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "1", "lacks dtype, shape"},
      {R"({"a":7})", "", "is not an object"},
      {R"({"__metadata__":[]})", "", "__metadata__ is not an object"},
      {R"({"__metadata__":{"a":1}})", "", "not a string"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", "", "'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", "stands twice"},
  };
  for (const Case& one : cases) {
    const std::string file = Write("m", one.header, one.data);
    const auto made = StampCheckpoint(file, File("out"), {kContract, kTriple});
    ASSERT_FALSE(made) << one.header;
    EXPECT_THAT(made.error().message(), HasSubstr(one.words)) << one.header;
    EXPECT_EQ(made.error().place().file, file);
    EXPECT_FALSE(std::filesystem::exists(File("out")));
    EXPECT_FALSE(ReadCheckpointStamp(file)) << one.header;
  }
  ASSERT_TRUE(WriteFileAtomically(File("short"), "1234567"));
  EXPECT_FALSE(StampCheckpoint(File("short"), File("out"), {kContract, kTriple}));
  ASSERT_TRUE(WriteFileAtomically(File("long"), std::string(8, '\xff')));
  EXPECT_FALSE(StampCheckpoint(File("long"), File("out"), {kContract, kTriple}));
  EXPECT_EQ(StampCheckpoint(File("missing"), File("out"), {kContract, kTriple}).error().code(),
            ErrorCode::kIo);
  const std::string good = Write("m", kHeader, "12345");
  EXPECT_FALSE(StampCheckpoint(good, File("out"), {"sha256:1", kTriple}));
  EXPECT_FALSE(StampCheckpoint(good, File("out"), {kContract, ""}));
  EXPECT_FALSE(StampCheckpoint(good, folder_, {kContract, kTriple}));
  EXPECT_EQ(StampCheckpoint(good, folder_ + "/no/where", {kContract, kTriple}).error().code(),
            ErrorCode::kIo);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".kcc-")) << entry.path();
  }
  Write("m", R"({"__metadata__":{"kcc.contract":"mine"}})", "");
  EXPECT_THAT(ReadCheckpointStamp(File("m")).error().message(), HasSubstr("which is not"));
}

}  // namespace
}  // namespace kcc
