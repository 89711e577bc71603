// TraceReader::VerifyPayload: the one place that reads every byte of a trace and asks everything
// that can be asked of it alone.

#include <algorithm>
#include <vector>

#include "kcc/base/sha256.h"
#include "kcc/trace/evidence_check.h"
#include "kcc/trace/reader.h"

namespace kcc {
namespace {

constexpr size_t kHashBytes = size_t{16} << 20;

Result<std::string> HashPayload(const std::vector<TokenFile>& files) {
  Sha256 hash;
  for (const TokenFile& tokens : files) {
    for (int64_t at = tokens.data_begin; at < tokens.file.size(); at += kHashBytes) {
      const auto size = static_cast<size_t>(
          std::min<int64_t>(static_cast<int64_t>(kHashBytes), tokens.file.size() - at));
      KCC_TRY(const FileWindow window, tokens.file.Map(at, size));
      hash.Update({reinterpret_cast<const char*>(window.data()), size});
    }
  }
  return hash.Finish();
}

// Finds a (request, position) that repeats. Most traces hold each request's positions in rising
// order, where the last one seen is all that must be remembered; otherwise FindRepeats looks at
// all of them.
class RisingPositions {
 public:
  explicit RisingPositions(size_t requests) : last_(requests, -1) {}

  // False if the request had this position or a later one before.
  bool Advance(const TokenEvidence& token) {
    int32_t& last = last_[static_cast<size_t>(token.request)];
    if (token.position <= last) return false;
    last = token.position;
    return true;
  }

 private:
  std::vector<int32_t> last_;
};

Result<> FindRepeats(const TraceReader& reader) {
  TokenCursor::Options options;
  options.index_only = true;
  TokenCursor cursor(reader, options);
  std::vector<uint64_t> keys;
  keys.reserve(static_cast<size_t>(reader.token_count()));
  for (int64_t row = 0; row < reader.token_count(); ++row) {
    KCC_TRY(const TokenEvidence* token, cursor.At(row));
    keys.push_back(uint64_t{static_cast<uint32_t>(token->request)} << 32 |
                   static_cast<uint32_t>(token->position));
  }
  std::sort(keys.begin(), keys.end());
  const auto twin = std::adjacent_find(keys.begin(), keys.end());
  if (twin == keys.end()) return {};
  const Request& request = reader.requests()[static_cast<size_t>(*twin >> 32)];
  return BrokenEvidenceError(
      "request '" + request.id + "' has position " + std::to_string(*twin & 0xffffffffu) + " twice",
      Place{reader.directory()});
}

}  // namespace

Result<TraceReader::Verified> TraceReader::VerifyPayload() const {
  Verified verified;
  RisingPositions positions(requests_.size());
  bool rising = true;
  std::vector<bool> seen(requests_.size(), false);
  TokenCursor cursor(*this);
  for (int64_t row = 0; row < token_count_; ++row) {
    KCC_TRY(const TokenEvidence* token, cursor.At(row));
    auto checked = CheckEvidenceRow(EvidenceLimits(info_), *token);
    if (!checked.has_value()) {
      return BrokenEvidenceError("request '" + requests_[static_cast<size_t>(token->request)].id +
                                     "', position " + std::to_string(token->position) + ": " +
                                     checked.error().message(),
                                 Place{directory_ + "/" + RowPlace(row)});
    }
    seen[static_cast<size_t>(token->request)] = true;
    rising = rising && positions.Advance(*token);
  }
  if (!rising) KCC_TRY_VOID(FindRepeats(*this));
  verified.tokens = token_count_;
  verified.requests_without_tokens = std::count(seen.begin(), seen.end(), false);
  KCC_TRY(verified.payload_digest, HashPayload(files_));
  return verified;
}

}  // namespace kcc
