// One pair of rows on its way through the fast backend (simd.h).
//
// The course of a row: choose origin, exponent and shift from its first block; sum every block;
// find the top tokens; take the most likely one out of the float32 sums and carry it in double;
// solve; sum |q - p|, while the next row is summed. What cancels (row_end.cc) is met by carrying
// the other top tokens too, and then by starting over with the solution's own delta as shift. All
// decisions rest on the data alone, so they are the same on every target.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kcc/drift/on_demand.h"
#include "kcc/drift/row_end.h"
#include "kcc/drift/row_kernels.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_view.h"
#include "kcc/drift/simd.h"
#include "kcc/drift/top_tokens.h"

namespace kcc {

inline constexpr double kLog2e = 1.4426950408889634;

class RowMeasurement {
 public:
  RowMeasurement(const RowView& view, Target target, RowScratch* scratch)
      : view_(view),
        target_(target),
        kernels_(RowKernelsFor(target)),
        scratch_(*scratch),
        whole_(view.Whole()),
        carried_at_(scratch->carried_at),
        carried_(scratch->carried) {}

  // All but tv, which `variation` leaves open. False: the row is not for these kernels (or not
  // finite); the reference backend decides.
  bool Measure(const SlotSet& wanted, RowQuantities* row, OpenVariation* variation);
  size_t whole() const { return whole_; }

 private:
  bool Choose();
  void SetArguments(float peak);
  bool SumBlocks();
  BlockArgs ArgumentsOf(size_t block) const;
  int32_t PeakOf(double logit) const;
  float LeastOf(int32_t peak) const;
  void FetchSubBlock(size_t i) const;
  void OfferRange(const void* row, size_t begin, size_t end, float least, TopTokens* top) const;
  TopTokens TrainTop() const;
  TopTokens InferTop(const TopTokens& train_top) const;
  void Carry(size_t count);
  void RedoBlock(size_t block);
  CarriedToken Carried(size_t i) const;
  RestSums Rest();
  bool Solve(bool strict);
  bool TvHolds(double rest_weight) const;
  void Extremes();
  void Distances(RowQuantities* row) const;
  void Token(RowQuantities* row) const;
  EntryArgs Entries() const;
  double Ratio(size_t i) const;
  double LogProb(size_t i) const;

  // The weight of a train logit as a power of two, before the exponent is taken off.
  double Bits(float logit) const {
    return (double{logit} - double{arguments_.origin}) * kLog2e / view_.temperature;
  }
  double CentredLogit(size_t i) const {
    return double{view_.Load(view_.train, i)} - double{arguments_.origin};
  }
  double LogitOf(size_t i) const {
    return (CentredLogit(i) - double{arguments_.centre}) / view_.temperature;
  }
  double DifferenceOf(size_t i) const {
    const double d = double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)};
    return (d - double{arguments_.shift}) / view_.temperature;
  }
  float TailDifference(size_t i) const {
    const double d = double{view_.Load(view_.infer, i)} - double{view_.Load(view_.train, i)};
    return static_cast<float>(d - double{arguments_.shift});
  }
  size_t Blocks() const { return (whole_ + kBlockEntries - 1) / kBlockEntries; }

  const RowView& view_;
  const Target target_;
  const RowKernels& kernels_;
  RowScratch& scratch_;
  const size_t whole_;
  BlockArgs arguments_;  // what all blocks share
  bool shifted_ = false;
  bool square_ = true;  // whether reverse_chi2 is wanted
  int exponent_ = 0;
  float min_d_ = 0;
  float max_d_ = 0;
  double sum_d_ = 0;  // over the whole groups
  double sum_d_square_ = 0;
  std::array<TopTokens, 2> top_;  // by position, not id
  size_t pivot_ = 0;
  std::vector<size_t>& carried_at_;  // in increasing order
  CarriedToken pivot_token_;
  std::vector<CarriedToken>& carried_;  // without the pivot
  RowSolution solution_;
};

}  // namespace kcc
