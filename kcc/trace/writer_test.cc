#include "kcc/trace/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MustOpen;
using testing::ScratchDir;
using testing::WriteSynthetic;

TraceInfo SampledInfo() {
  TraceInfo info;
  info.kernel_fingerprint = "k";
  info.vocab_size = 10;
  info.evidence = EvidenceLevel::kSampledToken;
  return info;
}

Request NamedRequest(const std::string& id) {
  Request request;
  request.id = id;
  return request;
}

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(TraceWriterTest, LeavesNothingBehindUnlessFinished) {
  const ScratchDir scratch;
  {
    auto writer = TraceWriter::Create(scratch / "t", SampledInfo(), {});
    ASSERT_TRUE(writer.has_value());
    ASSERT_TRUE(writer->AddRequest(NamedRequest("a")).has_value());
    TokenEvidence token;
    token.token = 3;
    token.logprob = -1;
    ASSERT_TRUE(writer->AddToken(token).has_value());
    EXPECT_FALSE(std::filesystem::exists(scratch / "t"));
  }
  EXPECT_THAT(Names(scratch / ""), IsEmpty());
}

TEST(TraceWriterTest, RefusesBrokenRows) {
  const ScratchDir scratch;
  auto writer = TraceWriter::Create(scratch / "t", SampledInfo(), {});
  ASSERT_TRUE(writer->AddRequest(NamedRequest("a")).has_value());
  TokenEvidence good;
  good.token = 3;
  good.logprob = -1;
  const auto problem = [&](auto edit) {
    TokenEvidence token = good;
    edit(token);
    const auto added = writer->AddToken(token);
    return added.has_value() ? std::string() : added.error().message();
  };
  EXPECT_THAT(problem([](auto& t) { t.request = 1; }), HasSubstr("was not added"));
  EXPECT_THAT(problem([](auto& t) { t.token = 10; }), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(problem([](auto& t) { t.logprob = -9999.0f; }), HasSubstr("stand-in"));
  EXPECT_THAT(problem([](auto& t) { t.logprob = std::nanf(""); }), HasSubstr("NaN"));
  EXPECT_THAT(problem([](auto& t) { t.position = -1; }), HasSubstr("negative"));
  EXPECT_EQ(problem([](auto& t) { t.logprob = -std::numeric_limits<float>::infinity(); }), "");
  EXPECT_THAT(writer->AddRequest(NamedRequest("a")).error().message(), HasSubstr("used twice"));
}

TEST(TraceWriterTest, ReplacesOnlyWhenAsked) {
  const ScratchDir scratch;
  WriteSynthetic(scratch / "t", {});
  const auto refused = TraceWriter::Create(scratch / "t", SampledInfo(), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message(), HasSubstr("exists already"));
  TraceWriter::Options options;
  options.replace = true;
  auto writer = TraceWriter::Create(scratch / "t", SampledInfo(), options);
  ASSERT_TRUE(writer->AddRequest(NamedRequest("only")).has_value());
  TokenEvidence token;
  token.token = 1;
  token.logprob = -2;
  ASSERT_TRUE(writer->AddToken(token).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  EXPECT_EQ(MustOpen(scratch / "t").requests()[0].id, "only");
  EXPECT_EQ(Names(scratch / "").size(), 1u);
}

TEST(TraceWriterTest, AnEmptyTraceIsAnError) {
  const ScratchDir scratch;
  auto writer = TraceWriter::Create(scratch / "t", SampledInfo(), {});
  EXPECT_THAT(writer->Finish().error().message(), HasSubstr("no request"));
  ASSERT_TRUE(writer->AddRequest(NamedRequest("a")).has_value());
  EXPECT_THAT(writer->Finish().error().message(), HasSubstr("no token"));
}

TEST(TraceWriterTest, ATraceWithoutTokensIsFineWhereNoneArePromised) {
  const ScratchDir scratch;
  TraceInfo info = SampledInfo();
  info.evidence = EvidenceLevel::kNone;
  info.mode = TraceMode::kGenerated;
  auto writer = TraceWriter::Create(scratch / "t", info, {});
  ASSERT_TRUE(writer->AddRequest(NamedRequest("a")).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  EXPECT_EQ(MustOpen(scratch / "t").token_count(), 0);
}

}  // namespace
}  // namespace kcc
