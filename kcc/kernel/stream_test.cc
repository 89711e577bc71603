#include "kcc/kernel/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "kcc/kernel/exec_kernel.h"
#include "kcc/kernel/kernel_test_data.h"
#include "kcc/kernel/trace_kernel.h"
#include "kcc/summary/file.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::ScratchDir;
using testing::Toy;

const std::array<KernelScheme, 2> kSchemes = {ExecScheme(), TraceScheme()};

std::string WriteRequests(const ScratchDir& scratch, int count) {
  const std::string path = scratch / "requests.jsonl";
  std::ofstream out(path);
  for (const KernelRequest& request : testing::SomeRequests(count)) {
    out << R"({"id":")" << request.request.id << R"(","tags":["t)" << request.tokens[0] << "\"]";
    for (const bool prompt : {true, false}) {
      out << (prompt ? ",\"prompt\":[" : ",\"output\":[");
      const size_t begin = prompt ? 0 : 2;
      const size_t end = prompt ? 2 : request.tokens.size();
      for (size_t i = begin; i < end; ++i) out << (i > begin ? "," : "") << request.tokens[i];
      out << "]";
    }
    out << "}\n";
  }
  return path;
}

Result<Summary> MeasureUris(const std::string& train, const std::string& infer,
                            const std::string& requests, const StreamOptions& options) {
  KCC_TRY(const std::unique_ptr<RequestSource> source,
          std::filesystem::is_directory(requests) ? OpenTraceRequests(requests)
                                                  : OpenRequestFile(requests, RequestUse::kScore));
  KCC_TRY(const KernelPair pair, OpenKernelPair(train, infer, {}, kSchemes, {}));
  return MeasureKernels(pair, *source, Plan::Default(), options);
}

bool IsEmpty(const std::string& directory) { return std::filesystem::is_empty(directory); }

TEST(Stream, TheBytesDoNotDependOnTheBatches) {
  const ScratchDir scratch;
  const std::string requests = WriteRequests(scratch, 20);
  StreamOptions options;
  options.scratch = scratch / "private";
  std::filesystem::create_directory(options.scratch);
  std::string expected;
  for (const int64_t batch : {20, 7, 1}) {
    options.batch_requests = batch;
    int64_t tokens = 0;
    options.measure.progress = [&](const MeasureProgress& at) {
      EXPECT_GE(at.tokens, tokens);
      EXPECT_EQ(at.tokens_total, 90);
      tokens = at.tokens;
    };
    const auto summary = MeasureUris(Toy("none"), Toy("none --noise 0.01"), requests, options);
    ASSERT_TRUE(summary.has_value()) << summary.error().Format();
    EXPECT_TRUE(summary->Complete());
    EXPECT_EQ(tokens, 90);
    ASSERT_EQ(summary->sources.size(), 1u);
    EXPECT_EQ(summary->sources[0].requests, 20u);
    EXPECT_EQ(summary->sources[0].tokens, 90u);
    EXPECT_NE(summary->sources[0].train.identity, summary->sources[0].infer.identity);
    const std::string bytes = EncodeSummary(*summary);
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected) << "batches of " << batch;
    EXPECT_TRUE(IsEmpty(options.scratch));
  }
}

