#include "kcc/summary/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "kcc/base/file.h"
#include "kcc/summary/summary_test_data.h"

namespace kcc {
namespace {

using testing::Accumulate;
using testing::FakeEvidence;
using testing::TestContract;

constexpr size_t kMagicBytes = 8;
constexpr size_t kDigestBytes = 64;

Summary SmallSummary(bool intervals, int requests = 5) {
  const Plan plan = Plan::FromContract(TestContract());
  Summary summary = Accumulate(plan, FakeEvidence(3).Requests(requests, intervals));
  Source source;
  source.train.identity = "sha256:train";
  source.infer.kernel_fingerprint = "infer-fp";
  source.requests = static_cast<uint64_t>(requests);
  summary.sources = {source};
  return summary;
}

std::string_view BodyOf(const std::string& bytes) {
  return std::string_view(bytes).substr(kMagicBytes, bytes.size() - kMagicBytes - kDigestBytes);
}

TEST(SummaryFile, RoundTripGivesTheSameBytes) {
  for (const bool intervals : {false, true}) {
    const std::string bytes = EncodeSummary(SmallSummary(intervals));
    const Result<Summary> read = DecodeSummary(bytes);
    ASSERT_TRUE(read.has_value()) << read.error().Format();
    EXPECT_EQ(EncodeSummary(*read), bytes);
    EXPECT_EQ(read->sources, SmallSummary(intervals).sources);
  }
}

// What the CPU measured keeps the bytes it had before there were devices.
TEST(SummaryFile, OnlyADeviceMakesFormat3) {
  Summary summary = SmallSummary(false);
  const std::string by_cpu = EncodeSummary(summary);
  EXPECT_TRUE(by_cpu.starts_with("KCCSUM2\n"));
  summary.sources[0].backend = "cuda";
  const std::string by_device = EncodeSummary(summary);
  EXPECT_TRUE(by_device.starts_with("KCCSUM3\n"));
  EXPECT_EQ(DecodeSummary(by_device)->sources[0].backend, "cuda");
  summary.sources[0].backend = "cupa";
  const std::string refused = DecodeSummary(EncodeSummary(summary)).error().Format();
  EXPECT_NE(refused.find("a backend that this version does not know"), std::string::npos)
      << refused;
  EXPECT_EQ(EncodeSummary(*DecodeSummary(by_device)), by_device);
  for (size_t length = 0; length < BodyOf(by_device).size(); length += 7) {
    EXPECT_FALSE(DecodeSummaryBody(BodyOf(by_device).substr(0, length), 3).has_value()) << length;
  }
  // Format 3 without a device would be a second form of the same summary.
  std::string body(BodyOf(by_device));
  const size_t at = body.find(
      "\x04"
      "cuda");
  ASSERT_NE(at, std::string::npos);
  body.replace(at, 5, std::string(1, '\0'));
  EXPECT_FALSE(DecodeSummaryBody(body, 3).has_value());
}

TEST(SummaryFile, WhatWasReadMergesAsWhatWasMeasured) {
  const Plan plan = Plan::FromContract(TestContract());
  const auto requests = FakeEvidence(9).Requests(12);
  const Summary a = Accumulate(plan, {requests.begin(), requests.begin() + 5});
  const Summary b = Accumulate(plan, {requests.begin() + 5, requests.end()});
  const Result<Summary> merged =
      Merge(*DecodeSummary(EncodeSummary(a)), *DecodeSummary(EncodeSummary(b)));
  ASSERT_TRUE(merged.has_value());
  EXPECT_EQ(EncodeSummary(*merged), EncodeSummary(Accumulate(plan, requests)));
}

TEST(SummaryFile, TruncationAtEveryByteIsAnError) {
  const std::string bytes = EncodeSummary(Accumulate(Plan::Default(), FakeEvidence(2).Requests(1)));
  for (size_t length = 0; length < bytes.size(); ++length) {
    ASSERT_FALSE(DecodeSummary(std::string_view(bytes).substr(0, length)).has_value()) << length;
  }
}

TEST(SummaryFile, TruncationBehindTheChecksumIsAnErrorToo) {
  const std::string bytes = EncodeSummary(SmallSummary(true, 2));
  const std::string_view body = BodyOf(bytes);
  for (size_t length = 0; length < body.size(); ++length) {
    ASSERT_FALSE(DecodeSummaryBody(body.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(DecodeSummaryBody(std::string(body) + "x").has_value());
}

TEST(SummaryFile, ChangedBytesNeverCrashTheReader) {
  std::string bytes = EncodeSummary(SmallSummary(false, 2));
  std::string body(BodyOf(bytes));
  FakeEvidence random(5);
  for (int i = 0; i < 3000; ++i) {
    const size_t at = random.Next(body.size());
    const char before = body[at];
    body[at] = static_cast<char>(random.Next(256));
    const Result<Summary> read = DecodeSummaryBody(body);
    if (read) {
      EXPECT_EQ(BodyOf(EncodeSummary(*read)), body) << "accepted, so canonical, at " << at;
    }
    body[at] = before;
  }
}

TEST(SummaryFile, SaysWhatIsWrongWithAFile) {
  const std::string bytes = EncodeSummary(SmallSummary(false));
  std::string other_version = bytes;
  other_version[6] = '4';
  std::string changed = bytes;
  changed[bytes.size() / 2] = static_cast<char>(changed[bytes.size() / 2] ^ 1);
  const struct {
    std::string bytes;
    const char* words;
  } cases[] = {{"", "not a kcc summary"},
               {"{\"json\": true}", "not a kcc summary"},
               {other_version, "another format version"},
               {bytes.substr(0, 40), "cut off"},
               {changed, "checksum"}};
  for (const auto& row : cases) {
    const Result<Summary> read = DecodeSummary(row.bytes);
    ASSERT_FALSE(read.has_value());
    EXPECT_NE(read.error().message().find(row.words), std::string::npos) << read.error().message();
  }
}

TEST(SummaryFile, IsWrittenAndReadWithItsPathInErrors) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("kcc-" + std::to_string(::getpid()) + ".kccs");
  const Summary summary = SmallSummary(false);
  ASSERT_TRUE(WriteSummaryFile(path, summary).has_value());
  EXPECT_EQ(EncodeSummary(*ReadSummaryFile(path)), EncodeSummary(summary));
  ASSERT_TRUE(WriteFileAtomically(path, "KCCSUM1\nrubbish").has_value());
  const Result<Summary> read = ReadSummaryFile(path);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().place().file, path);
  std::filesystem::remove(path);
  EXPECT_FALSE(ReadSummaryFile(path).has_value());
}

}  // namespace
}  // namespace kcc
