// Which slices of a contract a request or a token belongs to.
//
// A slice without token.* fields is decided once a request; the others once a token. Whose word a
// field is stands in predicate/fields.h: what the judged side, infer, says alone never decides
// unnoticed. A slice that reads outcomes, which each side has of its own, is decided by the
// outcomes of one side; who needs both asks for it twice.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/metric/metric.h"
#include "kcc/predicate/fields.h"
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

// A request as all who know it recorded it.
struct RequestSides {
  const Request* asked = nullptr;  // what was asked of both sides; null: not known
  const Request* train = nullptr;
  const Request* infer = nullptr;
  int64_t output_rows = -1;  // paired rows of its output; -1: each side wrote its own
  // By Side: the answer's rows are not as many as the side claims, so its length is not known.
  std::array<bool, 2> length_unknown = {false, false};
};

// Whether a slice holds a request, or one of its tokens, rests on one side's word where two are
// asked for, or on a field that nobody recorded.
struct Unvouched {
  enum class Why : uint8_t {
    kInferAlone,   // infer alone has the field
    kLent,         // an outcome that infer does not state, so that train's stands for it
    kRowsMissing,  // the answer's length, which is not known; nobody's word can stand for rows
    kAbsent,       // a field of the request that none of its records has
  };
  size_t slice = 0;
  std::string_view field;  // with its "token." prefix; lives as long as the evaluator
  Why why = Why::kInferAlone;
};

class SliceEvaluator {
 public:
  // `outcomes`: by slice, whose outcomes it reads; empty: infer's. Fails on a slice that stands
  // twice.
  static Result<SliceEvaluator> Make(std::vector<Slice> slices, std::vector<Side> outcomes = {});

  size_t size() const { return slices_.size(); }
  const std::vector<Slice>& slices() const { return slices_; }
  bool reads_token(size_t slice) const;
  bool any_reads_token() const { return !token_slices_.empty(); }

  // The request-level slices of a request; token-level ones are left unset. Fails where the sides
  // disagree about a field of the request itself that a slice reads. `unvouched` is emptied first;
  // may be null.
  Result<> ForRequest(const RequestSides& sides, SliceBits* bits,
                      std::vector<Unvouched>* unvouched = nullptr) const;

  // Adds the token-level slices of one token to (a copy of) its request's bits, and to `unvouched`.
  void ForToken(const RequestSides& sides, const TokenEvidence& train, const TokenEvidence& infer,
                SliceBits* bits, std::vector<Unvouched>* unvouched = nullptr) const;

 private:
  // A field and the slices that read it.
  struct FieldUse {
    std::string name;
    FieldOrigin origin;
    std::vector<size_t> slices;
  };

  void NoteOneSided(const FieldUse& use, bool vouched, bool infer_states,
                    std::vector<Unvouched>* unvouched) const;
  Result<> CheckFields(const RequestSides& sides, std::vector<Unvouched>* unvouched) const;

  std::vector<Slice> slices_;
  std::vector<Side> outcomes_;
  std::vector<size_t> request_slices_;
  std::vector<size_t> token_slices_;
  std::vector<FieldUse> request_fields_;
  std::vector<FieldUse> token_fields_;  // of origin train or outcome
};

}  // namespace kcc