TEST(Stream, ATraceOfAKernelMeasuresAsTheKernelItself) {
  const ScratchDir scratch;
  const std::string requests = WriteRequests(scratch, 9);
  StreamOptions options;
  options.batch_requests = 4;
  options.scratch = scratch / "private";
  std::filesystem::create_directory(options.scratch);
  const std::string trace = scratch / "trace";
  {
    auto source = OpenRequestFile(requests, RequestUse::kScore);
    auto kernel = OpenKernel(Toy("none"), {}, kSchemes);
    ASSERT_TRUE(source.has_value() && kernel.has_value());
    const NamedKernel named{"toy", std::move(*kernel)};
    EXPECT_EQ(ScoreToTrace(named, **source, trace, options).value(), 40);
  }
  const auto live = MeasureUris(Toy("none"), Toy("none --noise 0.1"), requests, options);
  const auto stored = MeasureUris(trace, Toy("none --noise 0.1"), requests, options);
  const auto alone = MeasureUris(trace, Toy("none --noise 0.1"), trace, options);
  ASSERT_TRUE(live.has_value() && stored.has_value()) << stored.error().Format();
  ASSERT_TRUE(alone.has_value()) << alone.error().Format();
  const auto statistics = [](Summary summary) {
    summary.sources.clear();
    return EncodeSummary(summary);
  };
  EXPECT_TRUE(statistics(*live) == statistics(*stored));
  EXPECT_TRUE(statistics(*live) == statistics(*alone));
  EXPECT_TRUE(IsEmpty(options.scratch));
}

// A batch in which infer alone says something is of the same kernels as the others.
TEST(Stream, WhatInferAloneSaysMayStandInSomeBatchesOnly) {
  const ScratchDir scratch;
  testing::SyntheticSpec spec;
  spec.requests = 3;
  spec.edit_request = [](Request* request) {
    request->fields["prompt"] = std::vector<std::string>(
        static_cast<size_t>(request->Number("prompt_tokens").value()), std::string("1"));
  };
  testing::WriteSynthetic(scratch / "train", spec);
  const auto common = spec.edit_request;
  spec.edit_request = [&](Request* request) {
    common(request);
    if (request->id == "req-2") request->fields["replay_group"] = "g";
  };
  testing::WriteSynthetic(scratch / "infer", spec);
  StreamOptions options;
  options.batch_requests = 1;
  options.scratch = scratch / "private";
  std::filesystem::create_directory(options.scratch);
  const auto summary =
      MeasureUris(scratch / "train", scratch / "infer", scratch / "train", options);
  ASSERT_TRUE(summary.has_value()) << summary.error().Format();
  EXPECT_EQ(summary->sources[0].infer_alone, std::vector<std::string>{"replay_group"});
}

TEST(Stream, AFailureStopsTheOtherSideAndNamesTheFirst) {
  const ScratchDir scratch;
  const std::string requests = WriteRequests(scratch, 3);
  std::array<int, 2> stop;
  ASSERT_EQ(::pipe(stop.data()), 0);
  StreamOptions options;
  options.scratch = scratch / "private";
  std::filesystem::create_directory(options.scratch);
  options.stop = [&] { EXPECT_EQ(::write(stop[1], "x", 1), 1); };
  KernelOpenOptions open;
  open.stop_fd = stop[0];
  {
    auto source = OpenRequestFile(requests, RequestUse::kScore);
    const auto pair = OpenKernelPair(Toy("hang"), Toy("crash"), open, kSchemes, options.stop);
    ASSERT_TRUE(pair.has_value()) << pair.error().Format();
    const auto summary = MeasureKernels(*pair, **source, Plan::Default(), options);
    ASSERT_FALSE(summary.has_value());
    EXPECT_THAT(summary.error().message(), HasSubstr("SIGSEGV"));
  }
  EXPECT_TRUE(IsEmpty(options.scratch));
  ::close(stop[0]);
  ::close(stop[1]);
}

TEST(Stream, ATraceThatLacksARequestOrATokenSaysSo) {
  const ScratchDir scratch;
  const std::string requests = WriteRequests(scratch, 3);
  testing::SyntheticSpec spec;
  spec.vocab_size = 11;
  testing::WriteSynthetic(scratch / "other", spec);
  StreamOptions options;
  const auto missing = MeasureUris(scratch / "other", Toy("none"), requests, options);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message(), HasSubstr("request 'r0': the trace does not hold it"));
  // It holds no prompts either, so it cannot say what to ask.
  const auto unknown = MeasureUris(scratch / "other", Toy("none"), scratch / "other", options);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message(), HasSubstr("does not say which token is at position 0"));
}

}  // namespace
}  // namespace kcc
