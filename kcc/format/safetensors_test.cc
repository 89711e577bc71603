#include "kcc/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace kcc {
namespace {

using ::testing::HasSubstr;

Result<SafetensorsHeader> Parse(const std::string& bytes) {
  const auto file_size = static_cast<int64_t>(bytes.size());
  KCC_TRY(const int64_t size, SafetensorsHeaderSize(bytes.substr(0, 8), file_size, "f"));
  return ParseSafetensorsHeader(std::string_view(bytes).substr(8, static_cast<size_t>(size)),
                                file_size, "f");
}

// A file with this JSON header and so many bytes of data.
std::string FileOf(std::string json, size_t data_bytes) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t size = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + json + std::string(data_bytes, 'x');
}

std::string SmallFile() {
  std::vector<TensorInfo> tensors = {{"a", DType::kF32, {2, 3}}, {"b", DType::kU8, {5}}};
  return SafetensorsPrefix(tensors, {{"who", "test"}}) + std::string(29, 'x');
}

TEST(SafetensorsTest, ReadsBackWhatItWrites) {
  std::vector<TensorInfo> tensors = {
      {"a", DType::kF32, {2, 3}}, {"empty", DType::kI32, {0, 7}}, {"s", DType::kF64, {}}};
  const std::string prefix = SafetensorsPrefix(tensors, {{"k", "v\"\n"}}, 512);
  EXPECT_EQ(prefix.size(), 512u);
  const auto header = Parse(prefix + std::string(32, 'x'));
  ASSERT_TRUE(header.has_value()) << header.error().Format();
  EXPECT_EQ(header->data_begin, 512);
  EXPECT_EQ(header->metadata.at("k"), "v\"\n");
  ASSERT_NE(header->Find("a"), nullptr);
  EXPECT_EQ(header->Find("a")->ShapeText(), "[2, 3]");
  EXPECT_EQ(header->Find("a")->begin, tensors[0].begin);
  EXPECT_EQ(header->Find("empty")->elements(), 0);
  EXPECT_EQ(header->Find("s")->elements(), 1);
  EXPECT_EQ(header->Find("nothing"), nullptr);
}

TEST(SafetensorsTest, TheSameTensorsGiveTheSameBytes) { EXPECT_EQ(SmallFile(), SmallFile()); }

TEST(SafetensorsTest, EveryTruncationIsAnError) {
  const std::string whole = SmallFile();
  ASSERT_TRUE(Parse(whole).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Parse(whole.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(Parse(whole + "y").has_value()) << "bytes that belong to no tensor";
}

struct Hostile {
  const char* name;
  const char* json;
  size_t data_bytes;
  const char* says;
};

class HostileHeader : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsAnErrorThatNamesTheFault) {
  const auto header = Parse(FileOf(GetParam().json, GetParam().data_bytes));
  ASSERT_FALSE(header.has_value());
  EXPECT_THAT(header.error().Format(), HasSubstr(GetParam().says));
  EXPECT_EQ(header.error().place().file, "f");
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    All, HostileHeader,
    ::testing::Values(
        Hostile{"NotAnObject", R"([1])", 0, "does not start with '{'"},
        Hostile{"BrokenJson", R"({"a":)", 0, "not JSON"},
        Hostile{"TensorNotAnObject", R"({"a":3})", 0, "must be an object"},
        Hostile{"UnknownDtype", R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8,
                "dtype 'C64', which kcc does not read"},
        Hostile{"MissingDtype", R"({"a":{"shape":[1],"data_offsets":[0,8]}})", 8, "'dtype'"},
        Hostile{"NegativeExtent", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
                "non-negative"},
        Hostile{"ShapeOverflows",
                R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                "overflows"},
        Hostile{"ShapeProductWrapsToTheRightSize",
                R"({"a":{"dtype":"F32","shape":[2305843009213693952,8],"data_offsets":[0,0]}})", 0,
                "overflows"},
        Hostile{"TooManyDimensions",
                R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
                1, "16 dimensions"},
        Hostile{"SizeDisagrees", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                "takes 8 bytes, but its offsets span 4"},
        Hostile{"OffsetsFall", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1,
                "two rising integers"},
        Hostile{"OffsetsBeyondTheFile", R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})",
                8, "truncated"},
        Hostile{"HugeOffsets",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]}})",
                8, "truncated"},
        Hostile{"Overlap",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                6, "overlaps"},
        Hostile{"Hole",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
                9, "hole"},
        Hostile{"Unaligned",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                5, "not a multiple of its element size"},
        Hostile{"DuplicateName",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2, "stands twice"},
        Hostile{"UnknownKey", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1,
                "unknown key 'x'"},
        Hostile{"MetadataNotTexts", R"({"__metadata__":{"a":1}})", 0, "strings only"},
        Hostile{"MetadataTwice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "twice"}),
    [](const auto& info) { return std::string(info.param.name); });
// clang-format on

TEST(SafetensorsTest, AHeaderSizeBeyondTheLimitIsRefusedBeforeReading) {
  std::string bytes(8, '\xff');
  const auto size = SafetensorsHeaderSize(bytes, int64_t{1} << 62, "f");
  ASSERT_FALSE(size.has_value());
  EXPECT_THAT(size.error().message(), HasSubstr("not a safetensors file"));
}

}  // namespace
}  // namespace kcc
