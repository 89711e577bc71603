// A correction applied to one row after the other. Rows are independent but for batch
// normalisation, whose mean weight is the caller's to find in a pass of its own.
//
// Ratios of whole sequences leave double's range, and so do their squares: a row with such ratios
// is corrected token by token in WideDouble, and what rows contribute is added up in it.
#pragma once

#include <cstdint>
#include <vector>

#include "kcc/numeric/wide_double.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/row_terms.h"

namespace kcc {

// What one row contributes.
struct RlRowResult {
  int64_t tokens = 0, tokens_kept = 0, outside = 0;
  WideDouble weight, weight_kept;        // sums of phi before and after rejection
  WideDouble square;                     // of final weights
  WideDouble bias_token, bias_sequence;  // sums of |w - phi|, |W - phi|
  WideDouble sequence_weight;            // phi of the whole, at sequence levels
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
  RlRowResult Correct(const RlRowTerms& terms, const WideDouble& normalizer,
                      const RlRowOutput& output);

 private:
  bool IsFar(const RlRowTerms& terms, const WideDouble& normalizer) const;
  void CorrectFar(const RlRowTerms& terms, const WideDouble& normalizer, const RlRowOutput& output,
                  RlRowResult* out);
  void FillFarWeights(const RlRowTerms& terms, RlRowResult* out);
  void FillKeep(const RlRowTerms& terms, RlRowResult* out);
  void CorrectWhole(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                    RlRowResult* out);
  void CorrectTokens(const RlRowTerms& terms, double scale, const RlRowOutput& output,
                     RlRowResult* out);
  void FillWeights(const RlRowTerms& terms, RlRowResult* out);
  void WriteTokens(const RlRowTerms& terms, const RlRowOutput& output) const;
  double WholeLogRatio(const RlRowTerms& terms) const;
  bool RejectsWhole(const RlRowTerms& terms) const;
  void Reject(const RlRejectRule& rule, const RlRowTerms& terms);

  const RlCorrection& correction_;
  Target target_;
  bool by_token_ = false;  // a rule treats tokens of one row differently, other than by weight
  std::vector<double> weight_;
  std::vector<WideDouble> far_weight_;
  std::vector<uint8_t> keep_;
};

}  // namespace kcc
