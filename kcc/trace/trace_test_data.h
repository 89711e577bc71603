// Small synthetic traces for tests: deterministic, written through TraceWriter, removed at the end.
// Shared with the tests of later folders.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/trace/reader.h"
#include "kcc/trace/writer.h"

namespace kcc::testing {

// A directory that goes away with the object.
class ScratchDir {
 public:
  ScratchDir() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("kcc-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// What to make. Both sides of a pair are made from one spec with different `noise`.
struct SyntheticSpec {
  int32_t requests = 5;
  int32_t prompt_tokens = 2;  // request r has prompt_tokens + r % 3 of them …
  int32_t output_tokens = 4;  // … and output_tokens + r % 2 of these
  bool store_prompt = false;  // rows for prompt tokens from position 1 on
  int64_t vocab_size = 50;
  int64_t padding = 0;  // logits beyond the vocabulary
  EvidenceLevel evidence = EvidenceLevel::kLogits;
  DType dtype = DType::kF32;
  int32_t top_k = 5;
  double noise = 0;  // added to every logit, normal with this deviation
  uint64_t seed = 1;
  bool advantage = false, mask = false, gold = false;  // mask: every fourth token does not count
  std::vector<int32_t> order;                          // of requests in the file; empty: as made
  int64_t file_bytes_max = int64_t{4} << 30;
  TraceInfo info;  // evidence, vocab_size are taken from above
  // Changes a row before it is written; false leaves it out.
  std::function<bool(TokenEvidence*)> edit;
  std::function<void(Request*)> edit_request;
};

inline std::string RequestId(int32_t r) { return "req-" + std::to_string(r); }

// The logits of one row, before rounding to the dtype.
inline std::vector<float> SyntheticLogits(const SyntheticSpec& spec, int32_t r, int32_t position) {
  std::mt19937_64 base(spec.seed * 1000003 + static_cast<uint64_t>(r) * 4099 +
                       static_cast<uint64_t>(position));
  std::mt19937_64 noise(static_cast<uint64_t>(spec.noise * 1e9) + base());
  // Sums of uniforms instead of std::normal_distribution, whose results differ between libraries.
  const auto normal = [](std::mt19937_64& bits) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(bits() >> 11) * 0x1p-53;
    return sum;
  };
  std::vector<float> logits;
  for (int64_t v = 0; v < spec.vocab_size + spec.padding; ++v) {
    const double value = 3 * normal(base) + spec.noise * normal(noise);
    logits.push_back(v < spec.vocab_size ? static_cast<float>(value) : 1e30f);
  }
  return logits;
}

inline std::vector<float> LogSoftmax(const std::vector<float>& logits, size_t vocab) {
  double top = -INFINITY;
  for (size_t v = 0; v < vocab; ++v) top = std::max(top, static_cast<double>(logits[v]));
  double sum = 0;
  for (size_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(logits[v]) - top);
  std::vector<float> logprobs(vocab);
  for (size_t v = 0; v < vocab; ++v) {
    logprobs[v] = static_cast<float>(static_cast<double>(logits[v]) - top - std::log(sum));
  }
  return logprobs;
}

inline std::vector<std::byte> Encode(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes;
  for (const float value : values) {
    const uint32_t word = dtype == DType::kF32    ? std::bit_cast<uint32_t>(value)
                          : dtype == DType::kBF16 ? FloatToBF16(value)
                                                  : FloatToF16(value, Overflow::kSaturate);
    for (size_t i = 0; i < DTypeBits(dtype) / 8; ++i) {
      bytes.push_back(static_cast<std::byte>(word >> (8 * i)));
    }
  }
  return bytes;
}

namespace internal {

inline void WriteRow(const SyntheticSpec& spec, TraceWriter* writer, int32_t r, int32_t row,
                     int32_t position) {
  const std::vector<float> logits = SyntheticLogits(spec, r, position);
  const std::vector<std::byte> encoded = Encode(logits, spec.dtype);
  const std::vector<float> logprobs = LogSoftmax(logits, static_cast<size_t>(spec.vocab_size));
  std::vector<int32_t> ids(logprobs.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logprobs[static_cast<size_t>(a)] > logprobs[static_cast<size_t>(b)];
  });
  std::vector<float> top;
  for (const int32_t id : ids) top.push_back(logprobs[static_cast<size_t>(id)]);
  TokenEvidence token;
  token.request = row;
  token.position = position;
  // The token depends on the seed alone, so that both sides of a pair have the same.
  token.token = static_cast<int32_t>(
      (static_cast<uint64_t>(r) * 31 + static_cast<uint64_t>(position) * 17 + spec.seed) %
      static_cast<uint64_t>(spec.vocab_size));
  if (spec.evidence == EvidenceLevel::kLogits) token.logits = encoded.data();
  token.logits_dtype = spec.dtype;
  if (spec.evidence == EvidenceLevel::kTopK) {
    token.top_ids = ids.data();
    token.top_logprobs = top.data();
    token.top_k = std::min(spec.top_k, static_cast<int32_t>(ids.size()));
  }
  token.logprob = logprobs[static_cast<size_t>(token.token)];
  token.advantage = position % 2 == 0 ? 0.5f : -1.0f;
  token.masked = spec.mask && position % 4 == 3;
  token.gold = static_cast<int32_t>((position * 7 + r) % spec.vocab_size);
  if (spec.edit && !spec.edit(&token)) return;
  const auto added = writer->AddToken(token);
  ASSERT_TRUE(added.has_value()) << added.error().Format();
}

inline Request MakeRequest(const SyntheticSpec& spec, int32_t r, int32_t prompt, int32_t output) {
  Request request;
  request.id = RequestId(r);
  request.fields["prompt_tokens"] = static_cast<double>(prompt);
  request.fields["output_tokens"] = static_cast<double>(output);
  request.fields["latency_ms"] = 100.0 + 10 * r;
  request.fields["reward"] = r % 2 == 0 ? 1.0 : 0.0;
  request.fields["parsed"] = r % 3 != 0;
  request.fields["tags"] =
      r % 2 == 0 ? std::vector<std::string>{"even", "safety"} : std::vector<std::string>{"odd"};
  request.fields["ordinal"] = static_cast<double>(r);
  if (spec.edit_request) spec.edit_request(&request);
  return request;
}

}  // namespace internal

// Writes the trace, failing the test if it cannot.
inline void WriteSynthetic(const std::string& directory, const SyntheticSpec& spec) {
  TraceInfo info = spec.info;
  info.vocab_size = spec.vocab_size;
  info.evidence = spec.evidence;
  if (info.kernel_fingerprint.empty()) info.kernel_fingerprint = "synthetic";
  TraceWriter::Options options;
  options.file_bytes_max = spec.file_bytes_max;
  options.logits_dtype = spec.dtype;
  options.logits_width = spec.vocab_size + spec.padding;
  options.top_k = spec.evidence == EvidenceLevel::kTopK ? spec.top_k : 0;
  options.logprob = true;
  options.advantage = spec.advantage;
  options.mask = spec.mask;
  options.gold = spec.gold;
  auto writer = TraceWriter::Create(directory, info, options);
  ASSERT_TRUE(writer.has_value()) << writer.error().Format();
  std::vector<int32_t> order = spec.order;
  if (order.empty()) {
    order.resize(static_cast<size_t>(spec.requests));
    std::iota(order.begin(), order.end(), 0);
  }
  for (const int32_t r : order) {
    const int32_t prompt = spec.prompt_tokens + r % 3;
    const int32_t output = spec.output_tokens + r % 2;
    const auto row = writer->AddRequest(internal::MakeRequest(spec, r, prompt, output));
    ASSERT_TRUE(row.has_value()) << row.error().Format();
    for (int32_t p = spec.store_prompt ? 1 : prompt; p < prompt + output; ++p) {
      internal::WriteRow(spec, &*writer, r, *row, p);
    }
  }
  const auto finished = writer->Finish();
  ASSERT_TRUE(finished.has_value()) << finished.error().Format();
}

// Writes both sides: the infer side with `noise`, the train side without.
inline void WriteSyntheticPair(const std::string& train, const std::string& infer,
                               const SyntheticSpec& spec, double noise = 0.01) {
  SyntheticSpec side = spec;
  side.noise = 0;
  side.info.kernel_fingerprint = "synthetic-train";
  WriteSynthetic(train, side);
  side.noise = noise;
  side.info.kernel_fingerprint = "synthetic-infer";
  side.info.path = TracePath::kDecode;
  WriteSynthetic(infer, side);
}

inline TraceReader MustOpen(const std::string& directory) {
  auto reader = TraceReader::Open(directory);
  if (!reader.has_value()) {
    ADD_FAILURE() << reader.error().Format();
    std::abort();
  }
  return std::move(*reader);
}

}  // namespace kcc::testing
