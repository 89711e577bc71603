#include "kcc/trace/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "kcc/base/file.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using ::testing::HasSubstr;
using testing::MustOpen;
using testing::ScratchDir;
using testing::SyntheticSpec;
using testing::WriteSynthetic;

constexpr size_t kFileMax = size_t{1} << 26;

std::string Bytes(const std::string& path) { return ReadFile(path, kFileMax).value(); }

void Overwrite(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string Problem(const std::string& directory) {
  const auto reader = TraceReader::Open(directory);
  return reader.has_value() ? "" : reader.error().Format();
}

std::string VerifyProblem(const std::string& directory) {
  const auto verified = MustOpen(directory).VerifyPayload();
  return verified.has_value() ? "" : verified.error().Format();
}

TEST(TraceReaderTest, GivesBackEveryRowOfEveryDtype) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const ScratchDir scratch;
    SyntheticSpec spec;
    spec.dtype = dtype;
    spec.vocab_size = 51;  // odd, so that 16-bit rows need padding
    spec.padding = 2;
    spec.advantage = spec.mask = spec.gold = true;
    WriteSynthetic(scratch / "t", spec);
    const TraceReader reader = MustOpen(scratch / "t");
    EXPECT_EQ(reader.info().vocab_size, 51);
    EXPECT_EQ(reader.requests().size(), 5u);
    TokenCursor cursor(reader);
    int64_t rows = 0;
    while (const TokenEvidence* token = cursor.Next().value()) {
      const auto r = token->request;
      const auto logits = testing::SyntheticLogits(spec, r, token->position);
      const auto expected = testing::Encode(logits, dtype);
      ASSERT_EQ(token->logits_dtype, dtype);
      EXPECT_EQ(std::memcmp(token->logits, expected.data(), expected.size()), 0);
      EXPECT_EQ(token->masked, token->position % 4 == 3);
      EXPECT_EQ(token->gold, (token->position * 7 + r) % 51);
      EXPECT_EQ(token->advantage, token->position % 2 == 0 ? 0.5f : -1.0f);
      EXPECT_FALSE(std::isnan(token->logprob));
      ++rows;
    }
    EXPECT_EQ(rows, reader.token_count());
    EXPECT_EQ(rows, 5 * 4 + 2);
    EXPECT_EQ(VerifyProblem(scratch / "t"), "");
  }
}

TEST(TraceReaderTest, TopKRowsShorterThanKEndWhereTheyEnd) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kTopK;
  spec.edit = [](TokenEvidence* token) {
    if (token->position % 2 == 1) token->top_k = 2;
    return true;
  };
  WriteSynthetic(scratch / "t", spec);
  const TraceReader reader = MustOpen(scratch / "t");
  TokenCursor cursor(reader);
  while (const TokenEvidence* token = cursor.Next().value()) {
    EXPECT_EQ(token->top_k, token->position % 2 == 1 ? 2 : 5);
    EXPECT_EQ(token->logits, nullptr);
  }
  EXPECT_EQ(VerifyProblem(scratch / "t"), "");
}

TEST(TraceReaderTest, ManyFilesSmallWindowsAndThreadsGiveTheSameRows) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.requests = 40;
  WriteSynthetic(scratch / "one", spec);
  spec.file_bytes_max = 1000;
  WriteSynthetic(scratch / "many", spec);
  const TraceReader one = MustOpen(scratch / "one");
  const TraceReader many = MustOpen(scratch / "many");
  EXPECT_EQ(one.files().size(), 1u);
  EXPECT_GT(many.files().size(), 10u);
  ASSERT_EQ(one.token_count(), many.token_count());
  const auto compare = [&](int64_t step) {
    TokenCursor::Options tiny;
    tiny.window_bytes = 1;  // one row
    tiny.column_window_bytes = 1;
    TokenCursor a(one);
    TokenCursor b(many, tiny);
    for (int64_t i = 0; i < one.token_count(); ++i) {
      const int64_t row = i * step % one.token_count();
      const TokenEvidence* x = a.At(row).value();
      const TokenEvidence* y = b.At(row).value();
      ASSERT_EQ(x->token, y->token);
      ASSERT_EQ(x->request, y->request);
      ASSERT_EQ(std::memcmp(x->logits, y->logits, 50 * 4), 0);
    }
  };
  std::thread other(compare, 7);
  compare(1);
  other.join();
}

