// What is computed only on demand: js and hellinger entry by entry in double, rank by counting.
// In the lanes of numeric/double_lanes-inl.h, so every target gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kcc/drift/row_kernels.h"
#include "kcc/drift/row_view.h"
#include "kcc/numeric/target.h"

namespace kcc {

// log p = (train - origin) inverse_temperature + log_p, origin being the pivot's logit,
// log q/p = (infer - train - shift) inverse_temperature - delta; the pivot's own is known better.
struct EntryArgs {
  const void* train = nullptr;
  const void* infer = nullptr;
  double origin = 0;
  double log_p = 0;
  double shift = 0;
  double delta = 0;
  double inverse_temperature = 1;
  size_t pivot = 0;
  double pivot_ratio = 0;
};

void JsAndHellinger(const RowView& view, const EntryArgs& args, Target target, RowQuantities* row);

// The infer side's entropy by definition, where the faster form cancels.
double InferEntropy(const RowView& view, const EntryArgs& args);

// rank of the sampled token on both sides. Precondition: there is one.
void RankToken(const RowView& view, Target target, RowQuantities* row);

struct EntrySums {
  double js[kDoubleLanes] = {};
  double hellinger[kDoubleLanes] = {};  // twice
};

struct OnDemandKernels {
  // Adds entries [begin, end), a multiple of kDoubleLanes and at most kBlockEntries, to the sums,
  // but for those with |log q/p| > 2: their positions go to `far`, their number is returned.
  size_t (*add[kRowFormats])(const EntryArgs& args, size_t begin, size_t end, EntrySums* sums,
                             int32_t* far);
  // How many entries of [begin, end) are greater than `than`, or equal to it.
  size_t (*count[kRowFormats])(const void* row, size_t begin, size_t end, float than,
                               bool or_equal);
};

// Precondition: the CPU has the target.
const OnDemandKernels& OnDemandKernelsFor(Target target);

}  // namespace kcc
