// A correction applied to one row after the other. Rows are independent but for batch
// normalisation, whose mean weight is the caller's to find in a pass of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/rl/correction.h"
#include "kcc/rl/row_terms.h"

namespace kcc {

// What one row contributes.
struct RlRowResult {
  int64_t tokens = 0, tokens_kept = 0, outside = 0;
  double weight = 0, weight_kept = 0;        // sums of phi before and after rejection
  double square = 0;                         // of final weights
  double bias_token = 0, bias_sequence = 0;  // sums of |w - phi|, |W - phi|
  double sequence_weight = 0;                // phi of the whole, at sequence levels
};

// Where the row's weights and mask go: its first column, each null or `columns` long.
struct RlRowOutput {
  float* weights = nullptr;
  double* weights_double = nullptr;
  uint8_t* mask = nullptr;
  int64_t columns = 0;

  static RlRowOutput Of(const RlBatch& batch, const RlCorrectOutput& output, int64_t row);
};

class RlCorrector {
 public:
  RlCorrector(const RlCorrection& correction, Target target);

  // What the rules look at beyond the sums.
  RlRowTerms::Wanted wanted() const { return {.log_ratio = by_token_, .buckets = false}; }
  RlRowResult Correct(const RlRowTerms& terms, double normalizer, const RlRowOutput& output);

 private:
  void CorrectWhole(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                    RlRowResult* out);
  void CorrectTokens(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                     RlRowResult* out);
  void FillWeights(const RlRowTerms& terms, RlRowResult* out);
  double WholeRatio(const RlRowTerms& terms) const;
  bool RejectsWhole(const RlRowTerms& terms) const;
  void Reject(const RlRejectRule& rule, const RlRowTerms& terms);

  const RlCorrection& correction_;
  Target target_;
  bool by_token_ = false;  // a rule treats tokens of one row differently, other than by weight
  std::vector<double> weight_;
  std::vector<uint8_t> keep_;
};

}  // namespace kcc