TEST(TraceReaderTest, IdentityIsOfMetadataAndHeadersNotOfPayload) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  WriteSynthetic(scratch / "a", spec);
  WriteSynthetic(scratch / "b", spec);
  spec.noise = 0.5;
  WriteSynthetic(scratch / "payload", spec);
  spec.edit_request = [](Request* request) { request->fields["reward"] = 9.0; };
  WriteSynthetic(scratch / "request", spec);
  spec.info.temperature = 0.5;
  WriteSynthetic(scratch / "info", spec);
  const TraceReader a = MustOpen(scratch / "a");
  EXPECT_EQ(a.identity(), MustOpen(scratch / "b").identity());
  EXPECT_EQ(a.identity(), MustOpen(scratch / "payload").identity());
  EXPECT_NE(a.identity(), MustOpen(scratch / "request").identity());
  EXPECT_NE(MustOpen(scratch / "info").identity(), MustOpen(scratch / "request").identity());
  EXPECT_NE(a.VerifyPayload()->payload_digest,
            MustOpen(scratch / "payload").VerifyPayload()->payload_digest);
  EXPECT_EQ(Bytes(scratch / "a/tokens-00000.safetensors"),
            Bytes(scratch / "b/tokens-00000.safetensors"));
}

TEST(TraceReaderTest, EveryTruncationOfEveryFileIsAnError) {
  const ScratchDir scratch;
  SyntheticSpec spec;
  spec.requests = 2;
  spec.output_tokens = 1;
  spec.vocab_size = 4;
  const std::string trace = scratch / "t";
  WriteSynthetic(trace, spec);
  for (const std::string name : {"trace.json", "requests.jsonl", "tokens-00000.safetensors"}) {
    const std::string path = trace + "/" + name;
    const std::string whole = Bytes(path);
    for (size_t size = 0; size < whole.size(); ++size) {
      // Only a lost newline at the very end of a text loses nothing.
      if (size + 1 == whole.size() && whole.back() == '\n') continue;
      Overwrite(path, whole.substr(0, size));
      ASSERT_NE(Problem(trace), "") << name << " cut at " << size;
    }
    Overwrite(path, whole);
    ASSERT_EQ(Problem(trace), "");
  }
}

TEST(TraceReaderTest, AFileTruncatedAfterOpeningIsAnErrorNotACrash) {
  const ScratchDir scratch;
  WriteSynthetic(scratch / "t", {});
  const TraceReader reader = MustOpen(scratch / "t");
  TokenCursor cursor(reader);
  std::filesystem::resize_file(scratch / "t/tokens-00000.safetensors", 4100);
  const auto token = cursor.At(0);
  ASSERT_FALSE(token.has_value());
  EXPECT_THAT(token.error().message(), HasSubstr("truncated while being read"));
}

TEST(TraceReaderTest, SaysWhatIsWrongWithATrace) {
  const ScratchDir scratch;
  const std::string trace = scratch / "t";
  EXPECT_THAT(Problem(trace), HasSubstr("there is no such trace; a trace is a directory"));
  std::ofstream(scratch / "s.kccs") << "x";
  EXPECT_THAT(Problem(scratch / "s.kccs"), HasSubstr("kcc judge CONTRACT SUMMARY judges it"));
  std::ofstream(scratch / "file") << "x";
  EXPECT_THAT(Problem(scratch / "file"), HasSubstr("kcc import makes one"));
  std::filesystem::create_directories(scratch / "above/none");
  EXPECT_THAT(Problem(scratch / "above"), HasSubstr("holds no trace.json, so it is no trace"));
  WriteSynthetic(scratch / "above/b", {});
  WriteSynthetic(scratch / "above/a", {});
  EXPECT_THAT(Problem(scratch / "above"), HasSubstr("it holds the traces a and b"));
  SyntheticSpec spec;
  spec.file_bytes_max = 1000;
  WriteSynthetic(trace, spec);
  const std::string info = Bytes(trace + "/trace.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = info;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    Overwrite(trace + "/trace.json", text.replace(at, from.size(), to));
    return Problem(trace);
  };
  EXPECT_THAT(with("\"format\": 2", "\"format\": 3"), HasSubstr("format 3 is not known"));
  EXPECT_THAT(with("\"raw\"", "\"Raw\""), HasSubstr("raw, temperature-scaled or processed"));
  EXPECT_THAT(with("semantics", "semantic"), HasSubstr("did you mean 'semantics'?"));
  EXPECT_THAT(with("\"temperature\": 1", "\"temperature\": 0"), HasSubstr("positive number"));
  EXPECT_THAT(with("\"vocabSize\": 50", "\"vocabSize\": 60"),
              HasSubstr("V at least the vocabSize"));
  EXPECT_THAT(with("\"logits\"", "\"top-k\""), HasSubstr("promises the evidence 'top-k'"));
  EXPECT_THAT(with("\"tokens\": 22", "\"tokens\": 23"), HasSubstr("promises 23 tokens"));
  EXPECT_THAT(with("\"synthetic\"", "\"\""), HasSubstr("kernelFingerprint"));
  Overwrite(trace + "/trace.json", info);
  std::filesystem::remove(trace + "/tokens-00001.safetensors");
  EXPECT_THAT(Problem(trace), HasSubstr("a part of the trace is missing"));
}

