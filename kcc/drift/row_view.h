// The two rows as the vector kernels take them: both F32 or both BF16, every entry finite.
#pragma once

#include "kcc/drift/row_quantities.h"
#include "kcc/drift/simd.h"

namespace kcc {

// Two rows of one format; ids of the entries where masked ones were left out.
struct RowView {
  const void* train = nullptr;
  const void* infer = nullptr;
  RowFormat format = kRowF32;
  size_t vocab = 0;
  double temperature = 1;
  const int32_t* ids = nullptr;
  int64_t token = -1;  // as an index into the rows
  const RowPair* next = nullptr;

  DType dtype() const { return format == kRowF32 ? DType::kF32 : DType::kBF16; }
  size_t EntryBytes() const { return format == kRowF32 ? 4 : 2; }
  size_t Whole() const { return vocab / kGroupEntries * kGroupEntries; }
  const void* At(const void* row, size_t i) const {
    return static_cast<const char*>(row) + i * EntryBytes();
  }
  float Load(const void* row, size_t i) const { return LoadLogit(row, dtype(), i); }
  int32_t Id(size_t i) const { return ids == nullptr ? static_cast<int32_t>(i) : ids[i]; }
};

// The rows themselves where their formats allow, else widened into the scratch.
RowView ViewOf(const RowPair& pair, Target target, RowScratch* scratch);

// The rows without the entries that are -inf on both sides, in the scratch. False if nothing can be
// gained: an entry is not finite in another way, none is masked, or the sampled token is.
bool LeaveOutMasked(const RowPair& pair, Target target, RowScratch* scratch, RowView* view);

// logit_l2 and raw_logit_l2 in two visits, for rows whose sums cancel.
void ExactL2(const RowView& view, RowQuantities* row);

}  // namespace kcc
