// A batch of logits for the tests of devices.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kcc/measure/measure_arrays.h"
#include "kcc/trace/requests.h"

namespace kcc::testing {

// Logits of requests of unlike lengths, with rows of padding after each, a mask, and rows wider
// than the vocabulary.
struct Batch {
  static constexpr int64_t kVocab = 400;
  static constexpr int64_t kStride = 416;
  static constexpr int64_t kRowsOfRequest = 12;  // with padding

  std::vector<Request> requests;
  std::vector<int64_t> first_rows, row_counts;
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  std::vector<float> train, infer;

  explicit Batch(int64_t count = 9) {
    for (int64_t r = 0; r < count; ++r) {
      const std::string tags = r % 2 == 0 ? R"("even")" : "";
      const std::string line = R"({"id": "r)" + std::to_string(r) + R"(", "tags": [)" + tags + "]}";
      requests.push_back(ParseRequest(line).value());
      first_rows.push_back(r * kRowsOfRequest);
      row_counts.push_back(r % 3 == 2 ? kRowsOfRequest : 5 + r % 3);
    }
    const auto rows = static_cast<size_t>(count * kRowsOfRequest);
    train.assign(rows * kStride,
                 std::numeric_limits<float>::quiet_NaN());  // padding must not count
    infer = train;
    tokens.assign(rows, -100);
    mask.assign(rows, 0);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t i = 0; i < row_counts[static_cast<size_t>(r)]; ++i) {
        Fill(r * kRowsOfRequest + i, static_cast<uint32_t>(r * 100 + i));
        mask[static_cast<size_t>(r * kRowsOfRequest + i)] = i == 1 ? 0 : 1;
      }
    }
  }

  void Fill(int64_t row, uint32_t seed) {
    const auto at = static_cast<size_t>(row);
    tokens[at] = static_cast<int32_t>((seed * 37u) % kVocab);
    for (size_t i = 0; i < kVocab; ++i) {
      seed = seed * 1664525u + 1013904223u;
      const float a = static_cast<float>(seed >> 8) * 0x1p-24f * 12;
      seed = seed * 1664525u + 1013904223u;
      train[at * kStride + i] = a;
      infer[at * kStride + i] = a + (static_cast<float>(seed >> 8) * 0x1p-24f - 0.5f) * 0.1f;
    }
  }

  ArrayPair View() const {
    ArrayPair pair;
    pair.train.logits = train.data();
    pair.infer.logits = infer.data();
    pair.train.logits_stride = pair.infer.logits_stride = kStride;
    pair.train.fingerprint = "a";
    pair.infer.fingerprint = "b";
    pair.requests = requests;
    pair.first_rows = first_rows;
    pair.row_counts = row_counts;
    pair.tokens = tokens;
    pair.mask = mask;
    pair.vocab_size = kVocab;
    pair.sampled_by = SampledBy::kInfer;
    return pair;
  }
};

}  // namespace kcc::testing