TEST(TraceReaderTest, AnEmptyTraceIsAnError) {
  const ScratchDir scratch;
  WriteSynthetic(scratch / "t", {});
  Overwrite(scratch / "t/requests.jsonl", "");
  EXPECT_THAT(Problem(scratch / "t"), HasSubstr("an empty trace shows nothing"));
}

// Puts a value into a tensor of the only tokens file.
template <class T>
void Poke(const std::string& trace, const std::string& tensor, int64_t index, T value) {
  const std::string path = trace + "/tokens-00000.safetensors";
  std::string bytes = Bytes(path);
  const TraceReader reader = MustOpen(trace);
  const TokenFile& file = reader.files()[0];
  const int64_t begin = tensor == "logits"         ? file.logits->begin
                        : tensor == "token"        ? file.token.begin
                        : tensor == "request"      ? file.request.begin
                        : tensor == "position"     ? file.position.begin
                        : tensor == "top_logprobs" ? file.top_logprobs->begin
                        : tensor == "top_ids"      ? file.top_ids->begin
                                                   : file.logprob->begin;
  std::memcpy(bytes.data() + begin + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  Overwrite(path, bytes);
}

TEST(VerifyPayloadTest, NamesTheRequestAndPositionOfABrokenNumber) {
  struct Case {
    const char* tensor;
    int64_t index;
    float value;
    const char* says;
  };
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  for (const Case& c :
       {Case{"logits", 53, nan, "request 'req-0', position 3: the logit of token 3 is NaN or +inf"},
        Case{"logits", 53, inf, "NaN or +inf"}, Case{"logprob", 0, 0.5f, "above 0"},
        Case{"logprob", 1, -9999.0f, "a server's stand-in"},
        Case{"logprob", 1, -3.4028235e38f, "a server's stand-in"},
        Case{"logprob", 1, inf, "above 0"}}) {
    const ScratchDir scratch;
    WriteSynthetic(scratch / "t", {});
    Poke(scratch / "t", c.tensor, c.index, c.value);
    EXPECT_THAT(VerifyProblem(scratch / "t"), HasSubstr(c.says)) << c.tensor;
  }
}

TEST(VerifyPayloadTest, NamesABrokenIndex) {
  struct Case {
    const char* tensor;
    int32_t value;
    const char* says;
  };
  for (const Case& c :
       {Case{"token", 50, "outside the vocabulary of 50"}, Case{"token", -1, "is negative"},
        Case{"request", 5, "names request row 5"}, Case{"request", -2, "names request row -2"},
        Case{"position", -1, "negative"}, Case{"position", 3, "has position 3 twice"}}) {
    const ScratchDir scratch;
    WriteSynthetic(scratch / "t", {});
    Poke(scratch / "t", c.tensor, 0, c.value);
    EXPECT_THAT(VerifyProblem(scratch / "t"), HasSubstr(c.says)) << c.tensor << c.value;
  }
}

TEST(VerifyPayloadTest, ChecksTopKLists) {
  SyntheticSpec spec;
  spec.evidence = EvidenceLevel::kTopK;
  {
    const ScratchDir scratch;
    WriteSynthetic(scratch / "t", spec);
    Poke(scratch / "t", "top_logprobs", 4, 0.0f);
    EXPECT_THAT(VerifyProblem(scratch / "t"), HasSubstr("not in descending order at entry 4"));
  }
  {
    const ScratchDir scratch;
    WriteSynthetic(scratch / "t", spec);
    const TraceReader reader = MustOpen(scratch / "t");
    TokenCursor cursor(reader);
    const int32_t first = cursor.At(0).value()->top_ids[0];
    Poke(scratch / "t", "top_ids", 3, first);
    EXPECT_THAT(VerifyProblem(scratch / "t"), HasSubstr("twice"));
  }
}

}  // namespace
}  // namespace kcc
