// The file of `llama-perplexity --kl-divergence-base`: quantised log-probs of the second half of
// every chunk of a text.
//
//   "_logits_", u32 n_ctx, i32 n_vocab, i32 n_chunk, i32 tokens[n_chunk * n_ctx], then for each
//   chunk and each index i in [n_ctx / 2, n_ctx - 2] a row of u16: two floats scale and
//   min_log_prob in the first 8 bytes, then n_vocab numbers u with lp = scale * u + min_log_prob.
//
// Row i predicts token i + 1. The numbers are clipped 16 nats below the largest, so a KL below
// about 5.5e-4 is the quantisation's own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct KldHeader {
  int64_t n_ctx = 0;
  int64_t n_vocab = 0;
  int64_t n_chunk = 0;
  int64_t tokens_offset = 20;
  int64_t rows_offset = 0;

  int64_t first() const { return n_ctx / 2; }  // index of a chunk's first row
  int64_t rows_per_chunk() const { return n_ctx - 1 - first(); }
  int64_t row_bytes() const { return 2 * (2 * ((n_vocab + 1) / 2) + 4); }
};
inline constexpr size_t kKldHeaderBytes = 20;

Result<KldHeader> ParseKldHeader(std::string_view first_bytes, int64_t file_size);

// The log-probs of a row of row_bytes() bytes. Fails on a scale that is not finite or negative.
Result<> DecodeKldRow(const KldHeader& header, const std::byte* row, std::span<float> logprobs);

}  // namespace kcc
