// Which slices of a contract a request or a token belongs to.
//
// A slice without token.* fields is decided once a request; the others once a token. Request
// fields are the infer side's, else the train side's; so are a token's gold, advantage and logprob
// (contract/fields.h lists them all).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/trace/trace.h"

namespace kcc {

// A set of slices by index.
class SliceBits {
 public:
  explicit SliceBits(size_t slices = 0) : words_((slices + 63) / 64) {}
  bool Test(size_t slice) const { return (words_[slice / 64] >> (slice % 64)) & 1; }
  void Set(size_t slice) { words_[slice / 64] |= uint64_t{1} << (slice % 64); }
  void Clear() { words_.assign(words_.size(), 0); }
  const std::vector<uint64_t>& words() const { return words_; }
  bool operator==(const SliceBits&) const = default;

 private:
  std::vector<uint64_t> words_;
};

class SliceEvaluator {
 public:
  // Fails on a slice that stands twice.
  static Result<SliceEvaluator> Make(std::vector<Slice> slices);

  size_t size() const { return slices_.size(); }
  const std::vector<Slice>& slices() const { return slices_; }
  bool reads_token(size_t slice) const;
  bool any_reads_token() const { return !token_slices_.empty(); }

  // The request-level slices of a request as both sides recorded it; token-level ones are left
  // unset.
  void ForRequest(const Request& train, const Request& infer, SliceBits* bits) const;

  // Adds the token-level slices of one token to (a copy of) its request's bits.
  void ForToken(const Request& train_request, const Request& infer_request,
                const TokenEvidence& train, const TokenEvidence& infer, SliceBits* bits) const;

 private:
  std::vector<Slice> slices_;
  std::vector<size_t> request_slices_;
  std::vector<size_t> token_slices_;
};

}  // namespace kcc
