#include "kcc/trace/kld.h"

#include <cmath>
#include <cstring>

#include "kcc/trace/trace.h"

namespace kcc {
namespace {

constexpr int64_t kContextMax = int64_t{1} << 26;

}  // namespace

Result<KldHeader> ParseKldHeader(std::string_view first_bytes, int64_t file_size) {
  if (first_bytes.size() < kKldHeaderBytes || !first_bytes.starts_with("_logits_")) {
    return InvalidError("not a file of llama-perplexity --kl-divergence-base, or truncated");
  }
  uint32_t n_ctx = 0;
  int32_t n_vocab = 0;
  int32_t n_chunk = 0;
  std::memcpy(&n_ctx, first_bytes.data() + 8, 4);
  std::memcpy(&n_vocab, first_bytes.data() + 12, 4);
  std::memcpy(&n_chunk, first_bytes.data() + 16, 4);
  KldHeader header;
  header.n_ctx = n_ctx;
  header.n_vocab = n_vocab;
  header.n_chunk = n_chunk;
  if (n_ctx < 4 || n_ctx > kContextMax || n_vocab < 1 || n_vocab > kVocabSizeMax || n_chunk < 1) {
    return InvalidError("its header makes no sense: n_ctx " + std::to_string(n_ctx) + ", n_vocab " +
                        std::to_string(n_vocab) + ", n_chunk " + std::to_string(n_chunk));
  }
  // n_chunk < 2^31, n_ctx <= 2^26 and row_bytes < 2^26: the products below may pass 2^63.
  const __int128 tokens = static_cast<__int128>(n_chunk) * n_ctx * 4;
  const __int128 rows =
      static_cast<__int128>(n_chunk) * header.rows_per_chunk() * header.row_bytes();
  const __int128 needed = kKldHeaderBytes + tokens + rows;
  if (needed != file_size) {
    return InvalidError(needed > file_size
                            ? "truncated: llama-perplexity did not write all chunks of its header"
                            : "has bytes behind its last row");
  }
  header.rows_offset = static_cast<int64_t>(kKldHeaderBytes + tokens);
  return header;
}

Result<> DecodeKldRow(const KldHeader& header, const std::byte* row, std::span<float> logprobs) {
  float scale = 0;
  float lowest = 0;
  std::memcpy(&scale, row, 4);
  std::memcpy(&lowest, row + 4, 4);
  if (!std::isfinite(scale) || !std::isfinite(lowest) || scale < 0 || scale > 1) {
    return BrokenEvidenceError("a row's scale or lowest log-prob is not a sensible number");
  }
  for (int64_t i = 0; i < header.n_vocab; ++i) {
    uint16_t u = 0;
    std::memcpy(&u, row + 8 + 2 * i, 2);
    logprobs[static_cast<size_t>(i)] = scale * static_cast<float>(u) + lowest;
  }
  return {};
}

}  // namespace kcc
