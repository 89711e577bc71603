#include "kcc/trace/request_set.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kcc/base/sha256.h"

namespace kcc {
namespace {

struct Row {
  int32_t request;
  int32_t position;
  int32_t token;
};

// The numbers as text, so that the digest is the same on every machine.
std::string RequestDigest(std::string_view id, int32_t prompt_tokens,
                          std::span<const int32_t> positions, std::span<const int32_t> output) {
  std::string text = "kcc request 1\n" + std::to_string(id.size()) + " " + std::string(id) + "\n" +
                     std::to_string(prompt_tokens) + "\n";
  for (size_t i = 0; i < output.size(); ++i) {
    text += std::to_string(positions[i]) + ":" + std::to_string(output[i]) + " ";
  }
  return Sha256Of(text);
}

}  // namespace

Result<RequestSet> RequestSet::Of(const TraceReader& reader) {
  std::vector<Row> rows;
  if (reader.info().mode == TraceMode::kScored) {
    TokenCursor::Options options;
    options.index_only = true;
    TokenCursor cursor(reader, options);
    rows.reserve(static_cast<size_t>(reader.token_count()));
    for (int64_t i = 0; i < reader.token_count(); ++i) {
      KCC_TRY(const TokenEvidence* token, cursor.At(i));
      rows.push_back({token->request, token->position, token->token});
    }
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::pair(a.request, a.position) < std::pair(b.request, b.position);
    });
  }
  RequestSet set;
  size_t next = 0;
  for (size_t r = 0; r < reader.requests().size(); ++r) {
    const Request& request = reader.requests()[r];
    const auto prompt = static_cast<int32_t>(request.Number("prompt_tokens").value_or(0));
    std::vector<int32_t> positions, tokens;
    for (; next < rows.size() && rows[next].request == static_cast<int32_t>(r); ++next) {
      if (rows[next].position < prompt) continue;
      positions.push_back(rows[next].position);
      tokens.push_back(rows[next].token);
    }
    set.Add(request.id, prompt, positions, tokens);
  }
  return set;
}

void RequestSet::Add(std::string_view id, int32_t prompt_tokens, std::span<const int32_t> output) {
  std::vector<int32_t> positions(output.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = prompt_tokens + static_cast<int32_t>(i);
  }
  Add(id, prompt_tokens, positions, output);
}

void RequestSet::Add(std::string_view id, int32_t prompt_tokens, std::span<const int32_t> positions,
                     std::span<const int32_t> output) {
  requests_.insert_or_assign(std::string(id), RequestDigest(id, prompt_tokens, positions, output));
}

std::string RequestSet::Digest() const {
  Sha256 hash;
  hash.Update("kcc requests 1\n");
  for (const auto& [id, digest] : requests_) hash.Update(digest + "\n");
  return hash.Finish();
}

}  // namespace kcc
