#include "kcc/drift/simd.h"

#include <algorithm>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_check.h"
#include "kcc/drift/row_measurement.h"

namespace kcc {
namespace {

size_t TvSlot() {
  static const size_t slot = TokenSlot("tv");
  return slot;
}

}  // namespace

Result<> MeasureRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                        RowScratch* scratch, TokenDrift* out, const RowPair* next) {
  KCC_TRY_VOID(BeginRowSimd(pair, wanted, target, scratch, out, next));
  FinishRowSimd(scratch);
  return CheckRow(*out) ? Result<>() : MeasureRowReference(pair, wanted, out);
}

Result<> BeginRowSimd(const RowPair& pair, const SlotSet& wanted, Target target,
                      RowScratch* scratch, TokenDrift* out, const RowPair* next) {
  KCC_TRY_VOID(CheckRowPair(pair));
  RowView view = ViewOf(pair, target, scratch);
  view.next = next;
  for (const bool masked : {false, true}) {
    if (masked && !LeaveOutMasked(pair, target, scratch, &view)) break;
    RowQuantities row;
    OpenVariation variation;
    RowMeasurement measurement(view, target, scratch);
    if (!measurement.Measure(wanted, &row, &variation)) continue;
    Publish(row, wanted, out);
    if (!CheckRow(*out)) break;
    if (wanted[TvSlot()]) scratch->open = {out, target, measurement.whole(), 0, variation, {}};
    return {};
  }
  FinishRowSimd(scratch);
  return MeasureRowReference(pair, wanted, out);
}

void FinishRowSimd(RowScratch* scratch) {
  OpenRow& open = scratch->open;
  if (open.to == nullptr) return;
  const RowKernels& kernels = RowKernelsFor(open.target);
  for (size_t begin = open.blocks_done * kBlockEntries; begin < open.entries;
       begin += kBlockEntries) {
    alignas(64) float lanes[16];
    kernels.absolute(scratch->weights[begin / 8].at, std::min(kBlockEntries, open.entries - begin),
                     open.variation.slope, lanes);
    open.Add(lanes);
  }
  open.to->Set(TvSlot(), open.variation.Close(SumLanes(open.lanes)));
  open.to = nullptr;
}

}  // namespace kcc
